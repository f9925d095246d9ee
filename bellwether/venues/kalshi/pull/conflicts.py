"""Choice among several records of one market: the newest counts; conflicting records are reported separately from duplicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_MARKETS
from bellwether.venues.kalshi.wire import ParsedRecords
from bellwether.venues.wire.rejects import Quarantine, RejectReason, repeat_value

#: What two records of a market must agree on.
AGREED = ("result", "settlement_value", "close_time")

_KEY_COLUMNS = ("day", "ticker", "event_ticker", "status", "is_combo", "updated_at", *AGREED)
KEYS = pl.Schema(
    {"listing": pl.UInt8(), "page": pl.Int32(), "ordinal": pl.Int32(), **{name: KALSHI_MARKETS.schema[name] for name in _KEY_COLUMNS}}
)
SUPERSEDED = pl.Schema(
    {
        "listing": pl.UInt8(),
        "page": pl.Int32(),
        "ordinal": pl.Int32(),
        "ticker": pl.String(),
        "day": pl.Date(),
        "field": pl.String(),
        "value": pl.String(),
        "reason": pl.String(),
    }
)


def build_keys(parsed: ParsedRecords, listing: int) -> pl.DataFrame:
    """Build the keys of a page's markets, by which the record of each ticker is chosen; `listing` orders the sources of a pull."""
    places = [
        pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32()),
        repeat_value(listing, pl.UInt8(), parsed.rows.height).alias("listing"),
    ]
    return parsed.rows.hstack(places)[KEYS.names()]


def select_records(keys: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split keys into the record that counts for each ticker and the other records.

    The newest `updated_at` counts; among equally new records the first one with a result, else the first. A superseded record that is the
    first to disagree in some way on the result, the settlement value or the close time has the `field`, its `value` and a `reason`;
    duplicates have no reason.
    """
    repeated = keys.filter(pl.col("ticker").is_duplicated())
    if repeated.is_empty():
        return keys, pl.DataFrame(schema=SUPERSEDED)
    order, descending = (
        ("ticker", "updated_at", pl.col("result") == "", "listing", "page", "ordinal"),
        [False, True, False, False, False, False],
    )
    ranked = repeated.sort(*order, descending=descending, nulls_last=True)
    winners = ranked.unique("ticker", keep="first", maintain_order=True)
    place = ["listing", "page", "ordinal"]
    others = ranked.join(winners, on=place, how="anti", maintain_order="left")
    losers = others.join(winners.select("ticker", *AGREED), on="ticker", suffix="_kept", maintain_order="left")
    said_first = pl.struct("ticker", *AGREED).is_first_distinct()
    superseded = losers.with_columns(
        field=_take_first_difference(pl.lit),
        value=_take_first_difference(lambda name: pl.col(name).cast(pl.String())),
        kept=_take_first_difference(lambda name: pl.col(f"{name}_kept").cast(pl.String()).fill_null("null").replace("", '""')),
    ).with_columns(
        reason=pl.when(pl.col("field").is_not_null() & said_first).then(
            pl.format("another record of this market, at least as new, says {}", pl.col("kept"))
        )
    )
    return keys.join(superseded, on=place, how="anti", maintain_order="left"), superseded.select(SUPERSEDED.names())


def _take_first_difference(tell: Callable[[str], pl.Expr]) -> pl.Expr:
    """Return `tell` of the first field in which a record differs from the one that counts; null without a difference."""
    return pl.coalesce(pl.when(pl.col(name).ne_missing(pl.col(f"{name}_kept"))).then(tell(name)) for name in AGREED)


def reject_contradictions(quarantine: Quarantine, objects: Sequence[Any], superseded: pl.DataFrame) -> pl.DataFrame:
    """Return rows of raw/kalshi_rejects for the `objects` of a page that another record contradicts.

    superseded: the page's superseded records that have a reason.
    """
    problems = {row["ordinal"]: RejectReason(row["field"], row["value"], row["reason"]) for row in superseded.iter_rows(named=True)}
    return quarantine.rows(objects, problems, dict(superseded.select("ordinal", "day").iter_rows()))


def drop_superseded(parsed: ParsedRecords, superseded: pl.DataFrame) -> pl.DataFrame:
    """Drop the rows of one page that do not count; `superseded` are the page's."""
    if superseded.is_empty():
        return parsed.rows
    return parsed.rows.filter(~pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(superseded["ordinal"].implode()))
