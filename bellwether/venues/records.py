"""Kinds of records, and the choice of one record per market. Older records that contradict it become rejects, duplicates are dropped.

A record's key has its place in the pull (listing: number of the source, page, ordinal on the page) and the columns by which records are
compared. A superseded record was not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from bellwether.tables.schema import Table
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, RejectReason, repeat_value


@dataclass(frozen=True, slots=True)
class RecordType:
    """Kind of records, such as markets, that one raw table has. field: name of their identifier in the response. column: its name in the
    table.
    """

    table: Table
    field: str
    column: str

    def quarantine(self, day: date, origin: Origin) -> Quarantine:
        """Create the quarantine that converts invalid records of a page to rejects."""
        return Quarantine(self.table, self.field, day, origin)

    def reject_missing(self, day: date, requested: Mapping[str, Origin], missing: Iterable[str], reason: str) -> Iterator[pl.DataFrame]:
        """Yield rejects for the `missing` records, which the venue did not return. requested: by record, the page of the last call that
        named it.
        """
        places = sorted((requested[name].page, name) for name in missing)
        for _, group in groupby(places, key=itemgetter(0)):
            names = [name for _, name in group]
            yield self.quarantine(day, requested[names[0]]).reject_missing(names, reason)


_PLACE = {"listing": pl.UInt8(), "page": pl.Int32(), "ordinal": pl.Int32()}
_DISPUTE = {"field": pl.String(), "value": pl.String(), "reason": pl.String()}


def key_schema(table: Table, columns: Sequence[str]) -> pl.Schema:
    """Return the schema of keys with some columns of a table."""
    return pl.Schema({**_PLACE, **{name: table.schema[name] for name in columns}})


def superseded_schema(column: str) -> pl.Schema:
    """Return the schema of superseded records. column: id of the market."""
    return pl.Schema({**_PLACE, column: pl.String(), "day": pl.Date(), **_DISPUTE})


def build_keys(parsed: ParsedRecords, listing: int, schema: pl.Schema) -> pl.DataFrame:
    """Build the keys of a page's markets for `select_records`. listing: number of the source of the page."""
    places = [
        pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32()),
        repeat_value(listing, pl.UInt8(), parsed.rows.height).alias("listing"),
    ]
    return parsed.rows.hstack(places)[schema.names()]


def select_records(
    keys: pl.DataFrame, column: str, rank: Sequence[tuple[str | pl.Expr, bool]], agreed: Sequence[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split the keys into the chosen record of each market and all other records, which are superseded.

    column: id of the market. rank: columns by which records are sorted, the first counts, and whether they descend. agreed: columns in which
    all records must agree. A superseded record that contradicts the chosen one has the `field`, its `value` and a `reason`; records that
    repeat a contradiction, and duplicates, have no reason.
    """
    repeated = keys.filter(pl.col(column).is_duplicated())
    if repeated.is_empty():
        return keys, pl.DataFrame(schema=superseded_schema(column))
    names, descending = zip(*rank, strict=True)
    ranked = repeated.sort(column, *names, descending=[False, *descending], nulls_last=True)
    winners = ranked.unique(column, keep="first", maintain_order=True)
    place = list(_PLACE)
    others = ranked.join(winners, on=place, how="anti", maintain_order="left")
    losers = others.join(winners.select(column, *agreed), on=column, suffix="_kept", maintain_order="left")
    is_new = pl.struct(column, *agreed).is_first_distinct()
    superseded = losers.with_columns(
        field=_take_first_difference(agreed, pl.lit),
        value=_take_first_difference(agreed, lambda name: pl.col(name).cast(pl.String())),
        kept=_take_first_difference(agreed, lambda name: pl.col(f"{name}_kept").cast(pl.String()).fill_null("null").replace("", '""')),
    ).with_columns(
        reason=pl.when(pl.col("field").is_not_null() & is_new).then(
            pl.format("another record of this market, at least as new, says {}", pl.col("kept"))
        )
    )
    rest = keys.join(superseded, on=place, how="anti", maintain_order="left")
    return rest, superseded.select(superseded_schema(column).names())


def _take_first_difference(agreed: Sequence[str], express: Callable[[str], pl.Expr]) -> pl.Expr:
    """Return `express(column)` for the first column in which a record differs from the chosen record of its market; null if they are
    equal.
    """
    differences = (pl.when(pl.col(name).ne_missing(pl.col(f"{name}_kept"))).then(express(name)) for name in agreed)
    return pl.coalesce(pl.lit(None, pl.String()), *differences)


def reject_contradictions(quarantine: Quarantine, objects: Sequence[Any], superseded: pl.DataFrame) -> pl.DataFrame:
    """Build rejects for those `objects` of a page that contradict the chosen record of their market. superseded: rows of `select_records`
    for this page that have a reason.
    """
    problems = {row["ordinal"]: RejectReason(row["field"], row["value"], row["reason"]) for row in superseded.iter_rows(named=True)}
    return quarantine.rows(objects, problems, dict(superseded.select("ordinal", "day").iter_rows()))
