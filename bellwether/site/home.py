"""Home page of the site: the leader of each area, changes since the last publication, and how recent the data is."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from bellwether.pages import charts, columns
from bellwether.pages.charts import Colours
from bellwether.pages.model import Cell, Facts, Head, Links, Note, Page, PageTable, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import NONE, interval_note, number, text, timestamp
from bellwether.replay.results.summary import sort_by_pnl
from bellwether.site import arena_rankings, release, trading
from bellwether.site.arena_rankings import Rankings
from bellwether.site.source import SiteSource

#: Lines of a chart in a card.
_LINES = 8
_DOMAINS = ("clean", "benchmark", "replay", "arena")


def pages(source: SiteSource, colours: Colours) -> Iterator[File]:
    """Yield the home page."""
    cards = (_benchmark(source, colours), _arena(source, colours), _trading(source, colours))
    sections = [Section(name, parts, width=4) for name, parts in zip(("Benchmark", "Arena", "Trading"), cards, strict=True)]
    sections += [Section("What changed since the last publication", [_changes(source)]), Section("Freshness", [_freshness(source)])]
    lead = "How well models forecast and trade on prediction markets: probabilities scored by outcomes, agents replayed on recorded order books, "
    lead += "and weekly cohorts that bet paper money on open markets."
    yield from render(Page("index.html", "Bellwether", lead, sections))


def main_release(board: pl.DataFrame) -> str:
    """Return the release with the most questions, and of several such ones the newest. Subsets (names with @) are chosen only if there is no other
    release.
    """
    sizes = board.group_by("release").agg(pl.col("n_questions").max(), pl.col("known_at").max())
    whole = sizes.filter(~pl.col("release").str.contains("@", literal=True))
    return str((whole if whole.height else sizes).sort("n_questions", "known_at", "release")["release"][-1])


def _benchmark(source: SiteSource, colours: Colours) -> list[Part]:
    board = source.frame("benchmark/leaderboard")
    if not board.height:
        return [Note("No release has been ranked: the warehouse has no rows of benchmark.leaderboard.")]
    name = main_release(board)
    ranked = board.filter((pl.col("release") == name) & pl.col("rank").is_not_null()).sort("rank")
    drawn = release.interval_rows(ranked.head(_LINES))
    chart = charts.intervals(
        f"Best of {ranked.height} in {name}: Brier score with 95 % interval", "Brier score", drawn, _row_colours(colours, drawn)
    )
    links = Links([Cell(f"The whole leaderboard of {name}", href=release.path(name)), Cell("All releases", href="benchmark/index.html")])
    if not ranked.height:
        return [Note(f"No forecaster of {name} is ranked."), links]
    best = ranked.row(0, named=True)
    stats = Stats(
        [
            ("Leader", release.leader_cell(name, ranked), f"of {ranked.height} ranked forecasters"),
            ("Brier score", number(best["brier"], 3), interval_note(best["brier_lower"], best["brier_upper"])),
            ("Questions", number(best["n_questions"]), name),
            ("Newest fact", timestamp(best["known_at"].date()), ""),
        ]
    )
    note = "The Brier score is the mean squared distance between probability and outcome: 0 is perfect, 0.25 is the score of always forecasting 0.5."
    return [stats, Note(note), chart, links]


def _arena(source: SiteSource, colours: Colours) -> list[Part]:
    ranking = next(Rankings.read(source).groups, None) if source.rows("arena/leaderboard") else None
    if ranking is None:
        return [Note("No week of the arena has been run: the warehouse has no rows of arena.leaderboard.")]
    metric = ranking.metrics[0]
    newest_fact = max(
        (stored.known_at for name, stored in source.tables.items() if name.startswith("arena/") and stored.known_at), default=None
    )
    known = timestamp(newest_fact.date() if newest_fact else None)
    stats = Stats([*arena_rankings.leader_tiles(ranking), ("Newest fact", known, ranking.title)])
    note = f"Families of {ranking.title}, ranked by {arena_rankings.metric_title(metric)}: {arena_rankings.define(metric)}. "
    note += "Baselines, which state the price, have no rank."
    drawn = arena_rankings.interval_charts(ranking, colours.of(ranking.families), _LINES)[:1]
    return [stats, Note(note), *drawn, Links([Cell("Cohorts, families and markets", href="arena/index.html")])]


def _trading(source: SiteSource, colours: Colours) -> list[Part]:
    summary = sort_by_pnl(source.frame("replay/summary"))
    if not summary.height:
        return [Note("No backtest has been summarised: the warehouse has no rows of replay.summary.")]
    best = summary.row(0, named=True)
    stats = Stats([*trading.leader_tiles(summary), ("Newest fact", timestamp(summary["known_at"].max().date()), "")])  # type: ignore[union-attr]
    note = "Mean profit or loss of an episode in dollars, orders replayed against the recorded book with the fees of the venue."
    drawn = trading.mean_rows(summary.filter(pl.col("rules") == best["rules"]).head(_LINES))
    chart = charts.intervals(
        "Best agents: mean, lowest and highest P&L of an episode", "dollars", drawn, _row_colours(colours, drawn), reference=0.0
    )
    return [stats, Note(note), chart, Links([Cell("All agents and episodes", href="trading/index.html")])]


def _row_colours(colours: Colours, rows: list[dict[str, object]]) -> dict[str, str]:
    return colours.of([str(row["name"]) for row in rows])


def _changes(source: SiteSource) -> PageTable | Note:
    """Build the table of leaderboards whose places changed since the latest publication with other places."""
    current, previous = (source.standings.filter(pl.col("current") == shown) for shown in (True, False))
    if not previous.height:
        return Note("The warehouse stores no earlier publication with other places or values.")
    keys = ["area", "board", "metric"]
    old = {key: dict(part.select("name", "place").iter_rows()) for key, part in previous.group_by(keys)}
    rows = []
    for key, part in current.group_by(keys, maintain_order=True):
        area, board, metric = map(str, key)
        places, old_places = dict(part.select("name", "place").iter_rows()), old.get(key, {})
        leader = text(", ".join(sorted(name for name, place in places.items() if place == 1)))
        former = text(", ".join(sorted(name for name, place in old_places.items() if place == 1)) or None)
        moved = sum(old_places[name] != place for name, place in places.items() if name in old_places)
        new, dropped = ([name for name in ones if name not in others] for ones, others in ((places, old_places), (old_places, places)))
        if moved or new or dropped:
            rows.append(
                [
                    text(area),
                    text(board),
                    text(columns.title(metric)),
                    leader,
                    former,
                    number(moved),
                    _list_names(new),
                    _list_names(dropped),
                ]
            )
    heads = [Head("Area"), Head("Board"), Head("Metric"), Head("Leader"), Head("Leader before"), Head("Other places", number=True)]
    at = timestamp(previous["published_at"][0]).text
    return PageTable(f"Against the publication of {at} UTC", [*heads, Head("New"), Head("No longer ranked")], rows)


def _list_names(names: list[str]) -> Cell:
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return text(listed or None)


def _freshness(source: SiteSource) -> Facts:
    rows = [("Warehouse published", timestamp(source.published_at, seconds=True))]
    for domain in _DOMAINS:
        instants = [stored.known_at for name, stored in source.tables.items() if name.startswith(f"{domain}/") and stored.known_at]
        count = sum(stored.rows for name, stored in source.tables.items() if name.startswith(f"{domain}/"))
        newest = timestamp(max(instants)).text if instants else NONE
        rows.append((f"{domain[0].upper()}{domain[1:]}", Cell(f"{count:,} rows, newest fact of {newest}" if count else "nothing yet")))
    return Facts(rows)
