"""Coverage of the interval of the jump at the knowledge cutoff, by simulation with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.calibration.bootstrap import Inference, bootstrap
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.leak_scores import jump_statistic

pytestmark = pytest.mark.nightly

RUNS, CLUSTERS, SIZE = 500, 40, 5


def draw(generator: np.random.Generator, memory: float, count: int = CLUSTERS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw forecasts, outcomes and days of close in clusters with a common part. Of outcomes before the cutoff a share is remembered."""
    days = generator.uniform(-365, 365, count * SIZE)
    logit = generator.normal(0, 1.5, count * SIZE) + np.repeat(generator.normal(0, 1, count), SIZE)
    truth = 1 / (1 + np.exp(-logit))
    y = (generator.random(count * SIZE) < truth).astype(float)
    remembered = (days <= 0) & (generator.random(count * SIZE) < memory)
    return np.where(remembered, y, truth), y, days


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.8])
def test_the_interval_covers_the_jump(memory: float) -> None:
    """The jump is the loss on the remembered questions, were they not remembered: that share of the mean of p (1 - p)."""
    generator = np.random.default_rng(2026)
    p, y, _ = draw(generator, 0.0, 100_000)
    truth = memory * float(np.square(p - y).mean())
    clusters = Clusters.of(np.repeat(np.arange(CLUSTERS), SIZE), CLUSTERS * SIZE)
    covered = 0
    for _ in range(RUNS):
        p, y, days = draw(generator, memory)
        statistic = jump_statistic(np.stack([np.square(p - y), np.square(p), np.square(1 - p)]), days)
        assert statistic is not None
        bounds = bootstrap([statistic], np.ones(len(y)), clusters, Inference())[0]
        assert bounds.lower is not None
        assert bounds.upper is not None
        covered += bounds.lower <= truth <= bounds.upper
    assert covered >= 0.93 * RUNS, covered
