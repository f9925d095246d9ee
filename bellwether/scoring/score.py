"""Scoring of forecasts in files or frames: metrics with intervals, paired tests, groups and reliability tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import polars as pl

from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.comparison import Comparison, Loss, Panel, compare_panel
from bellwether.calibration.evaluation import evaluate_forecasts
from bellwether.calibration.forecasts import Bools
from bellwether.calibration.formulas import log_loss
from bellwether.calibration.reliability import bins_of
from bellwether.calibration.scores import COVERAGE_FLOOR
from bellwether.scoring.columns import ColumnRoles, Role
from bellwether.scoring.files import build_table, read_table
from bellwether.scoring.forecast_sheet import MARKET, Sheet, build_arrays
from bellwether.scoring.loading import LoadOptions, read_sheet
from bellwether.scoring.repeated_forecasts import Keep
from bellwether.scoring.result import Progress, ScoreResult
from bellwether.scoring.table import ForecastTable


class ScoreOptions(TypedDict, total=False):
    """Keyword options of `score`; their meaning is documented there."""

    probability: str | Sequence[str]
    outcome: str | None
    forecaster: str | None
    question: str | Sequence[str]
    cluster: str | Sequence[str]
    weight: str | None
    market: str | None
    by: str | Sequence[str]
    on: str | Sequence[str]
    keep: Keep | str | None
    at: str | None
    before: str | None
    percent: str | Sequence[str]
    clip: bool
    fractional: bool
    skip_unresolved: bool
    independent: bool
    loss: Loss | str
    level: float
    replicates: int
    seed: int


def score(data: Any, *, outcomes: Any = None, progress: Progress | None = None, **options: Unpack[ScoreOptions]) -> ScoreResult:
    """Score forecasts of yes-or-no questions: `print(score("forecasts.csv"))`.

    Args:
        data: one or several paths to CSV, Parquet or JSON files, or a Polars or pandas frame, a mapping of columns or a list of rows.
        outcomes: a path or frame with the outcomes by question, if the forecasts do not include them.
        progress: called with the number of finished steps, the total number, and the next step.
        **options: any of the following.

            probability, outcome, forecaster, question, cluster, weight, market: names of columns (default: recognised by common names).
                With several probability columns, each is a forecaster. Two cluster columns are two-way clusters. Several question
                columns name the question together. Each file without a forecaster column is one forecaster, named after the file.
            by: columns whose groups are scored too.
            on: columns to join outcomes on, "column" or "column=column of the outcomes" (default: the question columns).
            keep: "last", "first" or "mean" of a forecaster's repeated forecasts on a question. at: column of their times.
            before: a column of times, such as the close; forecasts stated at or after it are left out.
            percent: columns of probabilities or prices to divide by 100.
            clip: clip probabilities that are outside [0, 1] by a rounding error.
            fractional: accept outcomes between 0 and 1.
            skip_unresolved: leave out rows without an outcome.
            independent: treat questions as independent even if there is a column of clusters.
            loss: loss for comparing pairs, "brier" or "log_loss".
            level, replicates, seed: as in `evaluate`.

    Raises `ScoringError` with the file, line, column, value and remedy.
    """
    if unknown := sorted(options.keys() - ScoreOptions.__annotations__.keys()):
        raise TypeError(f"score() got an unexpected keyword argument {unknown[0]!r}")
    default = Inference()
    plan = Inference(options.get("level", default.level), options.get("replicates", default.replicates), options.get("seed", default.seed))
    chosen_loss = Loss(options.get("loss", Loss.BRIER))
    report = progress or (lambda done, of, what: None)
    report(0, 0, "reading")
    paths = (
        isinstance(data, Sequence) and not isinstance(data, str) and len(data) > 0 and all(isinstance(item, str | Path) for item in data)
    )
    tables = [_load_table(item) for item in (data if paths else [data])]
    sheet = read_sheet(tables, _build_load_options(options), None if outcomes is None else _load_table(outcomes))
    return _score_sheet(sheet, plan, chosen_loss, report)


def _build_load_options(options: Mapping[str, Any]) -> LoadOptions:
    given: dict[str, Any] = {name: _to_tuple(value) if name in _SEVERAL else value for name, value in options.items()}
    columns = ColumnRoles(**{str(role): given[role] for role in Role if role in given})
    keep = None if given.get("keep") is None else Keep(given["keep"])
    names = ("by", "on", "at", "before", "percent", "clip", "fractional", "skip_unresolved", "independent")
    return LoadOptions(columns, keep=keep, **{name: given[name] for name in names if name in given})


#: Options that may be one name or several.
_SEVERAL = ("probability", "question", "cluster", "by", "on", "percent")


def _to_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _load_table(data: Any) -> ForecastTable:
    return read_table(Path(data)) if isinstance(data, str | Path) else build_table(data)


@dataclass(frozen=True, slots=True, eq=False)
class _ScoreGroup:
    """Rows of one forecaster to score: all, or those of one group. asked: number of questions."""

    forecaster: str
    rows: pl.DataFrame
    asked: int
    by: str | None = None
    group: str | None = None

    @property
    def title(self) -> str:
        """Text for the progress display: the forecaster, and the group if any."""
        return self.forecaster if self.by is None else f"{self.forecaster}, {self.by} {self.group}"


def _score_sheet(sheet: Sheet, plan: Inference, loss: Loss, report: Progress) -> ScoreResult:
    """Score every forecaster and group of a sheet, and compare the forecasters."""
    parts = list(_split_groups(sheet))
    frames: list[pl.DataFrame] = []
    reliability = []
    for finished, part in enumerate(parts):
        report(finished, len(parts) + 1, f"scoring {part.title}")
        forecasts, clusters = build_arrays(part.rows)
        frame = evaluate_forecasts(forecasts, clusters, part.asked, plan).frame()
        first = {"by": part.by, "group": part.group, "forecaster": part.forecaster}
        frames.append(frame.select(*(pl.lit(value, pl.String).alias(name) for name, value in first.items()), pl.all()))
        if part.by is None:
            rows = bins_of(forecasts, clusters, plan)
            reliability.append(rows.select(pl.lit(part.forecaster).alias("forecaster"), pl.all()))
    report(len(parts), len(parts) + 1, "scoring pairs")
    panel = sheet.panel()
    ranked, unranked = _select_ranked(sheet, panel)
    comparison = compare_panel(panel, ranked, loss=loss, plan=plan)
    report(len(parts) + 1, len(parts) + 1, "")
    scores = pl.concat(frames)
    return ScoreResult(
        scores.filter(pl.col("by").is_null()).drop("by", "group"),
        scores.filter(pl.col("by").is_not_null()),
        comparison.pairs,
        comparison.ranking,
        pl.concat(reliability),
        _compute_losses(sheet),
        sheet.sources,
        sheet.columns,
        sheet.clusters,
        (*sheet.notes, *unranked, *_comparison_notes(sheet, comparison)),
        loss,
        plan,
    )


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


def _split_groups(sheet: Sheet) -> Iterator[_ScoreGroup]:
    """Yield the rows to score: all of each forecaster, then for each group column those of each group and forecaster."""
    for columns in ([], *([f"by_{index}"] for index in range(len(sheet.by)))):
        name = sheet.by[int(columns[0].removeprefix("by_"))] if columns else None
        groups = sheet.frame.sort(*columns, "forecaster_index", maintain_order=True)
        for key, group in groups.partition_by(columns, as_dict=True).items() if columns else [((), groups)]:
            questions = group.unique("question_index")
            for forecaster, rows in group.partition_by("forecaster", as_dict=True, maintain_order=True).items():
                questions_asked = questions if sheet.is_paired else rows
                yield _ScoreGroup(str(forecaster[0]), rows, questions_asked.height, name, key[0] if key else None)


def _compute_losses(sheet: Sheet) -> pl.DataFrame:
    p, y = (sheet.frame[name].fill_null(float("nan")).to_numpy() for name in ("probability", "outcome"))
    columns = ["forecaster", "question", "probability", "outcome", "market", "weight"]
    clusters = [name for name in sheet.frame.columns if name.startswith("cluster_")]
    logarithm = np.where(np.isnan(p), np.nan, log_loss(np.nan_to_num(p), y))
    losses = {"squared_error": np.square(p - y), "log_loss": logarithm}
    return sheet.frame.select(*columns, *clusters).with_columns(
        pl.Series(name, values, nan_to_null=True) for name, values in losses.items()
    )


def _comparison_notes(sheet: Sheet, comparison: Comparison) -> Iterator[str]:
    among = comparison.pairs.filter((pl.col("forecaster") != MARKET) & (pl.col("other") != MARKET))
    if sheet.is_paired and among.height and not (among["n"] > 0).any():
        yield f"No two forecasters have a question in common: check that {' and '.join(sheet.columns.question)} names the question."
