"""Tables of scored forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.comparison import Loss
from bellwether.scoring.columns import ColumnRoles


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTables:
    """Tables and settings of a result; base of `ScoreResult` for the modules that display results."""

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
            "seed": self.plan.seed,
            "loss": str(self.loss),
            **{name: getattr(self, name).to_dicts() for name in ("scores", "groups", "pairs", "ranking", "reliability")},
            "notes": list(self.notes),
        }
