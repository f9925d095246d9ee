"""The rules that each table must meet, as data: an expectation or a condition, and whether a failure blocks what follows.

A rule blocks where bad rows would reach a ranking. Words of the venues are open sets: a new one is worth a look and
stops nothing. A rule that concerns several columns, or only some rows, is a condition over the columns; a row for which
the condition is null is not concerned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from bellwether.tables import Table
from bellwether.tables.benchmark import HORIZONS
from bellwether.tables.raw import REJECTS

#: Rejects that a day may have whatever its size, and the share of its objects that may be rejects.
TOLERATED_REJECTS = 10
TOLERATED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one table.

    Parameters
    ----------
    name: of the check; letters, digits and underscores.
    description: one sentence that says what holds.
    expectation: class name in Great Expectations; empty for a condition.
    columns: that the rule reads, for the sample of failing rows.
    kwargs: arguments of the expectation.
    blocking: True when a failure stops what is made from the table.
    condition: boolean per row, computed in Polars, that must not be false; None where the rule is an expectation about columns.
    """

    name: str
    description: str
    expectation: str
    columns: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    blocking: bool = False
    condition: pl.Expr | None = None

    @property
    def counts_rows(self) -> bool:
        """True when the rule is about the table as a whole, so that a table without rows can fail it."""
        return self.expectation.startswith("ExpectTable")


def _unique(*columns: str) -> Rule:
    if len(columns) == 1:
        return Rule("unique_key", f"{columns[0]} identifies a row", "ExpectColumnValuesToBeUnique", columns, {"column": columns[0]}, True)
    return Rule(
        "unique_key",
        f"{', '.join(columns)} together identify a row",
        "ExpectCompoundColumnsToBeUnique",
        columns,
        {"column_list": list(columns)},
        True,
    )


def _present(name: str, description: str, column: str, *, blocking: bool = False, mostly: float = 1.0) -> Rule:
    return Rule(name, description, "ExpectColumnValuesToNotBeNull", (column,), {"column": column, "mostly": mostly}, blocking)


def _words(name: str, description: str, column: str, *words: str, blocking: bool = False) -> Rule:
    return Rule(name, description, "ExpectColumnValuesToBeInSet", (column,), {"column": column, "value_set": list(words)}, blocking)


def _between(name: str, description: str, column: str, low: float | None, high: float | None, *, blocking: bool = False) -> Rule:
    kwargs = {"column": column, "min_value": low, "max_value": high}
    return Rule(name, description, "ExpectColumnValuesToBeBetween", (column,), kwargs, blocking)


def _holds(name: str, description: str, condition: pl.Expr, *, blocking: bool = False) -> Rule:
    columns = tuple(dict.fromkeys(condition.meta.root_names()))
    return Rule(name, description, "", columns, {}, blocking, condition)


def _row_count(name: str, description: str, low: int | None, high: int | None, *, blocking: bool = False) -> Rule:
    return Rule(name, description, "ExpectTableRowCountToBeBetween", (), {"min_value": low, "max_value": high}, blocking)


def _prices(*columns: str) -> Rule:
    within = pl.all_horizontal(pl.col(column).is_between(0, 1).fill_null(True) for column in columns)
    return _holds("prices_between_0_and_1", "every price lies between 0 and 1 dollar", within, blocking=True)


def _concerning(rows: pl.Expr, condition: pl.Expr) -> pl.Expr:
    return pl.when(rows).then(condition)


def _as_many(lists: str) -> pl.Expr:
    """Whether a list has as many elements as there are outcomes, or none."""
    return (pl.col(lists).list.len() == 0) | (pl.col(lists).list.len() == pl.col("outcomes").list.len())


#: Reasons for having no outcome that are worth a look.
_NOT_UNDERSTOOD = ("unknown result", "contradictory evidence")
_UNSETTLED = ("initialized", "active", "inactive", "closed", "determined", "disputed", "amended")

_WITHIN_DAY = _holds(
    "closes_within_its_day",
    "the market closed on the UTC day of its partition",
    pl.col("close_time").dt.date() == pl.col("day"),
    blocking=True,
)
_OPENS_FIRST = _holds("opens_before_it_closes", "the market opened before it closed", pl.col("open_time") < pl.col("close_time"))
_SETTLES_LAST = _holds(
    "settles_after_it_closes", "the market was paid out at or after its close", pl.col("settled_at") >= pl.col("close_time")
)


_RAW_MARKET = (
    _WITHIN_DAY,
    _prices("last_price", "previous_price", "yes_bid", "yes_ask", "no_bid", "no_ask", "settlement_value"),
    _words("known_status", "the status is a known word", "status", *_UNSETTLED, "finalized"),
    _words("known_result", "the result is a known word, or empty", "result", "yes", "no", "scalar", "void", ""),
    _words("known_market_type", "the type of the market is a known word", "market_type", "binary", "scalar"),
    _holds("settled_has_result", "a finalized market has a result", _concerning(pl.col("status") == "finalized", pl.col("result") != "")),
    _holds("bid_at_or_below_ask", "the best bid does not exceed the best ask", pl.col("yes_bid") <= pl.col("yes_ask")),
    _OPENS_FIRST,
    _SETTLES_LAST,
)

_RAW_EVENT = (
    _unique("day", "event_ticker"),
    _present("has_series", "the event names its series", "series_ticker"),
    _present("has_title", "the event has a title", "title"),
    _holds(
        "exclusive_exactly_when_mecnet",
        "markets of an event exclude each other exactly when its collateral is netted so",
        pl.col("mutually_exclusive") == (pl.col("collateral_return_type") == "MECNET"),
    ),
)

_RAW_SERIES = (
    _unique("series_ticker"),
    _present("has_category", "the series has a category", "category"),
)

_RAW_CANDLE = (
    _unique("day", "ticker", "period_minutes", "end_at"),
    _prices(*(f"{side}_{part}" for side in ("yes_bid", "yes_ask", "price") for part in ("open", "high", "low", "close"))),
    _holds("known_period", "a candle lasts a minute, an hour or a day", pl.col("period_minutes").is_in([1, 60, 1440])),
    _holds(
        "ends_on_its_period",
        "a candle ends at a whole multiple of its length",
        pl.col("end_at").dt.epoch("s") % (60 * pl.col("period_minutes")) == 0,
    ),
    _holds(
        "low_at_or_below_high",
        "the lowest value of a candle does not exceed its highest",
        pl.all_horizontal((pl.col(f"{side}_low") <= pl.col(f"{side}_high")).fill_null(True) for side in ("yes_bid", "yes_ask", "price")),
    ),
    _holds("bid_at_or_below_ask", "the closing bid does not exceed the closing ask", pl.col("yes_bid_close") <= pl.col("yes_ask_close")),
    _between("volume_not_negative", "no candle has a negative volume", "volume", 0, None),
)

_CLEAN_MARKET = (
    _unique("day", "venue", "market_id"),
    _holds(
        "closes_within_its_day",
        "a Kalshi market closed on the UTC day of its partition, a Polymarket market at or before the end of it",
        pl.when(pl.col("venue") == "polymarket")
        .then(pl.col("close_time").dt.date() <= pl.col("day"))
        .otherwise(pl.col("close_time").dt.date() == pl.col("day")),
        blocking=True,
    ),
    _words("known_outcome", "an outcome is yes or no", "outcome", "yes", "no", blocking=True),
    _holds(
        "outcome_only_when_settled",
        "a market has an outcome only once it is paid out",
        _concerning(pl.col("outcome").is_not_null(), pl.col("status") == "settled"),
        blocking=True,
    ),
    _holds(
        "outcome_or_reason",
        "a market has either an outcome or the reason why it has none",
        pl.col("outcome").is_null() != pl.col("outcome_reason").is_null(),
        blocking=True,
    ),
    _holds(
        "outcome_agrees_with_payout",
        "a contract that resolved yes paid 1 dollar and one that resolved no paid nothing",
        pl.col("settlement_value") == pl.when(pl.col("outcome") == "yes").then(1).when(pl.col("outcome") == "no").then(0),
        blocking=True,
    ),
    _prices("last_price", "settlement_value"),
    _words("known_status", "the status is a known word", "status", *_UNSETTLED, "settled"),
    _holds(
        "settled_has_known_result",
        "a settled market has a result that is understood",
        _concerning(pl.col("status") == "settled", ~pl.col("outcome_reason").is_in(_NOT_UNDERSTOOD).fill_null(False)),
    ),
    _holds(
        "outcome_has_question",
        "a market with an outcome has a question",
        _concerning(pl.col("outcome").is_not_null(), pl.col("question").is_not_null()),
    ),
    _OPENS_FIRST,
    _SETTLES_LAST,
    _between("volume_not_negative", "no market has a negative volume", "volume", 0, None),
)

_CLEAN_PRICE = (
    _unique("day", "venue", "market_id", "at"),
    _prices("bid", "ask", "last"),
    _holds("bid_at_or_below_ask", "the bid does not exceed the ask", pl.col("bid") <= pl.col("ask")),
    _holds(
        "known_after_it_stood",
        "a price became known after the instant at which it stood",
        pl.col("known_at") >= pl.col("at"),
    ),
)

_POLYMARKET_MARKET = (
    _unique("day", "market_id"),
    _holds(
        "ends_within_its_day",
        "the market was to end on the UTC day of its partition",
        pl.col("end_time").dt.date() == pl.col("day"),
        blocking=True,
    ),
    _prices("best_bid", "best_ask", "last_trade_price"),
    _holds(
        "outcome_prices_between_0_and_1",
        "every outcome's price lies between 0 and 1 dollar",
        pl.col("outcome_prices").list.eval(pl.element().is_between(0, 1)).list.all(),
        blocking=True,
    ),
    _holds(
        "a_price_and_a_token_per_outcome",
        "there are as many prices and tokens as outcomes, or none",
        _as_many("outcome_prices") & _as_many("token_ids"),
        blocking=True,
    ),
    _words("known_market_type", "the type of the market is a known word", "market_type", "binary", "named", "multi", blocking=True),
    _words(
        "known_uma_status",
        "UMA's status is a known word",
        "uma_resolution_status",
        "requested",
        "proposed",
        "disputed",
        "resolved",
        "settled",
    ),
    _holds(
        "yes_and_no_differ",
        "a yes-or-no market with tokens has one of each, and others have neither",
        pl.when((pl.col("market_type") == "binary") & (pl.col("token_ids").list.len() > 0))
        .then((pl.col("yes_token") != pl.col("no_token")).fill_null(False))
        .otherwise(pl.col("yes_token").is_null() & pl.col("no_token").is_null()),
        blocking=True,
    ),
    _holds("bid_at_or_below_ask", "the best bid does not exceed the best ask", pl.col("best_bid") <= pl.col("best_ask")),
    _holds("closed_has_a_time", "a closed market says when it closed", _concerning(pl.col("closed"), pl.col("closed_at").is_not_null())),
    _present("has_event", "the market names its event", "event_id"),
)

_POLYMARKET_EVENT = (
    _unique("day", "event_id"),
    _present("has_title", "the event has a title", "title"),
    _holds("has_tags", "the event has tags", pl.col("tags").list.len() > 0),
)

_POLYMARKET_WINNER = (
    _unique("day", "condition_id", "position"),
    _prices("price"),
    _holds(
        "at_most_one_winner",
        "at most one outcome of a market has won",
        pl.col("winner").fill_null(False).cast(pl.Int32).sum().over("day", "condition_id") <= 1,
    ),
    _holds(
        "no_winner_at_half",
        "no outcome has won a market that was resolved half and half",
        _concerning(pl.col("is_50_50_outcome"), ~pl.col("winner").fill_null(False)),
    ),
)

_POLYMARKET_PRICE = (
    _unique("day", "market_id", "at"),
    _prices("price"),
    _holds("known_after_it_stood", "a price became known after the instant at which it stood", pl.col("known_at") >= pl.col("at")),
)

_RESOLUTION = (
    _unique("day", "venue", "market_id"),
    _words("known_status", "the status is a known word", "status", "active", "closed", "determined", "disputed", "settled", blocking=True),
    _holds(
        "winner_only_when_settled",
        "an outcome has won only once the market is settled",
        _concerning(pl.col("winner").is_not_null(), pl.col("status") == "settled"),
        blocking=True,
    ),
    _holds(
        "winner_or_reason",
        "a market has either a winner or the reason why it has none",
        pl.col("winner").is_null() != pl.col("outcome_reason").is_null(),
        blocking=True,
    ),
    _holds(
        "outcome_is_the_winner",
        "the outcome of a yes-or-no market is the name of its winner",
        pl.col("outcome") == pl.col("winner").str.strip_chars().str.to_lowercase(),
        blocking=True,
    ),
    _holds(
        "outcome_agrees_with_value",
        "a contract of yes is worth 1 dollar when yes has won and nothing when no has",
        pl.col("settlement_value") == pl.when(pl.col("outcome") == "yes").then(1).when(pl.col("outcome") == "no").then(0),
        blocking=True,
    ),
    _holds(
        "sources_agree",
        "what Gamma and the CLOB say does not contradict each other",
        (pl.col("outcome_reason") != "contradictory evidence").fill_null(True),
    ),
    _prices("settlement_value"),
)

_PULL = (
    _unique("day"),
    _holds("ends_after_it_starts", "a pull ends at or after its start", pl.col("finished_at") >= pl.col("started_at")),
    _between("has_pages", "a pull stored at least one page", "requests", 1, None),
)

_QUESTION = (
    _unique("release", "id"),
    _row_count("not_empty", "the release has questions", 1, None),
    _holds(
        "id_names_the_market",
        "the id is the venue and the venue's own id of the market",
        pl.col("id") == pl.concat_str("source", "market_id", separator=":"),
        blocking=True,
    ),
    _words("ground_truth_is_binary", "the outcome is yes or no", "ground_truth", "yes", "no", blocking=True),
    _holds("question_has_text", "the question is not blank", pl.col("question").str.strip_chars() != "", blocking=True),
    _holds(
        "question_names_the_market",
        "no other question of the event has the same text",
        ~pl.struct("release", "event_id", "question").is_duplicated(),
    ),
    _holds("closed_after_cutoff", "the market closed after the cutoff", pl.col("close_time") > pl.col("cutoff"), blocking=True),
    _holds("settled_after_cutoff", "the market was paid out after the cutoff", pl.col("settled_at") > pl.col("cutoff"), blocking=True),
    *(
        _holds(
            f"price_{name}_in_time",
            f"the price for {name} before close stood at least {hours} h before close and not before the opening",
            (pl.col(f"price_{name}_at") <= pl.col("close_time") - pl.duration(hours=hours))
            & (pl.col(f"price_{name}_at") >= pl.col("open_time")).fill_null(True),
            blocking=True,
        )
        for name, hours in HORIZONS.items()
    ),
    *(
        _holds(
            f"price_{name}_has_instant",
            f"the price for {name} before close comes with its instant",
            pl.col(f"price_{name}").is_null() == pl.col(f"price_{name}_at").is_null(),
            blocking=True,
        )
        for name in HORIZONS
    ),
    _prices("market_probability", *(f"price_{name}" for name in HORIZONS)),
)

_FORECAST = (
    _unique("release", "forecaster", "question_id", "sample"),
    _holds("p_yes_is_probability", "a forecast lies between 0 and 1", pl.col("p_yes").is_between(0, 1), blocking=True),
    _holds("confidence_is_probability", "a confidence lies between 0 and 1", pl.col("confidence").is_between(0, 1), blocking=True),
    _words("answer_is_binary", "an answer is yes or no", "answer", "yes", "no", blocking=True),
    _holds(
        "forecast_or_reason",
        "a row has either a forecast or the reason why there is none",
        pl.col("p_yes").is_null() == pl.col("error").is_not_null(),
        blocking=True,
    ),
    _holds(
        "answer_agrees_with_forecast",
        "the answer is yes exactly when the forecast is at least 0.5",
        (pl.col("answer") == "yes") == (pl.col("p_yes") >= 0.5),
    ),
    _present("coverage", "nine questions of ten have a forecast", "p_yes", mostly=0.9),
)


def _few_rejects(objects: int) -> Rule:
    allowed = max(TOLERATED_REJECTS, int(objects * TOLERATED_SHARE))
    return replace(
        _holds(
            "few_rejects",
            f"a day has at most {TOLERATED_REJECTS} objects, or {TOLERATED_SHARE:.0%} of all, that do not fit",
            pl.len().over("day") <= allowed,
        ),
        columns=("table", "record_id", "field", "value", "reason"),
    )


_RECORDING_GAP = (
    _unique("recording", "gap"),
    _holds("nothing_lost", "no number of a subscription was skipped, but where that is expected", pl.col("kind") != "lost"),
)

_EPISODE = (
    _unique("episode", "ticker"),
    _words("known_result", "a result is YES, NO, SCALAR or VOID", "result", "YES", "NO", "SCALAR", "VOID", blocking=True),
    _holds(
        "at_most_one_winner",
        "at most one market of a mutually exclusive event resolves yes",
        _concerning(pl.col("mutually_exclusive"), (pl.col("result") == "YES").sum().over("episode") <= 1),
        blocking=True,
    ),
    _prices("settlement_value"),
    _holds("ends_after_it_starts", "an episode ends after its start", pl.col("end_at") > pl.col("start_at"), blocking=True),
    _present("settled", "the market has a result", "result"),
    _between("no_gaps", "the book could be trusted throughout", "gaps", None, 0),
)

_ORDER = (
    _unique("episode", "agent", "order_id"),
    _holds(
        "filled_within_its_size",
        "an order is filled up to its size",
        pl.col("filled").is_between(0, pl.col("size")),
        blocking=True,
    ),
)

_FILL = (
    _unique("episode", "agent", "fill_id"),
    _prices("price"),
    _holds("fills_something", "a fill has contracts", pl.col("size") > 0, blocking=True),
    _words("known_role", "whoever fills takes or makes", "role", "taker", "maker", blocking=True),
)

_BACKTEST = (
    _unique("episode", "agent"),
    _holds(
        "pnl_is_the_change",
        "P&L is final equity less bankroll",
        pl.col("pnl") == pl.col("final_equity") - pl.col("bankroll"),
        blocking=True,
    ),
    _holds("agent_did_not_fail", "the agent went through its episode without an error", pl.col("failure").is_null()),
    _holds("all_settled", "no position was left unsettled", ~pl.col("unsettled")),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "raw/recording_gaps": _RECORDING_GAP,
    "raw/kalshi_rejects": (_few_rejects(0),),
    "raw/kalshi_series": _RAW_SERIES,
    "raw/kalshi_events": _RAW_EVENT,
    "raw/kalshi_markets": (_unique("day", "ticker"), *_RAW_MARKET),
    "raw/kalshi_archive": (_unique("ticker"), *_RAW_MARKET),
    "raw/kalshi_candles": _RAW_CANDLE,
    "raw/kalshi_pulls": _PULL,
    "raw/polymarket_rejects": (_few_rejects(0),),
    "raw/polymarket_events": _POLYMARKET_EVENT,
    "raw/polymarket_markets": _POLYMARKET_MARKET,
    "raw/polymarket_winners": _POLYMARKET_WINNER,
    "raw/polymarket_prices": _POLYMARKET_PRICE,
    "raw/polymarket_pulls": _PULL,
    "clean/resolutions": _RESOLUTION,
    "clean/markets": _CLEAN_MARKET,
    "clean/prices": _CLEAN_PRICE,
    "benchmark/questions": _QUESTION,
    "benchmark/forecasts": _FORECAST,
    "replay/episodes": _EPISODE,
    "replay/orders": _ORDER,
    "replay/fills": _FILL,
    "replay/backtests": _BACKTEST,
}

_REJECTS = frozenset(declared.name for declared in REJECTS.values())


def rules_for(table: str, *, objects: int = 0) -> tuple[Rule, ...]:
    """The rules of `table`; () where none are declared. Names do not depend on `objects`.

    objects: how many objects a day's pull behind raw/<venue>_rejects stored, of which a share may be rejects.
    """
    return (_few_rejects(objects),) if table in _REJECTS else RULES.get(table, ())


def columns_read(table: Table, rules: Sequence[Rule]) -> list[str]:
    """The columns that `rules` look at and the key that names a failing row, in stored order; verbatim bodies stay on disk."""
    read = {*table.key}.union(*(rule.columns for rule in rules))
    return [name for name in table.names if name in read]
