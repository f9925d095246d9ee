"""Scores adjusted for question difficulty: two-way fixed effects of forecaster and question.

The loss of forecaster i on question j is a_i + g_j plus noise. The adjusted score is a_i plus the mean of g over all questions: the expected
score if the forecaster had answered every question (as in ForecastBench). Eliminating the questions leaves a Laplacian with one row per
forecaster. The Laplacian is a sum over events (groups of related questions), so that bootstrap replicates and the jackknife only add and
subtract events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bellwether.arena.rankings.price_noise import Exposure
from bellwether.calibration.clusters import Grouping
from bellwether.calibration.estimates import Estimate
from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.inference import BLOCK, Inference, round_for_exact_sums
from bellwether.calibration.intervals import (
    CONSTANT,
    DEPENDS_ON_ONE,
    LARGEST_SHARE,
    MIN_CLUSTERS,
    few_clusters_reason,
    large_cluster_reason,
    quantile,
)
from bellwether.calibration.jackknife import satterthwaite
from bellwether.calibration.mean_inference import FLOORED
from bellwether.calibration.ranking import share_first

UNCONNECTED = "no chain of common questions leads to the other forecasters"
#: Eigenvalues below this share of the mean degree count as 0: the questions are not connected.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """N losses, each of one forecaster on one question.

    forecaster: index from 0 to M - 1, intp (N,). question: index, intp (N,). events: event of each question. slope: derivative of each loss by its
    outcome, float64 (N,). exposure: price-implied probabilities of the outcomes. slope and exposure are None if prices are unknown.
    """

    loss: Floats
    forecaster: Ints
    question: Ints
    events: Grouping
    forecasters: int
    slope: Floats | None = None
    exposure: Exposure | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AdjustedScores:
    """Adjusted scores of M forecasters; NaN if not comparable with the others. bounds: the interval of each score, in an estimate without a
    value.

    first, first_raw: share of bootstrap replicates in which each forecaster has the smallest adjusted score, or the smallest mean loss; NaN if
    unranked.
    """

    score: Floats
    bounds: list[Estimate]
    first: Floats
    first_raw: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _EventSums:
    """Sums from which the adjusted scores of at least two forecasters are solved (normal equations). Each row is one event, or a sum of events
    such as a bootstrap replicate.
    """

    matrix: Floats
    forecasters: int

    def of(self, matrix: Floats) -> _EventSums:
        return _EventSums(matrix, self.forecasters)

    def scores(self) -> Floats:
        """Solve each row for the adjusted scores, float64 (rows, M); NaN if common questions do not connect all forecasters in the row."""
        size = self.forecasters
        pairs = np.triu_indices(size)
        shared = np.zeros((len(self.matrix), size, size))
        at = len(pairs[0])
        shared[:, pairs[0], pairs[1]] = shared[:, pairs[1], pairs[0]] = self.matrix[:, :at]
        answered, excess, share = (self.matrix[:, at + k * size : at + (k + 1) * size] for k in range(3))
        mean_loss, questions = self.matrix[:, -2], self.matrix[:, -1]
        laplacian = -shared
        laplacian[:, range(size), range(size)] += answered
        scale = answered.mean(axis=1)
        connected = (questions > 0) & (answered > 0).all(axis=1)
        connected[connected] = np.linalg.eigvalsh(laplacian[connected])[:, 1] > _ROUNDING * scale[connected]
        scores = np.full((len(self.matrix), size), np.nan)
        if connected.any():
            # Effects sum to 0: give the constant vector, the null space of the Laplacian, an eigenvalue.
            full = laplacian[connected] + (scale[connected] / size)[:, None, None]
            effect = np.linalg.solve(full, excess[connected][:, :, None])[:, :, 0]
            level = (mean_loss[connected] - (share[connected] * effect).sum(axis=1)) / questions[connected]
            scores[connected] = effect + level[:, None]
        return scores


def adjust_scores(losses: Losses, ranked: Bools, plan: Inference) -> AdjustedScores:
    """Compute adjusted scores with jackknife t intervals over events, and in which share of bootstrap replicates each forecaster is first.
    ranked: forecasters that can be first, bool (M,).

    Only the largest set of forecasters connected by common questions has adjusted scores.
    """
    size = losses.forecasters
    score, first, first_raw = (np.full(size, np.nan) for _ in range(3))
    bounds = [Estimate(None, reason=UNCONNECTED)] * size
    if not len(losses.loss):
        return AdjustedScores(score, bounds, first, first_raw)
    inside = _find_connected(losses)
    sums, (total, answered) = _sum_by_event(losses, inside) if inside.any() else None, _sum_losses(losses)
    if sums is not None:
        whole = sums.matrix.sum(axis=0, keepdims=True)
        value, without = sums.of(whole).scores()[0], sums.of(whole - sums.matrix).scores()
        score[inside] = value
        floor = _variance_floor(losses, inside, sums, whole)
        for column, index in enumerate(np.flatnonzero(inside)):
            bounds[index] = _jackknife_interval(
                float(value[column]), without[:, column], answered[:, index], float(floor[column]), plan.level
            )
    if losses.events.count >= MIN_CLUSTERS and plan.replicates:
        fitted, raw = _bootstrap_scores(sums, total, answered, plan)
        first[inside & ranked] = share_first(fitted[ranked[inside]])
        first_raw[ranked] = share_first(raw[ranked])
    return AdjustedScores(score, bounds, first, first_raw)


def _jackknife_interval(value: float, without: Floats, size: Floats, floor: float, level: float) -> Estimate:
    """Return Student's t interval of an adjusted score, from the scores without each event. The estimate has bounds and no value. size: answers
    in each event. floor: minimum variance.

    without: NaN if undefined, (C,). size: (C,).
    """
    answers = size[size > 0]
    if len(answers) < MIN_CLUSTERS:
        return Estimate(None, reason=few_clusters_reason(len(answers)))
    if (share := float(answers.max() / answers.sum())) > LARGEST_SHARE:
        return Estimate(None, reason=large_cluster_reason(share))
    if np.isnan(without).any():
        return Estimate(None, reason=DEPENDS_ON_ONE)
    variance, df = max(float(np.square(without - value).sum()), floor), float(satterthwaite(answers, answers))
    if variance <= _ROUNDING**2:
        return Estimate(None, reason=CONSTANT)
    reach = quantile(level, df) * np.sqrt(variance)
    return Estimate(None, max(value - reach, min(value, 0.0)), min(value + reach, max(value, 1.0)), FLOORED, df)


def _variance_floor(losses: Losses, inside: Bools, sums: _EventSums, whole: Floats) -> Floats:
    """Return the variance that each adjusted score has if market prices are the true probabilities, float64 (M,). It is the minimum variance of
    the score.

    inside: fitted forecasters. whole: sums over all events. Adjusted scores are linear in losses, and losses are linear in outcomes.
    """
    if losses.slope is None or losses.exposure is None:
        return np.zeros(sums.forecasters)
    chance, market = losses.exposure.chance, np.zeros(len(losses.events.index), dtype=np.intp)
    market[losses.question] = losses.exposure.market
    shifted = replace(losses, loss=losses.slope * np.sqrt(chance * (1 - chance)), events=Grouping.of(market))
    moved = _sum_by_event(shifted, inside).matrix
    matrix = np.repeat(whole, len(moved), axis=0)
    first = whole.shape[1] - 2 * sums.forecasters - 2
    excess = slice(first, first + sums.forecasters)
    matrix[:, excess], matrix[:, -2] = moved[:, excess], moved[:, -2]
    return losses.exposure.joint_variance(sums.of(matrix).scores())


def _bootstrap_scores(sums: _EventSums | None, total: Floats, answered: Floats, plan: Inference) -> tuple[Floats, Floats]:
    """Return, for each of R bootstrap replicates, the adjusted scores of fitted forecasters and the mean losses of all, float64 (forecasters, R)
    each. total, answered: summed losses and answers, (events, forecasters).
    """
    events, size = total.shape
    matrix, fitted_size = (np.zeros((events, 0)), 0) if sums is None else (sums.matrix, sums.forecasters)
    width = matrix.shape[1]
    exact = round_for_exact_sums(np.concatenate([matrix, total, answered], axis=1))
    fitted, raw = list[Floats](), list[Floats]()
    for draws in plan.draws(events, max(1, BLOCK // (events + width + fitted_size**2))):
        drawn = draws @ exact
        fitted.append(np.zeros((len(drawn), 0)) if sums is None else sums.of(drawn[:, :width]).scores())
        counts = drawn[:, width + size :]
        raw.append(np.divide(drawn[:, width : width + size], counts, out=np.full(counts.shape, np.nan), where=counts > 0))
    return np.concatenate(fitted).T, np.concatenate(raw).T


def _sum_losses(losses: Losses) -> tuple[Floats, Floats]:
    """Return summed losses and number of answers per event and forecaster, float64 (events, M) each."""
    size, events = losses.forecasters, losses.events
    cells = events.index[losses.question] * size + losses.forecaster
    shape, cell_count = (events.count, size), events.count * size
    total = np.asarray(np.bincount(cells, losses.loss, cell_count), dtype=np.float64)
    count = np.asarray(np.bincount(cells, minlength=cell_count), dtype=np.float64)
    return total.reshape(shape), count.reshape(shape)


def _sum_by_event(losses: Losses, inside: Bools) -> _EventSums:
    """Return, for every event, the sums from which adjusted scores are solved. inside: fitted forecasters, bool (M,).

    Columns: shared weight of each pair; answers, excess losses and shares of each forecaster; mean loss; number of questions.
    """
    selected, number = inside[losses.forecaster], np.cumsum(inside) - 1
    size, questions = int(inside.sum()), len(losses.events.index)
    cells = losses.question[selected] * size + number[losses.forecaster[selected]]
    count = np.bincount(cells, minlength=questions * size).reshape(questions, size).astype(np.float64)
    total = np.bincount(cells, losses.loss[selected], questions * size).reshape(questions, size)
    answers = count.sum(axis=1)
    answered = answers > 0
    share = np.divide(count, answers[:, None], out=np.zeros_like(count), where=answered[:, None])
    mean = np.divide(total.sum(axis=1), answers, out=np.zeros(questions), where=answered)
    first, second = np.triu_indices(size)
    columns = np.concatenate(
        [count[:, first] * share[:, second], count, total - count * mean[:, None], share, mean[:, None], answered[:, None]], axis=1
    )
    return _EventSums(np.stack([losses.events.sums(column) for column in columns.T], axis=1), size)


def _find_connected(losses: Losses) -> Bools:
    """Return the largest set of forecasters connected by common questions, bool (M,). Of equally large sets, the one with the most losses is
    chosen, then the one with the first forecaster.

    The set is empty if no two forecasters share a question.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size, questions = losses.forecasters, len(losses.events.index)
    shape = (size + questions, size + questions)
    graph = coo_array((np.ones(len(losses.loss)), (losses.forecaster, size + losses.question)), shape=shape)
    count, labels = connected_components(graph, directed=False)
    members = np.bincount(labels[:size], minlength=count)
    answers = np.bincount(labels[losses.forecaster], minlength=count)
    first = np.unique(labels[:size], return_index=True)
    best = max(zip(members[first[0]], answers[first[0]], -first[1], first[0], strict=True))
    return np.asarray((labels[:size] == best[3]) & (members[best[3]] > 1))
