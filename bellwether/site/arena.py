"""Pages of the arena: leaderboards, families (one competitor over the years each), and the list of cohorts (agents that start in one week)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import polars as pl

from bellwether.figures.intervals import difference_cells
from bellwether.figures.reliability import diagram_rows
from bellwether.pages import charts, columns
from bellwether.pages.charts import Colours
from bellwether.pages.columns import Row, build_column, build_table
from bellwether.pages.model import Cell, Chart, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, leader, money, number, percent, text
from bellwether.site import arena_cohorts, arena_rankings
from bellwether.site.arena_rankings import Ranking
from bellwether.site.paths import agent_path, cohort_path, family_path
from bellwether.site.release import table_links
from bellwether.site.source import SiteSource

_ABOVE = [("Arena", "arena/index.html")]
#: Tables with all numbers of the arena.
_TABLES = ("arena.rankings", "arena.pairs", "arena.leaderboard", "arena.trades", "arena.positions", "arena.ledger", "arena.scores")
#: Assumption of the intervals and tests.
_ASSUMPTION = "Intervals and tests assume that events are independent; a shock common to all events of a week is not covered."
#: Initially visible lines of a diagram.
_LINES = 3


def pages(source: SiteSource, colours: Colours) -> Iterator[File]:
    """Yield the overview, and the pages of families, cohorts, agents, decisions and markets."""
    agents = source.query("arena_agents")
    of_names = colours.of(agents["family"].unique().sort().to_list())
    curves, releases = source.query("arena_curves"), source.frame("arena/releases")
    rankings, board = arena_rankings.read_rankings(source.frame), source.frame("arena/leaderboard")
    newest = dict(releases.drop_nulls("released").group_by("family").agg(pl.col("released").max()).iter_rows())
    yield from _overview(agents, board, rankings, curves, released=newest, colours=of_names)
    for (name,), part in agents.group_by("family", maintain_order=True):
        mine = pl.col("family") == name
        changes = releases.filter(mine).sort("first_cohort", "model")
        yield from _family(str(name), part, board.filter(mine), rankings, curves=curves.filter(mine), releases=changes, colours=of_names)
    yield from arena_cohorts.pages(source, agents, of_names)


def _overview(
    agents: pl.DataFrame,
    board: pl.DataFrame,
    rankings: Sequence[Ranking],
    curves: pl.DataFrame,
    *,
    released: Mapping[str, date],
    colours: dict[str, str],
) -> Iterator[File]:
    """Yield the overview. Each methodology has sections of its own, and in it live and reconstructed cohorts. released: date of each family's
    newest model.
    """
    sections = []
    for group in board.select("methodology", "reconstructed").unique(maintain_order=True).iter_rows():
        for ranking in rankings:
            if (ranking.methodology, ranking.reconstructed) == group:
                sections.append(_ranking(ranking, colours, released))
        own = curves.filter(pl.col("methodology") == group[0], pl.col("reconstructed") == group[1])
        if own.height:
            sections.append(Section.even(f"Returns of {arena_rankings.group_title(*group)}", _returns(own, colours)))
    if rankings:
        sections.append(Section("All numbers", [table_links(*_TABLES)]))
    else:
        sections.append(Section("Leaderboard", [Note("The warehouse has no leaderboard of the arena yet.")]))
    sections.append(Section("Cohorts", [_cohorts(agents)]))
    lead = "Each week a cohort of agents starts with the same paper money and bets on open markets. A family is one competitor over the years, with an "
    lead += "agent in every cohort. Reconstructed cohorts were run later, with the prices and information of their time."
    yield from render(Page("arena/index.html", "Arena", lead, sections))


def _ranking(ranking: Ranking, colours: Mapping[str, str], released: Mapping[str, date]) -> Section:
    """Build the leaderboard of a group with its charts, which share rows."""
    drawn = [*_reliability(ranking, colours), *_release_dates(ranking, colours, released), *_differences(ranking)]
    width = 12 // len(drawn) if drawn else 12
    return Section(ranking.title, [arena_rankings.leaderboard(ranking), Note(_ASSUMPTION), *drawn], [12, 12, *[width] * len(drawn)])


def _reliability(ranking: Ranking, colours: Mapping[str, str]) -> list[Chart]:
    rows = diagram_rows(ranking.calibration, "family")
    first = [one for one in ranking.families if one in {row["name"] for row in rows}][:_LINES]
    return [charts.reliability("Reliability of stated probabilities", rows, colours, first)] if rows else []


def _release_dates(ranking: Ranking, colours: Mapping[str, str], released: Mapping[str, date]) -> list[Chart]:
    """Build the chart of the group's first Brier score by release date of the family's model; empty unless two families have both."""
    metric = next((name for name in ranking.metrics if name.startswith("brier")), "brier_stated")
    rows = [
        {"name": family, "x": f"{released[family]:%Y-%m-%d}", "y": value}
        for family, value in ranking.rankings.filter(pl.col("metric") == metric).select("family", "value").iter_rows()
        if family in released and finite(value) is not None
    ]
    title = arena_rankings.metric_title(metric)
    name = f"{title} against the release date of the model"
    return [charts.scatter(name, "release date", title.lower(), rows, colours, timed=True)] if len(rows) > 1 else []


def _differences(ranking: Ranking) -> list[Chart]:
    cells = difference_cells(ranking.pairs.filter(pl.col("metric") == ranking.metrics[0]), "family")
    title = (
        f"{arena_rankings.metric_title(ranking.metrics[0])} of the row less that of the column; a dot: significant after Holm's correction"
    )
    return [charts.matrix(title, "difference", cells, ranking.families, ranking.families, middle=0)] if cells else []


def _returns(curves: pl.DataFrame, colours: Mapping[str, str]) -> list[Chart]:
    """Build the charts of returns by day and by age of the cohort. curves: rows of `sql/site/arena_curves.sql`."""
    by_day = _points(curves, "family", "day")
    by_age = _points(curves, "family", "age")
    return [
        charts.lines("Return over the calendar, all started cohorts of a family together", "UTC", "return", by_day, colours),
        charts.lines("Mean return by the age of a cohort", "days since the start", "return", by_age, colours, time=False),
    ]


def _points(curves: pl.DataFrame, name: str, x: str) -> list[dict[str, Any]]:
    """Return the rows of a chart of curves. name: column of the lines' names. x: `day` or `age`."""
    points = curves.drop_nulls(x).select(name=name, x=x, y="y")
    return points.with_columns(pl.col(pl.Date).dt.to_string()).to_dicts()


def _cohorts(agents: pl.DataFrame) -> Part:
    rows = [
        {
            **part.row(0, named=True),
            "agents": part.height,
            "mean": part["return"].mean(),
            "winners": part.filter("best").sort("agent_id").to_dicts(),
        }
        for _, part in agents.group_by("week", maintain_order=True)
    ]
    return build_table(
        "arena/agents",
        "Cohorts, newest first",
        reversed(rows),
        ("week", "Cohort"),
        "methodology",
        "reconstructed",
        ("archived_at", "Archived"),
        build_column("Agents", lambda row: number(row["agents"]), numeric=True),
        build_column("Mean return", lambda row: percent(row["mean"], 2), numeric=True),
        build_column("Best agent", lambda row: _best(row["winners"]), "of those that traded"),
        build_column("Its return", lambda row: percent(row["winners"][0]["return"] if row["winners"] else None, 2), numeric=True),
        links={"week": lambda row: cohort_path(row["week"])},
        filters=("Methodology", "Reconstructed"),
        empty="The warehouse has no cohorts yet.",
        name="cohorts",
    )


def _best(winners: Sequence[Row]) -> Cell:
    return leader([text(row["family"], agent_path(row["agent_id"])) for row in winners], "no agent traded")


def _family(
    name: str,
    agents: pl.DataFrame,
    board: pl.DataFrame,
    rankings: Sequence[Ranking],
    *,
    curves: pl.DataFrame,
    releases: pl.DataFrame,
    colours: dict[str, str],
) -> Iterator[File]:
    """Yield the page of a family, from its rows of each table."""
    entered = build_table(
        "arena/agents",
        f"Agents of {name}",
        agents.iter_rows(named=True),
        ("week", "Cohort"),
        *("model", "methodology", "reconstructed"),
        build_column("Return", lambda row: percent(row["return"], 2), numeric=True),
        build_column("Total", lambda row: money(row["total"]), "cash and positions", numeric=True),
        links={"week": lambda row: agent_path(row["agent_id"])},
        filters=("Model", "Methodology", "Reconstructed"),
        name="agents",
    )
    sections = [
        Section(arena_rankings.group_title(line["methodology"], line["reconstructed"]), [_headline(line, rankings)])
        for line in board.iter_rows(named=True)
    ]
    sections.append(Section("Return over the calendar", calendar_charts(curves, releases, colours[name])))
    sections.append(Section("Return by cohort", [entered]))
    lead = f"One competitor over the years, with an agent in each of {agents.height} cohorts. The newest model of its line takes over in new cohorts."
    yield from render(Page(family_path(name), name, lead, sections, _ABOVE))


def _headline(line: Row, rankings: Sequence[Ranking]) -> Stats:
    """Build the headline numbers of a family. line: the family's row of arena/leaderboard."""
    name, ranked = line["family"], []
    for group in rankings:
        if (group.methodology, group.reconstructed) == (line["methodology"], line["reconstructed"]) and name in group.families:
            ranked.append(("Rank", group.place(name), f"of {len(group.families)} families"))
            ranked.append(arena_rankings.metric_tile(group, group.metrics[0], name))
            break
    return Stats(
        [
            *ranked,
            ("Cohorts", number(line["cohorts"]), f"{line['completed']} complete"),
            ("Profit", money(line["profit"], signed=True), f"return {percent(line['return'], 1).text}"),
            ("Bets", number(line["bets"]), f"{line['scored']:,} have a winner; {line['refused']:,} legs refused"),
            ("Without a counterparty", percent(line["unmatched"], 1), "of the dollars traded at quotes with sizes"),
            ("Cost", columns.cost(line["cost"]), f"of {line['decisions']:,} decisions"),
        ]
    )


def calendar_charts(curves: pl.DataFrame, releases: pl.DataFrame, colour: str) -> list[Chart]:
    """Build charts of a family's return by day, of live and of reconstructed cohorts. A vertical line marks each change of its model.

    curves: rows of `sql/site/arena_curves.sql`. releases: rows of arena/releases. colour: of the first methodology.
    """
    panels = []
    for reconstructed, kind in ((False, "live"), (True, "reconstructed")):
        rows = _points(curves.filter(pl.col("reconstructed") == reconstructed), "methodology", "day")
        if rows:
            changes = releases.filter(pl.col("reconstructed") == reconstructed)
            marks = [{"x": f"{first:%Y-%m-%d}", "text": model} for first, model in changes.select("first_cohort", "model").iter_rows()]
            shades = [colour, *(one for one in charts.PALETTE if one != colour)]
            lines = {name: shades[place % len(shades)] for place, name in enumerate(dict.fromkeys(row["name"] for row in rows))}
            title = f"Return over the calendar, {kind} cohorts; a line where a model took over"
            panels.append(charts.lines(title, "UTC", "return", rows, lines, marks=marks))
    return panels
