"""Rankings, pairwise comparisons and reliability of families (one competitor over the years each), for each group of comparable cohorts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

import polars as pl

from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings.estimates import leading_metrics
from bellwether.figures.reliability import diagram_rows as bins
from bellwether.formatting import p_value as p_text
from bellwether.pages import charts, columns
from bellwether.pages.model import Cell, Chart, Grid, Head, Note, PageTable, Part
from bellwether.pages.values import finite, interval, interval_note, leader, number, rank, slug, text, yes_no
from bellwether.site import pairs
from bellwether.site.arena_paths import family_path
from bellwether.site.source import SiteSource
from bellwether.tables.arena_rankings import GROUP

#: Metrics of a ranking: decimals and unit.
_SHOWN = {
    "brier_vs_price": (3, ""),
    "return": (1, "%"),
    **dict.fromkeys(("brier_stated", "brier_size"), (3, "")),
    "skill_price": (2, ""),
    "win_rate": (1, "%"),
}
#: Definitions of metrics for readers of the site. Others have that of their column of arena/leaderboard.
_MEANINGS = {
    "brier_stated": "mean Brier score of the stated probabilities; 0 is perfect",
    "brier_size": "mean Brier score of the probabilities that bet sizes imply; 0 is perfect",
    "return": "profit as a share of the initial cash, with positions at their latest prices",
    "brier_vs_price": "Brier score of the stated probabilities minus that of the price on the same bets; below 0 is better than the market",
    "skill_price": "1 - the Brier score of the stated probabilities / that of the price on the same bets",
}
_TITLES = {
    "brier_stated": "stated Brier score",
    "brier_vs_price": "Brier score minus that of the price",
    "brier_size": "size-implied Brier score",
    "return": "return",
}
#: Remarks on the sign of a metric.
_SIGNS = {"brier_vs_price": "; below 0 is better than the market"}
#: Metrics in whose charts 0 is marked.
_FROM_ZERO = ("brier_vs_price", "return")
#: Assumption of the intervals and tests.
_ASSUMPTION = "Intervals and tests assume that events are independent; a shock common to all events of a week is not covered."
#: Initially visible lines of a diagram.
_LINES = 3


@dataclass(frozen=True, slots=True)
class Ranking:
    """Comparison of families within one group of cohorts.

    A group has one methodology, is live or reconstructed, and its models either could or could not know the outcomes (contaminated or clean).

    rankings: rows of arena/rankings. metrics: metrics that lead the ranking; the first determines the order.
    """

    methodology: str
    reconstructed: bool
    contaminated: bool
    metrics: tuple[str, ...]
    rankings: pl.DataFrame
    pairs: pl.DataFrame
    calibration: pl.DataFrame

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
    def _main(self) -> pl.DataFrame:
        return self.rankings.filter(pl.col("metric") == self.metrics[0])


@dataclass(frozen=True, slots=True)
class Rankings:
    """Rows of arena/rankings, arena/pairs and arena/calibration."""

    rankings: pl.DataFrame
    pairs: pl.DataFrame
    calibration: pl.DataFrame

    @classmethod
    def read(cls, source: SiteSource) -> Rankings:
        """Read all rows of these tables from the warehouse."""
        return cls(source.frame("arena/rankings"), source.frame("arena/pairs"), source.frame("arena/calibration"))

    @property
    def frames(self) -> list[pl.DataFrame]:
        """All fields, for the digest of a page's inputs."""
        return [self.rankings, self.pairs, self.calibration]

    @property
    def groups(self) -> Iterator[Ranking]:
        """Rankings of all groups, by methodology, live before reconstructed, clean before contaminated (models that could know the outcomes)."""
        methodologies_by_name = methodologies()
        for methodology, reconstructed, contaminated in sorted(self.rankings.select(GROUP).unique().iter_rows()):
            key = dict(zip(GROUP, (methodology, reconstructed, contaminated), strict=True))
            rankings, pair_rows, calibration = (one.filter(pl.col(name) == value for name, value in key.items()) for one in self.frames)
            primary = methodologies_by_name[methodology].primary if methodology in methodologies_by_name else ()
            yield Ranking(methodology, reconstructed, contaminated, leading_metrics(rankings, primary), rankings, pair_rows, calibration)


def group_title(methodology: str, reconstructed: bool, *, contaminated: bool = False) -> str:
    """Return the title of a group of cohorts."""
    known = " of models that could know the outcomes" if contaminated else ""
    return f"{methodology}, {'reconstructed' if reconstructed else 'live'} cohorts{known}"


def leader_tiles(ranking: Ranking) -> list[tuple[str, Cell, str]]:
    """Build the headline numbers of the family that leads a ranking: name and leading metrics. Tied leaders have only the first metric."""
    names = ranking.leaders
    led = leader([text(name, family_path(name)) for name in names], "no family is ranked")
    tiles = [("Leader", led, f"of {len(ranking.families)} families")]
    if names:
        metrics = ranking.metrics if len(names) == 1 else ranking.metrics[:1]
        tiles += [_metric_tile(ranking, metric, names[0]) for metric in metrics]
    return tiles


def family_tiles(ranking: Ranking, family: str) -> list[tuple[str, Cell, str]]:
    """Build the headline numbers of a family in a ranking: rank and first metric."""
    metric = ranking.metrics[0]
    return [("Rank", ranking.place(family), f"of {len(ranking.families)} families"), _metric_tile(ranking, metric, family)]


def _metric_tile(ranking: Ranking, metric: str, family: str) -> tuple[str, Cell, str]:
    row = ranking.rankings.filter(pl.col("metric") == metric, pl.col("family") == family).row(0, named=True)
    (digits, unit), title = _SHOWN.get(metric, (3, "")), metric_title(metric)
    between = _cohort_range(row, digits, unit)
    note = f"cohorts: {between}" if between else interval_note(row["lower"], row["upper"], digits, unit=unit)
    return (
        f"{title[0].upper()}{title[1:]}",
        number(row["value"], digits, signed=metric in _FROM_ZERO, unit=unit),
        note + _SIGNS.get(metric, ""),
    )


def heads(metrics: Sequence[str]) -> list[Head]:
    """Build the column heads of the table of a ranking. metrics: primary metrics, the first of which determines the rank."""
    return [
        Head("Rank", f"by the {metric_title(metrics[0])}", number=True),
        *columns.heads("arena/rankings", "family", "letters"),
        *(Head(f"{columns.title(name)} {columns.LEVEL}", define(name), number=True) for name in _order(metrics)),
        *columns.heads("arena/rankings", ("in_mcs", "Best set"), "n", ("n_events", "Events")),
    ]


def rows(ranking: Ranking) -> list[list[Cell]]:
    """Build the rows of the table of a ranking under the column heads of `heads`, ranked families first."""
    estimates_by_family: dict[str, dict[str, dict[str, Any]]] = {}
    for row in ranking.rankings.iter_rows(named=True):
        estimates_by_family.setdefault(row["family"], {})[row["metric"]] = row
    table_rows = []
    for name in ranking.families:
        own = estimates_by_family[name]
        main = own.get(ranking.metrics[0], {})
        table_rows.append(
            [
                ranking.place(name),
                text(name, family_path(name)),
                text(main.get("letters")),
                *(_estimate(metric, own.get(metric, {})) for metric in _order(ranking.metrics)),
                _set_cell(main),
                number(main.get("n")),
                number(main.get("n_events")),
            ]
        )
    return table_rows


def define(metric: str) -> str:
    """Return the definition of a metric."""
    return _MEANINGS.get(metric) or columns.definition("arena/leaderboard", metric)


def _order(metrics: Sequence[str]) -> list[str]:
    """Return the metrics in the order of their columns, primary ones first."""
    return list(dict.fromkeys([*(name for name in metrics if name in _SHOWN), *_SHOWN]))


def _estimate(metric: str, row: Mapping[str, Any]) -> Cell:
    digits, unit = _SHOWN.get(metric, (3, ""))
    cell = interval(row.get("value"), row.get("lower"), row.get("upper"), digits, row.get("reason"), unit=unit)
    between = _cohort_range(row, digits, unit)
    return cell._replace(text=f"{cell.text} ({between})", title=f"{cell.title}; in parentheses: range over cohorts") if between else cell


def _cohort_range(row: Mapping[str, Any], digits: int, unit: str) -> str:
    """Format the lowest and highest value of a cohort; empty for a metric with an interval or without cohorts."""
    if row.get("lower") is not None or row.get("cohort_low") is None:
        return ""
    return " to ".join(number(row[name], digits, unit=unit).text for name in ("cohort_low", "cohort_high"))


def _set_cell(row: Mapping[str, Any]) -> Cell:
    p = finite(row.get("mcs_p"))
    return yes_no(row.get("in_mcs"))._replace(title="" if p is None else f"p {p_text(p)}")


def parts(ranking: Ranking, colours: Mapping[str, str], released: Mapping[str, date]) -> list[Part]:
    """Build the charts and tables of a group. released: release date of each family's newest model."""
    group_parts: list[Part] = [
        *interval_charts(ranking, colours),
        PageTable(f"Ranking of {ranking.title}", heads(ranking.metrics), rows(ranking)),
        Note(_ASSUMPTION),
    ]
    diagram = bins(ranking.calibration, "family")
    if diagram:
        first = [one for one in ranking.families if one in {row["name"] for row in diagram}][:_LINES]
        group_parts.append(charts.reliability("Reliability of stated probabilities", diagram, colours, first))
    group_parts += [*_release_dates(ranking, colours, released), *_pairs(ranking)]
    return [*group_parts, estimates(f"metrics-{slug(ranking.title)}", f"Every metric: {ranking.title}", ranking.rankings)]


def spans(shown: Sequence[Part]) -> list[int]:
    """Return the width of each part in twelfths of the page. Adjacent charts share rows in pairs; if their number is odd, the first row has three.
    Other parts span the page.
    """
    widths: list[int] = []
    for is_chart, run in groupby(shown, key=lambda part: isinstance(part, Chart)):
        count = len(list(run))
        threes = 3 if is_chart and count % 2 and count > 1 else 0
        widths += [4] * threes + [6 if is_chart and count > 1 else 12] * (count - threes)
    return widths


def metric_title(name: str) -> str:
    """Return the name of a metric as words in lower case."""
    return _TITLES.get(name, name.replace("_", " "))


def interval_charts(ranking: Ranking, colours: Mapping[str, str], most: int | None = None) -> list[Chart]:
    """Build a chart per primary metric with the families' values and intervals. most: maximum number of families per chart (default: all)."""
    drawn_charts = []
    for metric in ranking.metrics:
        own = {row["family"]: row for row in ranking.rankings.filter(pl.col("metric") == metric).iter_rows(named=True)}
        lines = [
            {"name": name, "value": own[name]["value"], **{end: finite(own[name][end]) for end in ("lower", "upper")}}
            for name in ranking.families[:most]
            if name in own and finite(own[name]["value"]) is not None
        ]
        if lines:
            title = metric_title(metric)
            reference = 0.0 if metric in _FROM_ZERO else None
            used = {str(line["name"]): colours[str(line["name"])] for line in lines}
            drawn_charts.append(
                charts.intervals(f"{title[0].upper()}{title[1:]} with 95 % intervals", title, lines, used, reference=reference)
            )
    return drawn_charts


def _release_dates(ranking: Ranking, colours: Mapping[str, str], released: Mapping[str, date]) -> list[Chart]:
    """Build the chart of the group's first Brier score by release date of the family's model; empty unless two families have both."""
    metric = next((name for name in ranking.metrics if name.startswith("brier")), "brier_stated")
    rows = [
        {"name": family, "x": f"{released[family]:%Y-%m-%d}", "y": value}
        for family, value in ranking.rankings.filter(pl.col("metric") == metric).select("family", "value").iter_rows()
        if family in released and finite(value) is not None
    ]
    title = metric_title(metric)
    name = f"{title[0].upper()}{title[1:]} against the release date"
    return [charts.scatter(name, "release date", title, rows, colours, timed=True)] if len(rows) > 1 else []


def _pairs(ranking: Ranking) -> list[Part]:
    if not ranking.pairs.height:
        return [Note("The warehouse has no comparisons of these families.")]
    pair_parts: list[Part] = []
    for metric in ranking.metrics:
        tested = ranking.pairs.filter(pl.col("metric") == metric)
        metric_name = metric_title(metric)
        title = f"{metric_name[0].upper()}{metric_name[1:]} of the row less that of the column; a dot: significant after Holm's correction"
        pair_parts += pairs.matrix(title, tested, "family", ranking.families)
    head = [columns.head("arena/pairs", "metric"), *pairs.heads("arena/pairs", "family", "Cohort-weeks")]
    lines = [[text(columns.title(row["metric"])), *pairs.line(row, "family", family_path)] for row in ranking.pairs.iter_rows(named=True)]
    return [*pair_parts, Grid(f"pairs-{slug(ranking.title)}", f"All pairs: {ranking.title}", head, lines, filters=(0, 1, 2), search=(1, 2))]


def estimates(name: str, caption: str, rows: pl.DataFrame) -> Grid:
    """Build the table of every metric of every family. name: file name of the table. rows: of arena/rankings."""
    table, after = "arena/rankings", ("rank", "unranked_because", ("n", "Number"), ("n_events", "Events"))
    head = [
        *columns.heads(table, "family", "metric"),
        columns.estimate_head(table, "value"),
        *columns.heads(table, *after, ("reason", "No interval because")),
    ]
    lines = [
        [
            text(row["family"], family_path(row["family"])),
            text(columns.title(row["metric"])),
            _estimate(row["metric"], row),
            number(row["rank"]),
            text(row["unranked_because"]),
            number(row["n"]),
            number(row["n_events"]),
            text(row["reason"]),
        ]
        for row in rows.iter_rows(named=True)
    ]
    return Grid(name, caption, head, lines, filters=(0, 1))
