"""The metrics by name: which direction is better, the formula and what it says, as data for tables, docs and rankings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    """Which direction of a metric is better; `NEITHER` describes without judging."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Family(StrEnum):
    """What a metric measures."""

    CLASSIFICATION = "classification"
    CALIBRATION = "calibration"
    DECOMPOSITION = "decomposition"
    CONFIDENCE = "confidence"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `formula` is in terms of p (forecast of yes), y (1 for yes), d (decision), c = max(p, 1 - p) and b = mean y."""

    name: str
    family: Family
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
_CALIBRATION = (
    ("brier", Better.LOWER, "mean (p - y)^2", "squared error of the probability; 0 is perfect, always 0.5 scores 0.25"),
    ("brier_yes", Better.LOWER, "mean (p - 1)^2 where y = 1", "Brier score of the questions that resolved yes; null without one"),
    ("brier_no", Better.LOWER, "mean p^2 where y = 0", "Brier score of the questions that resolved no; null without one"),
    (
        "brier_index",
        Better.HIGHER,
        "100 (1 - sqrt brier)",
        "the Brier score in percent, as ForecastBench reports it: 100 is perfect, always 0.5 scores 50",
    ),
    (
        "brier_skill",
        Better.HIGHER,
        "1 - brier / (b (1 - b)), b = mean y",
        "improvement over always saying the sample's own base rate; null when all outcomes agree",
    ),
    ("skill_vs_half", Better.HIGHER, "1 - brier / 0.25", "improvement over always saying 0.5"),
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
        "expected calibration error: mean gap between forecast and frequency, equal-width bins",
    ),
    ("mce", Better.LOWER, "max over non-empty bins of |mean p - mean y|", "largest gap of any bin, however few forecasts it holds"),
    (
        "ace",
        Better.LOWER,
        "mean over 10 equal-mass bins of |mean p - mean y|",
        "adaptive calibration error: as ECE with a tenth of the forecasts in each bin, tied forecasts shared evenly",
    ),
    (
        "smece",
        Better.LOWER,
        "s with integral of |mean of (p - y) K_s(t, p)| dt = s, K_s a Gaussian kernel reflected at 0 and 1",
        "smooth calibration error: without bins, the bandwidth being the error itself",
    ),
)
_DECOMPOSITION = (
    (
        "murphy_reliability",
        Better.LOWER,
        "sum over 10 bins of n_k / N (mean p - mean y)^2",
        "squared gap between forecast and frequency; 0 is perfect calibration",
    ),
    (
        "murphy_reliability_debiased",
        Better.LOWER,
        "sum over bins with n_k > 1 of n_k / N ((mean p - mean y)^2 - mean y (1 - mean y) / (n_k - 1))",
        "murphy_reliability less what chance alone would give; may be negative, 0 is expected of a calibrated forecaster",
    ),
    (
        "murphy_resolution",
        Better.HIGHER,
        "sum over 10 bins of n_k / N (mean y in the bin - b)^2",
        "how far the frequencies of the bins are from the base rate: what the forecaster can tell apart",
    ),
    (
        "murphy_resolution_debiased",
        Better.HIGHER,
        "b (1 - b) / (N - 1) + sum over bins with n_k > 1 of n_k / N ((mean y in the bin - b)^2 - mean y (1 - mean y) / (n_k - 1))",
        "murphy_resolution less what chance alone would give; may be negative, 0 is expected of a forecaster who can tell nothing apart",
    ),
    ("uncertainty", Better.NEITHER, "b (1 - b)", "variance of the outcomes: Brier score of always saying the sample's own base rate"),
    (
        "within_bin_variance",
        Better.NEITHER,
        "sum over bins of (p - mean p in the bin)^2 / N",
        "variance of the forecasts inside the bins, which murphy_reliability does not see",
    ),
    (
        "within_bin_covariance",
        Better.NEITHER,
        "2 sum over bins of (p - mean p in the bin) (y - mean y in the bin) / N",
        "twice the covariance inside the bins: discrimination that murphy_resolution does not see",
    ),
    ("corp_miscalibration", Better.LOWER, "brier - brier of q", "Brier score that isotonic recalibration q of the forecasts would save"),
    (
        "corp_discrimination",
        Better.HIGHER,
        "b (1 - b) - brier of q",
        "how much better than the base rate the forecasts are once recalibrated, q being their isotonic recalibration",
    ),
    ("yates_bias_squared", Better.LOWER, "(mean p - b)^2", "squared difference of the mean forecast and the base rate"),
    (
        "yates_min_variance",
        Better.NEITHER,
        "(mean p where y = 1 - mean p where y = 0)^2 b (1 - b)",
        "variance that the forecasts need to tell yes from no as well as they do",
    ),
    (
        "yates_excess_variance",
        Better.LOWER,
        "variance of p - yates_min_variance",
        "variance of the forecasts within each outcome: scatter that tells nothing",
    ),
    ("yates_covariance", Better.HIGHER, "mean (p - mean p) (y - b)", "covariance of forecast and outcome: discrimination"),
)
_CONFIDENCE = (
    ("average_confidence", Better.NEITHER, "mean c", "how far the forecasts are from 0.5, on the scale 0.5 to 1"),
    ("confidence_when_correct", Better.NEITHER, "mean c where d = y", "confidence of the right decisions; null when there is none"),
    ("confidence_when_wrong", Better.LOWER, "mean c where d != y", "confidence of the wrong decisions; null when there is none"),
    *(
        (
            f"overconfidence_{percent}",
            Better.LOWER,
            f"share of d != y where c > 0.{percent // 10}",
            f"error rate of forecasts more than {percent} % confident; null when there is none",
        )
        for percent in (70, 80, 90)
    ),
)
_SAMPLE = (
    ("base_rate", Better.NEITHER, "mean y", "share of yes among the questions scored"),
    ("coverage", Better.HIGHER, "N / questions asked", "share of questions with a forecast that counts; never bootstrapped"),
    (
        "brier_imputed",
        Better.LOWER,
        "mean (p - y)^2 over all questions asked, p = 0.5 where there is no forecast",
        "the Brier score when silence counts as 0.5; never bootstrapped",
    ),
)

#: Every metric, in the order in which it is listed.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        *(Metric(name, Family.CLASSIFICATION, Better.HIGHER, formula, meaning) for name, formula, meaning in _CLASSIFICATION),
        *(Metric(name, Family.CALIBRATION, better, formula, meaning) for name, better, formula, meaning in _CALIBRATION),
        *(Metric(name, Family.DECOMPOSITION, better, formula, meaning) for name, better, formula, meaning in _DECOMPOSITION),
        *(Metric(name, Family.CONFIDENCE, better, formula, meaning) for name, better, formula, meaning in _CONFIDENCE),
        *(Metric(name, Family.SAMPLE, better, formula, meaning) for name, better, formula, meaning in _SAMPLE),
    )
}

#: The metrics that are functions of the forecasts scored, and so have an interval.
ESTIMATED: tuple[str, ...] = tuple(name for name in METRICS if name not in ("coverage", "brier_imputed"))

#: Metrics less their bias, and the biased ones. A replicate's truth is the sample itself, with the biased value, around which the replicates
#: of the debiased metric lie; intervals move them back.
DEBIASED: dict[str, str] = {f"murphy_{term}_debiased": f"murphy_{term}" for term in ("reliability", "resolution")}
