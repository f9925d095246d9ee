"""Results of an evaluation: value and uncertainty of a metric, and all metrics of a forecaster."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import polars as pl

from bellwether.calibration.forecasts import Floats
from bellwether.calibration.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Estimate:
    """Value of a metric with its interval; fields are None if undefined.

    lower, upper: the interval. reason: cause of a missing interval.
    expected, p_calibrated: of a calibration error, its mean if the forecasts were calibrated, and the p-value of a test of calibration.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    reason: str | None = None
    expected: float | None = None
    p_calibrated: float | None = None


_FLOATS = ("value", "lower", "upper", "expected", "p_calibrated")


@dataclass(frozen=True, slots=True)
class Scores(Mapping[str, Estimate]):
    """All metrics of one forecaster by name, over `n` forecasts from `n_clusters` clusters (0 without clusters).

    losses: per-forecast scores by name, float64 (N,) each, in input order: squared_error, log_loss and absolute_error.
    """

    n: int
    n_clusters: int
    estimates: Mapping[str, Estimate]
    losses: Mapping[str, Floats]

    def __getitem__(self, metric: str) -> Estimate:
        try:
            return self.estimates[metric]
        except KeyError:
            near = difflib.get_close_matches(metric, self.estimates, n=1)
            raise KeyError(f"no metric is called {metric!r}{f'; did you mean {near[0]!r}?' if near else ''}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def frame(self) -> pl.DataFrame:
        """Return one row per metric: metric, value, lower, upper, reason, expected, p_calibrated, n, n_clusters, better, meaning."""
        rows = []
        for name, estimate in self.items():
            metric = METRICS.get(name)
            rows.append(
                {
                    "metric": name,
                    **asdict(estimate),
                    "n": self.n,
                    "n_clusters": self.n_clusters,
                    "better": metric.better.value if metric else "lower",
                    "meaning": metric.meaning if metric else None,
                }
            )
        texts = dict.fromkeys(("metric", "reason", "better", "meaning"), pl.String())
        schema = {name: texts.get(name, pl.Float64() if name in _FLOATS else pl.Int64()) for name in rows[0]}
        return pl.DataFrame(rows, schema=schema)
