"""Equity over a range of time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

import polars as pl
import pytest

from bellwether.arena.rankings import RankingInputs
from bellwether.arena.rankings.equity import WINDOWS, compute_window_equity, mean_total, window_points
from bellwether.arena.text_tables import is_preview
from bellwether.tables import arena as tables
from bellwether.tables.schema import TIME

SNAPSHOTS = [
    datetime(2026, 1, 24, 12, 30, tzinfo=UTC),
    datetime(2026, 2, 23, 12, 30, tzinfo=UTC),
    datetime(2026, 3, 3, 12, 30, tzinfo=UTC),
    datetime(2026, 3, 5, 11, 30, tzinfo=UTC),
]


def equity_lines(name: str, *at: datetime) -> list[str]:
    return [f"{one:%Y-%m-%d %H:%M}" for one in window_points(pl.Series(at, dtype=TIME), WINDOWS[name])]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("10M", ["2026-03-05 11:30"]),
        ("1H", ["2026-03-05 11:30"]),
        ("1W", ["2026-03-03 12:00", "2026-03-05 11:00"]),
        ("1M", ["2026-02-23 12:00", "2026-03-03 12:00", "2026-03-05 06:00"]),
        ("3M", ["2026-01-24 00:00", "2026-02-23 00:00", "2026-03-03 00:00", "2026-03-05 00:00"]),
    ],
)
def test_a_range_has_a_point_per_interval_that_changed(name: str, expected: list[str]) -> None:
    assert equity_lines(name, *SNAPSHOTS) == expected


def test_all_has_a_point_per_week() -> None:
    found = equity_lines("ALL", datetime(2025, 11, 5, 12, tzinfo=UTC), *SNAPSHOTS)
    assert [one[:10] for one in found] == ["2025-10-30", "2026-01-22", "2026-02-19", "2026-02-26", "2026-03-05"]


def test_a_range_ends_with_the_newest_portfolio_and_not_with_the_clock() -> None:
    """On 10 March, the range of one day is 5 March, the day of the newest portfolio."""
    assert equity_lines("1D", *SNAPSHOTS, datetime(2026, 3, 4, 11, 29, tzinfo=UTC), datetime(2026, 3, 4, 11, 30, tzinfo=UTC)) == [
        "2026-03-04 11:30",
        "2026-03-05 11:30",
    ]


def test_a_month_before_the_31st_of_march_is_the_28th_of_february() -> None:
    times = [datetime(2026, 2, 28, 11, tzinfo=UTC), datetime(2026, 2, 28, 13, tzinfo=UTC), datetime(2026, 3, 31, 12, tzinfo=UTC)]
    assert equity_lines("1M", *times) == ["2026-02-28 12:00", "2026-03-31 12:00"]
    assert equity_lines("ALL") == []


def inputs(*totals: tuple[str, int, datetime]) -> RankingInputs:
    """Agents of one family in cohorts from 1 March on, with their portfolios."""
    names = ("decisions", "universe", "trades", "prices", "ledger", "positions", "portfolios", "scores")
    empty = {name: getattr(tables, name.upper()).empty() for name in names}
    agents = pl.DataFrame(
        {
            "agent_id": sorted({name for name, *_ in totals} | {"d"}),
            "family": "acme",
            "model": "m",
            "methodology": "v1",
            "reconstructed": False,
            "week": date(2026, 3, 1),
            "initial_cash": 10_000.0,
            "archived_at": None,
        }
    ).with_columns(week=pl.when(pl.col("agent_id") == "d").then(date(2026, 3, 15)).otherwise("week"))
    rows = pl.DataFrame(totals, schema={"agent_id": pl.String, "total": pl.Int64, "at": TIME}, orient="row")
    return RankingInputs(**{**empty, "portfolios": rows}, agents=agents, cutoffs={})


def test_agents_of_a_family_are_one_point() -> None:
    at = SNAPSHOTS[-1]
    found = compute_window_equity(inputs(("a", 10_000, at), ("b", 10_000, at), ("c", 13_000, at)), WINDOWS["1W"])
    assert found.select("family", "at", "n", "total").rows() == [("acme", datetime(2026, 3, 5, 11, tzinfo=UTC), 3, 11_000.0)]


def test_an_agent_that_did_not_change_keeps_its_total_and_one_that_has_not_started_does_not_count() -> None:
    first = datetime(2026, 3, 2, 5, tzinfo=UTC)
    found = compute_window_equity(
        inputs(("a", 12_000, first), ("b", 9_000, first + timedelta(days=1)), ("a", 11_000, first + timedelta(days=14))), WINDOWS["1M"]
    )
    assert found.select("n", "total").rows() == [(2, 11_000.0), (2, 10_500.0), (3, 10_000.0)]


def test_a_mean_is_exact_and_rounded_once_half_to_even() -> None:
    """Means of six sums often end in exactly half a millionth."""
    rng = Random(5)
    groups = [[rng.randrange(-10_000_000, 20_000_000_000) for _ in range(rng.choice((1, 2, 3, 4, 6, 8)))] for _ in range(300)]
    rows = [(place, Decimal(micros) / 1_000_000) for place, group in enumerate(groups) for micros in group]
    frame = pl.DataFrame(rows, schema={"place": pl.Int64, "total": pl.Decimal(18, 6)}, orient="row").with_columns(initial_cash=pl.lit(0.0))
    found = frame.group_by("place", maintain_order=True).agg(mean=mean_total())["mean"].to_list()
    assert found == [Decimal(round(Fraction(sum(group), len(group)))) / 1_000_000 for group in groups]
    missing = pl.DataFrame({"total": [None, 1.0], "initial_cash": [10_000.000001, 5.0]}, schema_overrides={"total": pl.Decimal(18, 6)})
    assert missing.select(mean_total()).item() == Decimal("5000.500000")


@pytest.mark.parametrize(("traded", "preview"), [(10, False), (0, True)])
def test_a_board_on_which_nothing_was_traded_is_a_preview(traded: int, preview: bool) -> None:
    """All families have a P/L of 0. The board is live once 10 markets were traded, and a preview without trades."""
    board = pl.DataFrame({"profit": [0, 0], "bets": [0, 0], "turnover": [0.0, 0.1 * traded]})
    assert is_preview(board) is preview
