"""Text tables of a result for the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bellwether import formatting
from bellwether.calibration.calibration_test import MIN_TEST_CLUSTERS
from bellwether.calibration.comparison import CONFIDENCE_SET_LEVEL, SIGNIFICANCE
from bellwether.console import named_grid
from bellwether.formatting import NOTHING, counted, floor_percent, p_value, visible
from bellwether.scoring.loading import MARKET

if TYPE_CHECKING:
    from bellwether.scoring.result import ScoreTables

#: Readable names of losses, and of metrics whose own name is not readable.
LOSSES: Mapping[str, str] = {"brier": "the Brier score", "log_loss": "log loss"}

_READABLE = {
    "brier": "Brier score",
    "brier_skill": "skill over base rate",
    "skill_vs_market": "skill over market",
    "skill_vs_half": "skill over 0.5",
    "roc_auc": "ROC-AUC",
    "ece": "ECE",
    "smece": "smECE",
}

#: Table of named rows, and the caption below it.
NamedTable = tuple[Table, str]
_WIDTH = 80
_LARGE = 1000


def format_tables(result: ScoreTables) -> str:
    """Format the tables as text 80 characters wide."""
    text = io.StringIO()
    print_result(Console(file=text, width=_WIDTH, highlight=False), result)
    return text.getvalue().rstrip()


def print_result(console: Console, result: ScoreTables) -> None:
    """Print the tables of a result on the console."""
    counts, columns = describe_data(result)
    console.print(Text(visible(counts)))
    console.print(Text(f"Columns: {visible('; '.join(f'{role} = {names}' for role, names in columns))}\n"))
    for table, caption in (_scores(result), _skill(result), _calibration(result), *_pairs(result), *_groups(result)):
        console.print(table)
        console.print(Text(visible(f"{caption}\n" if caption else "", "\n"), style="dim"))
    for note in (*explain_missing(result), *result.notes):
        console.print(Text(f"- {visible(note)}"))


def describe_data(result: ScoreTables) -> tuple[str, list[tuple[str, str]]]:
    """Describe the scored data: a sentence with its size, and (role, column names) for each role."""
    forecasters = [name for name in result.forecasters if name != MARKET]
    counts = ((result.n_questions, "question"), (len(forecasters), "forecaster"), (result.n_clusters, "cluster"))
    text = ", ".join(counted(count, noun) for count, noun in counts)
    return f"{text}: {result.clusters}", [(str(role), ", ".join(columns)) for role, columns in result.columns.used().items()]


def _scores(result: ScoreTables) -> NamedTable:
    letters = dict(zip(result.ranking["forecaster"], result.ranking["group"], strict=True))
    grouped = len(result.forecasters) > 1
    caption = f"Brier and log loss: lower is better. Brackets: {100 * result.plan.level:.4g} % intervals; clusters: {result.clusters}."
    if grouped:
        caption += f"\ngrp: forecasters that share a letter do not differ significantly (5 %) in {LOSSES[result.loss]}."
    rows = [
        [
            name,
            str(metrics["brier"]["n"]),
            _interval(metrics["brier"]),
            _interval(metrics["log_loss"]),
            format_number(metrics["roc_auc"]["value"]),
            *([letters.get(name) or ""] if grouped else []),
        ]
        for name, metrics in group_metrics(result.scores)
    ]
    return named_grid("Scores", ("forecaster", "n", "Brier", "log loss", "ROC-AUC", *(["grp"] if grouped else [])), rows), caption


def _skill(result: ScoreTables) -> NamedTable:
    priced = result.scores.filter(pl.col("metric") == "skill_vs_market")["value"].count() > 0
    columns = ("forecaster", "over base rate", *(["over market"] if priced else []), "accuracy", "cov.")
    caption = "Skill: 1 minus the ratio of Brier scores; above 0 is better than the reference.\ncov.: share of questions with a forecast."
    rows = []
    for name, metrics in group_metrics(result.scores):
        market = [NOTHING if name == MARKET else _interval(metrics["skill_vs_market"], "+", ends=2)] if priced else []
        share = metrics["coverage"]["value"]
        cells = [_interval(metrics["brier_skill"], "+", ends=2), *market, format_number(metrics["accuracy"]["value"])]
        rows.append([name, *cells, NOTHING if share is None else floor_percent(share)])
    return named_grid("Skill", columns, rows), caption


def _calibration(result: ScoreTables) -> NamedTable:
    columns = ("forecaster", "ECE", "by\nchance", "p", "smECE", "by\nchance", "p", "relia-\nbility", "reso-\nlution")
    caption = (
        "by chance: average for calibrated forecasts. p: p-value of a calibration test.\n"
        "reliability, resolution: parts of the Brier score, without bias; 0 reliability is calibrated."
    )
    rows = []
    for name, metrics in group_metrics(result.scores):
        cells = []
        for metric in ("ece", "smece"):
            row = metrics[metric]
            cells += [format_number(row["value"]), format_number(row["expected"]), p_value(row["p_calibrated"], 3, short=True)]
        cells += [
            format_number(metrics[metric]["value"], digits=4) for metric in ("murphy_reliability_debiased", "murphy_resolution_debiased")
        ]
        rows.append([name, *cells])
    return named_grid("Calibration", columns, rows), caption


def _pairs(result: ScoreTables) -> Iterator[NamedTable]:
    if not result.pairs.height:
        return
    best = [name for name, among in result.ranking.select("forecaster", "in_mcs").iter_rows() if among]
    tested = result.pairs["p_holm"].drop_nulls()
    caption = f"{int((tested <= SIGNIFICANCE).sum())} of {result.pairs.height} pairs differ at the {100 * SIGNIFICANCE:.0f} % level after Holm's correction."
    if best:
        caption += f"\nMay be the best ({100 - 100 * CONFIDENCE_SET_LEVEL:.0f} % confidence set): {', '.join(best)}."
    rows = [
        [
            f"{row['forecaster']} – {row['other']}",
            str(row["n"]),
            _interval({**row, "value": row["difference"]}, "+", digits=4),
            *(p_value(row[name], 3, short=True) for name in ("p", "p_holm")),
        ]
        for row in result.pairs.iter_rows(named=True)
    ]
    yield named_grid(f"Paired differences of {LOSSES[result.loss]}", ("pair", "n", "difference", "p", "p Holm"), rows), caption


def _groups(result: ScoreTables) -> Iterator[NamedTable]:
    for (by,), groups in result.groups.partition_by("by", as_dict=True, maintain_order=True).items():
        rows = []
        for (group,), part in groups.partition_by("group", as_dict=True, maintain_order=True).items():
            for name, metrics in group_metrics(part):
                brier, ece = metrics["brier"], metrics["ece"]
                scores = [_interval(brier), format_number(metrics["brier_skill"]["value"], "+", 2), format_number(ece["value"])]
                counts = [str(brier["n"]), str(brier["n_clusters"])]
                rows.append([f"{format_group(group)} – {name}", *counts, *scores, p_value(ece["p_calibrated"], 3, short=True)])
        yield named_grid(f"By {by}", (f"{by} – forecaster", "n", "clus-\nters", "Brier", "skill", "ECE", "p"), rows), ""


def format_group(group: object) -> str:
    """Format the name of a group; "(none)" for the rows without a group."""
    return "(none)" if group is None else str(group)


def explain_missing(result: ScoreTables) -> Iterator[str]:
    """Yield a note for each reason why intervals or tests are missing."""
    is_shown = pl.col("metric").is_in(["brier", "log_loss", "brier_skill", "skill_vs_market", "accuracy"])
    without = pl.concat([result.scores, result.groups.drop("by", "group")]).filter(
        is_shown & pl.col("value").is_not_null() & pl.col("lower").is_null()
    )
    for reason, metrics in without.group_by("reason", maintain_order=True).agg(pl.col("metric").unique(maintain_order=True)).iter_rows():
        yield f"No interval of {', '.join(format_metric(metric) for metric in metrics)} for some: {reason}."
    biased = result.scores.filter(
        pl.col("metric").is_in(["ece", "smece"]) & pl.col("value").is_not_null() & pl.col("p_calibrated").is_null()
    )
    if biased.height and result.plan.replicates:
        yield f"No test of calibration for some: it needs {MIN_TEST_CLUSTERS} clusters."
    for reason, count in (
        result.pairs.filter(pl.col("reason").is_not_null()).group_by("reason", maintain_order=True).agg(pl.len()).iter_rows()
    ):
        yield f"No test of {counted(count, 'pair')}: {reason}."


def group_metrics(scores: pl.DataFrame) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Yield (forecaster, metrics by name) from a table of scores, the best Brier score first."""
    rows = {
        str(name): {row["metric"]: row for row in part.iter_rows(named=True)}
        for (name,), part in scores.partition_by("forecaster", as_dict=True, maintain_order=True).items()
    }
    yield from sorted(rows.items(), key=lambda item: (item[1]["brier"]["value"] is None, item[1]["brier"]["value"] or 0.0))


def _interval(row: dict[str, Any], sign: str = "", digits: int = 3, ends: int = 3) -> str:
    if row["value"] is None or row["lower"] is None:
        return format_number(row["value"], sign, digits)
    return f"{format_number(row['value'], sign, digits)} [{format_number(row['lower'], sign, ends)}, {format_number(row['upper'], sign, ends)}]"


def format_number(value: float | None, sign: str = "", digits: int = 3) -> str:
    """Format a number with `digits` decimals; absolute values from 1,000 on in scientific notation."""
    return formatting.number(value, digits, sign=sign) if value is None or abs(value) < _LARGE else f"{value:{sign}.0e}"


def format_metric(metric: str) -> str:
    """Return the readable name of a metric."""
    return _READABLE.get(metric, metric.replace("_", " "))
