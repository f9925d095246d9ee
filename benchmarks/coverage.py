"""Coverage of the benchmark's 95 % intervals on simulated forecasts whose true scores are known, by metric and number of clusters.

    python -m benchmarks.coverage            # the whole table, some minutes
    python -m benchmarks.coverage --sets 100 # a quick look

Outcomes of a cluster are correlated through a Gaussian variable that they share. The truth of a metric is its value on a million independent
forecasts. benchmarks/README.md has the table.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from bellwether.calibration import formulas
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.comparison_pairs import Loss, Panel, run_pair_tests
from bellwether.calibration.discrimination import discrimination
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.intervals import intervals
from bellwether.calibration.metrics import ESTIMATED, INTERVALS
from bellwether.calibration.sorted_forecasts import SortedForecasts
from bellwether.calibration.sufficient_statistics import total_sums
from bellwether.formatting import markdown_table

CLUSTERS = (3, 5, 8, 12, 20, 40, 100)
SETS = 400
MANY = 20
#: A cell is shown when at least this share of its samples has an interval.
SHOWN = 0.5
#: Coverage that intervals promise, with fewer than 20 clusters and from 20 on.
FEW_PROMISE, MANY_PROMISE = (0.90, 1.0), (0.93, 0.97)
HEADLINE = ("brier", "log_loss", "brier_skill", "skill_vs_market", "accuracy", "roc_auc", "difference")


@dataclass(frozen=True)
class Design:
    """Settings of simulated samples: sizes of clusters, correlation within clusters, distribution of probabilities (beta), one probability per cluster
    (shared), and forecaster.
    """

    name: str
    sizes: str = "equal"
    correlation: float = 0.5
    shared: bool = False
    beta: tuple[float, float] = (1.0, 1.0)
    forecaster: str = "overconfident"


DESIGNS = (
    Design("independent questions, calibrated", "single", 0.0, forecaster="calibrated"),
    Design("independent questions, overconfident", "single", 0.0),
    Design("clusters of five, calibrated", forecaster="calibrated"),
    Design("clusters of five, overconfident"),
    Design("clusters of five, timid", forecaster="timid"),
    Design("clusters of five, independent inside", correlation=0.0),
    Design("one probability per cluster, calibrated", correlation=0.8, shared=True, forecaster="calibrated"),
    Design("one probability per cluster, overconfident", correlation=0.8, shared=True),
    Design("unequal clusters, calibrated", "unequal", forecaster="calibrated"),
    Design("unequal clusters, overconfident", "unequal"),
    Design("very unequal clusters, overconfident", "very unequal"),
    Design("bold forecasts, overconfident", beta=(0.5, 0.5)),
)


def sample(design: Design, clusters: int, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Draw one sample as arrays (N,): cluster, outcome, forecast, market price, and forecast of a noisy rival."""
    match design.sizes:
        case "single":
            sizes = np.ones(clusters, dtype=int)
        case "equal":
            sizes = np.full(clusters, 5)
        case "unequal":
            sizes = np.maximum(1, np.rint(np.exp(generator.normal(1.5, 0.7, clusters)))).astype(int)
        case _:
            sizes = np.maximum(1, np.rint(np.exp(generator.normal(1.0, 1.2, clusters)))).astype(int)
    cluster = np.repeat(np.arange(clusters), sizes)
    size = len(cluster)
    truth = generator.beta(*design.beta, clusters)[cluster] if design.shared else generator.beta(*design.beta, size)
    shock = np.sqrt(design.correlation) * generator.standard_normal(clusters)[cluster]
    y = shock + np.sqrt(1 - design.correlation) * generator.standard_normal(size) < ndtri(truth)
    odds = logit(np.clip(truth, 1e-9, 1 - 1e-9))
    scale = {"calibrated": 1.0, "overconfident": 2.0, "timid": 0.5}[design.forecaster]
    market = expit(odds + generator.normal(0, 0.3, size))
    rival = expit(odds + generator.normal(0, 0.7, size))
    return cluster, y.astype(float), expit(scale * odds), market, rival


@lru_cache(maxsize=64)
def truth(beta: tuple[float, float], forecaster: str) -> dict[str, float]:
    """Compute the true value of every metric that has an interval, on a million independent forecasts; and the difference of Brier scores to the
    rival.
    """
    alone = Design("", "single", 0.0, False, beta, forecaster)
    _, y, p, market, rival = sample(alone, 1_000_000, np.random.default_rng(1))
    values = point(Forecasts.of(p, y, market=market))
    return values | {"difference": float((np.square(p - y) - np.square(rival - y)).mean())}


def point(forecasts: Forecasts) -> dict[str, float]:
    """Compute every metric that has an interval; the other ones are NaN, since some take much longer."""
    ranks = discrimination(SortedForecasts.of(forecasts), is_binary=forecasts.is_binary)
    values = formulas.from_sums(total_sums(forecasts)) | {"roc_auc": ranks.roc_auc, "average_precision": ranks.average_precision}
    return {name: float(values[name]) if INTERVALS[name].reason is None else np.nan for name in ESTIMATED}


def covered(design: Design, clusters: int, seed: int) -> Iterator[tuple[str, bool]]:
    """Draw one sample, and yield each metric with a published interval, and True if the interval contains the truth."""
    index, y, p, market, rival = sample(design, clusters, np.random.default_rng([seed, clusters]))
    forecasts, groups, known = Forecasts.of(p, y, market=market), Clusters.of(index, len(y)), truth(design.beta, design.forecaster)
    for name, bounds in intervals(forecasts, groups, point(forecasts), 0.95).items():
        if bounds.lower is not None and bounds.upper is not None and bounds.method != "constant":
            yield name, bounds.lower <= known[name] <= bounds.upper
    panel = Panel(("p", "rival"), np.stack([p, rival], axis=1), np.zeros((len(y), 2), dtype=bool), y, forecasts.weight, groups)
    tests = run_pair_tests(panel, Loss.BRIER, 0.95).tests
    if tests.reason[0] is None:
        yield "difference", bool(tests.lower[0] <= known["difference"] <= tests.upper[0])


def cell(task: tuple[Design, int, int]) -> dict[str, tuple[float, float]]:
    """Simulate many samples. Returns by metric the coverage, and the share of samples with an interval. task: design, number of clusters, number of
    samples.
    """
    design, clusters, sets = task
    found: dict[str, list[bool]] = {}
    for seed in range(sets):
        for name, inside in covered(design, clusters, seed):
            found.setdefault(name, []).append(inside)
    return {name: (float(np.mean(inside)), len(inside) / sets) for name, inside in found.items()}


def table(
    sets: int, designs: Sequence[Design] = DESIGNS, clusters: Sequence[int] = CLUSTERS
) -> dict[tuple[str, int], dict[str, tuple[float, float]]]:
    """Compute coverage for every design and number of clusters, in parallel processes. sets: samples each. Values as in `cell`."""
    tasks = [(design, count, sets) for design in designs for count in clusters]
    with multiprocessing.get_context("fork").Pool() as pool:
        return {(task[0].name, task[1]): found for task, found in zip(tasks, pool.map(cell, tasks, chunksize=1), strict=True)}


def metrics() -> list[str]:
    """List the metrics that have an interval, and "difference" (of Brier scores)."""
    return [*(name for name, interval in INTERVALS.items() if interval.reason is None), "difference"]


def lines(found: dict[tuple[str, int], dict[str, tuple[float, float]]], names: Sequence[str]) -> Iterator[str]:
    """Render one Markdown table per metric: coverage in percent by design and number of clusters. A dash: most samples have no interval."""
    counts = sorted({clusters for _, clusters in found})
    designs = list(dict.fromkeys(design for design, _ in found))
    for name in names:
        yield f"\n**{name}**\n"
        cells = {design: [found[design, count].get(name, (0.0, 0.0)) for count in counts] for design in designs}
        rows = ([design, *("–" if share < SHOWN else f"{100 * value:.0f}" for value, share in cells[design])] for design in designs)
        yield from markdown_table(["clusters", *map(str, counts)], rows)


def summary(found: dict[tuple[str, int], dict[str, tuple[float, float]]], names: Sequence[str]) -> Iterator[str]:
    """Render a Markdown table with the lowest and the highest coverage of any design in percent, by metric and number of clusters."""
    counts = sorted({clusters for _, clusters in found})
    rows = []
    for name in names:
        cells = []
        for count in counts:
            values = [cells_of[name] for (_, clusters), cells_of in found.items() if clusters == count and name in cells_of]
            shown = [100 * value for value, share in values if share >= SHOWN]
            cells.append(f"{min(shown):.0f}-{max(shown):.0f}" if shown else "–")
        rows.append([f"`{name}`", *cells])
    yield from markdown_table(["metric", *map(str, counts)], rows)


def misses(found: dict[tuple[str, int], dict[str, tuple[float, float]]], names: Sequence[str], sets: int) -> list[str]:
    """List the cells whose coverage lies outside of the documented range by more than two standard errors of the simulation. sets: samples per
    cell.
    """
    outside = []
    for (design, clusters), cells in found.items():
        least, most = MANY_PROMISE if clusters >= MANY else FEW_PROMISE
        for name in names:
            value, share = cells.get(name, (np.nan, 0.0))
            if share < SHOWN:
                continue
            error = 2 * np.sqrt(0.95 * 0.05 / (sets * share))
            if not least - error <= value <= most + error:
                outside.append(f"{name}: {value:.3f} ({design}, {clusters} clusters)")
    return outside


def run() -> list[dict[str, Any]]:
    """Print the tables. Returns [{name, ratio, target, detail}] with the share of the main metrics' cells that lie outside of the documented range."""
    found = table(SETS)
    print("\n".join(lines(found, metrics())))
    outside = misses(found, HEADLINE, SETS)
    cells = len(found) * len(HEADLINE)
    detail = f"{len(outside)} of {cells} cells of {', '.join(HEADLINE)} are outside of 93-97 % (90-100 % below {MANY} clusters): {'; '.join(outside) or 'none'}"
    return [{"name": "coverage", "ratio": len(outside) / cells, "target": 0.02, "detail": detail}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=SETS)
    chosen = parser.parse_args().sets
    everything = table(chosen)
    print("\n".join(lines(everything, metrics())))
    print("\n**All designs**\n")
    print("\n".join(summary(everything, metrics())))
    print("\n".join(misses(everything, metrics(), chosen)))
