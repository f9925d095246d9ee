"""Charts of the arena's returns by calendar day and by age. A family is one competitor over the years; a cohort, the agents that start in one week."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from bellwether.pages import charts
from bellwether.pages.model import Chart
from bellwether.pages.values import finite, thin_indices
from bellwether.tables.schema import day_start

#: Points of a curve.
_POINTS = 80
_GROUP = ("methodology", "reconstructed", "family")


@dataclass(frozen=True, slots=True)
class Curves:
    """Returns of families and agents.

    calendar: return by family and day; the cash of all agents that have started counts as one sum. age: mean return by family and weeks since the
    start of an agent. last: newest total and return of each agent. releases: rows of arena/releases, sorted by first cohort.
    """

    calendar: pl.DataFrame
    age: pl.DataFrame
    last: pl.DataFrame
    releases: pl.DataFrame


def read_curves(agents: pl.DataFrame, portfolios: pl.DataFrame, releases: pl.DataFrame) -> Curves:
    """Compute the curves of returns. Archived cohorts are left out of `calendar` and `age`.

    The calendar is sampled on at most about 80 days. An agent has its initial cash before its first portfolio row, and each row is valid until the
    next one.
    """
    releases = releases.sort("reconstructed", "family", "first_cohort", "model")
    started = agents.select("agent_id", "family", "methodology", "reconstructed", "week", initial=pl.col("initial_cash").cast(pl.Float64))
    rows = (
        portfolios.select("agent_id", "at", total=pl.col("total").cast(pl.Float64))
        .join(started, on="agent_id")
        .with_columns(start=day_start(pl.col("week")))
        .sort("at", "agent_id")
    )
    newest = rows.group_by("agent_id").agg(pl.col("total").last())
    last = (
        started.join(newest, on="agent_id", how="left")
        .with_columns(total=pl.coalesce("total", "initial"))
        .select("agent_id", "family", "total", (pl.col("total") / pl.col("initial") - 1).alias("return"))
        .sort("agent_id")
    )
    active_ids = agents.filter(pl.col("archived_at").is_null())["agent_id"].implode()
    started, rows = (one.filter(pl.col("agent_id").is_in(active_ids)) for one in (started, rows))
    if not rows.height:
        empty = rows.select(*_GROUP, x=pl.lit(0), y=pl.lit(0.0))
        return Curves(empty, empty, last, releases)
    first: datetime = min(rows["start"].unique().to_list())
    end: datetime = rows["at"][-1]
    days = (end - first).days + 1
    instants = [first + timedelta(days=day + 1) for day in thin_indices(days, _POINTS)]
    calendar = (
        _values_at(rows, started, pl.DataFrame({"at": instants}, schema={"at": pl.Datetime("us", "UTC")}))
        .group_by(*_GROUP, "at")
        .agg(y=pl.col("total").sum() / pl.col("initial").sum() - 1)
        .select(*_GROUP, x=pl.col("at"), y=pl.col("y").round(6))
        .sort(*_GROUP, "x")
    )
    weeks = pl.DataFrame({"weeks": range(days // 7 + 1)}, schema={"weeks": pl.Int64})
    aged = (
        started.join(weeks, how="cross")
        .with_columns(at=day_start(pl.col("week")) + pl.duration(weeks=pl.col("weeks")))
        .filter(pl.col("at") <= end)
        .sort("at", "agent_id")
        .join_asof(rows.select("agent_id", "at", "total"), on="at", by="agent_id", strategy="backward", check_sortedness=False)
        .with_columns(pl.col("total").fill_null(pl.col("initial")))
        .group_by(*_GROUP, "weeks")
        .agg(y=(pl.col("total") / pl.col("initial") - 1).mean())
        .select(*_GROUP, x=pl.col("weeks"), y=pl.col("y").round(6))
        .sort(*_GROUP, "x")
    )
    return Curves(calendar, aged, last, releases)


def _values_at(rows: pl.DataFrame, started: pl.DataFrame, instants: pl.DataFrame) -> pl.DataFrame:
    """Return the portfolio value at each instant of every agent that has started by then."""
    every = started.join(instants, how="cross").filter(pl.col("at") > day_start(pl.col("week")))
    standing = every.sort("at", "agent_id").join_asof(
        rows.select("agent_id", "at", "total"), on="at", by="agent_id", strategy="backward", check_sortedness=False
    )
    return standing.with_columns(pl.col("total").fill_null(pl.col("initial")))


def curve_charts(curves: Curves, methodology: str, reconstructed: bool, colours: dict[str, str]) -> Sequence[Chart]:
    """Build the charts of families' returns by day and by age of the cohort. reconstructed: show reconstructed instead of live cohorts."""
    chosen = (pl.col("methodology") == methodology) & (pl.col("reconstructed") == reconstructed)
    calendar, age = curves.calendar.filter(chosen), curves.age.filter(chosen)
    if not calendar.height:
        return []
    by_day = [{"name": name, "x": f"{at:%Y-%m-%d}", "y": finite(y)} for name, at, y in calendar.select("family", "x", "y").iter_rows()]
    by_age = [{"name": name, "x": weeks, "y": finite(y)} for name, weeks, y in age.select("family", "x", "y").iter_rows()]
    return [
        charts.lines("Return over the calendar, all started cohorts of a family together", "UTC", "return", by_day, colours),
        charts.lines("Mean return by the age of a cohort", "weeks since the start", "return", by_age, colours, time=False),
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


def cohort_charts(curves: Curves, family: str, agents: pl.DataFrame, colours: dict[str, str]) -> Sequence[Chart]:
    """Build a chart of a family's return by cohort, with a line per model; empty if no cohort has a return. agents: rows of the family."""
    last = dict(curves.last.select("agent_id", "return").iter_rows())
    rows = [
        {"name": row["model"], "x": f"{row['week']:%Y-%m-%d}", "y": finite(last[row["agent_id"]])}
        for row in agents.sort("week").iter_rows(named=True)
        if row["agent_id"] in last
    ]
    if not rows:
        return []
    of_models = _palette(dict.fromkeys(str(row["name"]) for row in rows), colours[family])
    return [charts.lines("Return by cohort, one line per model", "start of the cohort", "return", rows, of_models)]
