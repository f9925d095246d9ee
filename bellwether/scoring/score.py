"""Scoring of forecasts in files or frames: metrics with intervals, paired tests, groups and reliability tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.comparison import Comparison, Loss, Panel, compare_panel
from bellwether.calibration.evaluation import evaluate_forecasts
from bellwether.calibration.forecasts import Bools
from bellwether.calibration.reliability import bins_of
from bellwether.calibration.scores import COVERAGE_FLOOR
from bellwether.scoring.columns import ColumnRoles
from bellwether.scoring.files import build_table, read_table
from bellwether.scoring.loading import MARKET, LoadOptions, Sheet, build_arrays, read_sheet
from bellwether.scoring.repeated_forecasts import Keep
from bellwether.scoring.result import ScoreTables
from bellwether.scoring.table import ForecastTable, to_floats
from bellwether.scoring.text_tables import format_tables


class ScoreResult(ScoreTables):
    """Result of `score`, as Polars frames.

    scores: one row per forecaster and metric, with the column forecaster and the columns of `Scores.frame`; the market is a forecaster if there are
        prices.
    groups: the same per group, after the columns `by` and `group` (null for rows without a group); empty without `by`.
    pairs, ranking: as in `Comparison`.
    reliability: one row per forecaster and bin, with the column forecaster and the columns of `reliability_bins`.
    forecasts: one row per forecaster and question: forecaster, question, probability, outcome, market, weight, cluster_0 and, two-way, cluster_1,
        squared_error and log_loss.
    sources: names of the files. columns: roles of the columns. clusters: description of the clusters. notes: remarks for readers.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the tables as text, like the output of `bellwether score`."""
        return format_tables(self)

    def write_html(self, path: Path | str) -> None:
        """Write one self-contained page with the tables and interactive reliability diagrams, atomically."""
        from bellwether.scoring.html_page import write_page

        write_page(self, Path(path))


#: Name of a column, or of several.
Names = str | Sequence[str]


def score(
    data: Any,
    *,
    outcomes: Any = None,
    probability: Names = (),
    outcome: str | None = None,
    forecaster: str | None = None,
    question: Names = (),
    cluster: Names = (),
    weight: str | None = None,
    market: str | None = None,
    by: Names = (),
    on: Names = (),
    keep: Keep | str | None = None,
    at: str | None = None,
    before: str | None = None,
    percent: Names = (),
    fractional: bool = False,
    skip_unresolved: bool = False,
    loss: Loss | str = Loss.BRIER,
    level: float = Inference().level,
    replicates: int = Inference().replicates,
    seed: int = Inference().seed,
) -> ScoreResult:
    """Score forecasts of yes-or-no questions: `print(score("forecasts.csv"))`.

    Args:
        data: one or several paths to CSV, Parquet or JSON files, or a Polars or pandas frame, a mapping of columns or a list of rows.
        outcomes: a path or frame with the outcomes by question, if the forecasts do not include them.
        probability, outcome, forecaster, question, cluster, weight, market: names of columns (default: the names in docs/scoring.md). With several
            probability columns, each is a forecaster. Two cluster columns are two-way clusters. Several question columns name the question
            together. Each file without a forecaster column is one forecaster, named after the file.
        by: columns whose groups are scored too.
        on: columns to join outcomes on, "column" or "column=column of the outcomes" (default: the question columns).
        keep: "last", "first" or "mean" of a forecaster's repeated forecasts on a question.
        at: column of the times of the forecasts.
        before: a column of times, such as the close; forecasts stated at or after it are left out.
        percent: columns of probabilities or prices to divide by 100.
        fractional: accept outcomes between 0 and 1.
        skip_unresolved: leave out rows without an outcome.
        loss: loss for comparing pairs, "brier" or "log_loss".
        level, replicates, seed: as in `evaluate`.

    Raises `ScoringError` with the file, line, column, value and remedy.
    """
    plan, chosen_loss = Inference(level, replicates, seed), Loss(loss)
    columns = ColumnRoles(_to_tuple(probability), outcome, forecaster, _to_tuple(question), _to_tuple(cluster), weight, market)
    reading = LoadOptions(
        columns,
        by=_to_tuple(by),
        on=_to_tuple(on),
        keep=None if keep is None else Keep(keep),
        at=at,
        before=before,
        percent=_to_tuple(percent),
        fractional=fractional,
        skip_unresolved=skip_unresolved,
    )
    paths = (
        isinstance(data, Sequence) and not isinstance(data, str) and len(data) > 0 and all(isinstance(item, str | Path) for item in data)
    )
    tables = [_load_table(item) for item in (data if paths else [data])]
    sheet = read_sheet(tables, reading, None if outcomes is None else _load_table(outcomes))
    return _score_sheet(sheet, plan, chosen_loss)


def _to_tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _load_table(data: Any) -> ForecastTable:
    return read_table(Path(data)) if isinstance(data, str | Path) else build_table(data)


def _score_sheet(sheet: Sheet, plan: Inference, loss: Loss) -> ScoreResult:
    """Score every forecaster and group of a sheet, and compare the forecasters."""
    scores, reliability = [], []
    for name in sheet.forecasters:
        rows = sheet.frame.filter(forecaster=name)
        forecasts, clusters = build_arrays(rows)
        scores.append(_name(evaluate_forecasts(forecasts, clusters, _count_asked(sheet, sheet.frame, rows), plan).frame(), forecaster=name))
        reliability.append(_name(bins_of(forecasts, clusters, plan), forecaster=name))
    groups = [_name(scores[0], by=None, group=None).clear(), *_score_groups(sheet, plan)]
    panel = sheet.panel()
    ranked, unranked = _select_ranked(sheet, panel)
    comparison = compare_panel(panel, ranked, loss=loss, plan=plan)
    return ScoreResult(
        pl.concat(scores),
        pl.concat(groups),
        comparison.pairs,
        comparison.ranking,
        pl.concat(reliability),
        _add_losses(sheet.frame),
        sheet.sources,
        sheet.columns,
        sheet.clusters,
        (*sheet.notes, *unranked, *_comparison_notes(sheet, comparison)),
        loss,
        plan,
    )


def _score_groups(sheet: Sheet, plan: Inference) -> Iterator[pl.DataFrame]:
    """Yield the metrics of each forecaster in each group of each column."""
    for index, by in enumerate(sheet.by):
        for (group,), members in sheet.frame.sort(f"by_{index}").partition_by(f"by_{index}", as_dict=True, maintain_order=True).items():
            for name in sheet.forecasters:
                rows = members.filter(forecaster=name)
                if rows.height:
                    scores = evaluate_forecasts(*build_arrays(rows), _count_asked(sheet, members, rows), plan).frame()
                    yield _name(_name(scores, forecaster=name), by=by, group=group)


def _count_asked(sheet: Sheet, members: pl.DataFrame, rows: pl.DataFrame) -> int:
    """Return the number of questions that a forecaster was asked: all of `members`, or its own `rows` if questions have no names."""
    return members["question"].n_unique() if sheet.is_paired else rows.height


def _name(frame: pl.DataFrame, **labels: object) -> pl.DataFrame:
    """Add columns with one text each before the others."""
    return frame.select(*(pl.lit(value, pl.String).alias(name) for name, value in labels.items()), pl.all())


def _select_ranked(sheet: Sheet, panel: Panel) -> tuple[Bools, list[str]]:
    """Return a mask of the forecasters to rank, bool (M,), and a note if some are not ranked or cannot be compared."""
    has_forecasts, enough = np.asarray(panel.present.any(axis=0)), np.asarray(panel.present.mean(axis=0) >= COVERAGE_FLOOR)
    if not sheet.is_paired or (enough == has_forecasts).all():
        return has_forecasts, []
    if not enough.any():
        return has_forecasts, [
            "Forecasters answered different questions, so that their scores are not comparable: read the paired differences."
        ]
    few = [name for name, answered, other in zip(panel.names, has_forecasts, enough, strict=True) if answered and not other]
    return enough, [f"Not ranked, with less than {COVERAGE_FLOOR:.0%} of the questions answered: {', '.join(few)}."]


def _add_losses(frame: pl.DataFrame) -> pl.DataFrame:
    """Add squared_error and log_loss of each forecast, and drop the columns of groups."""
    p, y = to_floats(frame["probability"]), to_floats(frame["outcome"])
    losses = {"squared_error": Loss.BRIER.of(p, y), "log_loss": Loss.LOG_LOSS.of(p, y)}
    columns = ("forecaster", "question", "probability", "outcome", "market", "weight", "^cluster_.$")
    return frame.select(*columns).with_columns(pl.Series(name, values, nan_to_null=True) for name, values in losses.items())


def _comparison_notes(sheet: Sheet, comparison: Comparison) -> Iterator[str]:
    among = comparison.pairs.filter((pl.col("forecaster") != MARKET) & (pl.col("other") != MARKET))
    if sheet.is_paired and among.height and not (among["n"] > 0).any():
        yield f"No two forecasters have a question in common: check that {' and '.join(sheet.columns.question)} names the question."
