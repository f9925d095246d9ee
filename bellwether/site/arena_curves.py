"""Charts of the arena's returns by calendar day and by age. A family is one competitor over the years; a cohort, the agents that start in one week."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from bellwether.pages import charts
from bellwether.pages.model import Chart
from bellwether.pages.values import finite, thin_indices
from bellwether.site.source import SiteSource

#: Points of a curve.
_POINTS = 80


@dataclass(frozen=True, slots=True)
class Curves:
    """Returns of families and agents. Archived cohorts are left out of `calendar` and `age`.

    calendar: return by family and day; the cash of all agents that have started counts as one sum. age: mean return by family and days since the
    start of an agent. Both have at most about 80 days. last: newest total and return of each agent. releases: rows of arena/releases, sorted by
    first cohort.
    """

    calendar: pl.DataFrame
    age: pl.DataFrame
    last: pl.DataFrame
    releases: pl.DataFrame


def read_curves(source: SiteSource, agents: pl.DataFrame, portfolios: pl.DataFrame) -> Curves:
    """Read the returns of families, and compute those of agents. agents, portfolios: rows of their tables."""
    releases = source.frame("arena/releases").sort("reconstructed", "family", "first_cohort", "model")
    returns = source.query("arena_returns")
    return Curves(_thin(returns, "day"), _thin(returns, "age"), find_last_values(agents, portfolios), releases)


def _thin(returns: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return the curves over a column (day or age) as x, with at most about 80 of its values."""
    curves = returns.drop_nulls(column).select("methodology", "reconstructed", "family", x=column, y="y")
    values = curves["x"].unique().sort()
    return curves.filter(pl.col("x").is_in(values[list(thin_indices(len(values), _POINTS))].implode()))


def find_last_values(agents: pl.DataFrame, portfolios: pl.DataFrame) -> pl.DataFrame:
    """Return agent_id, family, newest total in dollars and return of each agent; without a portfolio row it has its initial cash."""
    newest = portfolios.sort("at").group_by("agent_id").agg(pl.col("total").last().cast(pl.Float64))
    initial = pl.col("initial_cash").cast(pl.Float64)
    rows = agents.join(newest, on="agent_id", how="left").with_columns(total=pl.coalesce("total", initial))
    return rows.select("agent_id", "family", "total", (pl.col("total") / initial - 1).alias("return")).sort("agent_id")


def curve_charts(curves: Curves, methodology: str, reconstructed: bool, colours: dict[str, str]) -> Sequence[Chart]:
    """Build the charts of families' returns by day and by age of the cohort. reconstructed: show reconstructed instead of live cohorts."""
    chosen = (pl.col("methodology") == methodology) & (pl.col("reconstructed") == reconstructed)
    calendar, age = curves.calendar.filter(chosen), curves.age.filter(chosen)
    if not calendar.height:
        return []
    by_day = [{"name": name, "x": f"{at:%Y-%m-%d}", "y": finite(y)} for name, at, y in calendar.select("family", "x", "y").iter_rows()]
    by_age = [{"name": name, "x": days, "y": finite(y)} for name, days, y in age.select("family", "x", "y").iter_rows()]
    return [
        charts.lines("Return over the calendar, all started cohorts of a family together", "UTC", "return", by_day, colours),
        charts.lines("Mean return by the age of a cohort", "days since the start", "return", by_age, colours, time=False),
    ]


def calendar_charts(curves: Curves, family: str, colours: dict[str, str]) -> Sequence[Chart]:
    """Build charts of a family's return by day, of live and of reconstructed cohorts. A vertical line marks each change of its model."""
    panels = []
    for reconstructed, kind in ((False, "live"), (True, "reconstructed")):
        chosen = (pl.col("family") == family) & (pl.col("reconstructed") == reconstructed)
        own = curves.calendar.filter(chosen)
        if own.height:
            rows = [
                {"name": name, "x": f"{at:%Y-%m-%d}", "y": finite(y)} for name, at, y in own.select("methodology", "x", "y").iter_rows()
            ]
            marks = [
                {"x": f"{first:%Y-%m-%d}", "text": model}
                for first, model in curves.releases.filter(chosen).select("first_cohort", "model").iter_rows()
            ]
            title = f"Return over the calendar, {kind} cohorts; a line where a model took over"
            lines = _palette(dict.fromkeys(str(row["name"]) for row in rows), colours[family])
            panels.append(charts.lines(title, "UTC", "return", rows, lines, marks=marks))
    return panels


def _palette(names: Iterable[str], first: str) -> dict[str, str]:
    """Assign a colour to each name; the first name gets the colour `first`."""
    palette = [first, *(one for one in charts.PALETTE if one != first)]
    return {name: palette[place % len(palette)] for place, name in enumerate(names)}
