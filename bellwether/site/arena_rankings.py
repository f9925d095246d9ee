"""Leaderboards of the arena's families (one competitor over the years each), one per group of comparable cohorts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings.estimates import leading_metrics
from bellwether.pages import columns
from bellwether.pages.columns import Shown, build_column, build_table
from bellwether.pages.model import Cell, Head, Part
from bellwether.pages.values import add_bars, interval, interval_note, number, percent, rank, slug, text
from bellwether.site.paths import family_path
from bellwether.tables.arena_rankings import GROUP

#: Metrics of a leaderboard: title, decimals, unit, and definition.
_METRICS = {
    "brier_vs_price": ("Brier minus price", 3, "", "Brier score of the stated probabilities minus that of the price on the same bets; below 0 is better than the market"),
    "return": ("Return", 1, "%", "profit as a share of the initial cash, with positions at their latest prices"),
    "brier_stated": ("Brier score", 3, "", "mean squared distance between stated probability and outcome; 0 is perfect"),
    "brier_size": ("Brier score of bet sizes", 3, "", "Brier score of the probability that the size of a bet implies; 0 is perfect"),
    "skill_price": ("Skill over the price", 2, "", "1 - the Brier score of the stated probabilities / that of the price on the same bets"),
    "win_rate": ("Win rate", 1, "%", columns.definition("arena/leaderboard", "win_rate")),
}  # fmt: skip
#: Metrics with a line at 0.
_FROM_ZERO = ("brier_vs_price", "return")
#: Columns of arena/leaderboard that readers can pick.
_BOOKS = ("cohorts", "completed", "bets", "scored", "refused", "unmatched", "open_positions", "invalid", "profit", "drawdown")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Comparison of families within one group of cohorts.

    A group has one methodology, is live or reconstructed, and its models either could or could not know the outcomes (contaminated or clean).

    metrics: metrics that lead the ranking; the first determines the order. rankings: rows of arena/rankings. books: rows of arena/leaderboard.
    models: newest model by family.
    """

    methodology: str
    reconstructed: bool
    contaminated: bool
    metrics: tuple[str, ...]
    rankings: pl.DataFrame
    pairs: pl.DataFrame
    calibration: pl.DataFrame
    books: pl.DataFrame
    models: Mapping[str, str]

    @property
    def title(self) -> str:
        """Title of the group."""
        return group_title(self.methodology, self.reconstructed, contaminated=self.contaminated)

    @property
    def families(self) -> list[str]:
        """Families by rank in the first metric; baselines and unranked families are last."""
        return self._main.sort("rank", ~pl.col("baseline"), "family", nulls_last=True)["family"].to_list()

    @property
    def leaders(self) -> list[str]:
        """Families with rank 1 in the first metric."""
        return self._main.filter(pl.col("rank") == 1)["family"].sort().to_list()

    def place(self, family: str) -> Cell:
        """Return the rank of a family by the first metric, "baseline", or a dash with the reason as a tooltip."""
        row = self._main.row(by_predicate=pl.col("family") == family, named=True)
        if row["baseline"]:
            return Cell("baseline", title=row["unranked_because"] or "")
        return rank(row["rank"], self._main["rank"], row["unranked_because"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        """One row per family, ranked families first: its row of arena/leaderboard, and under `metrics` its rows of arena/rankings by metric."""
        books = {row["family"]: row for row in self.books.iter_rows(named=True)}
        by_family: dict[str, dict[str, Any]] = {}
        for row in self.rankings.iter_rows(named=True):
            by_family.setdefault(row["family"], {})[row["metric"]] = row
        nothing = dict.fromkeys(self.books.columns)
        return [{**nothing, **books.get(name, {}), "family": name, "metrics": by_family[name]} for name in self.families]

    def notes(self) -> Iterator[str]:
        """Yield what the terminal writes below the leaderboard: the leading metrics, and reasons for missing ranks and intervals."""
        meanings = " ".join(f"{metric_title(metric)}: {define(metric)}." for metric in self.metrics)
        yield f"{meanings} In brackets: 95 % intervals, else in parentheses the range over cohorts. Families that share a letter do not differ significantly."
        for row in self._main.sort("family").iter_rows(named=True):
            if row["rank"] is None and not row["baseline"]:
                yield f"{row['family']}: not ranked, {row['unranked_because']}"
            elif row["reason"] is not None and row["rank"] is not None:
                yield f"{row['family']}: no interval, {row['reason']}"

    @property
    def _main(self) -> pl.DataFrame:
        return self.rankings.filter(pl.col("metric") == self.metrics[0])


def read_rankings(read: Callable[[str], pl.DataFrame]) -> list[Ranking]:
    """Read the rankings of all groups, by methodology, live before reconstructed, clean before contaminated (models that could know outcomes).

    read: returns the rows of a table, given as `group/name`.
    """
    rankings, pairs, calibration, books = (read(f"arena/{name}") for name in ("rankings", "pairs", "calibration", "leaderboard"))
    agents, known = read("arena/agents").sort("week", "family"), methodologies()
    models = dict(agents.group_by("family", maintain_order=True).agg(pl.col("model").last()).iter_rows())
    groups = []
    for methodology, reconstructed, contaminated in sorted(rankings.select(GROUP).unique().iter_rows()):
        of_group = [pl.col(name) == value for name, value in zip(GROUP, (methodology, reconstructed, contaminated), strict=True)]
        estimates = rankings.filter(of_group)
        own_books = books.filter((pl.col("methodology") == methodology) & (pl.col("reconstructed") == reconstructed))
        primary = known[methodology].primary if methodology in known else ()
        metrics = leading_metrics(estimates, primary)
        of_pairs, bins = pairs.filter(of_group), calibration.filter(of_group)
        groups.append(Ranking(methodology, reconstructed, contaminated, metrics, estimates, of_pairs, bins, own_books, models))
    return groups


def group_title(methodology: str, reconstructed: bool, *, contaminated: bool = False) -> str:
    """Return the title of a group of cohorts."""
    known = " of models whose training data may contain the outcomes" if contaminated else ""
    return f"{methodology}, {'reconstructed' if reconstructed else 'live'} cohorts{known}"


def metric_title(metric: str) -> str:
    """Return the title of a metric."""
    return _METRICS[metric][0] if metric in _METRICS else columns.title(metric)


def define(metric: str) -> str:
    """Return the definition of a metric."""
    return _METRICS[metric][3] if metric in _METRICS else columns.definition("arena/leaderboard", metric)


def metric_tile(ranking: Ranking, metric: str, family: str) -> tuple[str, Cell, str]:
    """Build the headline number of a family's metric, with its interval or else its range over cohorts."""
    row = ranking.rankings.filter(pl.col("metric") == metric, pl.col("family") == family).row(0, named=True)
    title, digits, unit, _ = _METRICS.get(metric, (columns.title(metric), 3, "", ""))
    between = _cohort_range(row, digits, unit)
    note = f"cohorts: {between}" if between else interval_note(row["lower"], row["upper"], digits, unit=unit)
    note += "; below 0 is better than the market" * (metric == "brier_vs_price")
    return title, number(row["value"], digits, signed=metric in _FROM_ZERO, unit=unit), note


def leaderboard(ranking: Ranking, most: int | None = None) -> Part:
    """Build the leaderboard of a group. most: maximum of families, with only the leading columns (default: all)."""
    first, *others = dict.fromkeys([*ranking.metrics, *_METRICS])
    leading = [_rank_column(ranking), _family_column(ranking), _metric_column(first, drawn=True)]
    if most is not None:
        return build_table("arena/leaderboard", f"Leaders of {ranking.title}", ranking.lines[:most], *leading)
    return build_table(
        "arena/leaderboard",
        f"Leaderboard of {ranking.title}",
        ranking.lines,
        *leading,
        *(_metric_column(metric, hidden=metric not in ranking.metrics and metric != "brier_stated") for metric in others),
        build_column("Cost", lambda row: columns.cost(row["cost"]), columns.definition("arena/leaderboard", "cost"), numeric=True),
        build_column("Coverage", _coverage, "share of decisions with a usable answer", numeric=True),
        *columns.hidden_columns("arena/leaderboard", *_BOOKS),
        search=("Family",),
        name=f"board-{slug(ranking.title)}",
        size=50,
        leading=3,
    )


def _rank_column(ranking: Ranking) -> Shown:
    def cell(row: Mapping[str, Any]) -> Cell:
        return ranking.place(row["family"])._replace(note=row["metrics"].get(ranking.metrics[0], {}).get("letters") or "")

    meaning = f"by {metric_title(ranking.metrics[0]).lower()}; families that share a letter do not differ significantly"
    return build_column("Rank", cell, meaning, numeric=True)


def _family_column(ranking: Ranking) -> Shown:
    def cell(row: Mapping[str, Any]) -> Cell:
        model = ranking.models.get(row["family"], "")
        return text(row["family"], family_path(row["family"]))._replace(note="" if model == row["family"] else model)

    return build_column("Family", cell, "one competitor over the years: a rule, or a line of models with its newest model")


def _metric_column(metric: str, *, drawn: bool = False, hidden: bool = False) -> Shown:
    title, meaning = metric_title(metric), define(metric)

    def cells(rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
        found = [row["metrics"].get(metric, {}) for row in rows]
        formatted = [estimate_cell(metric, row) for row in found]
        values = [(row.get("value"), row.get("lower"), row.get("upper")) for row in found]
        return add_bars(formatted, values, 0.0 if metric in _FROM_ZERO else None) if drawn else formatted

    definition = f"{meaning}; in brackets its 95 % interval, else the range over cohorts"
    return Shown(Head(f"{title} {columns.LEVEL}", definition, True, hidden), cells)


def estimate_cell(metric: str, row: Mapping[str, Any]) -> Cell:
    """Format a row of arena/rankings, with its interval or else its range over cohorts."""
    _, digits, unit, _ = _METRICS.get(metric, ("", 3, "", ""))
    cell = interval(row.get("value"), row.get("lower"), row.get("upper"), digits, row.get("reason"), unit=unit)
    between = _cohort_range(row, digits, unit)
    return cell._replace(text=f"{cell.text} ({between})", title=f"{cell.title}; in parentheses: range over cohorts") if between else cell


def _cohort_range(row: Mapping[str, Any], digits: int, unit: str) -> str:
    """Format the lowest and highest value of a cohort; empty for a metric with an interval or without cohorts."""
    if row.get("lower") is not None or row.get("cohort_low") is None:
        return ""
    return " to ".join(number(row[name], digits, unit=unit).text for name in ("cohort_low", "cohort_high"))


def _coverage(row: Mapping[str, Any]) -> Cell:
    return percent(row["finished"] / row["decisions"] if row["decisions"] else None, 1)
