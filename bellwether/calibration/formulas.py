"""Formulas of the metrics. Undefined metrics are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from bellwether.calibration.clusters import Clusters
from bellwether.calibration.decomposition import corp_terms, debiased_terms, murphy_terms, variance_of_outcomes, yates_terms
from bellwether.calibration.discrimination import discrimination
from bellwether.calibration.forecasts import DECILES, Bins, Bools, Floats, Forecasts
from bellwether.calibration.metrics import ESTIMATED, SKILLS
from bellwether.calibration.smooth_calibration import smooth_error
from bellwether.calibration.sorted_forecasts import SortedForecasts, ace, sum_explained_squares
from bellwether.calibration.sufficient_statistics import THRESHOLDS, Sums, log_loss, ratio, total_sums


def compute_metrics(forecasts: Forecasts, clusters: Clusters | None = None, bins: Bins = DECILES) -> dict[str, float]:
    """Compute every metric of `ESTIMATED`; NaN where undefined. clusters: used by debiased terms only."""
    ordered = SortedForecasts.of(forecasts)
    sums = total_sums(forecasts, bins)
    ranks = discrimination(ordered, is_binary=forecasts.is_binary)
    rates = {name: _ratio_of_sums(*terms, forecasts.weight) for name, terms in metric_terms(forecasts, forecasts.y).items()}
    values: dict[str, Any] = {
        **dict.fromkeys(ESTIMATED, np.nan),
        **{name: rate if name not in SKILLS else 1 - rate for name, rate in rates.items()},
        "macro_f1": (rates.get("f1_yes", np.nan) + rates.get("f1_no", np.nan)) / 2,
        **_binned_errors(sums),
        "uncertainty": variance_of_outcomes(sums),
        **murphy_terms(sums),
        **debiased_terms(forecasts, clusters, bins),
        **corp_terms(sums, sum_explained_squares(*ordered.tally())),
        **yates_terms(sums),
        "roc_auc": ranks.roc_auc,
        "average_precision": ranks.average_precision,
        "ace": ace(ordered, bins.count),
        "smece": smooth_error(ordered),
    }
    return {name: float(values[name]) for name in ESTIMATED}


def metric_terms(forecasts: Forecasts, y: Floats) -> dict[str, tuple[Floats | Bools, Floats | Bools]]:
    """Return numerator and denominator of each forecast, (N,) each, for the metrics that are ratios of weighted sums; for skills those of
    1 - skill.

    y: outcomes, float64 (N,); those of the forecasts, or possible other ones. Without binary outcomes, metrics of decisions are missing. The
    reference of `brier_skill` is the base rate of the forecasts' own outcomes.
    """
    p, weight, market = forecasts.p, forecasts.weight, forecasts.market
    everywhere = np.ones(len(p), dtype=bool)
    error = np.square(p - y)
    priced = ~np.isnan(market)
    base_rate = (weight * forecasts.y).sum() / weight.sum() if len(p) else np.nan
    confidence = np.maximum(p, 1 - p)
    terms: dict[str, tuple[Floats | Bools, Floats | Bools]] = {
        "brier": (error, everywhere),
        "brier_skill": (error, np.square(base_rate - y)),
        "skill_vs_half": (error, everywhere / 4),
        "skill_vs_market": (np.where(priced, error, 0.0), np.where(priced, np.square(market - y), 0.0)),
        "log_loss": (log_loss(p, y), everywhere),
        "average_confidence": (confidence, everywhere),
        "base_rate": (y, everywhere),
    }
    if not forecasts.is_binary:
        return terms
    yes, said_yes = y == 1, forecasts.decision
    right = yes == said_yes
    return terms | {
        "accuracy": (right, everywhere),
        "precision_yes": (yes & said_yes, said_yes),
        "recall_yes": (yes & said_yes, yes),
        "f1_yes": (2.0 * (yes & said_yes), yes + said_yes.astype(float)),
        "precision_no": (~yes & ~said_yes, ~said_yes),
        "recall_no": (~yes & ~said_yes, ~yes),
        "f1_no": (2.0 * (~yes & ~said_yes), 2.0 - yes - said_yes),
        "brier_yes": (error * yes, yes),
        "brier_no": (error * ~yes, ~yes),
        "confidence_when_correct": (confidence * right, right),
        "confidence_when_wrong": (confidence * ~right, ~right),
        **{f"overconfidence_{name}": ((confidence > at) & ~right, confidence > at) for name, at in THRESHOLDS.items()},
    }


def _ratio_of_sums(numerator: Floats | Bools, denominator: Floats | Bools, weight: Floats) -> float:
    whole = float((weight * denominator).sum())
    return float((weight * numerator).sum()) / whole if whole > 0 else float("nan")


def _binned_errors(sums: Sums) -> dict[str, Floats]:
    count, gap = sums["bin_n"], np.abs(sums["bin_p"] - sums["bin_yes"])
    # An empty bin has a gap of 0, which does not change the maximum over non-empty bins.
    widest = np.divide(gap, count, out=np.zeros_like(gap), where=count > 0).max(axis=-1)
    return {"ece": ratio(gap.sum(axis=-1), sums["n"]), "mce": np.where(sums["n"] > 0, widest, np.nan)}
