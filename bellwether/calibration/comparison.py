"""Several forecasters on the same questions: paired tests of every pair, and who is best.

    from bellwether.calibration import compare

    comparison = compare({"a": p_a, "b": p_b}, y, clusters=series)
    comparison.pairs       # one row per pair: mean difference, interval and p-values
    comparison.ranking     # one row per forecaster: share ranked first, model confidence set, significance group

docs/comparison.md says what each test is and when to read which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bellwether.calibration.bootstrap import Bootstrap, exactly_summable, percentile_interval, product
from bellwether.calibration.comparison_pairs import IDENTICAL, Differences, Panel, pair_statistics
from bellwether.calibration.evaluation import index_of
from bellwether.calibration.forecasts import Bools, Floats, Forecasts
from bellwether.calibration.ranking import letters, model_confidence_set, share_first
from bellwether.calibration.sufficient import CLIP
from bellwether.errors import ScoringError

if TYPE_CHECKING:
    import polars as pl

#: Two forecasters differ significantly where Holm's p is at most this.
SIGNIFICANCE = 0.05

#: The model confidence set holds the forecasters whose p exceeds this: it contains the best with probability 0.9.
CONFIDENCE_SET_LEVEL = 0.10

PERMUTATIONS = 10_000

#: Floats held at a time by one block of replicates, about 16 MB.
_BLOCK = 2_000_000


class Loss(StrEnum):
    """What is compared: a proper score, lower is better."""

    BRIER = "brier"
    LOG_LOSS = "log_loss"

    @classmethod
    def _missing_(cls, value: object) -> Loss:
        raise ScoringError(f"comparing forecasters: loss is {value!r}; give one of {', '.join(cls)}")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What `compare` found.

    pairs: one row per pair, columns forecaster, other, n, n_clusters (of the common questions), difference (mean loss of the forecaster
        minus that of the other), lower, upper, standard_error, t, p_cluster, p_sign_flip, p_holm, p_mcnemar and undefined_because. Where
        that says why, every test and the interval are null.
    ranking: one row per forecaster, best first, columns forecaster, n, loss (mean over its own forecasts), share_first, mcs_p, in_mcs and
        group; null for those that are not ranked.
    """

    pairs: pl.DataFrame
    ranking: pl.DataFrame
    loss: Loss
    replicates: int
    permutations: int
    seed: int


def p_text(p: float, digits: int = 4) -> str:
    """A p-value for people: never 0, but below the least number with so many decimals."""
    least = 10.0**-digits
    return f"{p:.{digits}f}" if p >= least else f"< {least:.{digits}f}"


def compare(
    forecasts: Mapping[str, ArrayLike],
    y: ArrayLike,
    clusters: Sequence[Any] | NDArray[Any],
    *,
    answers: Mapping[str, Sequence[Any]] | None = None,
    loss: Loss | str = Loss.BRIER,
    seed: int = Bootstrap().seed,
    replicates: int = Bootstrap().replicates,
    permutations: int = PERMUTATIONS,
) -> Comparison:
    """Compare forecasters on the same questions, pair by pair on those that both answered.

    Parameters
    ----------
    forecasts: probabilities of yes by forecaster, (N,) each, NaN where it has no forecast.
    y: outcomes, (N,), 1 for yes and 0 for no.
    clusters: label of the cluster (series, event) of each question, (N,). Give `range(N)` for independent questions.
    answers: "yes", "no" or None per question by forecaster, for McNemar's test; without one the decision is p >= 0.5.
    loss: "brier" or "log_loss".
    seed: of the bootstrap, whose draws are those of `evaluate`, and of the permutations.
    replicates, permutations: how many; 0 makes none.

    Raises `ScoringError` that names the column, the index and the value that cannot be scored.
    """
    measured = Loss(loss)
    if not isinstance(forecasts, Mapping):
        raise ScoringError(
            f"comparing forecasters: forecasts is a {type(forecasts).__name__}; give a dictionary of name to probabilities, such as frame.to_dict()"
        )
    strangers = sorted({*(answers or {})} - {*forecasts})
    if strangers:
        raise ScoringError(f"comparing forecasters: answers are given of {', '.join(strangers)}, without forecasts; give both, or neither")
    outcome = Forecasts.of(np.zeros(np.size(y)), y).y
    cluster = index_of(clusters, len(outcome))
    size = (len(outcome), len(forecasts))
    losses, right = np.full(size, np.nan), np.zeros(size, dtype=bool)
    for column, (name, p) in enumerate(forecasts.items()):
        losses[:, column], right[:, column] = _losses(name, p, outcome, (answers or {}).get(name), measured)
    panel = Panel(tuple(forecasts), losses, right, cluster, int(cluster.max(initial=-1)) + 1)
    everyone = np.asarray(panel.seen.any(axis=0))
    return compare_panel(panel, everyone, loss=measured, bootstrap=Bootstrap(replicates, seed), permutations=permutations)


def compare_panel(panel: Panel, ranked: Bools, *, loss: Loss, bootstrap: Bootstrap, permutations: int) -> Comparison:
    """`compare` of losses that are already computed. `ranked` bool (M,): who takes part in the ranking; all take part in the pairs."""
    differences = Differences.of(panel)
    tests = pair_statistics(panel, differences, permutations, bootstrap.seed)
    replicates = _replicate(panel, differences, bootstrap)
    mcs_p = _confidence_set(panel, ranked, differences, replicates.of_pairs)
    return Comparison(
        pairs=_pairs(panel, differences, tests, replicates.of_pairs, bootstrap),
        ranking=_ranking(panel, ranked, mcs_p, replicates.of_models, tests["p_holm"]),
        loss=loss,
        replicates=bootstrap.replicates,
        permutations=permutations,
        seed=bootstrap.seed,
    )


def losses_of(p: Floats, y: Bools, loss: Loss) -> Floats:
    """Loss of each forecast p of yes given the outcome, float64 of the shape of `p`; NaN where p is."""
    if loss is Loss.BRIER:
        return np.square(p - y)
    clipped = np.clip(p, CLIP, 1 - CLIP)
    return -np.log(np.where(y, clipped, 1 - clipped))


def _losses(name: str, p: ArrayLike, y: Bools, answer: Sequence[Any] | None, loss: Loss) -> tuple[Floats, Bools]:
    """Loss and whether the decision was right, of one forecaster on every question."""
    try:
        probability = np.asarray(p, dtype=np.float64)
        if probability.shape != y.shape:
            raise ScoringError(f"there are {probability.size} forecasts and {len(y)} outcomes; give NaN where there is no forecast")
        seen = ~np.isnan(probability)
        decision = Forecasts.of(np.where(seen, probability, 0.5), y, answer=answer).decision
    except (ScoringError, TypeError, ValueError) as error:
        raise ScoringError(f"comparing forecaster {name!r}: {error}") from None
    return losses_of(probability, y, loss), decision == y


@dataclass(frozen=True, slots=True, eq=False)
class _Replicates:
    """Mean difference of every pair (P, R) and mean loss of every forecaster (M, R) on each replicate, NaN where nothing was drawn."""

    of_pairs: Floats
    of_models: Floats


def _replicate(panel: Panel, differences: Differences, plan: Bootstrap) -> _Replicates:
    size, clusters = len(panel.names), panel.n_clusters
    pairs = differences.total.shape[1]
    replicates = plan.replicates if clusters >= plan.least_clusters else 0
    of_pairs, of_models = np.full((pairs, replicates), np.nan), np.full((size, replicates), np.nan)
    if not (replicates and size):
        return _Replicates(of_pairs, of_models)
    seen = panel.seen.astype(np.float64)
    total = exactly_summable(np.concatenate([differences.total, panel.per_cluster(np.where(panel.seen, panel.loss, 0.0))], axis=1))
    counts, which = np.unique(np.concatenate([differences.count, panel.per_cluster(seen)], axis=1), axis=1, return_inverse=True)
    start = 0
    for weights in plan.weights(clusters, max(1, _BLOCK // (clusters + 2 * total.shape[1] + 1))):
        drawn = product(weights, counts)[:, which.ravel()]
        means = np.divide(product(weights, total), drawn, out=np.full(drawn.shape, np.nan), where=drawn > 0)
        rows = slice(start, start + len(weights))
        of_pairs[:, rows], of_models[:, rows] = means[:, :pairs].T, means[:, pairs:].T
        start += len(weights)
    return _Replicates(of_pairs, of_models)


def _pairs(panel: Panel, differences: Differences, tests: Mapping[str, Floats], replicates: Floats, plan: Bootstrap) -> pl.DataFrame:
    import polars as pl

    first, second = panel.pairs
    reasons = differences.undefined_because()
    bounds = [(np.nan, np.nan) if reason else percentile_interval(values, plan) for reason, values in zip(reasons, replicates, strict=True)]
    lower, upper = np.array(bounds).reshape(-1, 2).T
    floats = {"difference": differences.mean, "lower": lower, "upper": upper, **tests}
    order = ("difference", "lower", "upper", "standard_error", "t", "p_cluster", "p_sign_flip", "p_holm", "p_mcnemar")
    return pl.DataFrame(
        {
            "forecaster": pl.Series([panel.names[index] for index in first], dtype=pl.String),
            "other": pl.Series([panel.names[index] for index in second], dtype=pl.String),
            "n": differences.n.astype(np.int64),
            "n_clusters": differences.n_clusters.astype(np.int64),
            **{name: pl.Series(floats[name], dtype=pl.Float64, nan_to_null=True) for name in order},
            "undefined_because": pl.Series(reasons, dtype=pl.String),
        }
    )


def _confidence_set(panel: Panel, ranked: Bools, differences: Differences, replicates: Floats) -> Floats:
    """p-values of the model confidence set among the ranked, float64 (M,), NaN for the others and where it is undefined."""
    first, second = panel.pairs
    tested = [reason in {None, IDENTICAL} for reason in differences.undefined_because()]
    rarely_drawn = np.isnan(replicates).mean(axis=1) > Bootstrap().most_undefined if replicates.size else np.zeros(len(tested), dtype=bool)
    comparable = ranked[first] & ranked[second] & np.array(tested, dtype=bool) & ~rarely_drawn
    return model_confidence_set(differences.mean, replicates, panel.pairs, comparable, len(panel.names))


def _ranking(panel: Panel, ranked: Bools, mcs_p: Floats, replicates: Floats, p_holm: Floats) -> pl.DataFrame:
    import polars as pl

    size = len(panel.names)
    n = panel.seen.sum(axis=0)
    loss = np.divide(np.where(panel.seen, panel.loss, 0.0).sum(axis=0), n, out=np.full(size, np.nan), where=n > 0)
    in_mcs = [None if np.isnan(p) else bool(p > CONFIDENCE_SET_LEVEL) for p in mcs_p]
    first_places = np.full(size, np.nan)
    first_places[ranked] = share_first(replicates[ranked])
    return pl.DataFrame(
        {
            "forecaster": pl.Series(panel.names, dtype=pl.String),
            "n": n.astype(np.int64),
            "loss": pl.Series(loss, nan_to_null=True),
            "share_first": pl.Series(first_places, nan_to_null=True),
            "mcs_p": pl.Series(mcs_p, nan_to_null=True),
            "in_mcs": pl.Series(in_mcs, dtype=pl.Boolean),
            "group": pl.Series(_groups(panel, np.where(ranked, loss, np.nan), p_holm), dtype=pl.String),
        }
    ).sort("loss", nulls_last=True, maintain_order=True)


def _groups(panel: Panel, loss: Floats, p: Floats) -> list[str | None]:
    """Letters of each forecaster; None without a loss."""
    size = len(panel.names)
    differ = np.zeros((size, size), dtype=bool)
    differ[panel.pairs] = p <= SIGNIFICANCE
    differ |= differ.T
    order = [int(index) for index in np.argsort(loss, kind="stable") if not np.isnan(loss[index])]
    of = dict(zip(order, letters(order, differ), strict=True))
    return [of.get(index) for index in range(size)]
