"""Coverage of the arena's 95 % intervals, and power and false positives of its pair tests, on simulated agents whose true scores are known.

    python -m benchmarks.arena_intervals                   # the tables of benchmarks/README.md
    python -m benchmarks.arena_intervals --replicates 50   # a quick look

A cohort makes ten bets of equal stakes in its week. Prices are fair, so that the true return is 0. Agents state the price with noise in its log
odds; the true gain of a probability p over the price q is (p - q)².
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, logit, ndtr, ndtri

from bellwether.arena.rankings.estimates import compute_mean_scores, compute_return
from bellwether.arena.rankings.pairs import compare_pairs
from bellwether.arena.rankings.possible_outcomes import RELATIVE, profit_outcomes, score_outcomes
from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.forecasts import Floats
from bellwether.formatting import markdown_table

REPLICATES = 200
COHORTS = (3, 6, 12, 30)
PRICES = (0.02, 0.1, 0.3, 0.5, 0.9, 0.97, 0.99)
#: Markets offered in a week, bets of a cohort, dollars per bet and of a cohort, and noise of the agents with fixed prices.
MARKETS, BETS, STAKE, CASH, NOISE = 20, 10, 100.0, 10_000.0, 0.5
#: Worlds: number of markets of an event, which all have one outcome, and correlation of all events of a week.
WORLDS = {"independent events": (1, 0.0), "legs that tie": (2, 0.0), "shock common to a week": (1, 0.3)}
SHOCK = "shock common to a week"
COPIER, CONTRARIAN, SHARP, BLURRED, TWIN = "price", "contrarian", "noise 0.3", "noise 1.3", "noise 1.3, twin"
#: Pairs of different agents, and pairs of equal agents. All returns are equal, that of holding included.
DIFFERENT, EQUAL = ((COPIER, CONTRARIAN), (SHARP, BLURRED)), ((BLURRED, TWIN),)
RETURNS, HOLD = (0.1, 0.5, 0.9, 0.97), "hold"
#: Targets: coverage, false positives, and power relative to an oracle that knows the standard error.
COVERAGE, FALSE, POWER = 0.93, 0.06, 0.7
_PLAN = Inference(replicates=0)


def draw_week(price: Floats, world: str, generator: np.random.Generator) -> Floats:
    """Draw the outcomes of the markets of each week. price: of YES, (weeks, markets)."""
    legs, correlation = WORLDS[world]
    weeks, markets = price.shape
    common, own = generator.standard_normal((weeks, 1)), generator.standard_normal((weeks, markets // legs))
    luck = np.repeat(ndtr(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own), legs, axis=1)
    return np.asarray(luck < price, dtype=np.float64)


def place_bets(family: str, p: Floats, price: Floats, y: Floats, world: str, generator: np.random.Generator) -> pl.DataFrame:
    """Return the bets of a family on YES of random markets, as a row of bets and of positions at once. p, price, y: (weeks, markets)."""
    legs, (weeks, markets) = WORLDS[world][0], price.shape
    events = generator.random((weeks, markets // legs)).argsort(axis=1)[:, : BETS // legs]
    market = (events[:, :, None] * legs + np.arange(legs)).reshape(weeks, -1)
    week = np.repeat(np.arange(weeks), BETS)
    at = (week, market.ravel())
    values = {"p": p[at], "y": y[at], "price": price[at], "profit": STAKE * (y[at] / price[at] - 1), "yes": STAKE * (1 / price[at] - 1)}
    number = week * markets + market.ravel()
    known = pl.DataFrame({"cohort": week, "week": week, "market": number, "event": number // legs, **values})
    return known.with_columns(family=pl.lit(family), stake=pl.lit(STAKE), no=pl.lit(-STAKE), sold=pl.lit(value=False))


def blur(price: Floats, noise: float, generator: np.random.Generator) -> Floats:
    """Return prices with normal noise in their log odds."""
    return np.asarray(expit(logit(price) + noise * generator.standard_normal(price.shape)))


def measure_coverage(world: str, cohorts: int, replicates: int) -> pl.DataFrame:
    """Return metric, price, truth, lower and upper of each replicate."""
    generator, found = np.random.default_rng([1, cohorts, WORLDS[world][0]]), list[tuple[Any, ...]]()
    cash = pl.DataFrame({"cohort": range(cohorts)}).with_columns(initial_cash=pl.lit(CASH))
    for fixed in PRICES:
        noise = NOISE * ndtri((np.arange(10_000) + 0.5) / 10_000)
        gain = float(np.square(expit(logit(fixed) + noise) - fixed).mean())
        price = np.full((cohorts, MARKETS), fixed)
        for _ in range(replicates):
            bets = place_bets("agent", blur(price, NOISE, generator), price, draw_week(price, world, generator), world, generator)
            (relative,) = compute_mean_scores(bets, [(RELATIVE, "lower")], _PLAN)
            for row, truth in ((relative, gain), (compute_return(cash, bets, _PLAN), 0.0)):
                found.append((row.metric, fixed, truth, row.estimate.lower, row.estimate.upper))
    return pl.DataFrame(found, ["metric", "price", "truth", "lower", "upper"], orient="row")


def measure_pairs(world: str, cohorts: int, replicates: int) -> pl.DataFrame:
    """Return metric, family, other, difference and p of all pairs in each replicate."""
    generator, found = np.random.default_rng([2, cohorts, WORLDS[world][0]]), list[pl.DataFrame]()
    legs = WORLDS[world][0]
    for _ in range(replicates):
        price = np.repeat(generator.uniform(0.05, 0.95, (cohorts, MARKETS // legs)), legs, axis=1)
        y = draw_week(price, world, generator)
        stated = {COPIER: price, CONTRARIAN: 1 - price, **{n: blur(price, s, generator) for n, s in _NOISES.items()}}
        bets = pl.concat([place_bets(name, p, price, y, world, generator) for name, p in stated.items()])
        found.append(_test(score_outcomes(bets, RELATIVE), list(stated), cohorts).with_columns(metric=pl.lit(RELATIVE)))
        fixed = {f"price {value}": np.full(price.shape, value) for value in RETURNS}
        earned = [place_bets(name, value, value, draw_week(value, world, generator), world, generator) for name, value in fixed.items()]
        rows = profit_outcomes(pl.concat(shift_markets(earned)))
        found.append(_test(rows, [*fixed, HOLD], cohorts, CASH).with_columns(metric=pl.lit("return")))
    return pl.concat(found)


_NOISES: Mapping[str, float] = {SHARP: 0.3, BLURRED: 1.3, TWIN: 1.3}


def shift_markets(parts: Sequence[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Number the markets and events of families with different prices apart."""
    for number, rows in enumerate(parts):
        yield rows.with_columns(pl.col("market", "event") + number * 1_000_000)


def _test(outcomes: pl.DataFrame, names: Sequence[str], cohorts: int, cash: float | None = None) -> pl.DataFrame:
    cells = pl.DataFrame({"family": names}).join(pl.DataFrame({"cohort": range(cohorts)}), how="cross")
    cells = cells.with_columns(week="cohort", **({} if cash is None else {"initial_cash": pl.lit(cash)}))
    tested = compare_pairs(outcomes, cells, names, [True] * len(names), _PLAN, higher_is_better=cash is not None)
    return tested.pairs.select("family", "other", "difference", "p")


def run(replicates: int = REPLICATES, counts: Sequence[int] = COHORTS, worlds: Sequence[str] = tuple(WORLDS)) -> list[dict[str, Any]]:
    """Print the tables. Returns [{name, ratio, target, detail}] with the number of cells that miss a target by more than the simulation's error."""
    covered, power, false, missed = list[list[str]](), dict[tuple[str, str], list[str]](), list[list[str]](), list[str]()
    error = 2 * (0.05 * 0.95 / replicates) ** 0.5
    is_equal = pl.any_horizontal((pl.col("family") == one) & (pl.col("other") == other) for one, other in EQUAL)
    for world in worlds:
        shares: dict[tuple[str, str], list[str]] = {}
        for cohorts in counts:
            right = (pl.col("lower") <= pl.col("truth")) & (pl.col("truth") <= pl.col("upper"))
            rows = measure_coverage(world, cohorts, replicates).group_by("metric", "price").agg(right.fill_null(value=False).mean())
            for metric in (RELATIVE, "return"):
                _, price, share = rows.filter(metric=metric).sort("lower", "price").row(0)
                shares.setdefault(("covered", metric), []).append(f"{100 * share:.1f} ({price})")
                missed += [f"coverage of {metric}, {world}, {cohorts}"] * (share < COVERAGE - error and world != SHOCK)
            tested = measure_pairs(world, cohorts, replicates)
            equal = tested.filter((pl.col("metric") == "return") | is_equal)
            positive = equal.group_by("metric", "family", "other").agg((pl.col("p") < 0.05).fill_null(value=False).mean())
            for metric, mean, share in (
                positive.group_by("metric").agg(pl.col("p").mean(), most=pl.col("p").max()).sort("metric").iter_rows()
            ):
                shares.setdefault(("false", metric), []).append(f"{100 * mean:.1f} ({100 * share:.1f})")
                missed += [f"false positives of {metric}, {world}, {cohorts}"] * (share > FALSE + error and world != SHOCK)
            for one, other in DIFFERENT:
                pair = tested.filter(metric=RELATIVE, family=one, other=other)
                gap = pair["difference"].to_numpy()
                own, best = (pair["p"].fill_null(1.0).to_numpy() < 0.05).mean(), (np.abs(gap) > 1.96 * np.std(gap)).mean()
                power.setdefault((world, f"{one} – {other}"), []).append(f"{own:.2f} / {best:.2f}")
                missed += [f"power of {one} – {other}, {world}, {cohorts}"] * (own < POWER * best - error and world != SHOCK)
        covered += [[world, metric, *values] for (kind, metric), values in shares.items() if kind == "covered"]
        false += [[world, metric, *values] for (kind, metric), values in shares.items() if kind == "false"]
    columns = [f"{count} cohorts" for count in counts]
    for title, head, cells in (
        ("Coverage of 95 % intervals in per cent, lowest of all prices (price):", "metric", covered),
        ("Equal pairs that differ at 5 %, in per cent, mean (highest) of all pairs:", "metric", false),
        ("Power of pair tests / of an oracle:", "pair", [[*key, *values] for key, values in power.items()]),
    ):
        print("\n".join([title, "", *markdown_table(["world", head, *columns], cells), ""]))
    return [{"name": "arena intervals", "ratio": float(len(missed)), "target": 0.0, "detail": "; ".join(missed) or "no target is missed"}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--cohorts", type=int, nargs="+", default=COHORTS)
    arguments = parser.parse_args()
    print(run(arguments.replicates, arguments.cohorts)[0]["detail"])
