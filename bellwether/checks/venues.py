"""Rules for the raw and clean tables of the venues, and for recordings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from bellwether.checks import operations
from bellwether.checks.rule import DEMO_GAP, Rule, applies_to, holds, present, prices, unique, words
from bellwether.tables import raw, table

if TYPE_CHECKING:
    from bellwether.lake import Lake, Slice

#: Rejects that a day may have whatever its size, and the share of its objects that may be rejects.
TOLERATED_REJECTS = 10
TOLERATED_SHARE = 0.01


def _as_many(lists: str) -> pl.Expr:
    """Return a condition: the list in the column `lists` is empty or has as many elements as the market has outcomes."""
    return (pl.col(lists).list.len() == 0) | (pl.col(lists).list.len() == pl.col("outcomes").list.len())


#: Reasons for having no outcome that are worth a look.
_NOT_UNDERSTOOD = ("unknown result", "contradictory evidence")
_UNSETTLED = ("initialized", "active", "inactive", "closed", "determined", "disputed", "amended")

_WITHIN_DAY = holds(
    "closes_within_its_day",
    "the market closed on the UTC day of its partition",
    pl.col("close_time").dt.date() == pl.col("day"),
    blocking=True,
)
_OPENS_FIRST = holds("opens_before_it_closes", "the market opened before it closed", pl.col("open_time") < pl.col("close_time"))
_SETTLES_LAST = holds(
    "settles_after_it_closes", "the market was paid out at or after its close", pl.col("settled_at") >= pl.col("close_time")
)


_RAW_MARKET = (
    _WITHIN_DAY,
    prices("last_price", "previous_price", "yes_bid", "yes_ask", "no_bid", "no_ask", "settlement_value"),
    words("known_status", "the status is a known word", "status", *_UNSETTLED, "finalized"),
    words("known_result", "the result is a known word, or empty", "result", "yes", "no", "scalar", "void", ""),
    words("known_market_type", "the type of the market is a known word", "market_type", "binary", "scalar"),
    holds("settled_has_result", "a finalized market has a result", applies_to(pl.col("status") == "finalized", pl.col("result") != "")),
    holds("bid_at_or_below_ask", "the best bid does not exceed the best ask", pl.col("yes_bid") <= pl.col("yes_ask")),
    _OPENS_FIRST,
    _SETTLES_LAST,
)

_RAW_EVENT = (
    unique("day", "event_ticker"),
    present("has_series", "the event names its series", "series_ticker"),
    present("has_title", "the event has a title", "title"),
    holds(
        "exclusive_exactly_when_mecnet",
        "markets of an event exclude each other exactly when its collateral is netted so",
        pl.col("mutually_exclusive") == (pl.col("collateral_return_type") == "MECNET"),
    ),
)

_RAW_SERIES = (
    unique("series_ticker"),
    present("has_category", "the series has a category", "category"),
)

_RAW_CANDLE = (
    unique("day", "ticker", "period_minutes", "end_at"),
    prices(*(f"{side}_{part}" for side in ("yes_bid", "yes_ask", "price") for part in ("open", "high", "low", "close"))),
    holds("known_period", "a candle lasts a minute, an hour or a day", pl.col("period_minutes").is_in([1, 60, 1440])),
    holds(
        "ends_on_its_period",
        "a candle ends at a whole multiple of its length",
        pl.col("end_at").dt.epoch("s") % (60 * pl.col("period_minutes")) == 0,
    ),
    holds(
        "low_at_or_below_high",
        "the lowest value of a candle does not exceed its highest",
        pl.all_horizontal((pl.col(f"{side}_low") <= pl.col(f"{side}_high")).fill_null(True) for side in ("yes_bid", "yes_ask", "price")),
    ),
    holds("bid_at_or_below_ask", "the closing bid does not exceed the closing ask", pl.col("yes_bid_close") <= pl.col("yes_ask_close")),
    holds("volume_not_negative", "no candle has a negative volume", pl.col("volume") >= 0),
)

_CLEAN_MARKET = (
    unique("day", "venue", "market_id"),
    holds(
        "closes_within_its_day",
        "a Kalshi market closed on the UTC day of its partition, a Polymarket market at or before the end of it",
        pl.when(pl.col("venue") == "polymarket")
        .then(pl.col("close_time").dt.date() <= pl.col("day"))
        .otherwise(pl.col("close_time").dt.date() == pl.col("day")),
        blocking=True,
    ),
    words("known_outcome", "an outcome is yes or no", "outcome", "yes", "no", blocking=True),
    holds(
        "outcome_only_when_settled",
        "a market has an outcome only once it is paid out",
        applies_to(pl.col("outcome").is_not_null(), pl.col("status") == "settled"),
        blocking=True,
    ),
    holds(
        "outcome_or_reason",
        "a market has either an outcome or the reason why it has none",
        pl.col("outcome").is_null() != pl.col("outcome_reason").is_null(),
        blocking=True,
    ),
    holds(
        "outcome_agrees_with_payout",
        "a contract that resolved yes paid 1 dollar and one that resolved no paid nothing",
        pl.col("settlement_value") == pl.when(pl.col("outcome") == "yes").then(1).when(pl.col("outcome") == "no").then(0),
        blocking=True,
    ),
    prices("last_price", "settlement_value"),
    words("known_status", "the status is a known word", "status", *_UNSETTLED, "settled"),
    holds(
        "settled_has_known_result",
        "a settled market has a result that is understood",
        applies_to(pl.col("status") == "settled", ~pl.col("outcome_reason").is_in(_NOT_UNDERSTOOD).fill_null(False)),
    ),
    holds(
        "outcome_has_question",
        "a market with an outcome has a question",
        applies_to(pl.col("outcome").is_not_null(), pl.col("question").is_not_null()),
    ),
    _OPENS_FIRST,
    _SETTLES_LAST,
    holds("volume_not_negative", "no market has a negative volume", pl.col("volume") >= 0),
)

_CLEAN_PRICE = (
    unique("day", "venue", "market_id", "at"),
    prices("bid", "ask", "last"),
    holds("bid_at_or_below_ask", "the bid does not exceed the ask", pl.col("bid") <= pl.col("ask")),
    holds(
        "known_after_it_stood",
        "a price became known after the instant at which it stood",
        pl.col("known_at") >= pl.col("at"),
    ),
)

_POLYMARKET_MARKET = (
    unique("day", "market_id"),
    holds(
        "ends_within_its_day",
        "the market was to end on the UTC day of its partition",
        pl.col("end_time").dt.date() == pl.col("day"),
        blocking=True,
    ),
    prices("best_bid", "best_ask", "last_trade_price"),
    holds(
        "outcome_prices_between_0_and_1",
        "every outcome's price lies between 0 and 1 dollar",
        pl.col("outcome_prices").list.eval(pl.element().is_between(0, 1)).list.all(),
        blocking=True,
    ),
    holds(
        "a_price_and_a_token_per_outcome",
        "there are as many prices and tokens as outcomes, or none",
        _as_many("outcome_prices") & _as_many("token_ids"),
        blocking=True,
    ),
    words("known_market_type", "the type of the market is a known word", "market_type", "binary", "named", "multi", blocking=True),
    words(
        "known_uma_status",
        "UMA's status is a known word",
        "uma_resolution_status",
        "requested",
        "proposed",
        "disputed",
        "resolved",
        "settled",
    ),
    holds(
        "yes_and_no_differ",
        "a yes-or-no market with tokens has one of each, and others have neither",
        pl.when((pl.col("market_type") == "binary") & (pl.col("token_ids").list.len() > 0))
        .then((pl.col("yes_token") != pl.col("no_token")).fill_null(False))
        .otherwise(pl.col("yes_token").is_null() & pl.col("no_token").is_null()),
        blocking=True,
    ),
    holds("bid_at_or_below_ask", "the best bid does not exceed the best ask", pl.col("best_bid") <= pl.col("best_ask")),
    holds("closed_has_a_time", "a closed market has a closing time", applies_to(pl.col("closed"), pl.col("closed_at").is_not_null())),
    present("has_event", "the market names its event", "event_id"),
)

_POLYMARKET_EVENT = (
    unique("day", "event_id"),
    present("has_title", "the event has a title", "title"),
    holds("has_tags", "the event has tags", pl.col("tags").list.len() > 0),
)

_POLYMARKET_WINNER = (
    unique("day", "condition_id", "position"),
    prices("price"),
    holds(
        "at_most_one_winner",
        "at most one outcome of a market has won",
        pl.col("winner").fill_null(False).cast(pl.Int32).sum().over("day", "condition_id") <= 1,
    ),
    holds(
        "no_winner_at_half",
        "no outcome has won a market that was resolved half and half",
        applies_to(pl.col("is_50_50_outcome"), ~pl.col("winner").fill_null(False)),
    ),
)

_POLYMARKET_PRICE = (
    unique("day", "market_id", "at"),
    prices("price"),
    holds("known_after_it_stood", "a price became known after the instant at which it stood", pl.col("known_at") >= pl.col("at")),
)

_RESOLUTION = (
    unique("day", "venue", "market_id"),
    words("known_status", "the status is a known word", "status", "active", "closed", "determined", "disputed", "settled", blocking=True),
    holds(
        "winner_only_when_settled",
        "an outcome has won only once the market is settled",
        applies_to(pl.col("winner").is_not_null(), pl.col("status") == "settled"),
        blocking=True,
    ),
    holds(
        "winner_or_reason",
        "a market has either a winner or the reason why it has none",
        pl.col("winner").is_null() != pl.col("outcome_reason").is_null(),
        blocking=True,
    ),
    holds(
        "outcome_is_the_winner",
        "the outcome of a yes-or-no market is the name of its winner",
        pl.col("outcome") == pl.col("winner").str.strip_chars().str.to_lowercase(),
        blocking=True,
    ),
    holds(
        "outcome_agrees_with_value",
        "a contract of yes is worth 1 dollar when yes has won and nothing when no has",
        pl.col("settlement_value") == pl.when(pl.col("outcome") == "yes").then(1).when(pl.col("outcome") == "no").then(0),
        blocking=True,
    ),
    holds(
        "sources_agree",
        "what Gamma and the CLOB say does not contradict each other",
        (pl.col("outcome_reason") != "contradictory evidence").fill_null(True),
    ),
    prices("settlement_value"),
)

_PULL = (
    unique("day"),
    holds("ends_after_it_starts", "a pull ends at or after its start", pl.col("finished_at") >= pl.col("started_at")),
    holds("has_pages", "a pull stored at least one page", pl.col("requests") >= 1),
)


def few_rejects(objects: int, *, listed: bool = False) -> Rule:
    """Create a rule: only few objects of a day (or of a whole list) were rejected, that is, did not fit the expected form.

    objects: number of stored objects; a small share of it is tolerated. listed: count the rejects of the whole list, such as the archive, not of
    each day.
    """
    allowed = max(TOLERATED_REJECTS, int(objects * TOLERATED_SHARE))
    return replace(
        holds(
            "few_rejects",
            f"a {'list' if listed else 'day'} has at most {TOLERATED_REJECTS} objects, or {TOLERATED_SHARE:.0%} of all, that do not fit",
            pl.len().over("venue" if listed else "day") <= allowed,
        ),
        columns=("table", "record_id", "field", "value", "reason"),
    )


def objects_per_day(lake: Lake, rejects: Slice) -> int:
    """Return the mean number of objects per day that the pulls of a venue have stored. rejects: the venue's rejects, whose days are counted."""
    days = [manifest.partition for manifest in rejects.manifests]
    venue = rejects.table.name.removesuffix("_rejects")
    pulled = [own for own in raw.TABLES if own.name.startswith(f"{venue}_") and own.partitioned_by and own != rejects.table]
    return sum(lake.slice(own, days, missing="skip").rows for own in pulled) // max(len(days), 1)


def _fit_to_list(lake: Lake, rejects: Slice) -> Rule:
    """Return the rule `few_rejects` for a list, such as a venue's archive, with a limit that depends on the number of stored objects."""
    listed = table(rejects.table.name.removesuffix("_rejects"))
    return few_rejects(lake.slice(listed, missing="skip").rows, listed=True)


_REJECTS = replace(few_rejects(0), fit=lambda lake, rejects: few_rejects(objects_per_day(lake, rejects)))
_LISTED_REJECTS = replace(few_rejects(0, listed=True), fit=_fit_to_list)


_RECORDING_GAP = (
    unique("recording", "gap"),
    holds("nothing_lost", "no sequence number of a subscription was skipped unexpectedly", pl.col("kind") != "lost", expected=DEMO_GAP),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "raw/recording_gaps": _RECORDING_GAP,
    "raw/kalshi_rejects": (_REJECTS,),
    "raw/kalshi_series": _RAW_SERIES,
    "raw/kalshi_series_rejects": (_LISTED_REJECTS,),
    "raw/kalshi_events": _RAW_EVENT,
    "raw/kalshi_markets": (unique("day", "ticker"), *_RAW_MARKET),
    "raw/kalshi_archive": (unique("ticker"), *_RAW_MARKET),
    "raw/kalshi_archive_rejects": (_LISTED_REJECTS,),
    "raw/kalshi_candles": _RAW_CANDLE,
    "raw/kalshi_pulls": _PULL,
    "raw/polymarket_rejects": (_REJECTS,),
    "raw/polymarket_events": _POLYMARKET_EVENT,
    "raw/polymarket_markets": _POLYMARKET_MARKET,
    "raw/polymarket_winners": _POLYMARKET_WINNER,
    "raw/polymarket_prices": _POLYMARKET_PRICE,
    "raw/polymarket_pulls": _PULL,
    "clean/resolutions": _RESOLUTION,
    "clean/markets": _CLEAN_MARKET,
    "clean/prices": _CLEAN_PRICE,
}

LAKE_CHECKS = operations.LAKE_CHECKS
