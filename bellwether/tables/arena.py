"""Tables of the arena: what is recorded in each week, with the messages behind decisions, and what is computed from these records."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import EXACT_PRICE, LARGE_MONEY, PRICE, PROBABILITY, TEXT, TIME, USDC, UTC, WEEKLY, Column, Table

#: Shares with six decimals.
SHARES = pl.Decimal(30, 6)

_PER_SHARE = "dollars per share"


def _money(name: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, LARGE_MONEY, meaning, "dollars", nullable=nullable)


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


_WEEK = Column("week", pl.Date(), "first day (Sunday) of the week; partition", UTC)
_AGENT = Column("agent_id", TEXT, "cohort/family")
_MARKET = Column("market_id", TEXT, "market id at the venue")
_METHODOLOGY = Column("methodology", TEXT, "methodology of the cohort")
_KNOWN_AT = _time("known_at", "when the row became known")
_RECONSTRUCTED = Column("reconstructed", pl.Boolean(), "whether it was reconstructed from past data of the venue")
_SIDE = Column("side", TEXT, "YES or NO in a binary market, else the outcome in the venue's spelling")

UNIVERSE = Table(
    name="arena/universe",
    row="One market of a week's universe, frozen before the first decision, on each venue where a cohort decides.",
    columns=(
        _WEEK,
        Column("venue", TEXT, "polymarket or kalshi"),
        Column("place", pl.Int32(), "rank in the venue's universe, from 1: by volume, or by scheduled end if the volume is unknown"),
        _MARKET,
        _text("event_id", "event id at the venue"),
        Column("question", TEXT, "question of the market; untrusted text"),
        _text("category", "category at the venue"),
        Column("outcomes", pl.List(pl.String()), "names of the outcomes, in the venue's order"),
        Column("prices", pl.List(PRICE), "price of each outcome, in the order of outcomes; null unless both sides are quoted", _PER_SHARE),
        Column(
            "token_ids",
            pl.List(pl.String()),
            "token of each outcome, in the order of outcomes; on Kalshi the contract of each outcome, or the only contract of a binary market",
        ),
        _money("volume", "traded volume in dollars; on Kalshi in contracts, counted as one dollar each", nullable=True),
        _time("closes_at", "scheduled end", nullable=True),
        _price("tick", "price step", nullable=True),
        Column("min_shares", SHARES, "minimum order size", "shares", nullable=True),
        _text("fees", "taker fee terms in the week, as JSON; null without fees"),
        Column("digest", TEXT, "SHA-256 of the venue's universe"),
        _RECONSTRUCTED,
        Column("source", TEXT, "origin of markets and prices"),
        _KNOWN_AT,
    ),
    key=("week", "market_id"),
    partitioned_by=("week",),
    sort=("week", "venue", "place"),
    version="3",
)

AGENTS = Table(
    name="arena/agents",
    row="One agent of the cohort that started in this week.",
    columns=(
        _WEEK,
        _AGENT,
        Column("family", TEXT, "family, a competitor over the years"),
        Column("model", TEXT, "name of the deciding model or rule, fixed for the cohort"),
        _text("model_id", "model id (provider/id), fixed for the cohort; null for rules"),
        _money("input_price", "price per million input tokens at the start of the cohort; null for rules", nullable=True),
        _money("output_price", "price per million output tokens at the start of the cohort; null for rules", nullable=True),
        _METHODOLOGY,
        _money("initial_cash", "initial cash, never refilled"),
        Column("lineup", TEXT, "lineup of the cohort"),
        _time("closed_at", "when an operator closed the agent, which then decides no more; null if open", nullable=True),
        _text("closed_by", "operator who closed the agent, and the reason"),
        _time("archived_at", "when an operator archived the cohort, which is then unranked; null if not archived", nullable=True),
        _text("archived_by", "operator who archived the cohort, and the reason"),
        _RECONSTRUCTED,
        _KNOWN_AT,
    ),
    key=("week", "agent_id"),
    partitioned_by=("week",),
    version="4",
)

#: Columns of arena/decisions with the tokens of its calls.
TOKENS = ("input_tokens", "output_tokens")

DECISIONS = Table(
    name="arena/decisions",
    row="The decision of an agent in a week.",
    columns=(
        _WEEK,
        Column("decision_id", TEXT, "cohort/family/week"),
        _AGENT,
        Column("place", pl.Int32(), "position of the agent in its cohort's decision order, from 1"),
        Column("state", TEXT, "open, read, finished, refused (all legs, finally), failed or blocked"),
        _text("action", "BET, SELL, HOLD or INVALID; null without an answer"),
        _text("problem", "why the answer is INVALID; null if valid"),
        _text("message", "details of the problem"),
        Column("tolerated", pl.Boolean(), "whether the answer contained more than the requested object", nullable=True),
        Column("legs", pl.Int32(), "number of requested trades"),
        _text("decision", "parsed decision as JSON, from which it is executed"),
        _text("reasoning", "reasoning of the model; untrusted text"),
        _money("cash", "cash before the decision, the basis of limits and implied confidences", nullable=True),
        _time("planned_at", "when the prompt was built; null before", nullable=True),
        _text("prompt_hash", "first 16 hexadecimal digits of the SHA-256 of the prompt; null without a prompt"),
        _text("prompt_version", "version of the prompt"),
        _text("universe_digest", "SHA-256 of the offered universe"),
        Column("attempts", pl.Int32(), "number of requested answers, including retries of unusable ones"),
        Column("input_tokens", pl.Int64(), "tokens of the prompts of all attempts; null if unknown", "tokens", nullable=True),
        Column(
            "output_tokens", pl.Int64(), "tokens of the answers of all attempts, with reasoning; null if unknown", "tokens", nullable=True
        ),
        Column("call_keys", pl.List(pl.String()), "journal keys of the calls, in order"),
        _text("model", "requested model of the last call, as named by the provider; null without a call"),
        _text("served_model", "model that answered the last call, from the body or gateway headers; docs/models.md"),
        _text("system_fingerprint", "system fingerprint of that answer, from the provider"),
        _text("served_by", "provider or deployment that served the call behind a gateway"),
        _money("cost", "cost of all attempts; null if partly unknown", nullable=True),
        _text("reason", "why it is unfinished or all legs were refused; null if finished"),
        _RECONSTRUCTED,
        _METHODOLOGY,
        _time("known_at", "when its first state was recorded; unchanged by later states"),
        _time("changed_at", "when this state was recorded; null in older rows, meaning known_at", nullable=True),
    ),
    key=("week", "decision_id"),
    partitioned_by=("week",),
    max_age=WEEKLY,
    version="4",
)

DECISION_VERSIONS = Table(
    name="arena/decision_versions",
    row="One earlier state of a decision, valid from changed_at to superseded_at.",
    columns=(*DECISIONS.columns, _time("superseded_at", "when the next state was recorded or the row was withdrawn")),
    key=("week", "decision_id", "changed_at"),
    partitioned_by=("week",),
    version="2",
)

REFUSALS = Table(
    name="arena/refusals",
    row="One leg refused by an execution of a decision.",
    columns=(
        _WEEK,
        Column("decision_id", TEXT, "cohort/family/week"),
        Column("leg", pl.Int32(), "number of the leg, from 1"),
        Column("reason", TEXT, "first applicable reason"),
        Column("message", TEXT, "details of the reason"),
        _time("known_at", "when the decision was executed"),
        _time("superseded_at", "when the decision was executed again; null for the last execution, which counts", nullable=True),
    ),
    key=("week", "decision_id", "leg", "known_at"),
    partitioned_by=("week",),
    version="2",
)

TRADES = Table(
    name="arena/trades",
    row="One executed leg of a decision, with the quote used.",
    columns=(
        _WEEK,
        Column("trade_id", TEXT, "cohort/family/week/leg, the same for every execution of the leg"),
        _AGENT,
        _MARKET,
        _SIDE,
        Column("binary", pl.Boolean(), "whether the sides of the market are YES and NO"),
        Column("action", TEXT, "BUY or SELL"),
        Column("position_id", TEXT, "trade that opened the position"),
        _shares("shares", "shares bought or sold"),
        _price("price", "average fill price"),
        _money("amount", "amount paid or received, without the fee"),
        _money("fee", "fee of the venue"),
        _money("base", "cash before the decision"),
        _probability("confidence", "confidence implied by the size of a BUY, its share of the largest bet; null for a SELL"),
        _probability("probability", "stated probability that the side wins; null if not stated"),
        _price("bid", "best bid of the side; null if missing", nullable=True),
        _price("mid", "midpoint of the side"),
        _price("ask", "best ask of the side; null if missing", nullable=True),
        _time("quoted_at", "time of the quote; null if the source does not state it", nullable=True),
        Column(
            "quote_source",
            TEXT,
            "source of the quote: clob or orderbook; prices-history or candlesticks if reconstructed",
        ),
        Column("skipped_levels", pl.Int32(), "number of unusable levels of the book"),
        _money(
            "unmatched",
            "part of the amount without a counterparty: beyond the size at the best price of the other side; 0 if filled from the book; null if the quote has no sizes",
            nullable=True,
        ),
        _time("known_at", "when the trade was executed"),
    ),
    key=("week", "trade_id"),
    partitioned_by=("week",),
    version="2",
)

EVIDENCE = Table(
    name="arena/evidence",
    row="One observation of a market with open bets.",
    columns=(
        _WEEK,
        _MARKET,
        _text("market_type", "binary, named or multi"),
        Column("outcomes", pl.List(pl.String()), "names of the outcomes, in the venue's order"),
        Column("closed", pl.Boolean(), "whether the market is closed", nullable=True),
        _text("uma_resolution_status", "latest UMA status"),
        Column("uma_statuses", pl.List(pl.String()), "UMA statuses in order", nullable=True),
        _text("resolution_status", "resolution status at the venue; on Kalshi the status of the least advanced contract"),
        Column("results", pl.List(pl.String()), "Kalshi's result of each contract, empty without one; null on Polymarket", nullable=True),
        Column("outcome_prices", pl.List(EXACT_PRICE), "final or last price of each outcome", _PER_SHARE, nullable=True),
        Column("winners", pl.List(pl.String()), "outcomes flagged as winners by the CLOB; null if not queried", nullable=True),
        Column("is_50_50", pl.Boolean(), "whether the CLOB states a 50-50 resolution", nullable=True),
        Column("lower_bound", USDC, "lower bound of a scalar market", "units of the question", nullable=True),
        Column("upper_bound", USDC, "upper bound of a scalar market", "units of the question", nullable=True),
        _time("end_time", "scheduled end", nullable=True),
        _time("closed_at", "when the market closed", nullable=True),
        _time("uma_end_at", "when UMA's resolution ended", nullable=True),
        _time("settled_at", "when Kalshi paid the market; null before, and on Polymarket", nullable=True),
        _text("cancelled_by", "operator who cancelled the market, and the reason; null for observations of the venue"),
        Column("missing", pl.Boolean(), "whether the venue did not list the market, or not readably; null means listed", nullable=True),
        _RECONSTRUCTED,
        _time("known_at", "time of the observation, or, if reconstructed, when it could have been made"),
    ),
    key=("week", "market_id", "known_at"),
    partitioned_by=("week",),
    history=("arena/trades",),
    ignored=("arena/agents",),
    version="3",
)

SETTLEMENTS = Table(
    name="arena/settlements",
    row="One resolution of a market that counts for the cohorts of a methodology; a later one corrects it.",
    columns=(
        _MARKET,
        _METHODOLOGY,
        Column("number", pl.Int32(), "number of the settlement, from 1; above 1 a correction"),
        Column("result", TEXT, "won, split or cancelled"),
        _text("winner", "winning outcome; null without one"),
        Column("outcomes", pl.List(pl.String()), "outcomes in lower case; empty if costs are refunded"),
        Column("payouts", pl.List(PRICE), "payout per share of each outcome, in the order of outcomes", _PER_SHARE),
        Column("rule", TEXT, "rule that decided"),
        _KNOWN_AT,
    ),
    key=("market_id", "methodology", "number"),
)

LEDGER = Table(
    name="arena/ledger",
    row="One cash movement of an agent, with the resulting balance and position.",
    columns=(
        _AGENT,
        Column("number", pl.Int32(), "number of the entry within the agent, from 1"),
        Column("kind", TEXT, "BUY, SELL, FEE, SETTLE or REFUND"),
        _money("amount", "amount, negative if paid; SETTLE and REFUND are negative if a correction reverses them"),
        _money("cash", "cash after the entry"),
        _MARKET,
        Column("position_id", TEXT, "position of the entry"),
        _SIDE,
        _shares("shares", "open shares of the position after the entry; 0 from its settlement on"),
        _money("cost", "cost of the open shares"),
        _text("trade_id", "trade of the entry; null for SETTLE and REFUND"),
        Column("corrects", pl.Boolean(), "whether the entry reverses an earlier payment"),
        _METHODOLOGY,
        _KNOWN_AT,
    ),
    key=("agent_id", "number"),
)

POSITIONS = Table(
    name="arena/positions",
    row="One position in its present state.",
    columns=(
        _AGENT,
        Column("position_id", TEXT, "trade that opened the position"),
        _MARKET,
        _SIDE,
        Column("binary", pl.Boolean(), "whether the sides of the market are YES and NO"),
        Column("status", TEXT, "open, closed (sold) or settled"),
        _shares("shares", "shares held now, or at settlement"),
        _money("cost", "cost of the held shares"),
        _money("sold", "proceeds of sales"),
        _money("paid", "payout of the settlement in force; null before", nullable=True),
        _money("realized", "profit of sales and settlement, without fees"),
        _text(
            "result",
            "won, split or cancelled; null if unsettled or sold before (see arena/settlements)",
        ),
        Column(
            "won",
            pl.Boolean(),
            "whether its side won; null if result is null or there is no winner (for sold positions see arena/scores)",
            nullable=True,
        ),
        _time("opened_at", "first trade"),
        _time("ended_at", "time of the last sale or the settlement; null if open", nullable=True),
        _METHODOLOGY,
    ),
    key=("agent_id", "position_id"),
)

PRICES = Table(
    name="arena/prices",
    row="The price of one outcome, valid until its next row.",
    columns=(
        Column("day", pl.Date(), "UTC day; partition", UTC),
        _MARKET,
        Column("outcome", TEXT, "YES in a binary market, else the outcome in lower case"),
        _time("at", "start of the interval"),
        _price("price", "midpoint"),
        Column(
            "source",
            TEXT,
            "live: present quote; prior: last known price (the midpoint at which it was bought before the first), as there is no quote",
        ),
        _time("observed_at", "time of the quote; null if the source does not state it", nullable=True),
        _price("other", "listed price, for comparison; null if not queried", nullable=True),
        Column("disagrees", pl.Boolean(), "whether the two prices differ by more than the methodology allows"),
        _RECONSTRUCTED,
        _time("known_at", "when the price was recorded; null in older and reconstructed rows, meaning at", nullable=True),
    ),
    key=("day", "market_id", "outcome", "at"),
    partitioned_by=("day",),
    often=True,
    history=("arena/trades", "arena/evidence"),
    ignored=("arena/universe", "arena/agents"),
    version="2",
)

PORTFOLIOS = Table(
    name="arena/portfolios",
    row="The portfolio of an agent, valid until its next row.",
    columns=(
        _AGENT,
        _time("at", "time of the change"),
        _money("cash", "cash"),
        _money("invested", "cost of the open positions"),
        _money("positions", "value of the open positions"),
        _money("total", "cash plus positions"),
        _money("profit", "total minus initial cash"),
        Column("fallbacks", pl.Int32(), "number of open positions without a live price"),
        _METHODOLOGY,
    ),
    key=("agent_id", "at"),
    version="3",
)

SCORES = Table(
    name="arena/scores",
    row="The scores of one bet on a market with a winner.",
    columns=(
        Column("trade_id", TEXT, "the BUY"),
        _AGENT,
        _MARKET,
        _SIDE,
        Column("winner", TEXT, "winning outcome"),
        Column("won", pl.Boolean(), "the side won"),
        _probability("confidence", "confidence implied by the size of the bet"),
        _probability("probability", "stated probability that the side wins; null if not stated"),
        Column("price", PROBABILITY, "fill price, the market's probability of the side", "probability"),
        _probability("p_yes", "implied confidence as a probability of YES; null if the market is not binary"),
        Column("o_yes", pl.Int8(), "1 if YES won, else 0; null if the market is not binary", nullable=True),
        _score("brier_size", "Brier score of the implied confidence; null if it is missing or outside [0, 1]"),
        _score("brier_stated", "Brier score of the stated probability; null if not stated"),
        _score("brier_price", "Brier score of the price paid"),
        _METHODOLOGY,
        _time("known_at", "when the resolution became known"),
    ),
    key=("trade_id",),
)

LEADERBOARD = Table(
    name="arena/leaderboard",
    row="The books of one family of one methodology over its cohorts; live and reconstructed cohorts have separate rows. arena/rankings has the ranks.",
    columns=(
        _METHODOLOGY,
        _RECONSTRUCTED,
        Column("family", TEXT, "family, a competitor over the years"),
        _score("brier_stated", "mean Brier score of stated probabilities; null without any"),
        _score("brier_price", "mean Brier score of prices paid; null without any"),
        Column("return", PROBABILITY, "profit / initial cash", "fraction"),
        _money("profit", "total minus initial cash"),
        _money("total", "cash plus positions at the latest prices"),
        _score("brier_size", "mean Brier score of confidences implied by sizes; null without any"),
        _probability("win_rate", "share of scored bets whose side won"),
        Column("cohorts", pl.Int32(), "number of cohorts"),
        Column("completed", pl.Int32(), "number of complete cohorts, as of the latest decision, trade, evidence or mark"),
        Column("decisions", pl.Int32(), "number of due decisions"),
        Column("finished", pl.Int32(), "decisions finished or refused with a usable answer, or of bankrupt agents"),
        Column("invalid", pl.Int32(), "decisions finished with an unusable answer"),
        Column("unfinished", pl.Int32(), "decisions neither finished nor refused: open, read, failed or blocked"),
        Column("bets", pl.Int32(), "number of executed bets"),
        Column("refused", pl.Int32(), "number of refused legs"),
        Column("scored", pl.Int32(), "number of bets on markets with a winner"),
        Column("stated", pl.Int32(), "number of scored bets with a stated probability"),
        _money("initial_cash", "initial cash of all agents"),
        _money("cash", "present cash of all agents"),
        Column("drawdown", PROBABILITY, "largest relative fall of an agent from an earlier peak", "fraction"),
        Column("turnover", PROBABILITY, "dollars bought and sold per dollar of initial cash", "dollars per dollar"),
        Column(
            "unmatched",
            PROBABILITY,
            "share of the dollars bought and sold that had no counterparty in the book, of trades whose quote has sizes; null without any",
            "fraction",
            nullable=True,
        ),
        Column("open_positions", pl.Int32(), "number of positions without a resolution"),
        _money("cost", "cost of all calls; null if partly unknown", nullable=True),
    ),
    key=("methodology", "reconstructed", "family"),
    version="4",
    mart=True,
    max_age=WEEKLY,
)

MESSAGES = Table(
    name="arena/messages",
    row="One message of a decision: part of its prompt, or an answer of the model.",
    columns=(
        Column("week", pl.Date(), "first day (Sunday) of the week; partition", UTC),
        Column("decision_id", TEXT, "cohort/family/week"),
        Column("number", pl.Int32(), "position of the message, from 1"),
        Column("role", TEXT, "system, user or assistant"),
        Column("content", TEXT, "text without credentials; untrusted"),
        Column("known_at", TIME, "when the row became known", UTC),
    ),
    key=("week", "decision_id", "number"),
    partitioned_by=("week",),
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
    MESSAGES,
)
