"""Scores adjusted for the difficulty of the questions: two-way fixed effects of forecaster and question, fitted again in every replicate.

The loss of forecaster i on question j is a_i + g_j and noise. A forecaster's adjusted score is a_i plus the mean of g over all questions, each once: what
it would have scored had it answered every one, as ForecastBench has it. Eliminating the questions leaves a Laplacian of the size of the forecasters,
which is a sum over events; replicates and jackknife only add and subtract events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bellwether.arena.rankings.price_noise import Exposure
from bellwether.calibration.clusters import Grouping
from bellwether.calibration.forecasts import Bools, Floats, Ints
from bellwether.calibration.inference import BLOCK, Inference, exactly_summable
from bellwether.calibration.intervals import CONSTANT, DEPENDS_ON_ONE, LARGEST_SHARE, LEAST_CLUSTERS, Bounds, quantile, too_few, too_large
from bellwether.calibration.jackknife import satterthwaite
from bellwether.calibration.mean_inference import FLOORED
from bellwether.calibration.ranking import share_first

UNCONNECTED = "no chain of common questions leads to the other forecasters"
#: A smaller share of the mean eigenvalue is rounding: the questions fall apart.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """N losses: of which forecaster (0 to M - 1) on which question, intp (N,); events: the event of every question.

    slope: derivative of each loss by its outcome, float64 (N,), and exposure: these outcomes; None where prices are unknown.
    """

    loss: Floats
    forecaster: Ints
    question: Ints
    events: Grouping
    forecasters: int
    slope: Floats | None = None
    exposure: Exposure | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted:
    """Adjusted scores of M forecasters, NaN where not comparable, and their intervals.

    first, first_raw: shares of the bootstrap replicates in which each has the smallest adjusted score, and the smallest mean loss; NaN where not ranked.
    """

    score: Floats
    bounds: list[Bounds]
    first: Floats
    first_raw: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Contributions of events to the normal equations of two and more forecasters, a row per event (or replicate), and how it is read."""

    matrix: Floats
    forecasters: int

    def of(self, matrix: Floats) -> _Sums:
        return _Sums(matrix, self.forecasters)

    def scores(self) -> Floats:
        """Adjusted scores, float64 (rows, M), NaN where the questions of a row do not connect all forecasters."""
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
        found = np.full((len(self.matrix), size), np.nan)
        if connected.any():
            # Effects add up to 0: the constant vector, which the Laplacian does not see, is given an eigenvalue.
            full = laplacian[connected] + (scale[connected] / size)[:, None, None]
            effect = np.linalg.solve(full, excess[connected][:, :, None])[:, :, 0]
            level = (mean_loss[connected] - (share[connected] * effect).sum(axis=1)) / questions[connected]
            found[connected] = effect + level[:, None]
        return found


def adjusted(losses: Losses, ranked: Bools, plan: Inference) -> Adjusted:
    """Adjusted scores with intervals over events (jackknife t, as those of other scores), and shares of bootstrap replicates ranked first.

    Forecasters outside the largest set that common questions connect have no adjusted score, nor has one whom they connect to nobody. ranked: bool (M,), who
    can be first.
    """
    size = losses.forecasters
    score, first, first_raw = (np.full(size, np.nan) for _ in range(3))
    bounds = [Bounds(reason=UNCONNECTED)] * size
    if not len(losses.loss):
        return Adjusted(score, bounds, first, first_raw)
    inside = _connected(losses)
    sums, (total, answered) = _per_event(losses, inside) if inside.any() else None, _raw(losses)
    if sums is not None:
        whole = sums.matrix.sum(axis=0, keepdims=True)
        value, without = sums.of(whole).scores()[0], sums.of(whole - sums.matrix).scores()
        score[inside] = value
        floor = _floor(losses, inside, sums, whole)
        for column, index in enumerate(np.flatnonzero(inside)):
            bounds[index] = _bounds(float(value[column]), without[:, column], answered[:, index], float(floor[column]), plan.level)
    if losses.events.count >= LEAST_CLUSTERS and plan.replicates:
        fitted, raw = _replicates(sums, total, answered, plan)
        first[inside & ranked] = share_first(fitted[ranked[inside]])
        first_raw[ranked] = share_first(raw[ranked])
    return Adjusted(score, bounds, first, first_raw)


def _bounds(value: float, without: Floats, size: Floats, floor: float, level: float) -> Bounds:
    """Student's t interval of an adjusted score from the scores without each event, NaN where undefined, and answers of each event, (C,) each.

    floor: the minimum variance.
    """
    some = size[size > 0]
    if len(some) < LEAST_CLUSTERS:
        return Bounds(reason=too_few(len(some)))
    if (share := float(some.max() / some.sum())) > LARGEST_SHARE:
        return Bounds(reason=too_large(share))
    if np.isnan(without).any():
        return Bounds(reason=DEPENDS_ON_ONE)
    variance, df = max(float(np.square(without - value).sum()), floor), float(satterthwaite(some, some))
    if variance <= _ROUNDING**2:
        return Bounds(reason=CONSTANT)
    reach = quantile(level, df) * np.sqrt(variance)
    return Bounds(max(value - reach, min(value, 0.0)), min(value + reach, max(value, 1.0)), FLOORED, df)


def _floor(losses: Losses, inside: Bools, sums: _Sums, whole: Floats) -> Floats:
    """Variance of the adjusted scores inside under prices, float64 (M,): they are linear in the losses, which are linear in the outcomes."""
    if losses.slope is None or losses.exposure is None:
        return np.zeros(sums.forecasters)
    chance, market = losses.exposure.chance, np.zeros(len(losses.events.index), dtype=np.intp)
    market[losses.question] = losses.exposure.market
    shifted = replace(losses, loss=losses.slope * np.sqrt(chance * (1 - chance)), events=Grouping.of(market))
    moved = _per_event(shifted, inside).matrix
    matrix = np.repeat(whole, len(moved), axis=0)
    first = whole.shape[1] - 2 * sums.forecasters - 2
    excess = slice(first, first + sums.forecasters)
    matrix[:, excess], matrix[:, -2] = moved[:, excess], moved[:, -2]
    return losses.exposure.joint_variance(sums.of(matrix).scores())


def _replicates(sums: _Sums | None, total: Floats, answered: Floats, plan: Inference) -> tuple[Floats, Floats]:
    """Adjusted scores (of the forecasters in sums) and mean losses (of all) on every bootstrap replicate over events, float64 (forecasters, R) each."""
    events, size = total.shape
    matrix, fitted_size = (np.zeros((events, 0)), 0) if sums is None else (sums.matrix, sums.forecasters)
    width = matrix.shape[1]
    exact = exactly_summable(np.concatenate([matrix, total, answered], axis=1))
    fitted, raw = list[Floats](), list[Floats]()
    for draws in plan.draws(events, max(1, BLOCK // (events + width + fitted_size**2))):
        drawn = draws @ exact
        fitted.append(np.zeros((len(drawn), 0)) if sums is None else sums.of(drawn[:, :width]).scores())
        counts = drawn[:, width + size :]
        raw.append(np.divide(drawn[:, width : width + size], counts, out=np.full(counts.shape, np.nan), where=counts > 0))
    return np.concatenate(fitted).T, np.concatenate(raw).T


def _raw(losses: Losses) -> tuple[Floats, Floats]:
    """Summed losses and answers of every event and forecaster, float64 (events, M) each."""
    size, events = losses.forecasters, losses.events
    cells = events.index[losses.question] * size + losses.forecaster
    shape, cell_count = (events.count, size), events.count * size
    total = np.asarray(np.bincount(cells, losses.loss, cell_count), dtype=np.float64)
    count = np.asarray(np.bincount(cells, minlength=cell_count), dtype=np.float64)
    return total.reshape(shape), count.reshape(shape)


def _per_event(losses: Losses, inside: Bools) -> _Sums:
    """Contributions of every event to the fit of the forecasters inside, bool (M,).

    They are: shared weight of each pair, answers, excess losses and shares of each forecaster, mean loss, questions.
    """
    kept, number = inside[losses.forecaster], np.cumsum(inside) - 1
    size, questions = int(inside.sum()), len(losses.events.index)
    cells = losses.question[kept] * size + number[losses.forecaster[kept]]
    count = np.bincount(cells, minlength=questions * size).reshape(questions, size).astype(np.float64)
    total = np.bincount(cells, losses.loss[kept], questions * size).reshape(questions, size)
    answers = count.sum(axis=1)
    asked = answers > 0
    share = np.divide(count, answers[:, None], out=np.zeros_like(count), where=asked[:, None])
    mean = np.divide(total.sum(axis=1), answers, out=np.zeros(questions), where=asked)
    first, second = np.triu_indices(size)
    columns = np.concatenate(
        [count[:, first] * share[:, second], count, total - count * mean[:, None], share, mean[:, None], asked[:, None]], axis=1
    )
    return _Sums(np.stack([losses.events.sums(column) for column in columns.T], axis=1), size)


def _connected(losses: Losses) -> Bools:
    """The largest set of forecasters that common questions connect, bool (M,): of equally large ones that with the most losses, then that of the first forecaster.

    It is empty where no two forecasters have a question in common.
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
