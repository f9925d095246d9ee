"""The arena's curves on the site."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from bellwether.site.arena_curves import read
from bellwether.tables.schema import TIME

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 8)


def test_an_archived_cohort_is_on_no_curve_and_its_agents_keep_their_returns() -> None:
    cohorts = [(FIRST, None), (SECOND, datetime(2026, 3, 20, tzinfo=UTC))]
    agents = pl.DataFrame(
        [(f"{week}/a", "a", "v1", False, week, 10_000, archived) for week, archived in cohorts],
        schema={
            "agent_id": str, "family": str, "methodology": str, "reconstructed": bool, "week": pl.Date, "initial_cash": pl.Int64, "archived_at": TIME
        },
        orient="row",
    )  # fmt: skip
    totals = {FIRST: 11_000, SECOND: 90_000}
    rows = [(f"{week}/a", datetime.combine(week, datetime.min.time(), UTC) + timedelta(days=1), total) for week, total in totals.items()]
    portfolios = pl.DataFrame(rows, schema={"agent_id": str, "at": TIME, "total": pl.Int64}, orient="row")

    both, alone = read(agents, portfolios), read(agents.head(1), portfolios.head(1))
    assert both.calendar["y"].unique().to_list() == alone.calendar["y"].unique().to_list() == [0.1]
    assert both.age.equals(alone.age)
    returns = dict(both.last.select("agent_id", "return").iter_rows())
    assert returns == pytest.approx({f"{FIRST}/a": 0.1, f"{SECOND}/a": 8.0})
    everything = agents.with_columns(archived_at=pl.lit(datetime(2026, 3, 20, tzinfo=UTC), TIME))
    assert read(everything, portfolios).calendar.is_empty()
