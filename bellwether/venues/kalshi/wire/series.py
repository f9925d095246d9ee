"""Series objects -> rows of raw/kalshi_series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_SERIES
from bellwether.venues.kalshi.wire.rules import RATIO
from bellwether.venues.wire.columns import Columns, Problems, records_of
from bellwether.venues.wire.rejects import Origin, Parsed, Quarantine
from bellwether.venues.wire.repeats import repeats_of
from bellwether.venues.wire.shapes import Shape

SERIES = Shape(
    tickers=("ticker",),
    texts=("title", "frequency", "category", "fee_type", "contract_url", "contract_terms_url"),
    text_lists=("categories", "tags"),
    times={"last_updated_at": "last_updated_ts"},
    decimals={"fee_multiplier": RATIO},
)


def parse_series(objects: Sequence[Any], origin: Origin, *, earlier: Mapping[str, Any] | None = None) -> Parsed:
    """Rows of raw/kalshi_series for the series objects of one page; null arrays are empty, rejects are filed under the day of the answer.

    A second object of a series, of this page or of those `earlier` by ticker, is dropped when it says the same and a reject when it does not.
    """
    problems = Problems()
    columns = Columns(records_of(objects, "ticker", problems), problems)
    typed = columns.typed(SERIES)
    frame = pl.DataFrame({**typed, "series_ticker": typed["ticker"], "body": columns.bodies(objects)})
    repeats = repeats_of(frame.select("ticker"), objects, problems, field="ticker", what="series of the same ticker", earlier=earlier or {})
    return Quarantine(KALSHI_SERIES, "ticker", origin.fetched_at.date(), origin).sift(frame, objects, problems, unwanted=repeats)
