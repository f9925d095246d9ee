"""Choice of one record per market: the newest counts. Older records that contradict it become rejects, duplicates are dropped.

A record's key has its place in the pull and the columns by which records are compared. A superseded record was not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_MARKETS
from bellwether.venues.kalshi.wire import ParsedRecords
from bellwether.venues.wire.rejects import Quarantine, RejectReason, repeat_value

#: Fields in which all records of a market must agree.
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
    """Build the keys of a page's markets for `select_records`. listing: number of the source of the page; of equally new records, the one
    with the lowest number counts.
    """
    places = [
        pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32()),
        repeat_value(listing, pl.UInt8(), parsed.rows.height).alias("listing"),
    ]
    return parsed.rows.hstack(places)[KEYS.names()]


def select_records(keys: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split the keys into the chosen record of each ticker and all other records, which are superseded.

    The newest `updated_at` is chosen; among equally new records the first one with a result, else the first. A superseded record that
    contradicts the chosen one in `AGREED` has the `field`, its `value` and a `reason`; records that repeat a contradiction, and duplicates,
    have no reason.
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
    is_new = pl.struct("ticker", *AGREED).is_first_distinct()
    superseded = losers.with_columns(
        field=_take_first_difference(pl.lit),
        value=_take_first_difference(lambda name: pl.col(name).cast(pl.String())),
        kept=_take_first_difference(lambda name: pl.col(f"{name}_kept").cast(pl.String()).fill_null("null").replace("", '""')),
    ).with_columns(
        reason=pl.when(pl.col("field").is_not_null() & is_new).then(
            pl.format("another record of this market, at least as new, says {}", pl.col("kept"))
        )
    )
    return keys.join(superseded, on=place, how="anti", maintain_order="left"), superseded.select(SUPERSEDED.names())


def _take_first_difference(express: Callable[[str], pl.Expr]) -> pl.Expr:
    """Return `express(column)` for the first column in which a record differs from the chosen record of its market; null if they are
    equal.
    """
    return pl.coalesce(pl.when(pl.col(name).ne_missing(pl.col(f"{name}_kept"))).then(express(name)) for name in AGREED)


def reject_contradictions(quarantine: Quarantine, objects: Sequence[Any], superseded: pl.DataFrame) -> pl.DataFrame:
    """Build rejects for those `objects` of a page that contradict the chosen record of their market. superseded: rows of `select_records`
    for this page that have a reason.
    """
    problems = {row["ordinal"]: RejectReason(row["field"], row["value"], row["reason"]) for row in superseded.iter_rows(named=True)}
    return quarantine.rows(objects, problems, dict(superseded.select("ordinal", "day").iter_rows()))


def drop_superseded(parsed: ParsedRecords, superseded: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of one page without its `superseded` records."""
    if superseded.is_empty():
        return parsed.rows
    return parsed.rows.filter(~pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(superseded["ordinal"].implode()))
