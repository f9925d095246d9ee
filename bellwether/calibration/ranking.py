"""Uncertainty of a ranking: the confidence set of the best, and significance groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from string import ascii_letters

import numpy as np

from bellwether.calibration.forecasts import Bools, Floats, Ints


def confidence_set(difference: Floats, p_holm: Floats, pairs: tuple[Ints, Ints], ranked: Bools) -> Floats:
    """Return for each forecaster the p-value of being the best, float64 (M,). The confidence set of the best at level a contains the
    forecasters with p > a.

    It is the smallest corrected p-value of the pairs that the forecaster loses. Holm's correction limits the probability that any true best is
    left out to a. So the set is a model confidence set in the sense of P. R. Hansen, A. Lunde and J. M. Nason (Econometrica 79, 2011), from tests
    that keep their level with few clusters.

    difference: float64 (P,), mean loss of the first minus that of the second of every pair. p_holm: float64 (P,), NaN where undefined.
    pairs: column indices of the first and of the second, (P,) each. ranked: bool (M,), ranked forecasters. NaN without a tested pair.
    """
    p = np.full(len(ranked), np.nan)
    first, second = pairs
    for index, other, gap, value in zip(first, second, difference, p_holm, strict=True):
        if np.isnan(value) or not (ranked[index] and ranked[other]):
            continue
        loser, winner = (index, other) if gap > 0 else (other, index)
        p[loser] = np.nanmin([p[loser], value])
        p[winner] = np.nanmin([p[winner], 1.0])
    return p


def letters(order: Sequence[int], differ: Bools) -> list[str]:
    """Compute a compact letter display: two forecasters share a letter exactly when they do not differ.

    `order`: indices from best to worst. `differ`: bool (M, M), symmetric. Returns one string per entry of `order`, starting with "a" for the
    best. Insert and absorb: H.-P. Piepho, Journal of Computational and Graphical Statistics 13 (2004), 456-466.
    """
    groups: list[frozenset[int]] = [frozenset(range(len(order)))] if order else []
    for one, other in combinations(range(len(order)), 2):
        if differ[order[one], order[other]]:
            groups = _absorb([part for group in groups for part in _split(group, one, other)])
    ranked = sorted(groups, key=sorted)
    return ["".join(_letter(index) for index, group in enumerate(ranked) if place in group) for place in range(len(order))]


def group_letters(loss: Floats, p: Floats, pairs: tuple[Ints, Ints], significance: float) -> list[str | None]:
    """Return the letters of each forecaster's significance groups; None for a forecaster without a loss.

    loss: float64 (M,), NaN if missing. p: float64 (P,), p-value of each pair. pairs: as in `confidence_set`. A pair differs if its p-value is at
    most `significance`.
    """
    differ = np.zeros((len(loss), len(loss)), dtype=bool)
    differ[pairs] = p <= significance
    differ |= differ.T
    order = [int(index) for index in np.argsort(loss, kind="stable") if not np.isnan(loss[index])]
    by_index = dict(zip(order, letters(order, differ), strict=True))
    return [by_index.get(index) for index in range(len(loss))]


def _split(group: frozenset[int], index: int, other: int) -> tuple[frozenset[int], ...]:
    """Replace a group that contains both forecasters by one without the first and one without the second. index, other: the two
    forecasters.
    """
    return (group - {index}, group - {other}) if {index, other} <= group else (group,)


def _absorb(groups: list[frozenset[int]]) -> list[frozenset[int]]:
    """Remove groups that are contained in another group; the others are returned, the largest first."""
    distinct = sorted(set(groups), key=lambda group: (-len(group), sorted(group)))
    maximal: list[frozenset[int]] = []
    for group in distinct:
        if not any(group <= larger for larger in maximal):
            maximal.append(group)
    return maximal


def _letter(index: int) -> str:
    """Return the letter of a group: a to z, A to Z, then a1, b1, …."""
    turn, place = divmod(index, len(ascii_letters))
    return ascii_letters[place] + (str(turn) if turn else "")
