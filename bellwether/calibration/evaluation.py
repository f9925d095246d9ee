"""From forecasts and outcomes to every metric with its interval, for one forecaster or several on the same clusters."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bellwether.calibration import strict
from bellwether.calibration.bootstrap import Bootstrap, Clustered, bca_interval, jackknife, percentile_interval, replicate
from bellwether.calibration.forecasts import Floats, Forecasts, Ints
from bellwether.calibration.metrics import DEBIASED, ESTIMATED, METRICS
from bellwether.errors import ScoringError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric's value with its intervals, percentile and BCa; None where undefined or withheld. `replicates` is 0 when there is no interval."""

    value: float | None
    lower: float | None = None
    upper: float | None = None
    replicates: int = 0
    bca_lower: float | None = None
    bca_upper: float | None = None


@dataclass(frozen=True, slots=True)
class Scores(Mapping[str, Estimate]):
    """Every metric of one forecaster by name, over `n` forecasts from `n_clusters` clusters."""

    n: int
    n_clusters: int
    estimates: Mapping[str, Estimate]

    def __getitem__(self, metric: str) -> Estimate:
        try:
            return self.estimates[metric]
        except KeyError:
            near = difflib.get_close_matches(metric, METRICS, n=1)
            raise KeyError(f"no metric is called {metric!r}{f'; did you mean {near[0]!r}?' if near else ''}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def frame(self) -> pl.DataFrame:
        """One row per metric: metric, value, lower, upper, bca_lower, bca_upper, better, meaning."""
        import polars as pl

        floats = dict.fromkeys(("value", "lower", "upper", "bca_lower", "bca_upper"), pl.Float64())
        rows = [
            (name, *(getattr(one, column) for column in floats), METRICS[name].better.value, METRICS[name].meaning)
            for name, one in self.items()
        ]
        return pl.DataFrame(rows, schema={"metric": pl.String(), **floats, "better": pl.String(), "meaning": pl.String()}, orient="row")


def evaluate(
    p: ArrayLike,
    y: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any] | None = None,
    *,
    answer: Sequence[Any] | NDArray[Any] | None = None,
    market: ArrayLike | None = None,
    asked: int | None = None,
    bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 frozen
) -> Scores:
    """Score forecasts `p` of yes against outcomes `y`: `evaluate([0.8, 0.3], [1, 0])["brier"].value`.

    Parameters
    ----------
    p: probabilities of yes, (N,), in [0, 1].
    y: outcomes, (N,), 1 for yes and 0 for no.
    clusters: label of the cluster (series, event) of each forecast; intervals need them. Give `range(N)` for independent forecasts.
    answer: "yes", "no" or None per forecast; without one the decision is p >= 0.5.
    market: the market's price of yes per forecast for `skill_vs_market`, NaN where there was none.
    asked: number of questions asked, for `coverage`; N when left out.
    bootstrap: replicates, seed and level of the intervals.

    Raises `ScoringError` that names the column, the index and the value that cannot be scored.
    """
    forecasts = Forecasts.of(p, y, answer=answer, market=market)
    size = len(forecasts)
    if asked is not None and asked < size:
        raise ScoringError(f"scoring: {size} forecasts on {asked} questions asked; give the number of questions, at least one per forecast")
    if clusters is None:
        cluster, n_clusters = np.zeros(size, dtype=np.intp), min(size, 1)
    else:
        cluster = index_of(clusters, size)
        n_clusters = int(cluster.max(initial=-1)) + 1
    return evaluate_together({"": Clustered(forecasts, cluster)}, n_clusters, size if asked is None else asked, bootstrap)[""]


def evaluate_together(samples: Mapping[str, Clustered], n_clusters: int, asked: int, bootstrap: Bootstrap) -> dict[str, Scores]:
    """Score several forecasters on the same `asked` questions of `n_clusters` clusters, with the same bootstrap draws for all."""
    resampled = {
        name: sample for name, sample in samples.items() if bootstrap.replicates and _clusters_of(sample) >= bootstrap.least_clusters
    }
    drawn = list(resampled.values())
    resamples = dict(zip(resampled, zip(replicate(drawn, n_clusters, bootstrap), jackknife(drawn, n_clusters), strict=True), strict=True))
    return {name: _scores(sample, asked, resamples.get(name), bootstrap) for name, sample in samples.items()}


def _scores(sample: Clustered, asked: int, resamples: tuple[Floats, Floats] | None, bootstrap: Bootstrap) -> Scores:
    """`resamples`: every metric on every replicate, (metrics, R), and without each cluster, (metrics, C); None for no interval."""
    size = len(sample.forecasts)
    values = strict.point(sample.forecasts)
    estimates = {name: Estimate(_defined(values[name])) for name in ESTIMATED}
    if resamples is not None:
        for name, replicates, without in zip(ESTIMATED, *resamples, strict=True):
            bias = values[DEBIASED[name]] - values[name] if name in DEBIASED else 0.0
            estimates[name] = _estimate(values[name], replicates - bias, without, bootstrap)
    error = float(np.square(sample.forecasts.p - sample.forecasts.y).sum())
    estimates["coverage"] = Estimate(size / asked if asked else None)
    estimates["brier_imputed"] = Estimate((error + 0.25 * (asked - size)) / asked if asked else None)
    return Scores(size, _clusters_of(sample), {name: estimates[name] for name in METRICS})


def _estimate(value: float, replicates: Floats, without: Floats, bootstrap: Bootstrap) -> Estimate:
    lower, upper = percentile_interval(replicates, bootstrap)
    if np.isnan(value) or np.isnan(lower):
        return Estimate(_defined(value))
    bca_lower, bca_upper = bca_interval(value, replicates, without, bootstrap)
    return Estimate(value, lower, upper, bootstrap.replicates, _defined(bca_lower), _defined(bca_upper))


def index_of(labels: Sequence[Any] | NDArray[Any], size: int) -> Ints:
    """Index of each label among the distinct ones, in order of first appearance."""
    if len(labels) != size:
        raise ScoringError(f"scoring: column clusters has {len(labels)} values and p has {size}; give one label per forecast")
    for index, label in enumerate(labels):
        if label is None or (isinstance(label, float | np.floating) and np.isnan(label)):
            raise ScoringError(
                f"scoring: column clusters holds {label} at index {index}; give every forecast a cluster, its own where it has none"
            )
    indices: dict[Any, int] = {}
    return np.array([indices.setdefault(label, len(indices)) for label in labels], dtype=np.intp)


def _clusters_of(sample: Clustered) -> int:
    return len(np.unique(sample.cluster))


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else value
