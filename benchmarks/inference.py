"""Intervals, decompositions and paired tests of 12 models x 300 questions: CPU against a budget, and against the plain loop over scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from bellwether.calibration import Bootstrap, compare
from bellwether.calibration.bootstrap import Clustered
from bellwether.calibration.evaluation import evaluate_together
from bellwether.calibration.forecasts import Forecasts
from benchmarks.bootstrap import MODELS, QUESTIONS, REPLICATES, SERIES, metrics, release

LOOPED = 20
BUDGET = 10.0
COMPARISON_BUDGET = 2.0
TARGET = 1 / 50


def run() -> list[dict[str, Any]]:
    """CPU seconds over the budget, and over those of the loop, from fewer of its replicates: [{name, ratio, target, detail}].

    The loop makes percentile intervals of what scikit-learn has, with Murphy's and CORP's terms by hand; it makes neither smECE nor paired
    tests nor BCa intervals.
    """
    series, y, models = release()
    parts = {"intervals and decompositions": _seconds(lambda: _scores(series, y, models))}
    parts["paired tests"] = paired = _seconds(lambda: compare({str(index): p for index, p in enumerate(models)}, y, series))
    pairs = f"{MODELS * (MODELS - 1) // 2} pairs with intervals, permutations, confidence set and groups"
    ours = sum(parts.values())
    theirs = _seconds(lambda: _loop(series, y, models)) / LOOPED * REPLICATES
    work = f"{MODELS} models x {QUESTIONS} questions, {REPLICATES:,} replicates"
    each = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items())
    return [
        {"name": "inference_cpu", "ratio": ours / BUDGET, "target": 1.0, "detail": f"{ours:.2f} s of {BUDGET:g} s CPU: {work}: {each}"},
        {
            "name": "comparison_cpu",
            "ratio": paired / COMPARISON_BUDGET,
            "target": 1.0,
            "detail": f"{paired:.2f} s of {COMPARISON_BUDGET:g} s CPU: {pairs}",
        },
        {
            "name": "inference",
            "ratio": ours / theirs,
            "target": TARGET,
            "detail": f"{theirs / ours:,.0f}x faster: {work}: {ours:.2f} s; the loop {theirs:,.0f} s, from {LOOPED} replicates",
        },
    ]


def _scores(series: np.ndarray, y: np.ndarray, models: list[np.ndarray]) -> None:
    samples = {str(index): Clustered(Forecasts.of(p, y), series) for index, p in enumerate(models)}
    evaluate_together(samples, SERIES, QUESTIONS, Bootstrap(REPLICATES))


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
