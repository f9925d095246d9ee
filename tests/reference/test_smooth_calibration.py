"""Smooth calibration error: agreement with its definition and with the authors' implementation."""

from __future__ import annotations

import numpy as np
import pytest
import relplot
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from bellwether.calibration import smooth_ece


def by_definition(p: np.ndarray, y: np.ndarray) -> float:
    """Compute the error with a root finder and reflected Gaussian kernels, integrated by the midpoint rule."""
    t = (np.arange(4_000) + 0.5) / 4_000
    images = np.concatenate([2 * k + sign * p for k in range(-3, 4) for sign in (1, -1)])
    residual = np.tile(p - y, len(images) // len(p)) / len(p)

    def error(s: float) -> float:
        kernel = np.exp(-0.5 * np.square((t[:, None] - images) / s)) / (s * np.sqrt(2 * np.pi))
        return float(np.abs(kernel @ residual).mean())

    return float(brentq(lambda s: error(s) - s, 1e-3, 1.0))


@pytest.mark.parametrize("n", [1, 40])
def test_the_error_is_the_bandwidth_at_which_it_equals_itself(n: int) -> None:
    generator = np.random.default_rng(n)
    p, y = generator.random(n), generator.random(n) < 0.5
    assert smooth_ece(p, y) == pytest.approx(by_definition(p, y), abs=1e-6)


@pytest.mark.parametrize(("n", "power"), [(30, 1.0), (300, 2.0), (3_000, 1.0)])
def test_it_agrees_with_relplot(n: int, power: float) -> None:
    generator = np.random.default_rng(1)
    p = np.round(generator.uniform(0.005, 0.995, n), 2)
    y = generator.random(n) < p**power
    assert smooth_ece(p, y) == pytest.approx(relplot.smECE(p, y.astype(float)), abs=2e-3)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_it_is_at_least_the_bias_and_at_most_the_mean_error(rows: list[tuple[float, bool]]) -> None:
    p, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    error = smooth_ece(p, y)
    assert abs(np.mean(p - y)) - 1e-6 <= error <= np.mean(np.abs(p - y)) + 1e-6  # type: ignore[operator]


@pytest.mark.parametrize(
    ("p", "y", "expected"),
    [
        ([], [], None),
        ([1.0, 0.0], [1, 0], 0.0),
        ([0.0], [1], 1.0),
        ([0.3], [1], 0.7),
        ([0.001] * 5 + [0.999] * 5, [0] * 5 + [1] * 5, 0.001),
    ],
)
def test_errors_that_need_no_smoothing_are_exact(p: list[float], y: list[int], expected: float | None) -> None:
    assert smooth_ece(p, y) == (expected if expected is None else pytest.approx(expected, abs=1e-9))
