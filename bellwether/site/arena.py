"""Pages of the arena: leaderboards, families (one competitor over the years each), and the list of cohorts (agents that start in one week)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.figures.intervals import difference_cells
from bellwether.figures.reliability import diagram_rows
from bellwether.pages import charts, columns
from bellwether.pages.charts import Colours
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Cell, Chart, Links, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import finite, money, number, percent, text, timestamp
from bellwether.site import arena_agents, arena_curves, arena_markets, arena_rankings
from bellwether.site.arena_rankings import Ranking
from bellwether.site.paths import agent_path, cohort_path, decision_path, family_path
from bellwether.site.release import downloads
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key

_UNIVERSE = ("week", "place", "market_id", "question", "category", "outcomes", "prices", "volume", "closes_at", "reconstructed")
_ABOVE = [("Arena", "arena/index.html")]
#: Maximum of listed decisions and open markets.
_RECENT, _DUE = 15, 10
#: Assumption of the intervals and tests.
_ASSUMPTION = "Intervals and tests assume that events are independent; a shock common to all events of a week is not covered."
#: Initially visible lines of a diagram.
_LINES = 3
Rows = list[dict[str, Any]]


def names(source: SiteSource) -> list[str]:
    """Return the names of all families, those with the earliest cohort first."""
    agents = source.frame("arena/agents", "family", "week")
    return agents.group_by("family").agg(pl.col("week").min()).sort("week", "family")["family"].to_list()


def units(source: SiteSource, colours: Colours) -> Iterator[Unit]:
    """Yield the arena's units (groups of files built together): one for the overview and the families, one per cohort, and those of
    `arena_markets`.
    """
    agents = source.frame("arena/agents").unique("agent_id", keep="first", maintain_order=True)
    portfolios, universe = source.frame("arena/portfolios"), source.frame("arena/universe", *_UNIVERSE)
    of_names = colours.of(agents["family"].unique().sort().to_list())
    books = arena_agents.Books.read(source, agents, portfolios, universe)
    digest = source.digest(*(name for name in source.tables if name.startswith("arena/")))
    yield Unit("arena", key(digest, of_names), partial(_overview, source, books, of_names), source.date("arena/leaderboard"))
    for (week,), part in agents.group_by("week", maintain_order=True):
        book = books.of(part)
        messages = [source.digest("arena/messages", starts=str(decision_week)) for decision_week in book.decisions["week"].unique().sort()]
        yield Unit(f"cohort {week}", key(*book.frames, messages, of_names), partial(arena_agents.pages, source, week, book, of_names))
    yield from arena_markets.units(source, books)


def _overview(source: SiteSource, books: arena_agents.Books, colours: dict[str, str]) -> Iterator[File]:
    """Yield the overview and the pages of families."""
    agents, rankings, board = books.agents, arena_rankings.read_rankings(source.frame), source.frame("arena/leaderboard")
    curves = arena_curves.read_curves(source, agents, books.portfolios)
    sections = list(_standings(board, rankings, curves, colours))
    if not sections:
        sections.append(Section("Leaderboard", [Note("The warehouse has no leaderboard of the arena yet.")]))
    if rankings:
        tables = [name for name in ("arena/pairs", "arena/rankings", "arena/leaderboard") if source.rows(name)]
        sections.append(Section("Downloads", [downloads(*tables)]))
    if agents.height:
        sections.append(_activity(source, books))
    sections.append(Section("Cohorts", [_cohorts(agents, curves, frozenset(books.trades["agent_id"]))]))
    sections.append(Section("Markets", [Links([Cell("All markets that agents could bet on", href=arena_markets.LIST)])]))
    lead = "Each week a cohort of agents starts with the same paper money and bets on open markets. A family is one competitor over the years, with an "
    lead += "agent in every cohort. Reconstructed cohorts were run later, with the prices and information of their time."
    yield from render(Page("arena/index.html", "Arena", lead, sections))
    for (name,), part in agents.group_by("family", maintain_order=True):
        lines = board.filter(pl.col("family") == name).to_dicts()
        groups = [group for group in rankings if name in group.families]
        yield from _family(str(name), part, curves, colours, lines=lines, groups=groups)


def _standings(board: pl.DataFrame, rankings: Sequence[Ranking], curves: arena_curves.Curves, colours: dict[str, str]) -> Iterator[Section]:
    """Yield the sections of leaderboards and returns, separately for each methodology, and for live and reconstructed cohorts."""
    dates = curves.releases.drop_nulls("released").group_by("family").agg(pl.col("released").max())
    released = dict(dates.sort("family").iter_rows())
    for methodology, reconstructed in board.select("methodology", "reconstructed").unique(maintain_order=True).iter_rows():
        title = arena_rankings.group_title(methodology, reconstructed)
        groups = [one for one in rankings if (one.methodology, one.reconstructed) == (methodology, reconstructed)]
        for group in groups:
            yield _section(group.title, _compare(group, colours, released))
        if not groups:
            yield Section(title, [Note("The warehouse has no rows of arena.rankings for these cohorts.")])
        drawn = arena_curves.curve_charts(curves, methodology, reconstructed, colours)
        if drawn:
            yield Section.even(f"Returns of {title}", drawn)


def _compare(ranking: Ranking, colours: Mapping[str, str], released: Mapping[str, date]) -> list[Part]:
    """Build the leaderboard and the charts of a group. released: release date of each family's newest model."""
    group_parts: list[Part] = [arena_rankings.leaderboard(ranking), Note(_ASSUMPTION)]
    diagram = diagram_rows(ranking.calibration, "family")
    if diagram:
        first = [one for one in ranking.families if one in {row["name"] for row in diagram}][:_LINES]
        group_parts.append(charts.reliability("Reliability of stated probabilities", diagram, colours, first))
    return [*group_parts, *_release_dates(ranking, colours, released), *_differences(ranking)]


def _release_dates(ranking: Ranking, colours: Mapping[str, str], released: Mapping[str, date]) -> list[Part]:
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


def _differences(ranking: Ranking) -> list[Part]:
    cells = difference_cells(ranking.pairs.filter(pl.col("metric") == ranking.metrics[0]), "family")
    title = (
        f"{arena_rankings.metric_title(ranking.metrics[0])} of the row less that of the column; a dot: significant after Holm's correction"
    )
    return [charts.matrix(title, "difference", cells, ranking.families, ranking.families, middle=0)] if cells else []


def _section(title: str, parts: Sequence[Part]) -> Section:
    """Build a section in which charts share rows."""
    count = sum(isinstance(one, Chart) for one in parts)
    width = 12 // min(count, 3) if count else 12
    return Section(title, parts, [width if isinstance(one, Chart) else 12 for one in parts])


def _activity(source: SiteSource, books: arena_agents.Books) -> Section:
    """Build the section of recent decisions with their refused legs (bets or sales), and of open markets by closing time."""
    recent, due = source.query("decisions", most=_RECENT), source.query("due", most=_DUE)
    decisions = build_table(
        "arena/decisions",
        "Recent decisions",
        recent.iter_rows(named=True),
        ("known_at", "Decided"),
        build_column("Family", lambda row: text(row["family"], family_path(row["family"]))),
        build_column("Decision", lambda row: text(row["action"] or row["state"], decision_path(row["decision_id"]))),
        "legs",
        build_column("Refused legs", lambda row: arena_agents.refused_cell(row["refusals"] or ())),
        "cost",
        "problem",
        empty="No decision has been made yet.",
    )
    markets = build_table(
        "arena/positions",
        "Due next: open markets by their close",
        due.iter_rows(named=True),
        build_column("Market", lambda row: arena_agents.market_cell(books.questions, row["market_id"])),
        build_column("Closes", lambda row: timestamp(row["closes_at"])),
        build_column("Positions", lambda row: number(row["positions"]), numeric=True),
        build_column("At stake", lambda row: money(row["cost"]), numeric=True),
        empty="No position is open.",
    )
    return Section("Activity", [decisions, markets], (8, 4) if due.height else ())


def _cohorts(agents: pl.DataFrame, curves: arena_curves.Curves, traders: frozenset[str]) -> Part:
    rows = []
    for (week,), part in sorted(agents.group_by("week"), reverse=True, key=lambda one: str(one[0][0])):
        newest = curves.last.filter(pl.col("agent_id").is_in(part["agent_id"].to_list()))
        returns = dict(newest.select("agent_id", "return").iter_rows())
        best = arena_agents.find_best(returns, traders)
        about = {"week": week, "agents": part.height, "mean": newest["return"].mean(), "best": best}
        rows.append({**part.row(0, named=True), **about, "most": returns[best[0]] if best else None})
    return build_table(
        "arena/agents",
        "Cohorts, newest first",
        rows,
        ("week", "Cohort"),
        "methodology",
        "reconstructed",
        ("archived_at", "Archived"),
        build_column("Agents", lambda row: number(row["agents"]), numeric=True),
        build_column("Mean return", lambda row: percent(row["mean"], 2), numeric=True),
        build_column("Best agent", lambda row: arena_agents.best_cell(row["best"])),
        build_column("Its return", lambda row: percent(row["most"], 2), numeric=True),
        cells={"week": lambda row: text(row["week"], cohort_path(row["week"]))},
        filters=("Methodology", "Reconstructed"),
        empty="The warehouse has no cohorts yet.",
        name="cohorts",
    )


def _family(
    name: str, agents: pl.DataFrame, curves: arena_curves.Curves, colours: dict[str, str], *, lines: Rows, groups: Sequence[Ranking]
) -> Iterator[File]:
    """Yield the page of a family. lines: its rows of arena/leaderboard. groups: rankings with the family."""
    last = {row["agent_id"]: row for row in curves.last.iter_rows(named=True)}
    entered = build_table(
        "arena/agents",
        f"Agents of {name}",
        agents.sort("week").iter_rows(named=True),
        ("week", "Cohort"),
        *("model", "methodology", "reconstructed"),
        build_column("Return", lambda row: percent(last.get(row["agent_id"], {}).get("return"), 2), numeric=True),
        build_column("Total", lambda row: money(last.get(row["agent_id"], {}).get("total")), numeric=True),
        cells={"week": lambda row: text(row["week"], agent_path(row["agent_id"]))},
        filters=("Model", "Methodology", "Reconstructed"),
        name="agents",
    )
    sections = [
        Section(arena_rankings.group_title(line["methodology"], line["reconstructed"]), [_headline(line, groups)]) for line in lines
    ]
    sections += [
        Section("Return over the calendar", [*arena_curves.calendar_charts(curves, name, colours), _versions(name, curves)]),
        Section("Return by cohort", [entered]),
    ]
    lead = f"One competitor over the years, with an agent in each of {agents.height} cohorts. The newest model of its line takes over in new cohorts."
    yield from render(Page(family_path(name), name, lead, sections, _ABOVE))


def _headline(line: Mapping[str, Any], groups: Sequence[Ranking]) -> Stats:
    """Build the headline numbers of a family. line: the family's row of arena/leaderboard. groups: rankings with the family."""
    name = line["family"]
    group = next((one for one in groups if (one.methodology, one.reconstructed) == (line["methodology"], line["reconstructed"])), None)
    ranked = (
        [("Rank", group.place(name), f"of {len(group.families)} families"), arena_rankings.metric_tile(group, group.metrics[0], name)]
        if group
        else []
    )
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


def _versions(name: str, curves: arena_curves.Curves) -> Part:
    """Build the table of the models that represented a family, with their cohorts."""
    cells = {column: lambda row, column=column: text(row[column], cohort_path(row[column])) for column in ("first_cohort", "last_cohort")}
    return build_table(
        "arena/releases",
        f"Models of {name} and their cohorts",
        curves.releases.filter(pl.col("family") == name).iter_rows(named=True),
        *("model", ("model_id", "Id"), ("first_cohort", "From"), ("last_cohort", "To"), "cohorts", "released"),
        *(("input_price", "Prompt"), ("output_price", "Answer"), "reconstructed"),
        cells=cells,
        empty="No model is known: the family is a rule.",
    )
