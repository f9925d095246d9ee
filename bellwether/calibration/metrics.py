"""Catalogue of metrics: direction, formula, meaning, and the reason for a missing interval, for tables and docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    """Direction in which a metric improves; `NEITHER` for a descriptive metric."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class MetricFamily(StrEnum):
    """Property that a metric measures."""

    CLASSIFICATION = "classification"
    DISCRIMINATION = "discrimination"
    CALIBRATION = "calibration"
    DECOMPOSITION = "decomposition"
    CONFIDENCE = "confidence"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Metric:
    """Description of a metric. Symbols in `formula`: p (forecast of yes), y (1 for yes), d (decision), c = max(p, 1 - p), b = mean y."""

    name: str
    family: MetricFamily
    better: Better
    formula: str
    meaning: str


_CLASSIFICATION = (
    ("accuracy", "(TP + TN) / N", "share of decisions that were right"),
    ("precision_yes", "TP / (TP + FP)", "share of yes decisions that were right; null without a yes decision"),
    ("recall_yes", "TP / (TP + FN)", "share of yes outcomes that were decided yes; null without a yes outcome"),
    ("f1_yes", "2 TP / (2 TP + FP + FN)", "harmonic mean of precision and recall of yes; null without a yes decision or outcome"),
    ("precision_no", "TN / (TN + FN)", "share of no decisions that were right; null without a no decision"),
    ("recall_no", "TN / (TN + FP)", "share of no outcomes that were decided no; null without a no outcome"),
    ("f1_no", "2 TN / (2 TN + FP + FN)", "harmonic mean of precision and recall of no; null without a no decision or outcome"),
    ("macro_f1", "(f1_yes + f1_no) / 2", "mean of the two F1 scores; null when either is"),
)
_DISCRIMINATION = (
    (
        "roc_auc",
        "P(p of a yes > p of a no) + P(equal) / 2",
        "area under the ROC curve: discrimination of yes from no, whatever the calibration; null without both outcomes",
    ),
    (
        "average_precision",
        "sum over thresholds of (recall - recall before) precision",
        "area under the precision-recall curve of yes; null without a yes outcome",
    ),
)
_CALIBRATION = (
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
        "mce",
        Better.LOWER,
        "max over non-empty bins of |mean p - mean y|",
        "largest gap of any bin, however few forecasts it has; biased upwards",
    ),
    (
        "ace",
        Better.LOWER,
        "mean over 10 equal-mass bins of |mean p - mean y|",
        "adaptive calibration error: as ECE with a tenth of the forecasts in each bin, tied forecasts shared evenly; biased upwards",
    ),
    (
        "smece",
        Better.LOWER,
        "s with integral of |mean of (p - y) K_s(t, p)| dt = s, K_s a Gaussian kernel reflected at 0 and 1",
        "smooth calibration error: no bins, and a bandwidth equal to the error itself; biased upwards",
    ),
)
_DECOMPOSITION = (
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
        "within_bin_variance",
        Better.NEITHER,
        "sum over bins of (p - mean p in the bin)^2 / N",
        "variance of the forecasts inside the bins, ignored by murphy_reliability",
    ),
    (
        "within_bin_covariance",
        Better.NEITHER,
        "2 sum over bins of (p - mean p in the bin) (y - mean y in the bin) / N",
        "twice the covariance inside the bins: discrimination ignored by murphy_resolution",
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
    ("yates_bias_squared", Better.LOWER, "(mean p - b)^2", "squared difference of the mean forecast and the base rate"),
    (
        "yates_min_variance",
        Better.NEITHER,
        "(mean p where y = 1 - mean p where y = 0)^2 b (1 - b)",
        "minimum variance of forecasts that distinguish yes from no as well",
    ),
    ("yates_excess_variance", Better.LOWER, "variance of p - yates_min_variance", "variance of the forecasts within each outcome: noise"),
    ("yates_covariance", Better.HIGHER, "mean (p - mean p) (y - b)", "covariance of forecast and outcome: discrimination"),
)
_CONFIDENCE = (
    ("average_confidence", Better.NEITHER, "mean c", "confidence of the forecasts, from 0.5 to 1"),
    ("confidence_when_correct", Better.NEITHER, "mean c where d = y", "confidence of the right decisions; null without one"),
    ("confidence_when_wrong", Better.LOWER, "mean c where d != y", "confidence of the wrong decisions; null without one"),
    *(
        (
            f"overconfidence_{percent}",
            Better.LOWER,
            f"share of d != y where c > 0.{percent // 10}",
            f"error rate of forecasts more than {percent} % confident; null without one",
        )
        for percent in (70, 80, 90)
    ),
)
_SAMPLE = (
    ("base_rate", Better.NEITHER, "mean y", "share of yes among the scored questions"),
    ("coverage", Better.HIGHER, "N / questions asked", "share of questions with a forecast that counts; no interval"),
)

#: All metrics, in the order of listings.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(Metric(name, MetricFamily.CLASSIFICATION, Better.HIGHER, formula, meaning) for name, formula, meaning in _CLASSIFICATION),
        *(Metric(name, MetricFamily.DISCRIMINATION, Better.HIGHER, formula, meaning) for name, formula, meaning in _DISCRIMINATION),
        *(Metric(name, MetricFamily.CALIBRATION, better, formula, meaning) for name, better, formula, meaning in _CALIBRATION),
        *(Metric(name, MetricFamily.DECOMPOSITION, better, formula, meaning) for name, better, formula, meaning in _DECOMPOSITION),
        *(Metric(name, MetricFamily.CONFIDENCE, better, formula, meaning) for name, better, formula, meaning in _CONFIDENCE),
        *(Metric(name, MetricFamily.SAMPLE, better, formula, meaning) for name, better, formula, meaning in _SAMPLE),
    )
}

#: Metrics that depend only on the scored forecasts; the others also depend on the questions.
ESTIMATED: tuple[str, ...] = tuple(name for name in METRICS if name != "coverage")

#: Metrics relative to the score of another forecast. They have no value with fewer clusters than an interval needs.
SKILLS: tuple[str, ...] = ("brier_skill", "skill_vs_half", "skill_vs_market")

#: Calibration errors that chance alone makes positive. They have a mean and a p-value under calibration instead of an interval.
TESTED: tuple[str, ...] = ("ece", "mce", "ace", "smece", "murphy_reliability", "corp_miscalibration")

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
    **dict.fromkeys(("within_bin_variance", "within_bin_covariance"), _UNTESTED),
    **dict.fromkeys(("yates_bias_squared", "yates_min_variance", "yates_excess_variance", "yates_covariance"), _UNTESTED),
    **dict.fromkeys(("average_confidence", "confidence_when_correct", "confidence_when_wrong"), _UNTESTED),
    **dict.fromkeys(("overconfidence_70", "overconfidence_80", "overconfidence_90"), _UNTESTED),
}
