"""Coverage and width of 95 % intervals of scores, and false positives of paired tests, on simulated forecasts whose true scores are known.

    python -m benchmarks.intervals             # about ten minutes of CPU
    python -m benchmarks.intervals --sets 100  # a quick look
    python -m benchmarks.intervals --copies    # coverage of skills and differences of forecasts that mostly copy the price

A world draws clusters of questions. Outcomes of a cluster share a Gaussian shock. The truth is the score of 200,000 clusters. The oracle knows the
distribution of the estimate: its interval has 3.92 standard deviations. benchmarks/README.md has the results.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.special import expit, logit, ndtr

from bellwether.calibration import evaluate
from bellwether.calibration.bootstrap import Inference, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.metrics import ESTIMATED, NO_INTERVAL
from bellwether.formatting import markdown_table

CLUSTERS = (3, 4, 5, 12, 19, 20, 40, 100)
Draw = tuple[np.ndarray, np.ndarray, np.ndarray]  # probabilities of yes, forecasts and the other forecasts of N questions


@dataclass(frozen=True)
class World:
    """A kind of sample. questions: draws of N questions and their shocks. sizes: of clusters. correlation: of outcomes in a cluster.

    versus: mean loss, "difference" of two mean losses, or "ratio" of them. equal: the two are equally good.
    """

    questions: Callable[[np.random.Generator, np.ndarray], Draw]
    sizes: str = "unequal"
    correlation: float = 0.25
    versus: str = "loss"
    equal: bool = False
    weighted: bool = False
    samples: int = 1
    ordinary: bool = False


@dataclass(frozen=True)
class Cell:
    """Result of a world and a number of clusters. shown: share of samples with an interval. oracle: median width over that of the oracle."""

    coverage: float
    width: float
    oracle: float
    shown: float
    false_positives: float | None


def _noisy(generator: np.random.Generator, shock: np.ndarray, noise: float = 0.7) -> Draw:
    odds = generator.normal(0, 1.2, len(shock)) + 0.6 * shock
    one, other = (np.clip(expit(odds + generator.normal(0, noise, len(shock))), 0.01, 0.99) for _ in range(2))
    return expit(odds), one, other


def _copies(share: float, noise: float) -> Callable[[np.random.Generator, np.ndarray], Draw]:
    def draw(generator: np.random.Generator, shock: np.ndarray) -> Draw:
        truth, one, _ = _noisy(generator, shock)
        differs = generator.random(len(one)) < share
        return truth, one, np.where(differs, np.clip(one + generator.normal(0, noise, len(one)), 0.01, 0.99), one)

    return draw


def _sure(truth: float, stated: float, spread: float = 0.0) -> Callable[[np.random.Generator, np.ndarray], Draw]:
    """Events of probability `truth` or 1 - truth, at random, with forecasts about `stated` in that direction."""

    def draw(generator: np.random.Generator, shock: np.ndarray) -> Draw:
        yes = generator.random(len(shock)) < 0.5
        p = stated + generator.uniform(-spread, spread, len(shock))
        return np.where(yes, truth, 1 - truth), np.where(yes, p, 1 - p), np.full(len(shock), 0.5)

    return draw


def _favourites(generator: np.random.Generator, shock: np.ndarray, price: float = 0.97, other: float = 0.99) -> Draw:
    return tuple(np.full(len(shock), one) for one in (price, price, other))  # type: ignore[return-value]


def _rare(generator: np.random.Generator, shock: np.ndarray) -> Draw:
    truth = np.where(generator.random(len(shock)) < 0.1, 0.4, 0.01)
    return truth, np.clip(truth + generator.normal(0, 0.02, len(shock)), 0.005, 0.995), np.full(len(shock), 0.05)


def _ties(generator: np.random.Generator, shock: np.ndarray) -> Draw:
    truth, one, other = _noisy(generator, shock)
    return truth, one.round(1), other.round(1)


WORLDS = {
    "ordinary": World(_noisy, ordinary=True),
    "independent questions": World(_noisy, "single", ordinary=True),
    "sharp and right": World(_sure(0.98, 0.98), correlation=0.0),
    "nearly perfect": World(_sure(0.9995, 0.95, 0.04), correlation=0.0),
    "favourites": World(_favourites),
    "difference": World(_noisy, versus="difference", equal=True, ordinary=True),
    "difference on favourites": World(_favourites, versus="difference"),
    "two noisy copies": World(_copies(1.0, 0.03), versus="difference"),
    "two copies that differ rarely": World(_copies(0.1, 0.2), versus="difference"),
    "very unequal clusters": World(_noisy, "heavy", 0.9),
    "favourites in very unequal clusters": World(lambda g, s: _favourites(g, s, 0.95), "heavy", 0.9),
    "rare outcomes": World(_rare),
    "all right": World(_sure(1.0, 0.9, 0.05)),
    "all wrong": World(_sure(0.0, 0.9, 0.05)),
    "ties": World(_ties, versus="difference", equal=True),
    "weights": World(_noisy, weighted=True),
    "five samples of a question": World(_noisy, samples=5, ordinary=True),
    "skill": World(_noisy, versus="ratio"),
}


def draw(world: World, clusters: int, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Draw one sample: forecasts, other forecasts, outcomes, weights, float64 (N,) each, and the cluster of each question, intp (N,)."""
    match world.sizes:
        case "single":
            sizes = np.ones(clusters, dtype=int)
        case "heavy":
            sizes = np.maximum(1, np.rint(np.exp(generator.normal(0, 1.5, clusters)))).astype(int)
        case _:
            sizes = generator.choice([1, 2, 3, 5, 8], clusters)
    cluster = np.repeat(np.arange(clusters), sizes)
    shock = generator.normal(size=clusters)[cluster]
    truth, p, other = world.questions(generator, shock)
    own = generator.normal(size=len(truth))
    y = ndtr(np.sqrt(world.correlation) * shock + np.sqrt(1 - world.correlation) * own) < truth
    weight = generator.choice([0.5, 1.0, 4.0], len(truth)) if world.weighted else np.ones(len(truth))
    if world.samples > 1:
        p = np.mean([expit(logit(p) + generator.normal(0, 0.5, len(p))) for _ in range(world.samples)], axis=0)
    return p, other, y.astype(float), weight, cluster


def build_statistic(world: World, p: np.ndarray, other: np.ndarray, y: np.ndarray) -> Statistic:
    """Build the statistic of a world from a sample."""
    own, rival = (np.stack([np.square(one - outcome) for outcome in (y, np.zeros(len(y)), np.ones(len(y)))])[:, None] for one in (p, other))
    match world.versus:
        case "difference":
            return Statistic(own - rival, np.ones_like(own))
        case "ratio":
            return Statistic(rival - own, rival, relative=True)
        case _:
            return Statistic(own, np.ones_like(own))


@cache
def compute_truth(world: World) -> float:
    """Compute the true value of the statistic of a world."""
    if world.equal:
        return 0.0
    p, other, y, weight, _ = draw(world, 200_000, np.random.default_rng(0))
    statistic = build_statistic(world, p, other, y)
    ratio = (weight * statistic.numerators[0, 0]).sum() / (weight * statistic.denominators[0, 0]).sum()
    return float(ratio)


def measure(world: World, clusters: int, *, sets: int, seed: int = 1) -> Cell:
    """Measure coverage, width and false positives on simulated samples."""
    truth, generator, found = compute_truth(world), np.random.default_rng([seed, clusters]), []
    for _ in range(sets):
        p, other, y, weight, cluster = draw(world, clusters, generator)
        grouped = Clusters.of_groups(Grouping(cluster, clusters))
        found.append(bootstrap([build_statistic(world, p, other, y)], weight, grouped, Inference())[0])
    shown = [bounds for bounds in found if bounds.lower is not None and bounds.upper is not None and bounds.p is not None]
    width = float(np.median([bounds.upper - bounds.lower for bounds in shown]))  # type: ignore[operator]
    deviation = float(np.std([bounds.value for bounds in found if bounds.value is not None]))
    return Cell(
        coverage=float(np.mean([bounds.lower <= truth + 1e-12 and truth - 1e-12 <= bounds.upper for bounds in shown])),  # type: ignore[operator]
        width=width,
        oracle=width / (3.92 * deviation) if deviation else float("nan"),
        shown=len(shown) / sets,
        false_positives=float(np.mean([bounds.p <= 0.05 for bounds in shown])) if world.equal else None,  # type: ignore[operator]
    )


def measure_metrics(clusters: int, *, sets: int) -> dict[str, float]:
    """Measure the coverage of every metric that has an interval, in the ordinary world."""
    world, names = WORLDS["ordinary"], [name for name in ESTIMATED if name not in NO_INTERVAL]
    p, market, y, _, _ = draw(world, 200_000, np.random.default_rng(0))
    truth = {name: one.value for name, one in evaluate(p, y, market=market).items()}
    generator = np.random.default_rng([2, clusters])
    inside: dict[str, list[bool]] = {name: [] for name in names}
    for _ in range(sets):
        p, market, y, _, cluster = draw(world, clusters, generator)
        scores = evaluate(p, y, cluster, market=market, replicates=0)
        for name in names:
            lower, upper = scores[name].lower, scores[name].upper
            if lower is not None and upper is not None:
                inside[name].append(lower <= truth[name] <= upper)  # type: ignore[operator]
    return {name: float(np.mean(covered)) if covered else float("nan") for name, covered in inside.items()}


@dataclass(frozen=True)
class Copies:
    """Forecasters that copy the price of N independent questions, except for some forecasts that are .2 nearer to .5.

    n: number of questions. rounded: whether the copies are rounded to cents. truth: where the probability lies between the price (0) and the
    forecast (1); at one half both are equally good. versus: "ratio" for the skill, "difference" of mean losses.
    """

    n: int
    rounded: bool
    truth: float
    versus: str


def measure_copies(copies: Copies, differing: int, *, sets: int, seed: int = 1) -> float:
    """Measure the coverage of the interval on samples with `differing` forecasts that differ from the price; NaN without intervals."""
    generator, world = np.random.default_rng([seed, copies.n, differing]), World(_noisy, versus=copies.versus)
    clusters, inside, block = Clusters.of_groups(Grouping(np.arange(copies.n), copies.n)), [], 20
    for _ in range(sets // block):
        statistics, values = [], []
        for _ in range(block):
            price = generator.uniform(0.05, 0.95, copies.n)
            gap = np.where(np.arange(copies.n) < differing, np.where(price < 0.5, 0.2, -0.2), 0.0)
            truth = price + copies.truth * gap
            p = np.where(gap == 0, price.round(2), price + gap) if copies.rounded else price + gap
            y = (generator.random(copies.n) < truth).astype(float)
            own, other = (truth * (1 - one) ** 2 + (1 - truth) * one**2 for one in (p, price))
            statistics.append(build_statistic(world, p, price, y))
            values.append(1 - own.sum() / other.sum() if copies.versus == "ratio" else (own - other).mean())
        for value, bounds in zip(values, bootstrap(statistics, np.ones(copies.n), clusters, Inference()), strict=True):
            if bounds.lower is not None and bounds.upper is not None:
                inside.append(bounds.lower <= value + 1e-12 and value - 1e-12 <= bounds.upper)
    return float(np.mean(inside)) if inside else float("nan")


def _format_cell(cell: Cell) -> str:
    parts = [f"{100 * cell.coverage:.1f}", f"{cell.width:.3f}", f"{cell.oracle:.2f}"]
    return (
        " · ".join(parts)
        + ("" if cell.false_positives is None else f" · {100 * cell.false_positives:.1f}")
        + ("" if cell.shown > 0.995 else f" ({cell.shown:.0%})")
    )


def check(cells: dict[tuple[str, int], Cell], sets: int) -> Iterator[str]:
    """Yield the cells that miss a target: coverage, false positives, width relative to the oracle, and width of neighbouring numbers of clusters."""
    for (name, clusters), cell in cells.items():
        if cell.coverage < 0.93 - 2 * np.sqrt(0.93 * 0.07 / sets):
            yield f"{name}, {clusters} clusters: coverage {cell.coverage:.3f}"
        if cell.false_positives is not None and cell.false_positives > 0.06 + 2 * np.sqrt(0.06 * 0.94 / sets):
            yield f"{name}, {clusters} clusters: false positives {cell.false_positives:.3f}"
        if WORLDS[name].ordinary and clusters >= 12 and cell.oracle > 1.35:
            yield f"{name}, {clusters} clusters: {cell.oracle:.2f} times the oracle's width"
        following = cells.get((name, clusters + 1))
        if following is not None and not 2 / 3 <= following.width / cell.width <= 4 / 3:
            yield f"{name}, {clusters} clusters and one more: widths {cell.width:.4f} and {following.width:.4f}"


def draw_figure(path: str) -> None:
    """Draw the figure of docs/metrics.md: intervals of forecasts of 90 % that all came true, by their number."""
    import altair as alt
    import polars as pl

    rows = []
    for n in range(3, 61):
        brier = evaluate([0.9] * n, [1] * n, range(n), replicates=0)["brier"]
        rows.append({"n": n, "value": brier.value, "lower": brier.lower, "upper": brier.upper})
    base = alt.Chart(pl.DataFrame(rows)).encode(x=alt.X("n:Q", title="forecasts of 90 %, all right"))
    band = base.mark_area(opacity=0.3).encode(y=alt.Y("lower:Q", title="Brier score and 95 % interval"), y2="upper:Q")
    chart = (band + base.mark_line().encode(y="value:Q")).properties(width=520, height=220)
    chart.save(path)


def print_copies(sets: int) -> None:
    """Print the coverage of skills and differences by number of forecasts that differ from the price."""
    differing, rows = (1, 2, 3, 4, 5, 8, 10, 30), []
    for versus, n, rounded, (name, truth) in product(
        ("ratio", "difference"), (60, 200), (False, True), {"equal": 0.5, "better": 1.0, "worse": 0.0}.items()
    ):
        coverage = [measure_copies(Copies(n, rounded, truth, versus), k, sets=sets) for k in differing]
        label = "skill" if versus == "ratio" else versus
        cells = ["–" if np.isnan(share) else f"{100 * share:.1f}" for share in coverage]
        rows.append([label, str(n), "rounded to cents" if rounded else "exact", name, *cells])
    print(*markdown_table(["metric", "N", "copies", "forecaster", *map(str, differing)], rows), sep="\n")


def _measure(job: tuple[str, int, int]) -> Cell:
    name, clusters, sets = job
    return measure(WORLDS[name], clusters, sets=sets)


def main() -> int:
    """Print the tables and the missed targets. Returns the exit code: 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=1_000, help="samples of each cell")
    parser.add_argument("--figure", metavar="PATH", help="only draw the figure of docs/metrics.md")
    parser.add_argument("--copies", action="store_true", help="only measure forecasts that mostly copy the price")
    arguments = parser.parse_args()
    if arguments.copies:
        print_copies(arguments.sets)
        return 0
    if arguments.figure:
        draw_figure(arguments.figure)
        return 0
    sets = arguments.sets
    jobs = [(name, clusters, sets) for name in WORLDS for clusters in CLUSTERS]
    with multiprocessing.Pool() as pool:
        cells = {job[:2]: cell for job, cell in zip(jobs, pool.map(_measure, jobs, chunksize=1), strict=True)}
    heads = ["world", "true value", *(str(clusters) for clusters in CLUSTERS)]
    rows = [
        [name, f"{compute_truth(world):.4f}", *(_format_cell(cells[name, clusters]) for clusters in CLUSTERS)]
        for name, world in WORLDS.items()
    ]
    print(*markdown_table(heads, rows), "", sep="\n")
    counts = (3, 5, 12, 40)
    by_count = [measure_metrics(clusters, sets=sets) for clusters in counts]
    metrics = [[name, *(f"{100 * one[name]:.1f}" for one in by_count)] for name in by_count[0]]
    print(*markdown_table(["metric", *map(str, counts)], metrics), "", sep="\n")
    missed = list(check(cells, sets))
    print(*missed, sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
