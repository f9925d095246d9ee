"""Discrimination: ability to distinguish yes from no, independent of calibration. Its metrics, ROC-AUC and average precision, need outcomes of yes and no.

ROC-AUC is the probability that a question resolved yes had a higher forecast than one resolved no, with ties counted half. Average precision
is the sum over thresholds of the gain in recall times the precision, as in scikit-learn, without interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.forecasts import Floats
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


def _auc(yes: Floats, no: Floats) -> float:
    pairs = yes.sum() * no.sum()
    below = np.cumsum(no) - no
    return float((yes * (below + no / 2)).sum() / pairs) if pairs else float("nan")


def _average_precision(mass: Floats, yes: Floats) -> float:
    mass, yes = mass[::-1], yes[::-1]
    return float((yes * np.cumsum(yes) / np.cumsum(mass)).sum() / yes.sum()) if yes.sum() else float("nan")
