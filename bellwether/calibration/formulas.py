"""Formulas of the metrics. Undefined metrics are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from bellwether.calibration.clusters import Clusters
from bellwether.calibration.decomposition import corp_terms, debiased_terms, murphy_terms, variance_of_outcomes, yates_terms
from bellwether.calibration.discrimination import discrimination
from bellwether.calibration.forecasts import DECILES, Bins, Floats, Forecasts
from bellwether.calibration.metrics import ESTIMATED
from bellwether.calibration.smooth_calibration import smooth_error
from bellwether.calibration.sorted_forecasts import SortedForecasts, ace, sum_explained_squares
from bellwether.calibration.sufficient_statistics import THRESHOLDS, Sums, ratio, total_sums


def compute_metrics(forecasts: Forecasts, clusters: Clusters | None = None, bins: Bins = DECILES) -> dict[str, float]:
    """Compute every metric of `ESTIMATED`; NaN where undefined. clusters: used by debiased terms only."""
    ordered = SortedForecasts.of(forecasts)
    sums = total_sums(forecasts, bins)
    ranks = discrimination(ordered, is_binary=forecasts.is_binary)
    values: dict[str, Any] = {
        **from_sums(sums),
        **debiased_terms(forecasts, clusters, bins),
        **corp_terms(sums, sum_explained_squares(*ordered.tally())),
        "roc_auc": ranks.roc_auc,
        "average_precision": ranks.average_precision,
        "ace": ace(ordered, bins.count),
        "smece": smooth_error(ordered),
    }
    return {name: float(values[name]) for name in ESTIMATED}


def from_sums(sums: Sums) -> dict[str, Floats]:
    """Compute by name the metrics that need nothing but sums. Sums of shape (..., width) give arrays of shape (...)."""
    return {
        **_classification(sums),
        **_calibration(sums),
        "uncertainty": variance_of_outcomes(sums),
        **murphy_terms(sums),
        **yates_terms(sums),
        **_confidence(sums),
        "base_rate": ratio(sums["yes"], sums["n"]),
        "bias": ratio(sums["p"] - sums["yes"], sums["n"]),
    }


def denominators(sums: Sums) -> dict[str, Floats]:
    """Return the denominators of all metrics, under the names that `metrics.Interval.size` uses."""
    n, yes, said_yes = sums["n"], sums["yes"], sums["said_yes"]
    wrong = said_yes + yes - 2 * sums["hit_yes"]
    return {
        "n": n,
        "yes": yes,
        "no": n - yes,
        "said_yes": said_yes,
        "said_no": n - said_yes,
        "right": n - wrong,
        "wrong": wrong,
        "f1_yes": said_yes + yes,
        "f1_no": 2 * n - said_yes - yes,
        "priced": sums["priced"],
        **{f"confident_{name}": sums[f"confident_{name}"] for name in THRESHOLDS},
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
    count, gap = sums["bin_n"], np.abs(sums["bin_p"] - sums["bin_yes"])
    # An empty bin has a gap of 0, which does not change the maximum over non-empty bins.
    widest = np.divide(gap, count, out=np.zeros_like(gap), where=count > 0).max(axis=-1)
    return {
        "brier": brier,
        "brier_yes": ratio(sums["squared_error_yes"], sums["yes"]),
        "brier_no": ratio(sums["squared_error_no"], n - sums["yes"]),
        "brier_skill": 1 - ratio(brier, variance_of_outcomes(sums)),
        "skill_vs_half": 1 - brier / 0.25,
        "skill_vs_market": 1 - ratio(sums["squared_error_priced"], sums["squared_error_market"]),
        "log_loss": ratio(sums["log_loss"], n),
        "ece": ratio(gap.sum(axis=-1), n),
        "mce": np.where(n > 0, widest, np.nan),
    }


def _confidence(sums: Sums) -> dict[str, Floats]:
    wrong = sums["said_yes"] + sums["yes"] - 2 * sums["hit_yes"]
    return {
        "average_confidence": ratio(sums["confidence"], sums["n"]),
        "confidence_when_correct": ratio(sums["confidence_correct"], sums["n"] - wrong),
        "confidence_when_wrong": ratio(sums["confidence_wrong"], wrong),
        **{f"overconfidence_{name}": ratio(sums[f"confident_wrong_{name}"], sums[f"confident_{name}"]) for name in THRESHOLDS},
    }
