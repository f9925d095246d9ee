"""Result of scoring: tables, and their forms as text, JSON and page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.comparison import Loss
from bellwether.scoring.columns import ColumnRoles

#: Callback for progress: number of finished steps, total number of steps, and description of the next step.
Progress = Callable[[int, int, str], object]

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


@dataclass(frozen=True, slots=True, eq=False)
class ScoreResult:
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

    scores: pl.DataFrame
    groups: pl.DataFrame
    pairs: pl.DataFrame
    ranking: pl.DataFrame
    reliability: pl.DataFrame
    forecasts: pl.DataFrame
    sources: tuple[str, ...]
    columns: ColumnRoles
    clusters: str
    notes: tuple[str, ...]
    loss: Loss
    plan: Inference

    def __str__(self) -> str:
        """Return the tables as text, like the output of `bellwether score`."""
        from bellwether.scoring.text_tables import format_tables

        return format_tables(self)

    def write_html(self, path: Path | str) -> None:
        """Write one self-contained page with the tables and interactive reliability diagrams, atomically."""
        from bellwether.scoring.html_page import write_page

        write_page(self, Path(path))

    @property
    def forecasters(self) -> list[str]:
        """Names of the forecasters by loss, best first; forecasters without a loss are last."""
        return [str(name) for name in self.ranking["forecaster"]]

    @property
    def n_questions(self) -> int:
        """Number of questions."""
        return self.forecasts["question"].n_unique()

    @property
    def n_clusters(self) -> int:
        """Number of clusters; for two-way clusters, the smaller number."""
        return min(self.forecasts[name].n_unique() for name in self.forecasts.columns if name.startswith("cluster_"))

    def to_dict(self) -> dict[str, Any]:
        """Return settings and tables as values for JSON; the table of forecasts is left out."""
        return {
            "sources": list(self.sources),
            "n_questions": self.n_questions,
            "n_clusters": self.n_clusters,
            "clusters": self.clusters,
            "columns": {str(role): list(names) for role, names in self.columns.used().items()},
            "level": self.plan.level,
            "replicates": self.plan.replicates,
            "seed": self.plan.seed,
            "loss": str(self.loss),
            **{name: getattr(self, name).to_dicts() for name in ("scores", "groups", "pairs", "ranking", "reliability")},
            "notes": list(self.notes),
        }


def format_metric(metric: str) -> str:
    """Return the readable name of a metric."""
    return _READABLE.get(metric, metric.replace("_", " "))
