"""Self-contained HTML page of a result, with tables and charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.calibration import METRICS, Better, corp_curve, reliability_bands
from bellwether.figures.canvas import Rows, chart_rows, palette
from bellwether.figures.reliability import diagram_rows
from bellwether.formatting import floor_percent, p_value
from bellwether.pages import charts, render
from bellwether.pages.model import Cell, Facts, Head, Note, Page, PageTable, Part, Section
from bellwether.pages.values import NONE, text
from bellwether.scoring.loading import MARKET
from bellwether.scoring.text_tables import LOSSES, describe_data, explain_missing, format_group, format_metric, format_number, group_metrics

if TYPE_CHECKING:
    from bellwether.scoring.result import ScoreTables

#: Number of forecasters shown in a diagram at first.
_SHOWN = 3

_HEADLINE = ("brier", "log_loss", "brier_skill", "skill_vs_market", "roc_auc")
_ERRORS = ("ece", "smece")
_CHOICES = ("brier", "log_loss", "brier_skill", "skill_vs_market", "skill_vs_half", "roc_auc", "accuracy")


def write_page(result: ScoreTables, path: Path) -> None:
    """Write the page of a result as one self-contained file, atomically."""
    render.write_page(render_page(result), path)


def render_page(result: ScoreTables) -> Page:
    """Build the page of a result. Names and labels are escaped; equal results give equal pages."""
    counts, columns = describe_data(result)
    facts = Section("The data", [Facts([(role, text(names)) for role, names in columns])])
    notes = Section("Notes", [Note(note) for note in (*explain_missing(result), *result.notes)])
    return Page("", f"Scores of {', '.join(result.sources)}", counts, [*_sections(result), facts, *([notes] if notes.parts else [])])


def _sections(result: ScoreTables) -> Iterator[Section]:
    level = f"{100 * result.plan.level:.4g} %"
    colours = dict(palette(result.forecasters))
    note = (
        f"In brackets: {level} intervals; clusters: {result.clusters}. Brier score and log loss: lower is better. Skill is 1 minus the ratio of Brier "
        "scores: above 0 is better than the reference. Coverage: share of questions with a forecast. "
        f"Group: forecasters that share a letter do not differ significantly in {LOSSES[result.loss]}."
    )
    yield Section("Scores", [_headline(result), Note(note), *_scores(result, colours)])
    note = (
        "By chance: average for calibrated forecasts; p: p-value of a calibration test. Reliability and resolution: parts "
        "of the Brier score, without bias; a reliability of 0 is calibrated."
    )
    bins, curve = _reliability(result)
    first = result.forecasters[:_SHOWN]
    yield Section(
        "Calibration",
        [
            _calibration(result),
            Note(note),
            charts.reliability("Reliability", diagram_rows(bins), colours, first),
            charts.curves(
                "Reliability without bins: the frequency of yes that isotonic regression gives each forecast (CORP)",
                chart_rows(curve),
                colours,
                first,
            ),
        ],
    )
    if result.pairs["difference"].count():
        note = f"Difference of {LOSSES[result.loss]} on common questions, first less second: below 0 the first is better. p Holm: corrected for the number of pairs."
        yield Section("Paired differences", [_pairs(result), Note(note), _differences(result)])
    for (by,), groups in result.groups.partition_by("by", as_dict=True, maintain_order=True).items():
        yield Section(f"By {by}", [_by(groups, str(by))])
    yield Section("All metrics", [_metrics(name, metrics) for name, metrics in group_metrics(result.scores)])


def _reliability(result: ScoreTables) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the reliability bins with their consistency bands, and the CORP curves, of all forecasters."""
    bands, curves = [], []
    for name in result.forecasters:
        # The draws of a band follow the order of the rows, which shall not matter.
        rows = (
            result.forecasts.filter(pl.col("forecaster") == name)
            .drop_nulls("probability")
            .sort("probability", "outcome", "weight", "question")
        )
        p, y, weights, clusters = rows["probability"], rows["outcome"], rows["weight"], rows.select("^cluster_.$")
        label, seed = pl.lit(name).alias("forecaster"), result.plan.seed
        bands.append(reliability_bands(p, clusters, weights=weights, seed=seed).select(label, "bin", low="lower", high="upper"))
        curves.append(corp_curve(p, y, clusters, weights=weights, seed=seed).with_columns(name=pl.lit(name)))
    bins = result.reliability.filter(pl.col("n") > 0).join(pl.concat(bands), on=["forecaster", "bin"], how="left", maintain_order="left")
    return bins, pl.concat(curves)


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], texts: int = 1) -> PageTable:
    """Build a table whose first `texts` columns are text and whose other columns are numbers."""
    return PageTable(caption, [Head(name, number=place >= texts) for place, name in enumerate(heads)], rows)


def _interval(row: dict[str, Any], digits: int = 3, sign: str = "") -> Cell:
    if row["value"] is None:
        return Cell(NONE, title=row["reason"] or "")
    ends = "" if row["lower"] is None else f" [{format_number(row['lower'], sign, digits)}, {format_number(row['upper'], sign, digits)}]"
    return Cell(format_number(row["value"], sign, digits) + ends, row["value"], title=row["reason"] or "")


def _headline(result: ScoreTables) -> PageTable:
    letters = dict(result.ranking.select("forecaster", "group").iter_rows())
    rows = []
    for name, metrics in group_metrics(result.scores):
        scores = [_score(name, metrics, metric) for metric in _HEADLINE]
        counts = [_count(metrics["brier"][column]) for column in ("n", "n_clusters")]
        share = metrics["coverage"]["value"]
        coverage = Cell(NONE if share is None else floor_percent(share), share)
        rows.append([text(name), *counts, coverage, *scores, text(letters.get(name) or "")])
    heads = ("forecaster", "n", "clusters", "coverage", *(format_metric(metric) for metric in _HEADLINE), "group")
    return _table("Scores, best first", heads, rows)


def _score(name: str, metrics: dict[str, dict[str, Any]], metric: str) -> Cell:
    if name == MARKET and metric == "skill_vs_market":
        return Cell(NONE)
    return _interval(metrics[metric], 3, "+" if "skill" in metric else "")


def _calibration(result: ScoreTables) -> PageTable:
    rows = []
    for name, metrics in group_metrics(result.scores):
        cells = [text(name)]
        for metric in _ERRORS:
            row = metrics[metric]
            cells += [Cell(format_number(row[column]), row[column]) for column in ("value", "expected")]
            cells.append(Cell(p_value(row["p_calibrated"], 3, short=True), row["p_calibrated"]))
        cells += [_interval(metrics[metric], 4) for metric in ("murphy_reliability_debiased", "murphy_resolution_debiased")]
        rows.append(cells)
    errors = (head for metric in _ERRORS for head in (format_metric(metric), "by chance", "p"))
    return _table("Calibration", ("forecaster", *errors, "reliability", "resolution"), rows)


def _pairs(result: ScoreTables) -> PageTable:
    rows = []
    for row in result.pairs.iter_rows(named=True):
        difference = _interval({**row, "value": row["difference"]}, 4, "+")
        tests = [Cell(p_value(row[name], 3, short=True), row[name]) for name in ("p", "p_holm", "p_mcnemar")]
        rows.append([text(row["forecaster"]), text(row["other"]), _count(row["n"]), difference, *tests])
    return _table("Paired differences", ("first", "second", "n", "difference", "p", "p Holm", "p McNemar"), rows, texts=2)


def _by(groups: pl.DataFrame, by: str) -> PageTable:
    rows = []
    for (group,), part in groups.partition_by("group", as_dict=True, maintain_order=True).items():
        for name, metrics in group_metrics(part):
            brier = metrics["brier"]
            scores = [
                _interval(metrics[metric], 3, "+" if "skill" in metric else "") for metric in ("brier", "brier_skill", "skill_vs_market")
            ]
            counts = [_count(brier["n"]), _count(brier["n_clusters"])]
            rows.append([text(format_group(group)), text(name), *counts, *scores])
    heads = (by, "forecaster", "n", "clusters", *(format_metric(metric) for metric in ("brier", "brier_skill", "skill_vs_market")))
    return _table(f"By {by}", heads, rows, texts=2)


def _metrics(name: str, metrics: dict[str, dict[str, Any]]) -> PageTable:
    rows = []
    for metric, row in metrics.items():
        chance = Cell("" if row["expected"] is None else f"{row['expected']:.4f}", row["expected"])
        p = Cell("" if row["p_calibrated"] is None else p_value(row["p_calibrated"], 3, short=True), row["p_calibrated"])
        about = METRICS[metric].meaning if metric in METRICS else ""
        rows.append(
            [
                Cell(metric, metric, title=about),
                _interval({**row, "reason": None}, 4),
                chance,
                p,
                text(row["reason"] or ""),
            ]
        )
    heads = [Head("metric"), *(Head(name_, number=True) for name_ in ("value", "by chance", "p")), Head("why no interval")]
    return PageTable(text(name).text, heads, rows, folded=True)


def _count(value: int) -> Cell:
    return Cell(str(value), value)


def _scores(result: ScoreTables, colours: dict[str, str]) -> Iterator[Part]:
    """Yield a chart for each metric: values and intervals of all forecasters, best first. colours: by forecaster."""
    for metric in _CHOICES:
        rows = result.scores.filter((pl.col("metric") == metric) & pl.col("value").is_not_null())
        higher = METRICS[metric].better is Better.HIGHER
        listed = rows.sort("value", descending=higher, maintain_order=True).select("value", "lower", "upper", name="forecaster")
        if listed.height:
            axis = f"{format_metric(metric)}; {'higher' if higher else 'lower'} is better"
            yield charts.intervals(
                f"{format_metric(metric)[0].upper()}{format_metric(metric)[1:]} with intervals", axis, chart_rows(listed), colours
            )


def _differences(result: ScoreTables) -> Part:
    defined = result.pairs.filter(pl.col("difference").is_not_null())
    rows: Rows = [
        {"name": f"{first} – {second}", "value": value, "lower": lower, "upper": upper}
        for first, second, value, lower, upper in defined.select("forecaster", "other", "difference", "lower", "upper").iter_rows()
    ]
    return charts.intervals(
        "Paired differences with intervals",
        f"difference of {LOSSES[result.loss]}",
        rows,
        {row["name"]: charts.LINE for row in rows},
        reference=0.0,
    )
