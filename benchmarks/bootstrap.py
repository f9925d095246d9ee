"""Cluster-bootstrap intervals of all metrics for 12 models x 300 questions, against the plain loop over scikit-learn's metrics."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, d2_brier_score, log_loss, precision_recall_fscore_support

from bellwether.calibration import Bootstrap
from bellwether.calibration.bootstrap import Clustered
from bellwether.calibration.evaluation import evaluate_together
from bellwether.calibration.forecasts import Forecasts

MODELS, QUESTIONS, SERIES = 12, 300, 255
REPLICATES = 10_000
LOOPED = 20
TARGET = 1 / 50


def run() -> list[dict[str, Any]]:
    """Our 10,000 replicates against the loop's, from fewer of its: [{name, ratio, target, detail}], our time over its, to be at most the target."""
    series, y, models = release()
    start = time.perf_counter()
    samples = {str(index): Clustered(Forecasts.of(p, y), series) for index, p in enumerate(models)}
    evaluate_together(samples, SERIES, QUESTIONS, Bootstrap(REPLICATES))
    ours = time.perf_counter() - start

    generator = np.random.default_rng(2)
    start = time.perf_counter()
    members = [np.flatnonzero(series == index) for index in range(SERIES)]
    for _ in range(LOOPED):
        rows = np.concatenate([members[index] for index in generator.integers(0, SERIES, SERIES)])
        for p in models:
            metrics(p[rows], y[rows])
    theirs = (time.perf_counter() - start) / LOOPED * REPLICATES

    detail = f"{theirs / ours:,.0f}x faster: {MODELS} models x {QUESTIONS} questions, {REPLICATES:,} replicates: {ours:.2f} s; the loop {theirs:,.0f} s, from {LOOPED} replicates"
    return [{"name": "bootstrap", "ratio": ours / theirs, "target": TARGET, "detail": detail}]


def release() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Series (N,) and outcome (N,) of each question, and the probabilities (N,) of each model."""
    generator = np.random.default_rng(1)
    series = np.concatenate([np.arange(SERIES), generator.integers(0, SERIES, QUESTIONS - SERIES)])
    y = generator.random(QUESTIONS) < 0.4
    return series, y, [np.round(np.clip(0.4 * y + 0.6 * generator.random(QUESTIONS), 0.01, 0.99), 2) for _ in range(MODELS)]


def metrics(p: np.ndarray, y: np.ndarray) -> list[float]:
    """The metrics of one replicate as a careful user of scikit-learn computes them."""
    decision = p >= 0.5
    precision, recall, f1, _ = precision_recall_fscore_support(y, decision, labels=[False, True], zero_division=0)
    values = [accuracy_score(y, decision), *precision, *recall, *f1, f1.mean()]
    values += [brier_score_loss(y, p), d2_brier_score(y, p), log_loss(y, p, labels=[False, True])]
    for strategy in ("uniform", "quantile"):
        observed, forecast = calibration_curve(y, p, n_bins=10, strategy=strategy)
        gap = np.abs(observed - forecast)
        values += [gap.mean(), gap.max()]
    confidence, right = np.maximum(p, 1 - p), decision == y
    values += [confidence.mean(), confidence[right].mean(), confidence[~right].mean()]
    values += [np.mean(~right[confidence > threshold]) for threshold in (0.7, 0.8, 0.9)]
    return values
