"""Coverage of the intervals of what a forecast adds to the price, by simulation with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.calibration import evaluate

pytestmark = pytest.mark.nightly

RUNS, QUESTIONS, EVENT = 500, 300, 3
#: Standard deviation on the logit of what the informed forecaster knows beyond the price.
OWN = 0.8


def draw(generator: np.random.Generator, informed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw forecasts, outcomes and prices of events with a common part. The price is the probability given what it knows."""
    events = np.repeat(np.arange(QUESTIONS // EVENT), EVENT)
    common = generator.normal(0, 1, QUESTIONS) + generator.normal(0, 0.7, QUESTIONS // EVENT)[events]
    nodes = np.polynomial.hermite_e.hermegauss(15)
    if not informed:
        truth = 1 / (1 + np.exp(-common))
        return 1 / (1 + np.exp(-common - generator.normal(0, 0.5, QUESTIONS))), (generator.random(QUESTIONS) < truth).astype(float), truth
    truth = 1 / (1 + np.exp(-common - generator.normal(0, OWN, QUESTIONS)))
    price = (1 / (1 + np.exp(-common[:, None] - OWN * nodes[0])) * nodes[1]).sum(axis=1) / nodes[1].sum()
    return truth, (generator.random(QUESTIONS) < truth).astype(float), price


@pytest.mark.parametrize("informed", [False, True])
def test_intervals_cover_the_weight_and_the_gain(informed: bool) -> None:
    """A noisy copier of a calibrated price has weight 0 and coefficient 0; one who knows the truth weight 1, and the gain is the mean of (p - q)^2."""
    generator, clusters = np.random.default_rng(2026), np.repeat(np.arange(QUESTIONS // EVENT), EVENT)
    large = [draw(generator, informed) for _ in range(200)]
    gain = float(np.mean([np.square(p - price).mean() for p, _, price in large])) if informed else 0.0
    truth = {"pool_weight": float(informed), "pool_gain": gain} | ({} if informed else {"encompassing": 0.0})
    covered, positive = dict.fromkeys(truth, 0), 0
    for _ in range(RUNS):
        p, y, price = draw(generator, informed)
        found = evaluate(p, y, clusters, market=price, replicates=0)
        for name, value in truth.items():
            lower, upper = found[name].lower, found[name].upper
            assert lower is not None
            assert upper is not None
            covered[name] += lower <= value <= upper
        positive += (found["pool_weight"].lower or 0) > 0
    assert min(covered.values()) >= 0.93 * RUNS, covered
    assert positive > 0.9 * RUNS if informed else positive <= 0.05 * RUNS
