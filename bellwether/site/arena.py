"""Pages of the arena: standings, families (one competitor over the years each), and the list of cohorts (agents that start in one week)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from bellwether.pages import columns
from bellwether.pages.charts import Colours
from bellwether.pages.model import Cell, Grid, Head, Links, Note, Page, PageTable, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import money, number, percent, slug, text, timestamp, yes_no
from bellwether.site import arena_agents, arena_curves, arena_markets, arena_rankings
from bellwether.site.arena_activity import Activity
from bellwether.site.arena_paths import ABOVE, agent_path, cohort_path, family_path
from bellwether.site.arena_rankings import Ranking, Rankings
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key

_UNIVERSE = ("week", "place", "market_id", "question", "category", "outcomes", "prices", "volume", "closes_at", "reconstructed")


def names(source: SiteSource) -> list[str]:
    """Return the names of all families, those with the earliest cohort first."""
    agents = source.frame("arena/agents", "family", "week")
    return agents.group_by("family").agg(pl.col("week").min()).sort("week", "family")["family"].to_list()


def units(source: SiteSource, colours: Colours) -> Iterator[Unit]:
    """Yield the arena's units (groups of files built together): one for the overview and the families, one per cohort, and those of
    `arena_markets`.
    """
    board, agents = source.frame("arena/leaderboard"), source.frame("arena/agents")
    agents = agents.unique("agent_id", keep="first", maintain_order=True)
    portfolios, universe = source.frame("arena/portfolios"), source.frame("arena/universe", *_UNIVERSE)
    of_names = colours.of(agents["family"].unique().sort().to_list())
    curves = arena_curves.read_curves(agents, portfolios, source.frame("arena/releases"))
    rankings = Rankings.read(source)
    books = arena_agents.Books.read(source, agents, portfolios, universe)
    activity = Activity.of(books)
    traders = frozenset(books.trades["agent_id"])
    digest = key(board, agents, sorted(traders), *rankings.frames, *activity.frames, curves.calendar, curves.age, curves.releases, of_names)
    build = partial(_overview, board, agents, rankings, curves, of_names, activity=activity, traders=traders)
    yield Unit("arena", digest, build, source.date("arena/leaderboard"))
    for (week,), part in agents.group_by("week", maintain_order=True):
        book = books.of(part)
        messages = [source.digest("arena/messages", starts=str(decision_week)) for decision_week in book.decisions["week"].unique().sort()]
        yield Unit(f"cohort {week}", key(*book.frames, messages, of_names), partial(arena_agents.pages, source, week, book, of_names))
    yield from arena_markets.units(source, books)


def _books_heads() -> list[Head]:
    """Build the column heads of a table of arena/leaderboard: returns, Brier scores and counts per family."""
    return columns.heads(
        "arena/leaderboard",
        "family",
        "cohorts",
        "completed",
        "return",
        "profit",
        "drawdown",
        ("brier_stated", "Brier, stated"),
        ("brier_size", "Brier, size"),
        ("brier_price", "Brier, price"),
        "win_rate",
        "bets",
        "refused",
        ("unmatched", "No counterparty"),
        "scored",
        ("open_positions", "Open"),
        "invalid",
        "cost",
    )


def _books_rows(board: pl.DataFrame) -> list[list[Cell]]:
    """Build the rows under the heads of `_books_heads`, sorted by family. board: rows of arena/leaderboard."""
    return [
        [
            text(row["family"], family_path(row["family"])),
            number(row["cohorts"]),
            number(row["completed"]),
            percent(row["return"], 2),
            money(row["profit"], signed=True),
            percent(row["drawdown"], 1),
            number(row["brier_stated"], 3),
            number(row["brier_size"], 3),
            number(row["brier_price"], 3),
            percent(row["win_rate"], 1),
            number(row["bets"]),
            number(row["refused"]),
            percent(row["unmatched"], 1),
            number(row["scored"]),
            number(row["open_positions"]),
            number(row["invalid"]),
            money(row["cost"]),
        ]
        for row in board.sort("family").iter_rows(named=True)
    ]


def _sections(board: pl.DataFrame, rankings: Rankings, curves: arena_curves.Curves, colours: dict[str, str]) -> Iterator[Section]:
    """Yield the sections of standings and returns, separately for each methodology, and for live and reconstructed cohorts."""
    ranked = list(rankings.groups)
    dates = curves.releases.drop_nulls("released").group_by("family").agg(pl.col("released").max())
    released = dict(dates.sort("family").iter_rows())
    for (methodology, reconstructed), part in board.group_by("methodology", "reconstructed", maintain_order=True):
        title = arena_rankings.group_title(str(methodology), bool(reconstructed))
        groups = [group for group in ranked if (group.methodology, group.reconstructed) == (methodology, reconstructed)]
        for group in groups:
            group_parts = arena_rankings.parts(group, colours, released)
            yield Section(f"Standings: {group.title}", group_parts, arena_rankings.spans(group_parts))
        if not groups:
            yield Section(f"Standings: {title}", [Note("The warehouse has no rows of arena.rankings for these cohorts.")])
        note = Note("All agents of a family together, those whose model could know the outcomes too; rankings separate them.")
        books = PageTable(f"Books of {title}", _books_heads(), _books_rows(part))
        drawn = arena_curves.curve_charts(curves, str(methodology), bool(reconstructed), colours)
        yield Section(f"Money: {title}", [*drawn, note, books], [6] * len(drawn))


def _overview(
    board: pl.DataFrame,
    agents: pl.DataFrame,
    rankings: Rankings,
    curves: arena_curves.Curves,
    colours: dict[str, str],
    *,
    activity: Activity,
    traders: frozenset[str],
) -> Iterator[File]:
    """Yield the overview and the pages of families. traders: ids of the agents with a trade."""
    first = next(rankings.groups, None)
    sections = [Section("", [_arena_headline(first, board, agents)])] if first and board.height else []
    sections += _sections(board, rankings, curves, colours)
    if not sections:
        sections.append(Section("Leaderboard", [Note("The warehouse has no leaderboard of the arena yet.")]))
    sections += [
        *(activity.sections(colours) if agents.height else ()),
        Section("Cohorts", [_cohorts(agents, curves, traders)]),
        Section("Markets", [Links([Cell("All markets that agents could bet on", href=arena_markets.LIST)])]),
    ]
    lead = "Each week a cohort of agents starts with the same paper money and bets on open markets. Reconstructed cohorts were run later with the information of their time."
    yield from render(Page("arena/index.html", "Arena", lead, sections))
    for (name,), part in agents.group_by("family", maintain_order=True):
        own = pl.col("family") == name
        groups = [group for group in rankings.groups if name in group.families]
        yield from _family(str(name), part, curves, colours, board=board.filter(own), groups=groups)


def _arena_headline(first: Ranking, board: pl.DataFrame, agents: pl.DataFrame) -> Stats:
    """Build the headline numbers of the arena. first: the ranking whose leader is shown."""
    bets, costs = board["bets"].sum(), board["cost"]
    return Stats(
        [
            *arena_rankings.leader_tiles(first),
            ("Cohorts", number(agents["week"].n_unique()), f"of {agents['family'].n_unique()} families"),
            ("Bets", number(bets), f"{number(board['scored'].sum()).text} on markets with a winner"),
            ("Cost", columns.cost(None if costs.null_count() else costs.sum()), f"of {number(board['decisions'].sum()).text} decisions"),
        ]
    )


def _cohorts(agents: pl.DataFrame, curves: arena_curves.Curves, traders: frozenset[str]) -> Grid | Note:
    if not agents.height:
        return Note("The warehouse has no cohorts yet.")
    rows = []
    for (week,), part in sorted(agents.group_by("week"), reverse=True, key=lambda one: str(one[0][0])):
        newest = curves.last.filter(pl.col("agent_id").is_in(part["agent_id"].to_list()))
        best = arena_agents.find_best(dict(newest.select("agent_id", "return").iter_rows()), traders)
        returns = dict(newest.select("agent_id", "return").iter_rows())
        rows.append(
            [
                text(week, cohort_path(week)),
                text(part["methodology"][0]),
                yes_no(part["reconstructed"][0]),
                timestamp(part["archived_at"][0]),
                number(part.height),
                percent(newest["return"].mean(), 2),
                arena_agents.best_cell(best),
                percent(returns[best[0]] if best else None, 2),
            ]
        )
    heads = [
        Head("Cohort"),
        Head("Methodology"),
        Head("Reconstructed"),
        Head("Archived", "from then on in no leaderboard, ranking or curve"),
        Head("Agents", number=True),
        Head("Mean return", number=True),
    ]
    return Grid("cohorts", "Cohorts, newest first", [*heads, Head("Best agent"), Head("Its return", number=True)], rows, filters=(1, 2))


def _family(
    name: str, agents: pl.DataFrame, curves: arena_curves.Curves, colours: dict[str, str], *, board: pl.DataFrame, groups: Sequence[Ranking]
) -> Iterator[File]:
    last = {row["agent_id"]: row for row in curves.last.iter_rows(named=True)}
    rows = []
    model = None
    for row in agents.sort("week").iter_rows(named=True):
        newest = last.get(row["agent_id"], {})
        rows.append(
            [
                text(row["week"], agent_path(row["agent_id"])),
                text(row["model"]),
                text("new release" if model is not None and row["model"] != model else None),
                text(row["methodology"]),
                yes_no(row["reconstructed"]),
                percent(newest.get("return"), 2),
                money(newest.get("total")),
            ]
        )
        model = row["model"]
    heads = [
        *columns.heads("arena/agents", ("week", "Cohort"), "model"),
        Head("Change", "a new release took over"),
        *columns.heads("arena/agents", "methodology", "reconstructed"),
    ]
    boards = list(board.iter_rows(named=True))
    titles = [arena_rankings.group_title(line["methodology"], line["reconstructed"]) for line in boards]
    sections = [Section(title, [_headline(line, groups)]) for title, line in zip(titles, boards, strict=True)]
    sections += [
        Section(
            "Return over the calendar, with its releases", [*arena_curves.calendar_charts(curves, name, colours), _releases(name, curves)]
        ),
        Section(
            "Return by cohort, with its releases",
            [
                *arena_curves.cohort_charts(curves, name, agents, colours),
                Grid(
                    "agents",
                    f"Agents of {name}",
                    [*heads, Head("Return", number=True), Head("Total", number=True)],
                    rows,
                    filters=(1, 3, 4),
                ),
            ],
        ),
    ]
    for group in groups:
        own, name_of = group.rankings.filter(pl.col("family") == name), f"metrics-{slug(group.title)}"
        sections.append(Section(f"Metrics: {group.title}", [arena_rankings.estimates(name_of, f"{name} in {group.title}", own)]))
    for title, line in zip(titles, boards, strict=True):
        sections.append(Section(f"Books: {title}", [columns.facts("arena/leaderboard", line)]))
    yield from render(Page(family_path(name), name, f"{agents.height} agents, one per cohort.", sections, ABOVE))


def _headline(line: Mapping[str, Any], groups: Sequence[Ranking]) -> Stats:
    """Build the headline numbers of a family. line: the family's row of arena/leaderboard. groups: rankings with the family."""
    group = next((one for one in groups if (one.methodology, one.reconstructed) == (line["methodology"], line["reconstructed"])), None)
    ended = f"{line['scored']:,} of {line['bets']:,} bets have a winner"
    return Stats(
        [
            *(arena_rankings.family_tiles(group, line["family"]) if group else ()),
            ("Cohorts", number(line["cohorts"]), f"{line['completed']} complete"),
            ("Profit", money(line["profit"], signed=True), f"return {percent(line['return'], 1).text}"),
            ("Brier score, stated", number(line["brier_stated"], 3), ended),
            ("Bets", number(line["bets"]), f"{line['refused']:,} legs refused"),
            ("Without a counterparty", percent(line["unmatched"], 1), "of the dollars traded at quotes with sizes"),
            ("Cost", columns.cost(line["cost"]), f"of {line['decisions']:,} decisions"),
        ]
    )


def _releases(name: str, curves: arena_curves.Curves) -> PageTable | Note:
    """Build the table of a family's releases (the models that represented the family) and their cohorts. name: the family."""
    own = curves.releases.filter(pl.col("family") == name)
    if not own.height:
        return Note("No release is known: the family is a rule, or the warehouse has no rows of arena.releases for it.")
    heads = columns.heads(
        "arena/releases",
        ("model", "Release"),
        ("model_id", "Model"),
        ("first_cohort", "From"),
        ("last_cohort", "To"),
        "cohorts",
        ("previous", "Before it"),
        "released",
        ("input_price", "Prompt"),
        ("output_price", "Answer"),
        "reconstructed",
    )
    rows = [
        [
            text(row["model"]),
            text(row["model_id"]),
            text(row["first_cohort"], cohort_path(row["first_cohort"])),
            text(row["last_cohort"], cohort_path(row["last_cohort"])),
            number(row["cohorts"]),
            text(row["previous"]),
            timestamp(row["released"]),
            number(row["input_price"], 3, unit="$"),
            number(row["output_price"], 3, unit="$"),
            yes_no(row["reconstructed"]),
        ]
        for row in own.iter_rows(named=True)
    ]
    return PageTable(f"Releases of {name} and their cohorts", heads, rows)
