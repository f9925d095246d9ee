"""Discrimination: ability to distinguish yes from no, independent of calibration. Its metrics, ROC-AUC and average precision, need outcomes of yes and no.

ROC-AUC is the probability that a question resolved yes had a higher forecast than one resolved no, with ties counted half. Average precision
is the sum over thresholds of the gain in recall times the precision, as in scikit-learn, without interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.clusters import Grouping
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.sorted_forecasts import SortedForecasts


@dataclass(frozen=True, slots=True)
class Discrimination:
    """Metrics of discrimination; NaN where undefined."""

    roc_auc: float
    average_precision: float


def discrimination(ordered: SortedForecasts, *, is_binary: bool) -> Discrimination:
    """Compute ROC-AUC and average precision; NaN if outcomes are fractional or all agree."""
    mass, yes = ordered.tally()
    if not is_binary or not len(mass):
        return Discrimination(float("nan"), float("nan"))
    return Discrimination(_auc(yes, mass - yes), _average_precision(mass, yes))


def jackknife_roc_auc(forecasts: Forecasts, groups: Grouping) -> Floats:
    """Return for each group the ROC-AUC of the forecasts outside it, float64 (groups.count,); NaN if the outcomes outside agree.

    Pairs of a yes and a no are counted once over all forecasts and once inside each group. The pairs without a group are all pairs minus those
    with a member in it.
    """
    ordered = SortedForecasts.of(forecasts)
    order = Grouping(groups.index[ordered.order], groups.count)
    yes, no = ordered.yes, ordered.weight - ordered.yes
    below_no, below_yes = _below(ordered, no), _below(ordered, yes)
    wins = order.sums(yes * below_no)  # pairs whose yes is in the group
    losses = order.sums(no * (yes.sum() - below_yes))  # pairs whose no is in the group
    inside = _inside(ordered, order)
    n_yes, n_no = order.sums(yes), order.sums(no)
    pairs = (yes.sum() - n_yes) * (no.sum() - n_no)
    won = (yes * below_no).sum() - wins - losses + inside
    return np.divide(won, pairs, out=np.full(groups.count, np.nan), where=pairs > _MIN_SHARE * yes.sum() * no.sum())


#: Minimum share of remaining pairs; a smaller one is rounding.
_MIN_SHARE = 1e-12


def influence_on_average_precision(forecasts: Forecasts) -> Floats:
    """Return the first-order influence of each forecast on the average precision: the forecast's weight times the derivative by this
    weight, float64 (N,).

    Values are in the order of the forecasts.
    The sum over a cluster approximates the change of the average precision without the cluster.
    """
    ordered = SortedForecasts.of(forecasts)
    mass, yes = (part[::-1] for part in ordered.tally())
    weight_above, hits, total = np.cumsum(mass), np.cumsum(yes), yes.sum()
    precision = hits / weight_above
    value = float((yes * precision).sum() / total)
    later = np.cumsum((yes / weight_above)[::-1])[::-1], np.cumsum((yes * hits / np.square(weight_above))[::-1])[::-1]
    group = np.repeat(np.arange(len(mass)), np.diff(ordered.group_ends, prepend=-1)[::-1])[::-1]
    outcome = ordered.yes / ordered.weight
    slope = outcome * (precision[group] - value) + outcome * later[0][group] - later[1][group]
    influence = np.empty(len(forecasts))
    influence[ordered.order] = ordered.weight * slope / total
    return influence


def _auc(yes: Floats, no: Floats) -> float:
    pairs = yes.sum() * no.sum()
    below = np.cumsum(no) - no
    return float((yes * (below + no / 2)).sum() / pairs) if pairs else float("nan")


def _average_precision(mass: Floats, yes: Floats) -> float:
    mass, yes = mass[::-1], yes[::-1]
    return float((yes * np.cumsum(yes) / np.cumsum(mass)).sum() / yes.sum()) if yes.sum() else float("nan")


def _below(ordered: SortedForecasts, part: Floats) -> Floats:
    """Return for each forecast the sum of `part` over smaller forecasts, plus half of the sum over equal ones."""
    sums = ordered.group_sums(part)
    sizes = np.diff(ordered.group_ends, prepend=-1)
    return np.repeat(np.cumsum(sums) - sums / 2, sizes)


def _inside(ordered: SortedForecasts, groups: Grouping) -> Floats:
    """Count for each group the pairs of a yes and a no inside it in which the yes has the higher forecast, ties half; float64
    (groups.count,).

    `groups` are those of the sorted forecasts.
    """
    level = np.repeat(np.arange(len(ordered.group_ends)), np.diff(ordered.group_ends, prepend=-1))
    at = np.lexsort((level, groups.index))
    group, level, yes, no = groups.index[at], level[at], ordered.yes[at], (ordered.weight - ordered.yes)[at]
    first = np.flatnonzero(np.append(True, (np.diff(group) > 0) | (np.diff(level) > 0)))
    yes, no, group = np.add.reduceat(yes, first), np.add.reduceat(no, first), group[first]
    running = np.cumsum(no)
    starts = np.flatnonzero(np.append(True, np.diff(group) > 0))
    preceding = np.repeat(running[starts] - no[starts], np.diff(np.append(starts, len(group))))
    return Grouping(group, groups.count).sums(yes * (running - preceding - no / 2))
