"""Replay tables: episodes (recorded order books of one event), and the orders, fills, equity and metrics of agents that traded in them."""

from __future__ import annotations

import polars as pl

from bellwether.tables.clean import KNOWN_AT
from bellwether.tables.schema import CONTRACTS, DOLLARS, LARGE_MONEY, LARGE_SIZE, MONEY, PRICE, SIZE, TEXT, UTC, Column, Table

#: Nanosecond precision, as in recordings.
INSTANT = pl.Datetime("ns", "UTC")
COUNT, RATIO, FLAG = pl.Int64(), pl.Float64(), pl.Boolean()
USD = "dollars"
EPISODE = Column("episode", TEXT, "name of the episode, or of several joined with +; partition")
AGENT = Column("agent", TEXT, "name of the agent in the registry; second part of the partition")
RULES = Column("rules", TEXT, "rule set of the simulator that made the row")


def _money(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, MONEY, meaning, USD, nullable=nullable)


def _sum(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, LARGE_MONEY, meaning, USD, nullable=nullable)


def _share(name: str, meaning: str) -> Column:
    return Column(name, RATIO, f"{meaning}; null if undefined", "share", nullable=True)


def _statistic(name: str, meaning: str, unit: str | None = None) -> Column:
    return Column(name, RATIO, f"{meaning}; null if undefined", unit, nullable=True)


def _count(name: str, meaning: str) -> Column:
    return Column(name, COUNT, meaning, "count")


EPISODES = Table(
    name="replay/episodes",
    row="One market of an episode: recorded data, settlement, and trading terms.",
    columns=(
        EPISODE,
        Column("event", TEXT, "event id at the venue"),
        Column("venue", TEXT, "kalshi or polymarket"),
        Column("title", TEXT, "title of the event; untrusted text", nullable=True),
        Column("ticker", TEXT, "ticker of the market"),
        Column("recording", TEXT, "source recording; null for an imported folder", nullable=True),
        Column("start_at", INSTANT, "start of the episode", UTC),
        Column("end_at", INSTANT, "end of the episode", UTC),
        _count("book_rows", "number of changes and snapshots of its book"),
        _count("trades", "trades"),
        Column("volume", SIZE, "traded contracts", CONTRACTS),
        _count("gaps", "number of periods in which its book is invalid"),
        Column("open_time", INSTANT, "start of trading; null if unknown", UTC, nullable=True),
        Column("close_time", INSTANT, "close of trading; null if unknown", UTC, nullable=True),
        Column("settled_at", INSTANT, "time of settlement; null if unsettled", UTC, nullable=True),
        Column("result", TEXT, "YES, NO, SCALAR or VOID; null if unknown", nullable=True),
        Column("result_source", TEXT, "source of the result; inferred if no source states it", nullable=True),
        _money("settlement_value", "payout of a YES contract; null if unsettled", nullable=True),
        Column("fee_type", TEXT, "fee type of its series", nullable=True),
        Column("fee_multiplier", pl.Decimal(10, 6), "factor on the fee formula", "ratio", nullable=True),
        Column("default_fee", FLAG, "whether the venue's general fees apply, because no source states the terms"),
        Column("mutually_exclusive", FLAG, "whether at most one market of the event resolves YES; null if unknown", nullable=True),
        Column("warnings", pl.List(pl.String()), "validation warnings of the episode"),
        Column("digest", TEXT, "digest of the episode's content"),
        Column("recording_digest", TEXT, "SHA-256 of the source recording", nullable=True),
        Column("markets_digest", TEXT, "SHA-256 of the pulled markets of the days around its end, at the time of building", nullable=True),
        Column("folder", TEXT, "folder of the episode, relative to the folder of episodes"),
        KNOWN_AT,
    ),
    key=("episode", "ticker"),
    partitioned_by=("episode",),
    mart=True,
    version="5",
)

#: Maximum number of sampled instants of a book, number of levels in its depth, and maximum number of listed prices of a side.
BOOK_INSTANTS, BOOK_LEVELS, BOOK_PRICES = 500, 5, 10

_DARK = "null if the book is invalid"

BOOKS = Table(
    name="replay/books",
    row="One market's book from a sampled instant on, until the market's next row: best prices, depth, and trades before it.",
    columns=(
        EPISODE,
        Column("ticker", TEXT, "ticker of the market"),
        Column(
            "at",
            INSTANT,
            f"sampled instant; at most {BOOK_INSTANTS} per episode, evenly spaced; rows at the first, the last and every change",
            UTC,
        ),
        Column("bid", PRICE, "best YES bid; null if missing or if the book is invalid", DOLLARS, nullable=True),
        Column("ask", PRICE, "best YES ask (one dollar minus the best NO bid); null like the bid", DOLLARS, nullable=True),
        Column("bid_size", SIZE, f"contracts at the best bid, 0 without one; {_DARK}", CONTRACTS, nullable=True),
        Column("ask_size", SIZE, f"contracts at the best ask, 0 without one; {_DARK}", CONTRACTS, nullable=True),
        Column("bid_depth", SIZE, f"contracts at the best {BOOK_LEVELS} prices of YES bids; {_DARK}", CONTRACTS, nullable=True),
        Column("ask_depth", SIZE, f"contracts at the best {BOOK_LEVELS} prices of YES asks; {_DARK}", CONTRACTS, nullable=True),
        *(
            Column(name, pl.List(dtype), description, unit, nullable=True)
            for side, order in (("bid", "highest"), ("ask", "lowest"))
            for name, dtype, description, unit in (
                (f"{side}_prices", PRICE, f"the {BOOK_PRICES} {order} prices of YES {side}s in whole cents, best first; {_DARK}", DOLLARS),
                (f"{side}_sizes", SIZE, f"contracts at the {side}_prices; prices between two cents count as the lower one", CONTRACTS),
            )
        ),
        Column("traded", SIZE, "contracts traded since the previous sampled instant", CONTRACTS),
        Column("trade_price", PRICE, "mean price of YES in these trades, weighted by contracts; null without any", DOLLARS, nullable=True),
        Column("valid", FLAG, "whether the recording has a valid book: started, without a gap, and the market open"),
        KNOWN_AT,
    ),
    key=("episode", "ticker", "at"),
    partitioned_by=("episode",),
    version="2",
)

_RUN_KEY = (EPISODE, AGENT)

ORDERS = Table(
    name="replay/orders",
    row="One order of an agent in a backtest, with its result.",
    columns=(
        *_RUN_KEY,
        _count("order_id", "number of the order within the backtest, from 0"),
        Column("ticker", TEXT, "ticker of the market"),
        Column("side", TEXT, "yes or no"),
        Column("action", TEXT, "buy or sell"),
        Column("time_in_force", TEXT, "ioc, gtc, post_only, fok or gtd"),
        Column("price", PRICE, "limit price of the side; null for a market order", DOLLARS, nullable=True),
        Column("size", SIZE, "ordered contracts", CONTRACTS),
        Column("filled", SIZE, "filled contracts", CONTRACTS),
        Column("filled_as_taker", SIZE, "contracts of `filled` that took liquidity", CONTRACTS),
        Column("status", TEXT, "filled, cancelled, rejected or expired; resting or pending if the episode ended first"),
        Column("reason", TEXT, "why it was rejected or ended; null if filled", nullable=True),
        Column("sent_at", INSTANT, "when the agent sent it", UTC),
        Column("arrived_at", INSTANT, "when it reached the book; null if it never did", UTC, nullable=True),
        Column("ended_at", INSTANT, "when it ended; null if it was resting", UTC, nullable=True),
        Column("mid", PRICE, "midpoint of its side at arrival; null if a side was empty", DOLLARS, nullable=True),
        _money("cost", "cost of its fills without fees; negative if they brought money in"),
        _money("fees", "fees of its fills"),
        Column("tag", TEXT, "tag given by the agent (text or number); untrusted; null without one", nullable=True),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "order_id"),
    partitioned_by=("episode", "agent"),
    version="4",
)

HORIZONS_S = (1, 5, 30, 300)

FILLS = Table(
    name="replay/fills",
    row="One fill of an agent's order in a backtest.",
    columns=(
        *_RUN_KEY,
        _count("fill_id", "number of the fill within the backtest, from 0"),
        _count("order_id", "order of the fill"),
        Column("ticker", TEXT, "ticker of the market"),
        Column("side", TEXT, "yes or no"),
        Column("action", TEXT, "buy or sell"),
        Column("role", TEXT, "taker or maker"),
        Column("price", PRICE, "price of the side", DOLLARS),
        Column("size", SIZE, "contracts", CONTRACTS),
        _money("fee", "fee of the fill, after rounding and rebate"),
        Column("filled_at", INSTANT, "time of the fill", UTC),
        Column("queue_wait", RATIO, "time since the order joined the queue; null for a taker", "seconds", nullable=True),
        *(
            Column(
                f"markout_{horizon}s",
                PRICE,
                f"midpoint {horizon} s later minus the price, signed so that a gain is positive; null without a midpoint",
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
        *_RUN_KEY,
        _count("sample", "number of the sample; 0 is the bankroll at the start"),
        Column("at", INSTANT, "the instant", UTC),
        _money("cash", "cash"),
        _money("equity", "cash plus positions at the price at which they can be sold; 0 without bids"),
        _money("equity_mid", "cash plus positions at the midpoint"),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "sample"),
    partitioned_by=("episode", "agent"),
    version="3",
)

#: Metrics of one backtest.
METRICS = (
    _money("bankroll", "initial money"),
    _money("final_equity", "equity at the end"),
    _money("pnl", "final equity minus bankroll"),
    _count("queues", "sampled queue histories in which the run was repeated"),
    Column("queue_pnls", pl.List(MONEY), "P&L in each sampled queue history; empty without", USD),
    _money("queue_pnl_median", "median P&L of the sampled queue histories; null without", nullable=True),
    _money("queue_pnl_low", "P&L that 5 % of the sampled queue histories are below; null without", nullable=True),
    _money("queue_pnl_high", "P&L that 5 % of the sampled queue histories are above; null without", nullable=True),
    _share("queue_profitable", "share of sampled queue histories with a profit"),
    _money("realised", "realised profit before fees"),
    _money("settlement_pnl", "part of the realised profit from settlements: payouts minus cost"),
    _money("fees", "fees paid"),
    _share("return", "P&L divided by bankroll"),
    _share("max_drawdown", "largest relative fall of the equity curve from its running peak"),
    Column("sharpe", RATIO, "mean divided by standard deviation of the returns of the sampled curve; null if undefined", nullable=True),
    Column("sharpe_annualised", RATIO, "Sharpe ratio times the square root of the samples per year", nullable=True),
    Column("sample_seconds", RATIO, "time between two samples of the curve", "seconds"),
    _money("slippage", "cost of taker fills relative to the midpoint at arrival, without fees; null without any", nullable=True),
    Column("slippage_per_contract", RATIO, "slippage per contract of these fills; null without any", DOLLARS, nullable=True),
    _share("fill_ratio", "filled contracts divided by contracts of accepted orders; counted as stated in the rules"),
    Column("contracts", SIZE, "filled contracts", CONTRACTS),
    _count("orders", "orders sent"),
    _count("rejected", "number of rejected orders"),
    _count("fills", "fills"),
    _share("turnover", "value of all fills divided by bankroll"),
    _share("maker_share", "share of filled contracts that were filled as maker"),
    _share("time_in_market", "share of the episode with an open position"),
    Column("queue_wait_median", RATIO, "median time in the queue of maker fills; null without any", "seconds", nullable=True),
    Column("queue_wait_mean", RATIO, "mean time in the queue of maker fills; null without any", "seconds", nullable=True),
    *(
        Column(
            f"adverse_selection_{horizon}s",
            RATIO,
            f"mean markout of maker fills after {horizon} s, weighted by contracts; negative means adverse selection; null without any",
            DOLLARS,
            nullable=True,
        )
        for horizon in HORIZONS_S
    ),
)

BACKTESTS = Table(
    name="replay/backtests",
    row="One agent in one episode: results and settings.",
    columns=(
        *_RUN_KEY,
        *METRICS,
        Column("rejections", TEXT, "rejected orders by reason, as JSON object"),
        Column("unsettled", FLAG, "whether a position was left unsettled; it is valued at its mark"),
        Column("default_fees", FLAG, "whether the venue's general fees apply in at least one market, because no source states the terms"),
        Column("failure", TEXT, "error type and message that ended the agent's episode early; null without one", nullable=True),
        Column("failed_step", COUNT, "number of the failed decision", nullable=True),
        _count("steps", "decisions"),
        Column("cadence_seconds", RATIO, "time between two decisions", "seconds"),
        Column("queue_model", TEXT, "queue model of the fills, such as proportional or proportional:3"),
        Column("parameters", TEXT, "parameters of the agent, as JSON object"),
        Column("seed", COUNT, "seed of the agent"),
        Column("settings_digest", TEXT, "digest of all settings of the backtest"),
        Column("episode_digest", TEXT, "digest of the episode's content"),
        Column("result_digest", TEXT, "digest of fills, cash and equity; equal for equal runs"),
        Column("engine_version", TEXT, "version of the simulator"),
        Column("settled_at", INSTANT, "end of the episode", UTC),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent"),
    partitioned_by=("episode", "agent"),
    mart=True,
    version="3",
)

MARKET_PNL = Table(
    name="replay/market_pnl",
    row="One market traded by an agent in a backtest, with its profit.",
    columns=(
        *_RUN_KEY,
        Column("ticker", TEXT, "ticker of the market"),
        _count("fills", "fills"),
        Column("yes_bought", SIZE, "contracts that increased the YES position: purchases of YES and sales of NO", CONTRACTS),
        Column("yes_sold", SIZE, "contracts that decreased the YES position: sales of YES and purchases of NO", CONTRACTS),
        _money("trading_pnl", "profit of positions closed by trading, against average cost and before fees"),
        _money("settlement_pnl", "profit of positions closed by settlement, against average cost"),
        _money("unrealised", "mark of the remaining position minus its cost"),
        _money("fees", "fees paid"),
        _money("pnl", "trading, settlement and unrealised profit minus fees; sums to the P&L of the backtest"),
        Column("yes_position", SIZE, "remaining YES contracts at the end", CONTRACTS),
        Column("no_position", SIZE, "remaining NO contracts at the end", CONTRACTS),
        Column("unsettled", FLAG, "whether a position was left unsettled; it is valued at its mark"),
        RULES,
        KNOWN_AT,
    ),
    key=("episode", "agent", "ticker"),
    partitioned_by=("episode", "agent"),
    mart=True,
)

SUMMARY = Table(
    name="replay/summary",
    row="One agent over all its episodes under one rule set.",
    columns=(
        AGENT,
        RULES,
        _count("episodes", "number of counted episodes: traded, and without an unsettled position"),
        _count("unsettled", "number of episodes with an unsettled position; excluded by default"),
        _count(
            "default_fees",
            "number of counted episodes in which the venue's general fees apply to a market, because no source states the terms",
        ),
        _count("failures", "number of counted episodes that ended early by an error of the agent"),
        _sum("pnl", "sum of P&L"),
        _statistic("pnl_mean", "mean P&L of an episode", USD),
        _statistic("pnl_median", "median P&L of an episode", USD),
        _statistic("pnl_min", "lowest P&L of an episode", USD),
        _statistic("pnl_max", "highest P&L of an episode", USD),
        _count("queues", "sampled queue histories in which all counted episodes were repeated"),
        _statistic("queue_pnl_median", "median of the summed P&L of these histories", USD),
        _statistic("queue_pnl_low", "summed P&L that 5 % of these histories are below", USD),
        _statistic("queue_pnl_high", "summed P&L that 5 % of these histories are above", USD),
        _share("queue_profitable", "share of these histories with a profit"),
        _statistic("return_mean", "mean return of an episode", "share"),
        _share("max_drawdown", "largest drawdown"),
        _statistic("sharpe_mean", "mean annualised Sharpe ratio of the episodes that have one"),
        _statistic("sharpe_min", "lowest annualised Sharpe ratio of an episode"),
        _statistic("sharpe_max", "highest annualised Sharpe ratio of an episode"),
        _statistic("fill_ratio_mean", "mean fill ratio of the episodes that have one", "share"),
        Column("contracts", LARGE_SIZE, "filled contracts", CONTRACTS),
        _count("orders", "orders sent"),
        _sum("fees", "fees paid"),
        _sum("slippage", "slippage of takers; null without any", nullable=True),
        _share("maker_share", "share of filled contracts that were filled as maker"),
        _share("profitable", "share of episodes with a profit"),
        KNOWN_AT,
    ),
    key=("agent", "rules"),
    mart=True,
    version="5",
)

TABLES = (EPISODES, BOOKS, ORDERS, FILLS, EQUITY, BACKTESTS, MARKET_PNL, SUMMARY)
