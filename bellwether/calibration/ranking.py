"""Who is best, and how surely: shares of replicates ranked first, the model confidence set and groups that do not differ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from string import ascii_letters

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Ints


def share_first(replicates: Floats) -> Floats:
    """Share of the replicates in which each of M forecasters has the smallest loss, float64 (M,); ties share theirs.

    `replicates` float64 (M, R), NaN where a forecaster has none of the questions drawn. NaN for all without a replicate.
    """
    if not replicates.size:
        return np.full(len(replicates), np.nan)
    loss = np.where(np.isnan(replicates), np.inf, replicates)
    best = (loss == loss.min(axis=0)) & np.isfinite(loss)
    holders = best.sum(axis=0)
    drawn = holders > 0
    if not drawn.any():
        return np.full(len(replicates), np.nan)
    return np.asarray((best[:, drawn] / holders[drawn]).mean(axis=1), dtype=np.float64)


def model_confidence_set(means: Floats, replicates: Floats, pairs: tuple[Ints, Ints], comparable: Bools, size: int) -> Floats:
    """p-value of each of `size` forecasters in the model confidence set, float64 (size,): the set at level a holds those with p > a.

    P. R. Hansen, A. Lunde and J. M. Nason, The model confidence set, Econometrica 79 (2011), 453-497, with the range statistic: the largest
    |t| over the pairs left, its distribution from the bootstrap centred at the means, and the loser of the largest t eliminated first.
    A pair is compared on its common questions. p = (b + 1) / (R + 1), so that none is 0.

    means: float64 (P,), mean loss of the first minus that of the second of every pair.
    replicates: float64 (P, R), the same on every replicate.
    pairs: column indices of the first and of the second, (P,) each.
    comparable: bool (P,); other pairs are left out. A forecaster without a comparable pair, or without a replicate, has p NaN.
    """
    p = np.full(size, np.nan)
    first, second = pairs
    alive = np.isin(np.arange(size), np.concatenate([first[comparable], second[comparable]]))
    if not replicates.shape[1] or not alive.any():
        return p
    t, simulated = _standardized(means, replicates, comparable)
    score = np.zeros((size, size))
    score[first, second], score[second, first] = t, -t
    steps: list[tuple[int, float]] = []
    while alive.sum() > 1:
        left = np.flatnonzero(alive)
        within = score[np.ix_(left, left)]
        loser = int(left[np.unravel_index(np.argmax(within), within.shape)[0]])
        steps.append((loser, float(within.max())))
        alive[loser] = False
    p[alive] = 1.0
    gone = {loser: order for order, (loser, _) in enumerate(steps)}
    # A pair takes part until the first of its two is eliminated.
    last = np.array([min(gone.get(int(i), size), gone.get(int(j), size)) for i, j in zip(first, second, strict=True)])
    largest = np.zeros(replicates.shape[1])
    tails = np.empty(len(steps))
    for step in range(len(steps) - 1, -1, -1):
        members = comparable & (last == step)
        largest = np.maximum(largest, simulated[members].max(axis=0, initial=0.0))
        tails[step] = (np.count_nonzero(largest >= steps[step][1]) + 1) / (len(largest) + 1)
    for (loser, _), value in zip(steps, np.maximum.accumulate(tails), strict=True):
        p[loser] = value
    return p


def letters(order: Sequence[int], differ: Bools) -> list[str]:
    """Compact letter display: two forecasters share a letter exactly when they do not differ.

    `order` lists the indices from best to worst; `differ` bool (M, M), symmetric. Returns one string per entry of `order`; "a" is of the
    best. Insert and absorb: H.-P. Piepho, Journal of Computational and Graphical Statistics 13 (2004), 456-466.
    """
    groups: list[frozenset[int]] = [frozenset(range(len(order)))] if order else []
    for one, other in combinations(range(len(order)), 2):
        if differ[order[one], order[other]]:
            groups = _absorb([part for group in groups for part in _split(group, one, other)])
    ranked = sorted(groups, key=sorted)
    return ["".join(_letter(index) for index, group in enumerate(ranked) if place in group) for place in range(len(order))]


def _standardized(means: Floats, replicates: Floats, comparable: Bools) -> tuple[Floats, Floats]:
    """t of every pair (P,), 0 where it is undefined, and |t| of every replicate about the mean (P, R)."""
    centred = replicates - means[:, None]
    centred[~comparable] = 0.0
    np.nan_to_num(centred, copy=False, nan=0.0)
    error = np.sqrt(np.square(centred).mean(axis=1))
    varies = comparable & (error > 0)
    t = np.divide(means, error, out=np.zeros(len(means)), where=varies)
    np.abs(centred, out=centred)
    centred /= np.where(varies, error, 1.0)[:, None]
    return t, centred


def _split(group: frozenset[int], one: int, other: int) -> tuple[frozenset[int], ...]:
    return (group - {one}, group - {other}) if {one, other} <= group else (group,)


def _absorb(groups: list[frozenset[int]]) -> list[frozenset[int]]:
    distinct = sorted(set(groups), key=lambda group: (-len(group), sorted(group)))
    kept: list[frozenset[int]] = []
    for group in distinct:
        if not any(group <= larger for larger in kept):
            kept.append(group)
    return kept


def _letter(index: int) -> str:
    """a to z, A to Z, then a1, b1, …"""
    turn, place = divmod(index, len(ascii_letters))
    return ascii_letters[place] + (str(turn) if turn else "")
