"""Tables of scored forecasts, for display as text, figures and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from bellwether.calibration.comparison_pairs import Loss
from bellwether.calibration.forecasts import Bins
from bellwether.calibration.inference import Inference
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
    "mce": "MCE",
    "ace": "ACE",
    "smece": "smECE",
}


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ScoreTables:
    """Tables and settings of a result. Base class of `ScoreResult`, for the modules that display results."""

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
    bins: Bins = field(repr=False)

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
