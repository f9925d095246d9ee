"""Replay tables: episodes, and what agents did in them: orders, fills, equity, metrics and their summary."""

from __future__ import annotations

import polars as pl

from bellwether.tables.clean import KNOWN_AT
from bellwether.tables.schema import CONTRACTS, DOLLARS, MONEY, PRICE, SIZE, TEXT, UTC, Column, Table

#: Nanoseconds: replayed instants are as fine as the recording's.
INSTANT = pl.Datetime("ns", "UTC")
COUNT, RATIO, FLAG = pl.Int64(), pl.Float64(), pl.Boolean()
USD = "dollars"
#: Between the episodes of a portfolio's name, under which its results stand; no episode of a portfolio has it in its own name.
SEPARATOR = "+"

EPISODE = Column("episode", TEXT, "name of the episode; the partition")
BAND = Column(
    "band",
    TEXT,
    "origin of the bounds: fills (all queue histories, the same calls), rerun (complete runs under the slowest and fastest queue) or none; before 0.4 accounts",
)
AGENT = Column("agent", TEXT, "name of the agent in the registry; the partition's second part")
RULES = Column("rules", TEXT, "rule set of the simulator that made this row")


def is_portfolio(episode: str) -> bool:
    """Return whether results under this name are of a portfolio."""
    return SEPARATOR in episode


def _money(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, MONEY, meaning, USD, nullable=nullable)


def _share(name: str, meaning: str) -> Column:
    return Column(name, RATIO, f"{meaning}; null when undefined", "share", nullable=True)


def _count(name: str, meaning: str) -> Column:
    return Column(name, COUNT, meaning, "count")


def _interval(name: str) -> tuple[Column, ...]:
    return (
        *(
            Column(f"{name}_{end}", RATIO, f"{end} end of the 95 % interval over episodes; null when none", nullable=True)
            for end in ("lower", "upper")
        ),
        Column(f"{name}_reason", TEXT, "why there is no interval; null when there is one", nullable=True),
    )


EPISODES = Table(
    name="replay/episodes",
    row="One market of an episode: what was recorded of it, how it was settled, and on which terms it traded.",
    columns=(
        EPISODE,
        Column("event", TEXT, "the venue's own id of the event"),
        Column("venue", TEXT, "kalshi or polymarket"),
        Column("title", TEXT, "title of the event; untrusted text", nullable=True),
        Column("ticker", TEXT, "the market"),
        Column("recording", TEXT, "recording that it was made from; null for an imported folder", nullable=True),
        Column("start_at", INSTANT, "start of the episode", UTC),
        Column("end_at", INSTANT, "end of the episode", UTC),
        _count("book_rows", "changes and snapshots of its book"),
        _count("trades", "trades"),
        Column("volume", SIZE, "contracts traded", CONTRACTS),
        _count("gaps", "stretches in which its book could not be trusted"),
        Column("open_time", INSTANT, "when trading opened; null when not known", UTC, nullable=True),
        Column("close_time", INSTANT, "when trading closed; null when not known", UTC, nullable=True),
        Column("settled_at", INSTANT, "when it was settled; null when it was not", UTC, nullable=True),
        Column("result", TEXT, "YES, NO, SCALAR or VOID; null when not known", nullable=True),
        Column("result_source", TEXT, "where the result comes from; inferred where nothing says it", nullable=True),
        _money("settlement_value", "what a YES contract paid; null when not settled", nullable=True),
        Column("fee_type", TEXT, "fee type of its series", nullable=True),
        Column("fee_multiplier", pl.Decimal(10, 6), "factor on the fee formula", "ratio", nullable=True),
        Column("default_fee", FLAG, "nothing states its fee terms: they are the venue's general ones"),
        Column("mutually_exclusive", FLAG, "at most one market of the event resolves yes; null when not known", nullable=True),
        Column("warnings", pl.List(pl.String()), "what the validation warns of in the episode"),
        Column("digest", TEXT, "digest of the episode's content"),
        Column("recording_digest", TEXT, "SHA-256 of the stored recording that it was made from", nullable=True),
        Column(
            "markets_digest", TEXT, "SHA-256 of the pulled markets of the days around its end, as they were when it was made", nullable=True
        ),
        Column("folder", TEXT, "name of the episode's folder, below the folder of episodes"),
        KNOWN_AT,
    ),
    key=("episode", "ticker"),
    partitioned_by=("episode",),
    mart=True,
    version="4",
)

#: Instants at which a book is looked at, at most, and levels that count towards its depth.
BOOK_INSTANTS, BOOK_LEVELS = 500, 5

_DARK = "null while the book is not valid"

BOOKS = Table(
    name="replay/books",
    row="The top of one market's book from a sampled instant of its episode on, until the market's next row.",
    columns=(
        EPISODE,
        Column("ticker", TEXT, "the market"),
        Column(
            "at",
            INSTANT,
            f"the instant; an episode has at most {BOOK_INSTANTS}, evenly spread; rows at the first, the last and wherever something changed",
            UTC,
        ),
        Column("bid", PRICE, "best bid of YES; null when none, and while the book is not valid", DOLLARS, nullable=True),
        Column("ask", PRICE, "best ask of YES: a dollar less the best bid of NO; null as the bid", DOLLARS, nullable=True),
        Column("bid_size", SIZE, f"contracts at the best bid, 0 when none; {_DARK}", CONTRACTS, nullable=True),
        Column("ask_size", SIZE, f"contracts at the best ask, 0 when none; {_DARK}", CONTRACTS, nullable=True),
        Column(
            "bid_depth", SIZE, f"contracts at the best {BOOK_LEVELS} prices that bids of YES stand at; {_DARK}", CONTRACTS, nullable=True
        ),
        Column(
            "ask_depth", SIZE, f"contracts at the best {BOOK_LEVELS} prices that asks of YES stand at; {_DARK}", CONTRACTS, nullable=True
        ),
        Column("valid", FLAG, "the recording knows the book: it has begun, has no gap here, and the market is not closed"),
        KNOWN_AT,
    ),
    key=("episode", "ticker", "at"),
    partitioned_by=("episode",),
)

_OF_RUN = (EPISODE, AGENT)

ORDERS = Table(
    name="replay/orders",
    row="One order that an agent sent in a backtest, and what became of it.",
    columns=(
        *_OF_RUN,
        _count("order_id", "number of the order within the backtest, from 0"),
        Column("ticker", TEXT, "the market"),
        Column("side", TEXT, "yes or no"),
        Column("action", TEXT, "buy or sell"),
        Column("time_in_force", TEXT, "ioc, gtc, post_only, fok or gtd"),
        Column("price", PRICE, "limit of that side; null for a market order", DOLLARS, nullable=True),
        Column("size", SIZE, "contracts asked for", CONTRACTS),
        Column("filled", SIZE, "contracts filled", CONTRACTS),
        *(
            Column(
                f"filled_{account}",
                SIZE,
                f"{ends} contracts that can have been filled over all queue histories; null where reruns are the band",
                CONTRACTS,
                nullable=True,
            )
            for account, ends in (("pessimistic", "fewest"), ("optimistic", "most"))
        ),
        Column("filled_as_taker", SIZE, "contracts of `filled` that took liquidity", CONTRACTS),
        Column("status", TEXT, "filled, cancelled, rejected or expired; resting or pending where the episode ended first"),
        Column("reason", TEXT, "why it was rejected or ended; null when it was filled", nullable=True),
        Column("sent_at", INSTANT, "when the agent sent it", UTC),
        Column("arrived_at", INSTANT, "when it reached the book; null when it never did", UTC, nullable=True),
        Column("ended_at", INSTANT, "when it ended; null while it rested", UTC, nullable=True),
        Column(
            "filled_earliest_at",
            INSTANT,
            "when the fastest queue history filled it whole; null when none did, and without a band of fills",
            UTC,
            nullable=True,
        ),
        Column("filled_latest_at", INSTANT, "when the slowest queue history filled it whole; null likewise", UTC, nullable=True),
        Column("mid", PRICE, "middle of its side's best bid and ask when it arrived; null when a side was empty", DOLLARS, nullable=True),
        _money("cost", "what its fills cost, without fees; negative where they brought money in"),
        _money("fees", "fees of its fills"),
        Column("tag", TEXT, "text or number that the agent gave it; untrusted text; null without one", nullable=True),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "order_id"),
    partitioned_by=("episode", "agent"),
    version="3",
    added={"2": dict.fromkeys(("filled_earliest_at", "filled_latest_at", "tag"))},
)

HORIZONS_S = (1, 5, 30, 300)

FILLS = Table(
    name="replay/fills",
    row="One fill of an agent's order in a backtest.",
    columns=(
        *_OF_RUN,
        _count("fill_id", "number of the fill within the backtest, from 0"),
        _count("order_id", "the order"),
        Column("ticker", TEXT, "the market"),
        Column("side", TEXT, "yes or no"),
        Column("action", TEXT, "buy or sell"),
        Column("role", TEXT, "taker or maker"),
        Column("price", PRICE, "price of that side", DOLLARS),
        Column("size", SIZE, "contracts", CONTRACTS),
        _money("fee", "fee of the fill, after rounding and rebate"),
        Column("filled_at", INSTANT, "when it happened", UTC),
        Column("queue_wait", RATIO, "time since the order joined the queue; null for a taker", "seconds", nullable=True),
        *(
            Column(
                f"markout_{horizon}s",
                PRICE,
                f"middle of the book {horizon} s later against the price, positive when that is a gain; null when there is no middle then",
                DOLLARS,
                nullable=True,
            )
            for horizon in HORIZONS_S
        ),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "fill_id"),
    partitioned_by=("episode", "agent"),
)

EQUITY = Table(
    name="replay/equity",
    row="The equity of an agent at one sampled instant of a backtest.",
    columns=(
        *_OF_RUN,
        _count("sample", "number of the sample; 0 is the bankroll at the start of the episode"),
        Column("at", INSTANT, "the instant", UTC),
        _money("cash", "cash"),
        _money("equity", "cash and positions at the price at which they could be sold; nothing where nobody bids"),
        _money("equity_mid", "cash and positions at the middle of the book"),
        _money("equity_pessimistic", "low end of the band of equity over unknown queue histories"),
        _money("equity_optimistic", "high end of the band"),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "sample"),
    partitioned_by=("episode", "agent"),
    version="2",
)

#: What is measured of one backtest.
MEASURED = (
    _money("bankroll", "money at the start"),
    _money("final_equity", "equity at the end"),
    _money("pnl", "final equity less bankroll"),
    _money("pnl_pessimistic", "low end of the band over unknown queue histories; the P&L where there is no band"),
    _money("pnl_optimistic", "high end of the band, likewise"),
    _money("realised", "realised profit, before fees"),
    _money("settlement_pnl", "the part of it that settlements paid beyond what the positions had cost"),
    _money("fees", "fees paid"),
    _share("return", "P&L over bankroll"),
    _share("max_drawdown", "largest fall of the equity curve from its running peak, over that peak"),
    Column("sharpe", RATIO, "mean over deviation of the returns of the sampled curve; null when undefined", nullable=True),
    Column("sharpe_annualised", RATIO, "the same times the root of the samples in a year", nullable=True),
    Column("sample_seconds", RATIO, "time between two samples of the curve", "seconds"),
    _money(
        "slippage", "what takers paid against the middle of the book at arrival, without fees; null without any such fill", nullable=True
    ),
    Column("slippage_per_contract", RATIO, "the same per contract of these fills; null without any", DOLLARS, nullable=True),
    _share("fill_ratio", "contracts filled of those that accepted orders asked for; counted as the rules say"),
    Column("contracts", SIZE, "contracts filled", CONTRACTS),
    _count("orders", "orders sent"),
    _count("rejected", "orders rejected"),
    _count("fills", "fills"),
    _share("turnover", "value of all fills over bankroll"),
    _share("maker_share", "contracts filled as maker of all that were filled"),
    _share("time_in_market", "time with an open position, of the time of the episode"),
    Column("queue_wait_median", RATIO, "median time in the queue of maker fills; null without any", "seconds", nullable=True),
    Column("queue_wait_mean", RATIO, "mean time in the queue of maker fills; null without any", "seconds", nullable=True),
    *(
        Column(
            f"adverse_selection_{horizon}s",
            RATIO,
            f"mean markout of maker fills after {horizon} s, weighted by contracts: negative when fills were followed by losses; null without any",
            DOLLARS,
            nullable=True,
        )
        for horizon in HORIZONS_S
    ),
)

BACKTESTS = Table(
    name="replay/backtests",
    row="One agent in one episode: what it earned, and how.",
    columns=(
        *_OF_RUN,
        *MEASURED,
        Column("rejections", TEXT, "JSON object: rejected orders by reason"),
        Column("unsettled", FLAG, "a position was left that nothing settled; it is marked"),
        Column("default_fees", FLAG, "fees are the venue's general ones in at least one market, since nothing states its terms"),
        Column("failure", TEXT, "why the agent's episode ended early: type and message of its error; null when it did not", nullable=True),
        Column("failed_step", COUNT, "decision at which it failed", nullable=True),
        _count("steps", "decisions"),
        Column("cadence_seconds", RATIO, "time between two decisions", "seconds"),
        Column("queue_model", TEXT, "queue model of the fills: trade_only, reconciled, proportional, power, log or optimistic"),
        BAND,
        Column("parameters", TEXT, "JSON object: the agent's parameters"),
        Column("seed", COUNT, "seed of the agent"),
        Column("settings_digest", TEXT, "digest of all settings of the backtest"),
        Column("episode_digest", TEXT, "digest of the episode's content"),
        Column("result_digest", TEXT, "digest of fills, cash and equity: equal runs have equal ones"),
        Column("engine_version", TEXT, "version of the simulator"),
        Column("settled_at", INSTANT, "when the episode ended", UTC),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent"),
    partitioned_by=("episode", "agent"),
    mart=True,
    version="2",
)

MARKET_PNL = Table(
    name="replay/market_pnl",
    row="One market that an agent traded in a backtest: what it earned there.",
    columns=(
        *_OF_RUN,
        Column("ticker", TEXT, "the market"),
        _count("fills", "fills"),
        Column("yes_bought", SIZE, "contracts that raised the position in YES: purchases of YES and sales of NO", CONTRACTS),
        Column("yes_sold", SIZE, "contracts that lowered it: sales of YES and purchases of NO", CONTRACTS),
        _money("trading_pnl", "profit of positions closed by trading, over their average cost and before fees"),
        _money("settlement_pnl", "profit of positions closed by settlement, over their average cost"),
        _money("unrealised", "mark of what is left less its cost"),
        _money("fees", "fees paid"),
        _money("pnl", "trading, settlement and unrealised profit less fees; adds up to the backtest's"),
        Column("yes_position", SIZE, "contracts of YES left at the end", CONTRACTS),
        Column("no_position", SIZE, "contracts of NO left at the end", CONTRACTS),
        Column("unsettled", FLAG, "a position was left that nothing settled; it is marked"),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "ticker"),
    partitioned_by=("episode", "agent"),
    mart=True,
)

_BANDS = Column("band", TEXT, "fills, rerun, none or accounts, as in replay/backtests; mixed over episodes with different ones")

RESULTS = Table(
    name="replay/results",
    row="One line of the results table of an agent: an episode, or the total.",
    columns=(
        AGENT,
        Column("ordinal", COUNT, "place of the line; the total is last"),
        Column("episode", TEXT, "the episode; Total for all of them"),
        _money("pnl", "P&L"),
        _money("pnl_pessimistic", "low end of the band"),
        _money("pnl_optimistic", "high end of the band"),
        _BANDS,
        _share("return", "P&L over bankroll; of the total the mean over episodes"),
        _share("max_drawdown", "maximum drawdown; of the total the largest"),
        Column("contracts", SIZE, "contracts filled", CONTRACTS),
        _count("orders", "orders sent"),
        _share("fill_ratio", "fill ratio; of the total the mean over episodes that have one"),
        _money("fees", "fees paid"),
        _count("episodes", "episodes in the line: 1, and in the total those that count"),
        Column("unsettled", FLAG, "a position was left that nothing settled: P&L has its mark; of the total whether it has such P&L"),
        Column("default_fees", FLAG, "fees of a market are the venue's general ones, since nothing states its terms"),
        Column("failure", TEXT, "why the agent's episode ended early", nullable=True),
        RULES,
        KNOWN_AT,
    ),
    key=("agent", "rules", "ordinal"),
    mart=True,
    version="2",
)

SUMMARY = Table(
    name="replay/summary",
    row="One agent over all its episodes under one rule set, with intervals over episodes.",
    columns=(
        AGENT,
        RULES,
        _count("episodes", "episodes that the numbers are over: those that it traded and that left no position unsettled"),
        _count("unsettled", "episodes that left a position unsettled; no number has them, unless that was asked for"),
        _count(
            "default_fees", "episodes of `episodes` in which fees of a market are the venue's general ones, since nothing states its terms"
        ),
        _count("failures", "episodes of `episodes` that ended early by its error"),
        _money("pnl", "sum of P&L"),
        Column("pnl_mean", RATIO, "mean P&L of an episode; null without any", USD, nullable=True),
        *_interval("pnl_mean"),
        Column("pnl_mean_df", RATIO, "degrees of freedom of the interval of pnl_mean", nullable=True),
        Column("pnl_median", RATIO, "median P&L of an episode; null without any", USD, nullable=True),
        _money("pnl_pessimistic", "sum of low ends of the band"),
        _money("pnl_optimistic", "sum of high ends of the band"),
        _BANDS,
        _share("return_mean", "mean return"),
        *_interval("return_mean"),
        _share("return_median", "median return"),
        _share("max_drawdown_mean", "mean of the maximum drawdowns"),
        *_interval("max_drawdown_mean"),
        _share("max_drawdown_median", "median of the maximum drawdowns"),
        _share("max_drawdown", "largest drawdown"),
        Column("sharpe_mean", RATIO, "mean annualised Sharpe ratio of the episodes that have one", nullable=True),
        *_interval("sharpe_mean"),
        Column("sharpe_median", RATIO, "median annualised Sharpe ratio", nullable=True),
        _count("sharpe_episodes", "episodes that have a Sharpe ratio"),
        _share("fill_ratio_mean", "mean fill ratio of the episodes that have one"),
        *_interval("fill_ratio_mean"),
        _share("fill_ratio_median", "median fill ratio"),
        _count("fill_ratio_episodes", "episodes that have a fill ratio"),
        Column("contracts", SIZE, "contracts filled", CONTRACTS),
        _count("orders", "orders sent"),
        _money("fees", "fees paid"),
        _money("slippage", "slippage of takers; null without any", nullable=True),
        _share("maker_share", "contracts filled as maker of all that were filled"),
        _share("profitable", "episodes with a profit"),
        KNOWN_AT,
    ),
    key=("agent", "rules"),
    mart=True,
    version="3",
)

TABLES = (EPISODES, BOOKS, ORDERS, FILLS, EQUITY, BACKTESTS, MARKET_PNL, RESULTS, SUMMARY)
