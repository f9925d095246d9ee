"""Tables of the arena: facts by week, and what one fold makes of them."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import EXACT_PRICE, MONEY, PRICE, PROBABILITY, TEXT, TIME, USDC, UTC, Column, Table

#: Shares, to a millionth.
SHARES = pl.Decimal(24, 6)
#: Volume of a market.
VOLUME = pl.Decimal(24, 6)

_PER_SHARE = "dollars per share"


def _money(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, MONEY, meaning, "dollars", nullable=nullable)


def _price(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, PRICE, meaning, _PER_SHARE, nullable=nullable)


def _shares(name: str, meaning: str) -> Column:
    return Column(name, SHARES, meaning, "shares")


def _text(name: str, meaning: str) -> Column:
    return Column(name, TEXT, meaning, nullable=True)


def _time(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, TIME, meaning, UTC, nullable=nullable)


def _probability(name: str, meaning: str) -> Column:
    return Column(name, PROBABILITY, meaning, "probability", nullable=True)


def _score(name: str, meaning: str) -> Column:
    return Column(name, PROBABILITY, meaning, "Brier score", nullable=True)


_WEEK = Column("week", pl.Date(), "Sunday on which the week starts; the partition", UTC)
_AGENT = Column("agent_id", TEXT, "cohort/family")
_MARKET = Column("market_id", TEXT, "the venue's own id of the market")
_METHODOLOGY = Column("methodology", TEXT, "methodology of the cohort")
_KNOWN_AT = _time("known_at", "as of when this row was known")
_RECONSTRUCTED = Column("reconstructed", pl.Boolean(), "made afterwards, as of its time, from what the venue keeps")
_SIDE = Column("side", TEXT, "YES or NO in a binary market, else the name of the outcome as the venue spells it")

UNIVERSE = Table(
    name="arena/universe",
    row="One market of a week's universe, frozen before the first agent decided; of each venue on which a cohort decides.",
    columns=(
        _WEEK,
        Column("venue", TEXT, "polymarket or kalshi: that of the cohorts to which it is shown"),
        Column("place", pl.Int32(), "place in its venue's universe, from 1: by volume, or by scheduled end where that is not known"),
        _MARKET,
        _text("event_id", "the venue's id of its event"),
        Column("question", TEXT, "the question; untrusted text"),
        _text("category", "category as the venue states it"),
        Column("outcomes", pl.List(pl.String()), "names of the outcomes, in the venue's order"),
        Column("prices", pl.List(PRICE), "price of each outcome, in the order of outcomes; null where there is none", _PER_SHARE),
        Column(
            "token_ids",
            pl.List(pl.String()),
            "token of each outcome, in the order of outcomes; on Kalshi the contract of each, or the one of a binary market",
        ),
        Column("volume", VOLUME, "dollars traded; on Kalshi contracts, each for the dollar that it pays", "dollars", nullable=True),
        _time("closes_at", "scheduled end", nullable=True),
        _price("tick", "smallest step of prices", nullable=True),
        Column("min_shares", SHARES, "smallest order", "shares", nullable=True),
        _text("fees", "terms of the taker's fee as of the week; null where there is none"),
        Column("digest", TEXT, "SHA-256 of the whole universe of its venue"),
        _RECONSTRUCTED,
        Column("source", TEXT, "what it was chosen and priced from"),
        _KNOWN_AT,
    ),
    key=("week", "market_id"),
    partitioned_by=("week",),
    sort=("week", "venue", "place"),
    version="2",
    added={"1": {"venue": "polymarket"}},
)

AGENTS = Table(
    name="arena/agents",
    row="One agent of the cohort that started in this week.",
    columns=(
        _WEEK,
        _AGENT,
        Column("family", TEXT, "family: the competitor over the years"),
        Column("model", TEXT, "name of the model or rule that decides, frozen for the cohort"),
        _text("model_id", "the model's id, provider/id, frozen for the cohort; null of a rule"),
        _money("input_price", "per million tokens of prompt, in force when the cohort started; null of a rule", nullable=True),
        _money("output_price", "per million tokens of answer, in force when the cohort started; null of a rule", nullable=True),
        _METHODOLOGY,
        _money("initial_cash", "cash at the start; never refilled"),
        Column("lineup", TEXT, "lineup that the cohort was started with"),
        _time("closed_at", "when an operator closed the agent: it decides no more; null while it is open", nullable=True),
        _text("closed_by", "operator who closed it, and why"),
        _time("archived_at", "when an operator archived the cohort: it is in no ranking; null while it is not", nullable=True),
        _text("archived_by", "operator who archived it, and why"),
        _RECONSTRUCTED,
        _KNOWN_AT,
    ),
    key=("week", "agent_id"),
    partitioned_by=("week",),
    version="4",
    added={"2": dict.fromkeys(("model_id", "input_price", "output_price", "archived_at", "archived_by"))},
)

DECISIONS = Table(
    name="arena/decisions",
    row="The one decision of an agent in a week.",
    columns=(
        _WEEK,
        Column("decision_id", TEXT, "cohort/family/week"),
        _AGENT,
        Column("place", pl.Int32(), "place of the agent in the order in which its cohort decided, from 1"),
        Column("state", TEXT, "open, in progress, read, finished, refused (every leg, for good), failed or blocked"),
        _text("action", "BET, SELL, HOLD or INVALID; null without an answer"),
        _text("problem", "why the answer is INVALID; null when it is not"),
        _text("message", "what was wrong with it, and where"),
        Column("tolerated", pl.Boolean(), "there was more than the object that was asked for", nullable=True),
        Column("legs", pl.Int32(), "trades that it asks for"),
        _text("decision", "the decision as it was read, as JSON; executed from here"),
        _text("reasoning", "the model's own words; untrusted text"),
        _money("cash", "cash before the decision; limits and implied confidences are computed from it", nullable=True),
        _time("planned_at", "when the prompt was made; null before", nullable=True),
        _text("prompt_hash", "first 16 hexadecimal digits of the SHA-256 of the messages; null before there is a prompt"),
        _text("prompt_version", "version of the prompt"),
        _text("universe_digest", "SHA-256 of the universe that was shown"),
        Column("attempts", pl.Int32(), "answers that were asked for, retries of the form included"),
        Column("call_keys", pl.List(pl.String()), "keys of the calls in the journal, in order"),
        _text("model", "the model of its last call as the provider names it; null without a call"),
        _text("served_model", "the model that answered that call, as body or gateway headers name it; docs/models.md"),
        _text("system_fingerprint", "fingerprint of its configuration, as the provider states it"),
        _text("served_by", "provider or deployment behind a gateway, as it states"),
        Column("cost", MONEY, "cost of all attempts; null when any part of it is unknown", "dollars", nullable=True),
        _text("reason", "why it is not finished, or why every leg was refused; null when it is finished"),
        _RECONSTRUCTED,
        _METHODOLOGY,
        _time("known_at", "when its first state was recorded; a later state does not move it"),
        _time("changed_at", "when this state was recorded; null in older rows: known_at", nullable=True),
    ),
    key=("week", "decision_id"),
    partitioned_by=("week",),
    version="3",
    added={"1": dict.fromkeys(("model", "served_model", "system_fingerprint", "served_by", "changed_at")), "2": {"changed_at": None}},
)

DECISION_VERSIONS = Table(
    name="arena/decision_versions",
    row="One earlier state of a decision, as arena/decisions had it from changed_at to superseded_at.",
    columns=(*DECISIONS.columns, _time("superseded_at", "when the next state was recorded, or the row was withdrawn")),
    key=("week", "decision_id", "changed_at"),
    partitioned_by=("week",),
)

REFUSALS = Table(
    name="arena/refusals",
    row="One leg that an execution of a decision refused.",
    columns=(
        _WEEK,
        Column("decision_id", TEXT, "cohort/family/week"),
        Column("leg", pl.Int32(), "leg, from 1"),
        Column("reason", TEXT, "the first reason that applies"),
        Column("message", TEXT, "what was found"),
        _time("known_at", "when the decision was executed"),
        _time("superseded_at", "when it was executed again; null in the last execution, which counts", nullable=True),
    ),
    key=("week", "decision_id", "leg", "known_at"),
    partitioned_by=("week",),
    version="2",
    added={"1": {"superseded_at": None}},
)

TRADES = Table(
    name="arena/trades",
    row="One executed leg of a decision, with the quote that it saw.",
    columns=(
        _WEEK,
        Column("trade_id", TEXT, "cohort/family/week/leg: the same leg is the same trade"),
        _AGENT,
        _MARKET,
        _SIDE,
        Column("binary", pl.Boolean(), "the market's sides are YES and NO"),
        Column("action", TEXT, "BUY or SELL"),
        Column("position_id", TEXT, "the trade that opened the position"),
        _shares("shares", "shares bought or sold"),
        _price("price", "fill price, the average over the levels it took"),
        _money("amount", "paid or received, without the fee"),
        _money("fee", "charged by the venue"),
        _money("base", "cash before the decision"),
        _probability("confidence", "implied by the size of a BUY: its share of the largest bet; null for a SELL"),
        _probability("probability", "that the side wins, as the model stated it; null where it did not"),
        _price("bid", "best bid for the side; null when none", nullable=True),
        _price("mid", "midpoint, or the price of the listing where quote_source is listing; null when none", nullable=True),
        _price("ask", "best ask for the side; null when none", nullable=True),
        _time("quoted_at", "when it was quoted; null when the source does not say", nullable=True),
        Column(
            "quote_source",
            TEXT,
            "source of the quote: clob or orderbook; midpoint (the venue's own) or listing where the book gives none; reconstructed prices-history or candlesticks",
        ),
        Column("skipped_levels", pl.Int32(), "levels of the book that were left out as unusable; null in older trades", nullable=True),
        _time("known_at", "when it was executed"),
    ),
    key=("week", "trade_id"),
    partitioned_by=("week",),
)

EVIDENCE = Table(
    name="arena/evidence",
    row="One look at a market that a bet waits for, as the venue answered.",
    columns=(
        _WEEK,
        _MARKET,
        _text("market_type", "binary, named or multi"),
        Column("outcomes", pl.List(pl.String()), "names of the outcomes, in the venue's order"),
        Column("closed", pl.Boolean(), "the market is closed", nullable=True),
        _text("uma_resolution_status", "UMA's last word"),
        Column("uma_statuses", pl.List(pl.String()), "UMA's words in order", nullable=True),
        _text("resolution_status", "the venue's own word; on Kalshi the status of the contract that is least far"),
        Column(
            "results", pl.List(pl.String()), "Kalshi's word on each contract, empty while it has none; null on Polymarket", nullable=True
        ),
        Column("outcome_prices", pl.List(EXACT_PRICE), "final or last price of each outcome", _PER_SHARE, nullable=True),
        Column("winners", pl.List(pl.String()), "outcomes that the CLOB flags; null where it was not asked", nullable=True),
        Column("is_50_50", pl.Boolean(), "the CLOB says that it ended half and half", nullable=True),
        Column("lower_bound", USDC, "lowest value of a scalar market", "units of the question", nullable=True),
        Column("upper_bound", USDC, "highest value of a scalar market", "units of the question", nullable=True),
        _time("end_time", "scheduled end", nullable=True),
        _time("closed_at", "when it closed", nullable=True),
        _time("uma_end_at", "when UMA's resolution ended", nullable=True),
        _time("settled_at", "when Kalshi had paid the market out; null before, and on Polymarket", nullable=True),
        _text("cancelled_by", "operator who cancelled the market, and why; null for a look at the venue"),
        Column("missing", pl.Boolean(), "the venue did not list the market, or not readably; null: it did", nullable=True),
        _RECONSTRUCTED,
        _time("known_at", "when it was looked at, or, reconstructed, when it could have been"),
    ),
    key=("week", "market_id", "known_at"),
    partitioned_by=("week",),
    history=("arena/trades",),
    version="3",
    added={"1": {"results": None, "settled_at": None, "missing": None}, "2": {"missing": None}},
)

SETTLEMENTS = Table(
    name="arena/settlements",
    row="One resolution of a market that counts for the cohorts of a methodology; a later one corrects it.",
    columns=(
        _MARKET,
        _METHODOLOGY,
        Column("number", pl.Int32(), "from 1; above 1 a correction"),
        Column("result", TEXT, "won, split or cancelled"),
        _text("winner", "name of the outcome that won; null when none did"),
        Column("outcomes", pl.List(pl.String()), "outcomes without case; empty when costs are refunded"),
        Column("payouts", pl.List(PRICE), "what a share of each pays, in the order of outcomes", _PER_SHARE),
        Column("rule", TEXT, "the rule that decided, in words"),
        _KNOWN_AT,
    ),
    key=("market_id", "methodology", "number"),
)

LEDGER = Table(
    name="arena/ledger",
    row="One cash movement of an agent, with the balance and the position that it leaves.",
    columns=(
        _AGENT,
        Column("number", pl.Int32(), "from 1, within the agent"),
        Column("kind", TEXT, "BUY, SELL, FEE, SETTLE or REFUND"),
        _money("amount", "negative when paid; SETTLE and REFUND are negative when a correction takes them back"),
        _money("cash", "balance after it"),
        _MARKET,
        Column("position_id", TEXT, "the position concerned"),
        _SIDE,
        _shares("shares", "shares of the position that are open after it; 0 from its settlement on, also where that is corrected"),
        _money("cost", "cost of these shares"),
        _text("trade_id", "the trade; null for SETTLE and REFUND"),
        Column("corrects", pl.Boolean(), "takes back what an earlier resolution paid"),
        _METHODOLOGY,
        _KNOWN_AT,
    ),
    key=("agent_id", "number"),
)

POSITIONS = Table(
    name="arena/positions",
    row="One position as it stands.",
    columns=(
        _AGENT,
        Column("position_id", TEXT, "the trade that opened it"),
        _MARKET,
        _SIDE,
        Column("binary", pl.Boolean(), "the market's sides are YES and NO"),
        Column("status", TEXT, "open, closed (sold) or settled"),
        _shares("shares", "shares held, or held when it was settled"),
        _money("cost", "cost of these shares"),
        _money("sold", "what sales brought"),
        _money("paid", "what the settlement in force brought; null before", nullable=True),
        _money("realized", "gain or loss of sales and settlement, without fees"),
        _text(
            "result",
            "won, split or cancelled: how it was settled; null before, and of a position that was sold (arena/settlements has its market's)",
        ),
        Column(
            "won",
            pl.Boolean(),
            "its side won; null where result is, and without a winner (arena/scores has the bets of sold positions)",
            nullable=True,
        ),
        _time("opened_at", "first trade"),
        _time("ended_at", "last sale or settlement; null while open", nullable=True),
        _METHODOLOGY,
    ),
    key=("agent_id", "position_id"),
)

PRICES = Table(
    name="arena/prices",
    row="The price of one outcome from a mark on, until the next row of the outcome.",
    columns=(
        Column("day", pl.Date(), "UTC day; the partition", UTC),
        _MARKET,
        Column("outcome", TEXT, "YES in a binary market, else the outcome in lower case"),
        _time("at", "start of the interval of the mark"),
        _price("price", "midpoint"),
        Column("source", TEXT, "live: quoted now; prior: the last one, because nobody quotes now"),
        _time("observed_at", "when it was quoted; null when the source does not say", nullable=True),
        _price("other", "what the listing says; null when it was not looked at", nullable=True),
        Column("disagrees", pl.Boolean(), "the two are further apart than the methodology allows"),
        _RECONSTRUCTED,
        _time("known_at", "when it was marked; null in older and in reconstructed rows: at", nullable=True),
    ),
    key=("day", "market_id", "outcome", "at"),
    partitioned_by=("day",),
    often=True,
    history=("arena/trades", "arena/evidence"),
    version="2",
    added={"1": {"known_at": None}},
)

PORTFOLIOS = Table(
    name="arena/portfolios",
    row="The portfolio of an agent from an instant on, until its next row.",
    columns=(
        _AGENT,
        _time("at", "when something of it changed"),
        _money("cash", "cash"),
        _money("invested", "cost of the open positions"),
        _money("positions", "what they are worth"),
        _money("total", "cash and positions"),
        _money("profit", "total less the initial cash"),
        Column("fallbacks", pl.Int32(), "open positions whose price is not live"),
        _METHODOLOGY,
    ),
    key=("agent_id", "at"),
    version="2",
)

SCORES = Table(
    name="arena/scores",
    row="The scores of one bet on a market that has a winner.",
    columns=(
        Column("trade_id", TEXT, "the BUY"),
        _AGENT,
        _MARKET,
        _SIDE,
        Column("winner", TEXT, "name of the outcome that won"),
        Column("won", pl.Boolean(), "the side won"),
        _probability("confidence", "implied by the size"),
        _probability("probability", "that the side wins, as the model stated it; null where it did not"),
        Column("price", PROBABILITY, "fill price: the market's probability of the side", "probability"),
        _probability("p_yes", "confidence as a probability of YES; null where the market is not binary"),
        Column("o_yes", pl.Int8(), "1 when YES won; null where the market is not binary", nullable=True),
        _score("brier_size", "of the confidence; null where that is missing or outside [0, 1]"),
        _score("brier_stated", "of the stated probability; null where none was stated"),
        _score("brier_price", "of the price paid"),
        _METHODOLOGY,
        _time("known_at", "when the resolution was known"),
    ),
    key=("trade_id",),
)

LEADERBOARD = Table(
    name="arena/leaderboard",
    row="One family of one methodology over its cohorts; live and reconstructed cohorts are apart.",
    columns=(
        _METHODOLOGY,
        _RECONSTRUCTED,
        Column("family", TEXT, "family: the competitor over the years"),
        Column(
            "rank",
            pl.Int32(),
            "by the methodology's first primary metric, from 1; null without it, or where fewer than 90 % of its decisions have a usable answer",
            nullable=True,
        ),
        Column("cohorts", pl.Int32(), "cohorts that it took part in"),
        Column("completed", pl.Int32(), "of these, cohorts that are complete as of the newest decision, trade, evidence or mark"),
        Column("decisions", pl.Int32(), "decisions that were due"),
        Column("finished", pl.Int32(), "finished or refused with an answer that could be used, or bankrupt"),
        Column("invalid", pl.Int32(), "finished with an answer that could not be used"),
        Column("unfinished", pl.Int32(), "neither finished nor refused: open, in progress, read, failed or blocked"),
        Column("bets", pl.Int32(), "bets that were executed"),
        Column("refused", pl.Int32(), "legs that were refused"),
        Column("scored", pl.Int32(), "bets on markets that have a winner"),
        Column("stated", pl.Int32(), "of these, bets with a stated probability"),
        _score("brier_stated", "mean over the stated probabilities; null without any"),
        _score("brier_size", "mean over the confidences that sizes imply; null without any"),
        _score("brier_price", "mean over the prices paid; null without any"),
        Column("skill_price", PROBABILITY, "1 - brier_stated / brier_price over the same bets", nullable=True),
        _probability("win_rate", "share of the scored bets whose side won"),
        _money("initial_cash", "cash that its agents started with"),
        _money("cash", "cash that they have"),
        _money("total", "cash, and positions at the newest prices"),
        _money("profit", "total less the initial cash"),
        Column("return", PROBABILITY, "profit / initial cash", "fraction"),
        Column("drawdown", PROBABILITY, "largest fall of one of its agents from an earlier peak", "fraction"),
        Column("turnover", PROBABILITY, "dollars bought and sold per dollar of initial cash", "dollars per dollar"),
        Column("open_positions", pl.Int32(), "positions that wait for a resolution"),
        _money("cost", "cost of all calls; null when any part of it is unknown", nullable=True),
    ),
    key=("methodology", "reconstructed", "family"),
    version="2",
    mart=True,
)

TABLES = (
    UNIVERSE,
    AGENTS,
    DECISIONS,
    DECISION_VERSIONS,
    REFUSALS,
    TRADES,
    EVIDENCE,
    SETTLEMENTS,
    LEDGER,
    POSITIONS,
    PRICES,
    PORTFOLIOS,
    SCORES,
    LEADERBOARD,
)
