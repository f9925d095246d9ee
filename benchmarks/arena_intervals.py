"""Coverage of the arena's 95 % intervals, and false differences found by its pair tests, on simulated agents whose true
scores are known.

    python -m benchmarks.arena_intervals                   # the tables of benchmarks/README.md, 2,000 replicates a cell
    python -m benchmarks.arena_intervals --replicates 200  # a quick look

Markets, agents and settlement are simulated here, independently of the arena's own code. Prices are fair: a latent normal walk, of which markets of one
event share half of the variance, ends above a threshold or not, and the price is the probability of that. Agents of a kind choose markets by price,
stake a share of their cash, and are paid when the market ends, up to three weeks later. Cohorts of a week, and weeks of a market, share its outcome.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, logit, ndtr, ndtri

from bellwether.arena.rankings.estimates import compute_stated_scores
from bellwether.arena.rankings.pairs import compare_pairs
from bellwether.arena.rankings.price_noise import Exposure, LinearMetric, PricedMeans
from bellwether.calibration.forecasts import Floats, Ints
from bellwether.formatting import markdown_table

COHORTS = (3, 6, 12, 30)
REPLICATES = 2_000
#: Weeks in which a cohort decides, new events a week, markets of an event, and weeks that a market may be open.
WEEKS, EVENTS, MARKETS, OPEN = 5, 40, 2, 3
#: Replicates that are simulated together.
BATCH = 50
#: Promise: intervals that contain the truth, and equal pairs that differ at 5 %.
COVERED, FALSE = 0.90, 0.08
CASH = 10_000.0
#: Ordinary agents have intervals from so many cohorts on.
LEAST_COHORTS = 6


@dataclass(frozen=True)
class Pick:
    """Markets that an agent buys in a decision: `count` sides with a price from `low` to `high`, each with an equal part of the share `stake` of
    the cash.
    """

    low: float
    high: float
    count: int = 3
    stake: float = 0.25


@dataclass(frozen=True)
class Kind:
    """Kind of simulated agent.

    noise: standard deviation of the stated log odds around those that the agent believes. insight: share of the remaining variance of the latent
    walk that the agent sees. is_shared: all cohorts choose the same markets in a week. mispriced: standard deviation of the error in the log odds
    of the prices that the agent pays. is_random_size: confidences vary. legs: buy both markets of each event.
    """

    name: str
    picks: tuple[Pick, ...]
    noise: float = 0.3
    insight: float = 0.0
    is_shared: bool = False
    mispriced: float = 0.0
    is_random_size: bool = False
    legs: bool = False

    @property
    def is_twin(self) -> bool:
        """True if this kind repeats another kind under the name of a twin. A twin is compared only with the kind that it repeats."""
        return self.name.endswith("twin")


_ORDINARY = (Pick(0.1, 0.9, 4, 0.1),)
KINDS = (
    Kind("ordinary", _ORDINARY, 0.5, is_random_size=True),
    Kind("ordinary twin", _ORDINARY, 0.5, is_random_size=True),
    Kind("skilled", _ORDINARY, insight=0.2, is_random_size=True),
    Kind("correlated legs", (Pick(0.1, 0.9, 2, 0.1),), legs=True),
    Kind("correlated favourites", (Pick(0.8, 0.99, 2, 0.1),), legs=True),
    Kind("favourites .88-.995", (Pick(0.88, 0.995),)),
    Kind("favourites twin", (Pick(0.88, 0.995),)),
    Kind("favourites .95-.99, same in all cohorts", (Pick(0.95, 0.99),), 0.0, is_shared=True),
    Kind("favourites .98-.995", (Pick(0.98, 0.995),)),
    Kind("favourites, prices off by 0.3 in log odds", (Pick(0.88, 0.995),), mispriced=0.3),
    Kind("contrarian .005-.12", (Pick(0.005, 0.12, 3, 0.05),)),
    Kind("contrarian twin", (Pick(0.005, 0.12, 3, 0.05),)),
    Kind("one ordinary bet a week", (Pick(0.2, 0.8, 1),), 0.5, is_random_size=True),
    Kind("one favourite a week", (Pick(0.95, 0.99, 1),)),
    Kind("one contrarian a week", (Pick(0.01, 0.05, 1, 0.05),)),
    Kind("mixture", (Pick(0.95, 0.99, 2, 0.25), Pick(0.3, 0.7, 1, 0.05), Pick(0.01, 0.05, 1, 0.02))),
    Kind("mixture twin", (Pick(0.95, 0.99, 2, 0.25), Pick(0.3, 0.7, 1, 0.05), Pick(0.01, 0.05, 1, 0.02))),
)
HOLD = "hold"
EQUAL_RETURNS = (
    "ordinary",
    "favourites .88-.995",
    "favourites .95-.99, same in all cohorts",
    "favourites .98-.995",
    "contrarian .005-.12",
    "one favourite a week",
    "one contrarian a week",
    "mixture",
    HOLD,
)
METRICS_OF_TWINS = ("brier_stated", "brier_vs_price", "brier_size")
#: Pairs of kinds whose stated scores and sizes have the same truth. All returns at fair prices are equal, that of holding included.
TWINS = (
    ("ordinary", "ordinary twin"),
    ("favourites .88-.995", "favourites twin"),
    ("contrarian .005-.12", "contrarian twin"),
    ("mixture", "mixture twin"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Markets:
    """Simulated markets, ordered by start: M markets in each of R independent worlds.

    path: latent walk at the start of each week of a market and at its end, (R, M, OPEN + 1). start, event, life (weeks until the end): (M,), (M,)
    and (R, M).
    """

    path: Floats
    threshold: Floats
    life: Ints
    start: Ints
    event: Ints

    @classmethod
    def draw(cls, worlds: int, weeks: int, generator: np.random.Generator) -> Markets:
        """Draw markets at random. Half of the starting prices are ordinary, a quarter very high, and a quarter very low."""
        events = weeks * EVENTS
        event = np.repeat(np.arange(events), MARKETS)
        life = generator.integers(1, OPEN + 1, (worlds, events))[:, event]
        shape = (worlds, events, OPEN)
        together, own = generator.standard_normal(shape)[:, event], generator.standard_normal((worlds, len(event), OPEN))
        step = np.sqrt(0.5) * (together + own) / np.sqrt(life)[:, :, None]
        step[np.arange(OPEN) >= life[:, :, None]] = 0.0
        path = np.concatenate([np.zeros((worlds, len(event), 1)), step.cumsum(axis=2)], axis=2)
        part = generator.random(life.shape)
        price = np.choose(
            (part > 0.5).astype(int) + (part > 0.75),
            [
                generator.uniform(0.05, 0.95, life.shape),
                generator.uniform(0.88, 0.997, life.shape),
                generator.uniform(0.003, 0.12, life.shape),
            ],
        )
        return cls(path, -ndtri(price), life, np.repeat(np.arange(weeks), EVENTS * MARKETS), event)

    @property
    def won(self) -> Floats:
        """1.0 where a market resolved YES, else 0.0, as an array (R, M)."""
        return np.asarray((self.path[:, :, -1] > self.threshold).astype(np.float64))


def simulate(kind: Kind, markets: Markets, cohorts: int, generator: np.random.Generator) -> pl.DataFrame:
    """Simulate all bets of one kind of agent.

    Returns a row per bet: world, cohort, week, market, event, p, y, price, chance, direction, confidence, and profit as a share of the initial cash.
    y, p, price and chance (the true probability, as far as the agent can know) are of YES.
    """
    worlds, weeks = len(markets.life), cohorts + WEEKS - 1
    cash, due = np.full((worlds, cohorts), CASH), np.zeros((worlds, cohorts, weeks + OPEN + 1))
    won, found = markets.won, list[pl.DataFrame]()
    for week in range(weeks):
        active = np.arange(max(0, week - WEEKS + 1), min(cohorts, week + 1))
        cash += due[:, :, week]
        columns = np.flatnonzero((markets.start <= week) & (markets.start > week - OPEN))
        is_open, chance, price = _quotes(kind, markets, columns, week, generator)
        spent = np.zeros((worlds, len(active)))
        for pick in kind.picks:
            chosen, yes, valid = _choose(kind, pick, price, chance, is_open, len(active), generator)
            bets = _bets(kind, pick, cash[:, active], price, chance, (chosen, yes, valid), generator)
            row, market = np.broadcast_to(np.arange(worlds)[:, None, None], chosen.shape), columns[chosen]
            cohort, y = np.broadcast_to(active[None, :, None], chosen.shape), won[row, market]
            spent += bets["stake"].sum(axis=2)
            payout = np.abs(bets["exposed"]) * np.where(yes, y, 1 - y)
            np.add.at(due, (row, cohort, markets.start[market] + markets.life[row, market]), payout)
            known = {
                "world": row,
                "cohort": cohort,
                "week": np.full(row.shape, week),
                "market": market,
                "event": markets.event[market],
                "y": y,
            }
            money = {"exposed": bets["exposed"] / CASH, "profit": (payout - bets["stake"]) / CASH}
            found.append(pl.DataFrame({name: values[valid] for name, values in {**known, **bets, **money}.items()}))
        cash[:, active] -= spent
    return pl.concat(found).with_columns(kind=pl.lit(kind.name))


def _quotes(
    kind: Kind, markets: Markets, columns: Ints, week: int, generator: np.random.Generator
) -> tuple[np.ndarray[Any, Any], Floats, Floats]:
    """Return three arrays (R, columns) for a week: which markets are open, the probability of YES that the agent believes, and the price. columns:
    of the markets.
    """
    age = week - markets.start[columns]
    left = 1 - age / markets.life[:, columns]
    at, end, threshold = markets.path[:, columns, age], markets.path[:, columns, -1], markets.threshold[:, columns]
    scale = np.sqrt(np.where(left > 0, left, 1.0))
    chance = fair = ndtr((at - threshold) / scale)
    if kind.insight:
        noise = np.sqrt(kind.insight * (1 - kind.insight) * np.maximum(left, 0)) * generator.standard_normal(at.shape)
        chance = ndtr((at + kind.insight * (end - at) + noise - threshold) / (scale * np.sqrt(1 - kind.insight)))
    error = kind.mispriced * generator.standard_normal(at.shape)
    return left > 0, chance, expit(logit(np.clip(fair, 1e-9, 1 - 1e-9)) + error)


def _bets(
    kind: Kind,
    pick: Pick,
    cash: Floats,
    price: Floats,
    chance: Floats,
    choice: tuple[Ints, np.ndarray[Any, Any], np.ndarray[Any, Any]],
    generator: np.random.Generator,
) -> dict[str, Floats]:
    """Compute the bets of one decision, as arrays (R, active, count): stake, exposed (dollars paid if the bet wins, negative for NO), price, chance,
    p, direction and confidence. choice: from `_choose`.
    """
    chosen, yes, valid = choice
    row = np.arange(len(price))[:, None, None]
    q, pi, direction = price[row, chosen], chance[row, chosen], np.where(yes, 1.0, -1.0)
    confidence = generator.uniform(0.2, 1.0, q.shape) if kind.is_random_size else np.ones(q.shape)
    stake = np.where(valid, pick.stake * cash[:, :, None], 0.0) * confidence
    p = expit(logit(np.clip(pi, 1e-6, 1 - 1e-6)) + kind.noise * generator.standard_normal(q.shape))
    exposed = direction * stake / np.where(yes, q, 1 - q)
    return {"stake": stake, "exposed": exposed, "price": q, "chance": pi, "p": p, "direction": direction, "confidence": confidence}


def _choose(
    kind: Kind, pick: Pick, price: Floats, chance: Floats, is_open: np.ndarray[Any, Any], active: int, generator: np.random.Generator
) -> tuple[Ints, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Choose the markets of bets. Returns three arrays (R, active, count): the markets' columns, whether YES is bought, and whether the bet exists."""
    yes_fits, no_fits = ((low >= pick.low) & (low <= pick.high) for low in (price, 1 - price))
    fits = (yes_fits | no_fits) & is_open
    if kind.insight:  # only where it sees an edge
        fits &= np.abs(chance - price) > 0.02
    worlds, size = price.shape
    if kind.legs:
        fits = np.repeat(fits.reshape(worlds, -1, MARKETS).all(axis=2), MARKETS, axis=1)
        luck = np.repeat(generator.random((worlds, active, size // MARKETS)), MARKETS, axis=2)
    else:
        luck = generator.random((worlds, 1 if kind.is_shared else active, size))
    luck = np.broadcast_to(np.where(fits[:, None, :], luck, 2.0), (worlds, active, size))
    chosen = np.argsort(luck, axis=2, kind="stable")[:, :, : pick.count]
    row = np.arange(worlds)[:, None, None]
    valid = np.take_along_axis(luck, chosen, axis=2) < 1
    coin = generator.random((worlds, 1, size)) < 0.5
    preferred = chance > price if kind.insight else np.where(yes_fits & no_fits, coin[:, 0], yes_fits)
    return chosen.astype(np.intp), preferred[row, chosen], valid


def intervals_of(rows: pl.DataFrame, plan: float = 0.95) -> dict[str, tuple[Any, float]]:
    """Return by metric the estimate with its interval, and the value expected given the markets of the bets. rows: bets of one kind in one world."""
    p, y, price, chance, direction, confidence, exposed, profit, market, event = (
        rows[name].to_numpy() for name in ("p", "y", "price", "chance", "direction", "confidence", "exposed", "profit", "market", "event")
    )
    means = PricedMeans(Exposure.of(price, market, event), plan)
    won, wins = np.where(direction > 0, y, 1 - y), np.where(direction > 0, chance, 1 - chance)
    slope = (1 - 2 * confidence) * direction
    stated = compute_stated_scores(p, y, price, means)
    bets = means.estimates(
        {"brier_size": LinearMetric(np.square(confidence - won), slope, 0.0, 1.0), "win_rate": LinearMetric(won, direction, 0.0, 1.0)}
    )
    relative = float((np.square(p - chance) - np.square(price - chance)).mean())
    of_price = float((np.square(price - chance) + chance * (1 - chance)).mean())
    expected = float((np.square(p - chance) + chance * (1 - chance)).mean())
    clipped = np.clip(p, 1e-12, 1 - 1e-12)
    return {
        "return": (means.total(LinearMetric(profit, exposed)), float((exposed * (chance - price)).sum())),
        "brier_size": (bets["brier_size"], float((np.square(confidence - wins) + wins * (1 - wins)).mean())),
        "win_rate": (bets["win_rate"], float(wins.mean())),
        "brier_stated": (stated["brier_stated"], expected),
        "log_loss": (stated["log_loss"], float(-(chance * np.log(clipped) + (1 - chance) * np.log(1 - clipped)).mean())),
        "skill_price": (stated["skill_price"], expected / of_price),
        "brier_vs_price": (stated["brier_vs_price"], relative),
    }


def scored(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return by metric the rows that `compare_pairs` reads: how each bet contributes to its cohort's value of the week. rows: bets in all worlds."""
    p, y, price, sign = (pl.col(name) for name in ("p", "y", "price", "direction"))
    confidence, share = pl.col("confidence"), pl.len().over("world", "cohort", "week")
    won = pl.when(sign > 0).then(y).otherwise(1 - y)
    known = ("world", "cohort", "week", "market", "event", "price")
    means = {
        "brier_stated": ((p - y) ** 2, 1 - 2 * p),
        "brier_vs_price": ((p - y) ** 2 - (price - y) ** 2, 2 * (price - p)),
        "brier_size": ((confidence - won) ** 2, (1 - 2 * confidence) * sign),
    }
    found = {
        name: rows.select(*known, "y", family="kind", value=value / share, slope=slope / share) for name, (value, slope) in means.items()
    }
    earned = rows.select(*known, y=price + pl.col("profit") / pl.col("exposed"), family="kind", value="profit", slope="exposed")
    return {**found, "return": earned}


def comparisons(parts: Sequence[pl.DataFrame], worlds: int, cohorts: int) -> Iterator[tuple[str, str, str, float | None]]:
    """Test every pair of kinds with equal truth in each world. Yields metric, both kinds, and p (None without a test). parts: all bets of each
    kind.
    """
    rows = {part["kind"][0]: scored(part) for part in parts}
    pairs = [pair for pair in TWINS if all(name in rows for name in pair)]
    groups = {metric: [name for pair in pairs for name in pair] for metric in METRICS_OF_TWINS}
    groups["return"] = [name for name in EQUAL_RETURNS if name in rows or name == HOLD]
    cells = [(cohort, cohort + week) for cohort in range(cohorts) for week in range(WEEKS)]
    weeks = pl.DataFrame(cells, {"cohort": pl.Int64, "week": pl.Int64}, orient="row")
    for metric, names in groups.items():
        outcomes = [rows[name][metric] for name in names if name != HOLD]
        if metric == "return":
            nothing = pl.DataFrame({"family": names}).join(pl.DataFrame({"world": range(worlds)}), how="cross").join(weeks, how="cross")
            outcomes.append(nothing.with_columns(value=0.0))
        for part in pl.concat(outcomes, how="diagonal_relaxed").partition_by("world"):
            tested = compare_pairs(part, names, [True] * len(names), higher_is_better=metric == "return", level=0.95).pairs
            for name, other, p in tested.select("family", "other", "p").iter_rows():
                if metric == "return" or (name, other) in pairs:
                    yield metric, name, other, p


def measured(replicates: int, cohorts: int, kinds: Sequence[Kind] = KINDS, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Simulate, and count replicates: all of them, those with an interval or test (shown), and those whose interval or test is right (good).

    Returns one table per kind and metric (intervals), and one per pair and metric (tests). An interval is right if it contains the expected value
    of its metric; a test, if it finds no difference at 5 %.
    """
    generator = np.random.default_rng([seed, cohorts])
    truths, ends, tests = dict[tuple[str, str], list[float]](), dict[tuple[str, str], list[Any]](), dict[tuple[str, str, str], list[Any]]()
    for first in range(0, replicates, BATCH):
        worlds = min(BATCH, replicates - first)
        markets = Markets.draw(worlds, cohorts + WEEKS - 1, generator)
        parts = [simulate(kind, markets, cohorts, generator) for kind in kinds]
        for kind, part in zip(kinds, parts, strict=True):
            for rows in () if kind.is_twin else part.partition_by("world"):
                for metric, (estimate, truth) in intervals_of(rows).items():
                    truths.setdefault((kind.name, metric), []).append(truth)
                    ends.setdefault((kind.name, metric), []).append((estimate.lower, estimate.upper))
        for metric, name, other, p in comparisons(parts, worlds, cohorts):
            tests.setdefault((metric, name, other), []).append(p)
    singles = []
    for (name, metric), known in ends.items():
        mean = float(np.mean(truths[name, metric]))
        truth = 1 - mean if metric == "skill_price" else mean
        shown = [pair for pair in known if pair[0] is not None]
        good, width = (
            sum(lower - 1e-12 <= truth <= upper + 1e-12 for lower, upper in shown),
            np.median([upper - lower for lower, upper in shown] or [np.nan]),
        )
        singles.append((cohorts, name, metric, len(known), len(shown), good, float(width)))
    pairs = [
        (cohorts, metric, first, second, len(known), sum(p is not None for p in known), sum(p is not None and p > 0.05 for p in known))
        for (metric, first, second), known in tests.items()
    ]
    return (
        pl.DataFrame(singles, ["cohorts", "kind", "metric", "replicates", "shown", "good", "width"], orient="row"),
        pl.DataFrame(pairs, ["cohorts", "metric", "kind", "other", "replicates", "shown", "good"], orient="row"),
    )


def tables(singles: pl.DataFrame, pairs: pl.DataFrame) -> Iterator[str]:
    """Render two Markdown tables in percent: for each kind the lowest coverage of any metric, and for each metric the largest share of false
    positives of any pair.
    """
    counts = singles["cohorts"].unique().sort().to_list()
    covered = singles.with_columns(value=100 * pl.col("good") / pl.col("shown"))
    false = pairs.with_columns(value=100 - 100 * pl.col("good") / pl.col("shown"))
    yield "Coverage of 95 % intervals, lowest of seven metrics:"
    yield ""
    yield from markdown_table(["agent", *(f"{count} cohorts" for count in counts)], _cells(covered, "kind", counts, pl.col("value").min()))
    yield ""
    yield "Equal pairs that differ at 5 %, most of all pairs:"
    yield ""
    yield from markdown_table(["metric", *(f"{count} cohorts" for count in counts)], _cells(false, "metric", counts, pl.col("value").max()))


def _cells(rows: pl.DataFrame, name: str, counts: Sequence[int], value: pl.Expr) -> Iterator[list[str]]:
    found = {(key, count): one for key, count, one in rows.group_by(name, "cohorts").agg(value).iter_rows()}
    for key in rows[name].unique(maintain_order=True):
        yield [key, *(f"{found[key, count]:.1f}" for count in counts)]


def missed(singles: pl.DataFrame, pairs: pl.DataFrame) -> list[str]:
    """List what breaks the documented promise: too low coverage, too many false positives, or missing intervals (from 6 cohorts on for ordinary
    agents, from 30 on for all).
    """
    low = singles.filter(pl.col("good") < COVERED * pl.col("shown"))
    high = pairs.filter(pl.col("shown") - pl.col("good") > FALSE * pl.col("shown"))
    promised = (pl.col("cohorts") >= max(COHORTS)) | (pl.col("cohorts") >= LEAST_COHORTS) & pl.col("kind").str.contains("ordinary")
    gone = singles.filter(promised, pl.col("shown") < pl.col("replicates"))
    return [f"{row['cohorts']} cohorts, {row['kind']}, {row['metric']}" for part in (low, high, gone) for row in part.iter_rows(named=True)]


def run(replicates: int = REPLICATES) -> list[dict[str, Any]]:
    """Print the tables. Returns [{name, ratio, target, detail}] with the share of table cells that break the documented promise."""
    found = [measured(replicates, cohorts) for cohorts in COHORTS]
    singles, pairs = (pl.concat(part) for part in zip(*found, strict=True))
    print("\n".join(tables(singles, pairs)))
    broken = missed(singles, pairs)
    cells = singles.height + pairs.height
    detail = f"{len(broken)} of {cells} cells, {replicates:,} replicates each: {'; '.join(broken) or 'none'}"
    return [{"name": "arena intervals", "ratio": len(broken) / cells, "target": 0.0, "detail": detail}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    print(run(parser.parse_args().replicates)[0]["detail"])
