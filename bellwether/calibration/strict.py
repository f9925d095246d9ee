"""The metrics themselves: one formula each, over sums of any leading shape, NaN where a metric is undefined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bellwether.calibration.decomposition import decompose
from bellwether.calibration.equal_mass import ace
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.isotonic import explained
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.ordered import Ordered
from bellwether.calibration.smooth import smooth_error
from bellwether.calibration.sufficient import THRESHOLDS, Sums, ratio, total


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """What depends on the order of the forecasts, each of the leading shape of the sums of the same forecasts.

    ace: adaptive calibration error. isotonic: as `isotonic.explained`. smece: smooth calibration error.
    """

    ace: Floats
    isotonic: Floats
    smece: Floats


def point(forecasts: Forecasts) -> dict[str, float]:
    """Every metric of `ESTIMATED` on the forecasts as they are; NaN where undefined."""
    ordered = Ordered.of(forecasts)
    mass, yes = ordered.tally()
    ranked = Ranked(np.asarray(ace(ordered)), explained(mass, yes), np.asarray(smooth_error(ordered)))
    values = from_sums(total(forecasts), ranked)
    return {name: float(values[name]) for name in ESTIMATED}


def from_sums(sums: Sums, ranked: Ranked) -> dict[str, Floats]:
    """Every metric of `ESTIMATED` from sums of shape (..., WIDTH); each value has the leading shape."""
    return {
        **_classification(sums),
        **_calibration(sums),
        **decompose(sums, ranked.isotonic),
        **_confidence(sums),
        "ace": ranked.ace,
        "smece": ranked.smece,
        "base_rate": ratio(sums["yes"], sums["n"]),
    }


def _classification(sums: Sums) -> dict[str, Floats]:
    tp = sums["hit_yes"]
    fp = sums["said_yes"] - tp
    fn = sums["yes"] - tp
    tn = sums["n"] - sums["yes"] - fp
    f1_yes = ratio(2 * tp, 2 * tp + fp + fn)
    f1_no = ratio(2 * tn, 2 * tn + fp + fn)
    return {
        "accuracy": ratio(tp + tn, sums["n"]),
        "precision_yes": ratio(tp, tp + fp),
        "recall_yes": ratio(tp, tp + fn),
        "f1_yes": f1_yes,
        "precision_no": ratio(tn, tn + fn),
        "recall_no": ratio(tn, tn + fp),
        "f1_no": f1_no,
        "macro_f1": (f1_yes + f1_no) / 2,
    }


def _calibration(sums: Sums) -> dict[str, Floats]:
    n = sums["n"]
    brier = ratio(sums["squared_error"], n)
    base_rate = ratio(sums["yes"], n)
    count, gap = sums["bin_n"], np.abs(sums["bin_p"] - sums["bin_yes"])
    # An empty bin has a gap of 0 here, which a maximum over non-empty bins never sees.
    widest = np.divide(gap, count, out=np.zeros_like(gap), where=count > 0).max(axis=-1)
    return {
        "brier": brier,
        "brier_yes": ratio(sums["squared_error_yes"], sums["yes"]),
        "brier_no": ratio(sums["squared_error_no"], n - sums["yes"]),
        "brier_index": 100 * (1 - np.sqrt(brier)),
        "brier_skill": 1 - ratio(brier, base_rate * (1 - base_rate)),
        "skill_vs_half": 1 - brier / 0.25,
        "skill_vs_market": 1 - ratio(sums["squared_error_priced"], sums["squared_error_market"]),
        "log_loss": ratio(sums["log_loss"], n),
        "ece": ratio(gap.sum(axis=-1), n),
        "mce": np.where(n > 0, widest, np.nan),
    }


def _confidence(sums: Sums) -> dict[str, Floats]:
    wrong = sums["said_yes"] + sums["yes"] - 2 * sums["hit_yes"]
    return {
        "average_confidence": ratio(sums["confidence_correct"] + sums["confidence_wrong"], sums["n"]),
        "confidence_when_correct": ratio(sums["confidence_correct"], sums["n"] - wrong),
        "confidence_when_wrong": ratio(sums["confidence_wrong"], wrong),
        **{f"overconfidence_{name}": ratio(sums[f"confident_wrong_{name}"], sums[f"confident_{name}"]) for name in THRESHOLDS},
    }
