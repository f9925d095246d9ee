"""Kinds of records, and the choice of one record per market.

A record's key has its place in the pull (listing: number of the source, page, ordinal on the page) and the columns by which records are
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import itemgetter

import polars as pl

from bellwether.tables.schema import Table
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, repeat_value


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


def key_schema(table: Table, columns: Sequence[str]) -> pl.Schema:
    """Return the schema of keys with some columns of a table."""
    return pl.Schema({**_PLACE, **{name: table.schema[name] for name in columns}})


def build_keys(parsed: ParsedRecords, listing: int, schema: pl.Schema) -> pl.DataFrame:
    """Build the keys of a page's markets for `select_records`. listing: number of the source of the page."""
    places = [
        pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32()),
        repeat_value(listing, pl.UInt8(), parsed.rows.height).alias("listing"),
    ]
    return parsed.rows.hstack(places)[schema.names()]


def select_records(keys: pl.DataFrame, column: str, rank: Sequence[tuple[str | pl.Expr, bool]]) -> pl.DataFrame:
    """Return the key of the chosen record of each market.

    column: id of the market. rank: columns by which records are sorted, the first counts, and whether they descend.
    """
    names, descending = zip(*rank, strict=True)
    return keys.sort(*names, descending=descending, nulls_last=True).unique(column, keep="first", maintain_order=True)
