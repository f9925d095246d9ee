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
    CONFIDENCE = "confidence"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `formula` is in terms of p (forecast of yes), y (1 for yes), d (decision) and c = max(p, 1 - p)."""

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
    (
        "brier_skill",
        Better.HIGHER,
        "1 - brier / (b (1 - b)), b = mean y",
        "improvement over always saying the sample's own base rate; null when all outcomes agree",
    ),
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
    ("coverage", Better.HIGHER, "N / questions asked", "share of questions with a forecast; never bootstrapped"),
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
        *(Metric(name, Family.CONFIDENCE, better, formula, meaning) for name, better, formula, meaning in _CONFIDENCE),
        *(Metric(name, Family.SAMPLE, better, formula, meaning) for name, better, formula, meaning in _SAMPLE),
    )
}

#: The metrics that are functions of the forecasts scored, and so have an interval.
ESTIMATED: tuple[str, ...] = tuple(name for name in METRICS if name not in ("coverage", "brier_imputed"))
