"""The arena's curves on the site."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from bellwether.pages.model import Chart
from bellwether.site.arena_curves import Curves, calendar_charts, read_curves
from bellwether.tables.arena_lineups import RELEASES
from bellwether.tables.schema import TIME
from tests.site.world import rows

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
    marks = [(f"{week}/a", datetime.combine(week, datetime.min.time(), UTC) + timedelta(days=1), total) for week, total in totals.items()]
    portfolios = pl.DataFrame(marks, schema={"agent_id": str, "at": TIME, "total": pl.Int64}, orient="row")

    both, alone = read_curves(agents, portfolios, RELEASES.empty()), read_curves(agents.head(1), portfolios.head(1), RELEASES.empty())
    assert both.calendar["y"].unique().to_list() == alone.calendar["y"].unique().to_list() == [0.1]
    assert both.age.equals(alone.age)
    returns = dict(both.last.select("agent_id", "return").iter_rows())
    assert returns == pytest.approx({f"{FIRST}/a": 0.1, f"{SECOND}/a": 8.0})
    everything = agents.with_columns(archived_at=pl.lit(datetime(2026, 3, 20, tzinfo=UTC), TIME))
    assert read_curves(everything, portfolios, RELEASES.empty()).calendar.is_empty()


def test_an_agent_that_never_traded_counts_with_its_initial_cash() -> None:
    agents = pl.DataFrame(
        [(name, "a", "v1", False, FIRST, 10_000, None) for name in ("traded", "held")],
        schema={
            "agent_id": str, "family": str, "methodology": str, "reconstructed": bool, "week": pl.Date, "initial_cash": pl.Int64, "archived_at": TIME
        },
        orient="row",
    )  # fmt: skip
    start = datetime.combine(FIRST, datetime.min.time(), UTC)
    marks = [("traded", start + timedelta(days=day), 11_000) for day in (1, 8)]
    portfolios = pl.DataFrame(marks, schema={"agent_id": str, "at": TIME, "total": pl.Int64}, orient="row")
    curves = read_curves(agents, portfolios, RELEASES.empty())
    assert dict(curves.age.select("x", "y").iter_rows()) == {0: 0.0, 1: 0.05}
    assert set(curves.calendar["y"]) == {0.05}
    assert curves.last.rows() == [("held", "a", 10_000.0, 0.0), ("traded", "a", 11_000.0, pytest.approx(0.1))]


def test_releases_of_reconstructed_cohorts_are_marked_on_the_curve_of_reconstructed_cohorts_alone() -> None:
    calendar = pl.DataFrame(
        [(name, reconstructed, "a", datetime.combine(FIRST, datetime.min.time(), UTC), 0.1) for name in ("v1", "v2") for reconstructed in (False, True)],
        schema={"methodology": str, "reconstructed": bool, "family": str, "x": TIME, "y": float},
        orient="row",
    )  # fmt: skip
    used = rows(
        "arena/releases", 4, family=["a", "a", "a", "b"], model=["second", "first", "again", "other"], first_cohort=[SECOND, FIRST, FIRST, FIRST],
        reconstructed=[False, False, True, False],
    )  # fmt: skip
    none = calendar.clear()
    curves = Curves(calendar, none, none, used.sort("first_cohort"))
    live, again = calendar_charts(curves, "a", {"a": "#123456"})
    assert [_marked(chart) for chart in (live, again)] == [[(str(FIRST), "first"), (str(SECOND), "second")], [(str(FIRST), "again")]]
    assert f"from {SECOND}: second" in live.description and "live" in live.title and "reconstructed" in again.title
    assert list(live.colours) == ["v1", "v2"] and live.colours["v1"] == "#123456"
    (alone, _) = calendar_charts(Curves(calendar, none, none, used.clear()), "a", {"a": "#123456"})
    assert _marked(alone) == [] and len(alone.spec["layer"]) == 2


def _marked(chart: Chart) -> list[tuple[str, str]]:
    """Return times and texts of the vertical rules of a chart."""
    marks = chart.spec.get("datasets", {}).get("marks", [])
    assert [layer["mark"]["type"] for layer in chart.spec["layer"] if layer.get("data") == {"name": "marks"}] == (
        ["rule", "text"] if marks else []
    )
    return [(row["x"], row["text"]) for row in marks]
