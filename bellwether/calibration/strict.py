"""The metrics themselves: one formula each, over sums of any leading shape, NaN where a metric is undefined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bellwether.calibration.equal_mass import Ordered
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.sufficient import THRESHOLDS, Sums, total


def point(forecasts: Forecasts) -> dict[str, float]:
    """Every metric of `ESTIMATED` on the forecasts as they are; NaN where undefined."""
    return estimate(total(forecasts), Ordered.of(forecasts).ace())


def estimate(sums: Sums, ace: float) -> dict[str, float]:
    """Every metric of `ESTIMATED` from sums over all forecasts and their ACE."""
    values = from_sums(sums, np.asarray(ace))
    return {name: float(values[name]) for name in ESTIMATED}


def from_sums(sums: Sums, ace: Floats) -> dict[str, Floats]:
    """Every metric of `ESTIMATED` from sums of shape (..., WIDTH); each value has the leading shape."""
    return {**_classification(sums), **_calibration(sums), "ace": ace, **_confidence(sums), "base_rate": _ratio(sums["yes"], sums["n"])}


def _classification(sums: Sums) -> dict[str, Floats]:
    tp = sums["hit_yes"]
    fp = sums["said_yes"] - tp
    fn = sums["yes"] - tp
    tn = sums["n"] - sums["yes"] - fp
    f1_yes = _ratio(2 * tp, 2 * tp + fp + fn)
    f1_no = _ratio(2 * tn, 2 * tn + fp + fn)
    return {
        "accuracy": _ratio(tp + tn, sums["n"]),
        "precision_yes": _ratio(tp, tp + fp),
        "recall_yes": _ratio(tp, tp + fn),
        "f1_yes": f1_yes,
        "precision_no": _ratio(tn, tn + fn),
        "recall_no": _ratio(tn, tn + fp),
        "f1_no": f1_no,
        "macro_f1": (f1_yes + f1_no) / 2,
    }


def _calibration(sums: Sums) -> dict[str, Floats]:
    n = sums["n"]
    brier = _ratio(sums["squared_error"], n)
    base_rate = _ratio(sums["yes"], n)
    count, gap = sums["bin_n"], np.abs(sums["bin_p"] - sums["bin_yes"])
    # An empty bin has a gap of 0 here, which a maximum over non-empty bins never sees.
    widest = np.divide(gap, count, out=np.zeros_like(gap), where=count > 0).max(axis=-1)
    return {
        "brier": brier,
        "brier_skill": 1 - _ratio(brier, base_rate * (1 - base_rate)),
        "skill_vs_market": 1 - _ratio(sums["squared_error_priced"], sums["squared_error_market"]),
        "log_loss": _ratio(sums["log_loss"], n),
        "ece": _ratio(gap.sum(axis=-1), n),
        "mce": np.where(n > 0, widest, np.nan),
    }


def _confidence(sums: Sums) -> dict[str, Floats]:
    wrong = sums["said_yes"] + sums["yes"] - 2 * sums["hit_yes"]
    return {
        "average_confidence": _ratio(sums["confidence_correct"] + sums["confidence_wrong"], sums["n"]),
        "confidence_when_correct": _ratio(sums["confidence_correct"], sums["n"] - wrong),
        "confidence_when_wrong": _ratio(sums["confidence_wrong"], wrong),
        **{f"overconfidence_{name}": _ratio(sums[f"confident_wrong_{name}"], sums[f"confident_{name}"]) for name in THRESHOLDS},
    }


def _ratio(numerator: Floats, denominator: Floats) -> NDArray[np.float64]:
    """`numerator / denominator`, NaN where the denominator is not positive."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
