"""Catalogue of metrics: direction, formula, meaning, and the reason for a missing interval, for tables and docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    """Direction in which a metric improves; `NEITHER` for a descriptive metric."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Metric:
    """Description of a metric. Symbols in `formula`: p (forecast of yes), y (1 for yes), d (decision), c = max(p, 1 - p), b = mean y."""

    name: str
    better: Better
    formula: str
    meaning: str


_METRICS = (
    ("accuracy", Better.HIGHER, "(TP + TN) / N", "share of decisions that were right"),
    ("precision_yes", Better.HIGHER, "TP / (TP + FP)", "share of yes decisions that were right; null without a yes decision"),
    ("recall_yes", Better.HIGHER, "TP / (TP + FN)", "share of yes outcomes that were decided yes; null without a yes outcome"),
    (
        "f1_yes",
        Better.HIGHER,
        "2 TP / (2 TP + FP + FN)",
        "harmonic mean of precision and recall of yes; null without a yes decision or outcome",
    ),
    ("precision_no", Better.HIGHER, "TN / (TN + FN)", "share of no decisions that were right; null without a no decision"),
    ("recall_no", Better.HIGHER, "TN / (TN + FP)", "share of no outcomes that were decided no; null without a no outcome"),
    (
        "f1_no",
        Better.HIGHER,
        "2 TN / (2 TN + FP + FN)",
        "harmonic mean of precision and recall of no; null without a no decision or outcome",
    ),
    ("macro_f1", Better.HIGHER, "(f1_yes + f1_no) / 2", "mean of the two F1 scores; null when either is"),
    (
        "roc_auc",
        Better.HIGHER,
        "P(p of a yes > p of a no) + P(equal) / 2",
        "area under the ROC curve: discrimination of yes from no, whatever the calibration; null without both outcomes",
    ),
    (
        "average_precision",
        Better.HIGHER,
        "sum over thresholds of (recall - recall before) precision",
        "area under the precision-recall curve of yes; null without a yes outcome",
    ),
    ("brier", Better.LOWER, "mean (p - y)^2", "squared error of the probability; 0 is perfect, always 0.5 scores 0.25"),
    ("brier_yes", Better.LOWER, "mean (p - 1)^2 where y = 1", "Brier score of the questions that resolved yes; null without one"),
    ("brier_no", Better.LOWER, "mean p^2 where y = 0", "Brier score of the questions that resolved no; null without one"),
    (
        "brier_skill",
        Better.HIGHER,
        "1 - brier / variance of y, which is b (1 - b)",
        "improvement over always forecasting the sample's own base rate; null when all outcomes agree",
    ),
    ("skill_vs_half", Better.HIGHER, "1 - brier / 0.25", "improvement over always forecasting 0.5"),
    (
        "skill_vs_market",
        Better.HIGHER,
        "1 - brier / brier of the market, on questions with both",
        "improvement over the latest market price at the forecast's as_of; null without a price or when the market made no error",
    ),
    (
        "encompassing",
        Better.HIGHER,
        "c of y ~ logistic(a + b logit q + c logit p), q the market's price, both clipped to [0.01, 0.99]",
        "what the forecast knows beyond the price: at 0 the price encompasses it; null for copies of the price and for separated outcomes",
    ),
    (
        "pool_weight",
        Better.HIGHER,
        "w = sum (p - q)(y - q) / sum (p - q)^2",
        "weight of the forecast in the pool w p + (1 - w) q with the least Brier score; 0 adds nothing to the price; null for copies of it",
    ),
    (
        "pool_gain",
        Better.HIGHER,
        "brier of q - brier of v p + (1 - v) q, v = w bounded to [0, 1]",
        "reduction of the price's Brier score by the best pool; biased upwards; its interval follows from that of pool_weight",
    ),
    (
        "paper_return",
        Better.HIGHER,
        "sum of profits / sum of costs of one contract per question where p is above the cost of yes or 1 - p above the cost of no",
        "return of betting the difference to the market at the recorded quotes, after spread and taker fee; null without bets",
    ),
    (
        "log_loss",
        Better.LOWER,
        "-mean (y ln p + (1 - y) ln(1 - p)), p clipped to [1e-15, 1 - 1e-15]",
        "surprise at the outcome, in nats; punishes confident errors",
    ),
    (
        "ece",
        Better.LOWER,
        "sum over 10 bins of n_k / N |mean p - mean y|",
        "expected calibration error: mean gap between forecast and frequency, equal-width bins; biased upwards",
    ),
    (
        "smece",
        Better.LOWER,
        "s with integral of |mean of (p - y) K_s(t, p)| dt = s, K_s a Gaussian kernel reflected at 0 and 1",
        "smooth calibration error: no bins, and a bandwidth equal to the error itself; biased upwards",
    ),
    (
        "murphy_reliability",
        Better.LOWER,
        "sum over 10 bins of n_k / N (mean p - mean y)^2",
        "squared gap between forecast and frequency; 0 is perfect calibration; biased upwards",
    ),
    (
        "murphy_reliability_debiased",
        Better.LOWER,
        "sum over bins of n_k / N mean (p - y)_i (p - y)_j over pairs of forecasts i, j of different clusters",
        "murphy_reliability without bias: may be negative; 0 on average for a calibrated forecaster, whatever the dependence inside clusters",
    ),
    (
        "murphy_resolution",
        Better.HIGHER,
        "sum over 10 bins of n_k / N (mean y in the bin - b)^2",
        "squared distance of the bins' frequencies from the base rate: discrimination; biased upwards",
    ),
    (
        "murphy_resolution_debiased",
        Better.HIGHER,
        "variance of b + sum over bins of n_k / N mean (y - b)_i (y - b)_j over pairs of forecasts i, j of different clusters",
        "murphy_resolution without bias: may be negative; 0 on average without discrimination",
    ),
    (
        "uncertainty",
        Better.NEITHER,
        "variance of y, which is b (1 - b)",
        "variance of the outcomes: Brier score of always forecasting the sample's own base rate",
    ),
    (
        "corp_miscalibration",
        Better.LOWER,
        "brier - brier of q",
        "reduction of the Brier score by isotonic recalibration q of the forecasts; biased upwards",
    ),
    (
        "corp_discrimination",
        Better.HIGHER,
        "variance of y - brier of q",
        "improvement over the base rate after isotonic recalibration q of the forecasts; biased upwards",
    ),
    ("average_confidence", Better.NEITHER, "mean c", "confidence of the forecasts, from 0.5 to 1"),
    ("confidence_when_correct", Better.NEITHER, "mean c where d = y", "confidence of the right decisions; null without one"),
    ("confidence_when_wrong", Better.LOWER, "mean c where d != y", "confidence of the wrong decisions; null without one"),
    ("base_rate", Better.NEITHER, "mean y", "share of yes among the scored questions"),
    ("coverage", Better.HIGHER, "N / questions asked", "share of questions with a forecast that counts; no interval"),
)

#: All metrics, in the order of listings.
METRICS: dict[str, Metric] = {name: Metric(name, better, formula, meaning) for name, better, formula, meaning in _METRICS}

#: Metrics that depend only on the scored forecasts; the others also depend on the questions.
ESTIMATED: tuple[str, ...] = tuple(name for name in METRICS if name != "coverage")

#: Metrics relative to the score of another forecast. They have no value with fewer clusters than an interval needs.
SKILLS: tuple[str, ...] = ("brier_skill", "skill_vs_half", "skill_vs_market")

#: Metrics that compare with the market's price and need one.
AGAINST_MARKET: tuple[str, ...] = ("skill_vs_market", "encompassing", "pool_weight", "pool_gain", "paper_return")

#: Calibration errors that chance alone makes positive. They have a mean and a p-value under calibration instead of an interval.
TESTED: tuple[str, ...] = ("ece", "smece", "murphy_reliability", "corp_miscalibration")

_BIASED = "biased upwards, so that no interval around it is one; read expected and p_calibrated"
_UNTESTED = "no interval with a known coverage"

#: Reason why a metric has no interval, by name; all other metrics have one.
NO_INTERVAL: dict[str, str] = {
    **dict.fromkeys(TESTED, _BIASED),
    "murphy_resolution": "biased upwards; read murphy_resolution_debiased",
    "corp_discrimination": "biased upwards, as corp_miscalibration is",
    "uncertainty": "a function of base_rate",
    "coverage": "counts what was asked; it is known exactly",
    **dict.fromkeys(("brier_yes", "brier_no"), _UNTESTED),
    **dict.fromkeys(("roc_auc", "average_precision", "murphy_reliability_debiased", "murphy_resolution_debiased"), _UNTESTED),
    **dict.fromkeys(("average_confidence", "confidence_when_correct", "confidence_when_wrong"), _UNTESTED),
}
