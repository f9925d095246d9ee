"""Rows of the arena's tables between two days."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest

from bellwether.arena.weekly.reading import between
from bellwether.errors import ConfigError
from bellwether.tables import table
from bellwether.tables.schema import TIME


def test_x4_both_days_of_a_range_are_in_it() -> None:
    at = [datetime(2026, 2, 28, 23, 59), datetime(2026, 3, 1, 10), datetime(2026, 3, 7, 23, 59, 59), datetime(2026, 3, 8)]
    rows = pl.DataFrame({"at": [one.replace(tzinfo=UTC) for one in at]}, schema={"at": TIME})
    first, last = date(2026, 3, 1), date(2026, 3, 7)

    def found(*bounds: date | None) -> list[int]:
        return [at.index(one.replace(tzinfo=None)) for one in between(table("arena/portfolios"), rows, *bounds)["at"]]

    assert found(first, last) == [1, 2]
    assert found(first, None) == [1, 2, 3]
    assert found(None, last) == [0, 1, 2]


def test_a_table_of_days_is_cut_by_its_days_and_one_of_no_time_is_refused() -> None:
    days = pl.DataFrame({"day": [date(2026, 3, 1), date(2026, 3, 2)]})
    assert between(table("arena/equity_by_day"), days, date(2026, 3, 2), None)["day"].to_list() == [date(2026, 3, 2)]
    with pytest.raises(ConfigError, match="arena/leaderboard: its rows are of no time"):
        between(table("arena/leaderboard"), pl.DataFrame(), date(2026, 3, 2), None)
