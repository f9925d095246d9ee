"""Time to score a million forecasts with all point metrics and the reliability table, relative to three metrics of scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from bellwether.calibration import evaluate, reliability_bins

FORECASTS = 1_000_000
ROUNDS = 5
TARGET = 3.0


def run() -> list[dict[str, Any]]:
    """Measure Bellwether's time divided by scikit-learn's, the best of a few alternating rounds each. Returns [{name, ratio, target, detail}]."""
    generator = np.random.default_rng(1)
    p = generator.random(FORECASTS)
    y = (generator.random(FORECASTS) < p).astype(np.int64)

    def ours() -> None:
        evaluate(p, y)
        reliability_bins(p, y)

    def theirs() -> None:
        brier_score_loss(y, p)
        log_loss(y, p)
        calibration_curve(y, p, n_bins=10)

    times = [(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS)]
    our_best, their_best = (min(side) for side in zip(*times, strict=True))
    detail = f"{FORECASTS:,} forecasts: {our_best:.3f} s, scikit-learn's Brier, log loss and one calibration curve {their_best:.3f} s"
    return [{"name": "scoring", "ratio": our_best / their_best, "target": TARGET, "detail": detail}]


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
