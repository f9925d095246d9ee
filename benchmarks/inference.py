"""Intervals, tests and decompositions: CPU against budgets, against the plain loop over scikit-learn, and growth with rows and clusters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import accuracy_score, brier_score_loss, d2_brier_score, log_loss, precision_recall_fscore_support

from bellwether.calibration import compare, evaluate

MODELS, QUESTIONS, SERIES = 12, 300, 255
REPLICATES = 10_000
LOOPED = 20
BUDGET, COMPARISON_BUDGET = 10.0, 2.0
MILLION_BUDGET, SINGLES_BUDGET = 20.0, 30.0
TARGET = 1 / 50


def run() -> list[dict[str, Any]]:
    """CPU seconds over budgets and over those of the loop, and growth: [{name, ratio, target, detail}].

    The loop makes percentile intervals of what scikit-learn has, with Murphy's and CORP's terms by hand, from fewer of its replicates; it makes
    neither smECE nor paired tests.
    """
    series, y, models = release()
    parts = {"scores with intervals and tests of calibration": _seconds(lambda: [evaluate(p, y, series) for p in models])}
    parts["paired tests"] = paired = _seconds(lambda: compare({str(index): p for index, p in enumerate(models)}, y, series))
    pairs = f"{MODELS * (MODELS - 1) // 2} pairs with intervals, confidence set, groups and shares of {REPLICATES:,} replicates"
    ours = sum(parts.values())
    theirs = _seconds(lambda: _loop(series, y, models)) / LOOPED * REPLICATES
    work = f"{MODELS} models x {QUESTIONS} questions"
    each = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items())
    rows = [
        _row("inference_cpu", ours / BUDGET, 1.0, f"{ours:.2f} s of {BUDGET:g} s CPU: {work}: {each}"),
        _row("comparison_cpu", paired / COMPARISON_BUDGET, 1.0, f"{paired:.2f} s of {COMPARISON_BUDGET:g} s CPU: {pairs}"),
        _row(
            "inference",
            ours / theirs,
            TARGET,
            f"{theirs / ours:,.0f}x faster: {work}: {ours:.2f} s; the loop {theirs:,.0f} s for {REPLICATES:,} replicates, from {LOOPED}",
        ),
    ]
    million, half = (_scored(rows, 1_000) for rows in (1_000_000, 500_000))
    singles, fewer = (_scored(count, count) for count in (20_000, 10_000))
    rows += [
        _row("million_rows_cpu", million / MILLION_BUDGET, 1.0, f"{million:.1f} s of {MILLION_BUDGET:g} s CPU: 10^6 rows, 1,000 clusters"),
        _row("million_rows_growth", million / half, 3.0, f"{million:.1f} s over {half:.1f} s of half the rows"),
        _row(
            "many_clusters_cpu", singles / SINGLES_BUDGET, 1.0, f"{singles:.1f} s of {SINGLES_BUDGET:g} s CPU: 20,000 clusters of one row"
        ),
        _row("many_clusters_growth", singles / fewer, 3.0, f"{singles:.1f} s over {fewer:.1f} s of half the clusters"),
    ]
    return rows


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


def _row(name: str, ratio: float, target: float, detail: str) -> dict[str, Any]:
    return {"name": name, "ratio": ratio, "target": target, "detail": detail}


def _scored(rows: int, clusters: int) -> float:
    """CPU seconds of scoring so many forecasts in so many clusters."""
    generator = np.random.default_rng(3)
    p = generator.random(rows)
    y, cluster = generator.random(rows) < p, np.arange(rows) % clusters
    return _seconds(lambda: evaluate(p, y, cluster))


def _loop(series: np.ndarray, y: np.ndarray, models: list[np.ndarray]) -> None:
    """`LOOPED` replicates, one after the other."""
    generator = np.random.default_rng(2)
    members = [np.flatnonzero(series == index) for index in range(SERIES)]
    for _ in range(LOOPED):
        rows = np.concatenate([members[index] for index in generator.integers(0, SERIES, SERIES)])
        for p in models:
            metrics(p[rows], y[rows])
            _decompositions(p[rows], y[rows])


def _decompositions(p: np.ndarray, y: np.ndarray) -> list[float]:
    """Murphy's terms over ten bins and CORP's, as a careful user of scikit-learn computes them."""
    which = np.minimum(np.searchsorted(np.linspace(0, 1, 11), p, side="right") - 1, 9)
    murphy = np.zeros(4)
    for index in np.unique(which):
        inside_p, inside_y = p[which == index], y[which == index]
        mean, rate = inside_p.mean(), inside_y.mean()
        terms = ((mean - rate) ** 2, (rate - y.mean()) ** 2, np.var(inside_p), 2 * np.mean((inside_p - mean) * (inside_y - rate)))
        murphy += np.multiply(terms, len(inside_p) / len(p))
    recalibrated = brier_score_loss(y, IsotonicRegression(y_min=0, y_max=1).fit_transform(p, y))
    uncertainty = y.mean() * (1 - y.mean())
    return [*murphy, uncertainty, brier_score_loss(y, p) - recalibrated, uncertainty - recalibrated]


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
