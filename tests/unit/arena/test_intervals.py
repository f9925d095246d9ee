"""Intervals and paired tests of the arena: the bootstrap over events written out, attainable ends, sold positions and simulated coverage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.arena.rankings.estimates import compute_bet_metrics, compute_forecast_metrics, compute_return
from bellwether.arena.rankings.pairs import NO_COMMON, PairComparison, compare_pairs
from bellwether.arena.rankings.possible_outcomes import SOLD, profit_outcomes, score_outcomes
from bellwether.calibration.bootstrap import Inference
from tests.unit.arena.simulated_arena import Simulated

PLAN = Inference(replicates=0)
CASH = 10_000.0
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def positions(family: str, price: list[float], won: list[bool], stake: float = 100.0) -> pl.DataFrame:
    """Build positions on YES in one cohort-week each, in markets and events numbered from 0."""
    numbers = range(len(price))
    paid = [stake / one - stake for one in price]
    return pl.DataFrame(
        {"family": family, "cohort": [n % 4 for n in numbers], "market": numbers, "event": numbers, "stake": stake}
    ).with_columns(
        week="cohort",
        no=-pl.col("stake"),
        yes=pl.Series(paid),
        profit=pl.Series([gain if win else -stake for gain, win in zip(paid, won, strict=True)], dtype=pl.Float64),
        sold=pl.lit(value=False),
    )


AGENTS = pl.DataFrame({"cohort": [0, 1, 2, 3]}).with_columns(initial_cash=pl.lit(CASH))


def bootstrap_ends(statistic: Callable[[Numbers], Numbers], sums: list[Numbers], event: Numbers, high: Numbers) -> tuple[float, float]:
    """Compute the 95 % interval by its definition. sums: of questions as observed, with NO and with YES, (terms, questions) each.

    statistic: of weighted sums of terms, (draws, terms). high: whether YES raises the statistic.
    """
    observed, no, yes = sums
    generator, events = np.random.default_rng(7), np.unique(event)
    weights = generator.standard_exponential((20_000, len(events)))
    pseudo = generator.standard_gamma(0.5, (20_000, 1))
    by_event = np.stack([observed[:, event == one].sum(axis=1) for one in events])
    sizes = np.array([(event == one).sum() for one in events])
    typical = np.square(sizes).sum() / sizes.sum() / sizes.sum()
    ends = [np.where(high == raised, yes, no).sum(axis=1) * typical for raised in (False, True)]
    low, up = (statistic(weights @ by_event + pseudo * end) for end in ends)
    return float(np.quantile(low, 0.025)), float(np.quantile(up, 0.975))


def draw_bets() -> pl.DataFrame:
    """Draw bets in which hardly any question repeats; the weight of a question is then 1."""
    return Simulated({"a": 1.0, "b": 0.3}, cohorts=4).inputs(3).bets.unique("market", keep="first", maintain_order=True)


def test_intervals_of_scores_are_the_bootstrap_over_events_with_both_outcomes() -> None:
    bets = draw_bets()
    p, y, price = (bets[name].to_numpy() for name in ("p", "y", "price"))
    event, one = bets["event"].to_numpy(), np.ones(bets.height)
    confidence = np.abs(y - np.sqrt(bets["size"].to_numpy()))
    zero = np.zeros(bets.height)
    scores: dict[str, Callable[[Numbers], Numbers]] = {
        "brier_stated": lambda o: (p - o) ** 2,
        "brier_vs_price": lambda o: (p - o) ** 2 - (price - o) ** 2,
        "log_loss": lambda o: -np.log(np.where(o == 1, p, 1 - p)),
        "brier_size": lambda o: (confidence - o) ** 2,
        "win_rate": lambda o: o,
    }
    found = {row.metric: row for row in (*compute_forecast_metrics(bets, PLAN), *compute_bet_metrics(bets, PLAN))}
    for name, score in scores.items():
        sums = [np.stack([score(outcome), one]) for outcome in (y, zero, one)]
        lower, upper = bootstrap_ends(lambda totals: totals[:, 0] / totals[:, 1], sums, event, sums[2][0] > sums[1][0])
        estimate = found[name].estimate
        width = upper - lower
        assert estimate.value == pytest.approx(score(y).mean()), name
        assert (estimate.lower, estimate.upper) == (pytest.approx(lower, abs=0.05 * width), pytest.approx(upper, abs=0.05 * width)), name
    skill = found["skill_price"].estimate
    ratio = [np.stack([(p - outcome) ** 2, (price - outcome) ** 2]) for outcome in (y, zero, one)]
    mean = (ratio[0][0] / ratio[0][1].sum()).sum()
    raises = (ratio[2][0] - mean * ratio[2][1]) < (ratio[1][0] - mean * ratio[1][1])
    lower, upper = bootstrap_ends(lambda totals: 1 - totals[:, 0] / totals[:, 1], ratio, event, raises)
    assert (skill.value, skill.lower, skill.upper) == (
        pytest.approx(1 - mean),
        pytest.approx(lower, abs=0.05 * (upper - lower)),
        pytest.approx(upper, abs=0.05 * (upper - lower)),
    )


def test_all_bets_on_a_question_have_one_outcome() -> None:
    """A bet at p = .2 and one at .8 on each of five questions: either outcome gives a mean score of .34, so that there is no interval."""
    rows = [("a", n, n, n, n, p, 1.0 if n % 2 else 0.0, 0.5, 1.0) for n in range(5) for p in (0.2, 0.8)]
    names = ["family", "cohort", "week", "market", "event", "p", "y", "price", "direction"]
    found = next(iter(compute_forecast_metrics(pl.DataFrame(rows, names, orient="row"), PLAN))).estimate
    assert (found.value, found.lower, found.reason) == (pytest.approx(0.34), None, "no outcome changes it")


def test_a_favourite_that_never_lost_may_still_have_been_lucky_and_shows_no_impossible_return() -> None:
    """20 bets at .99 earn 20 * 100 * (1 / .99 - 1) at most: +.05 % of four cohorts. Rare losses keep the lower end below 0."""
    found = compute_return(AGENTS, positions("favourite", [0.99] * 20, [True] * 20), PLAN).estimate
    best = 20 * (100 / 0.99 - 100) / (4 * CASH)
    assert (found.value, found.upper) == (pytest.approx(best), pytest.approx(best))
    assert found.lower is not None
    assert -0.05 < found.lower < -0.002


def test_a_loss_beyond_the_initial_cash_is_impossible_except_as_debt() -> None:
    """60 losses of $500 with $40,000: the stakes bound the loss. A larger stake is bounded by the cash, unless a correction left a debt."""
    bounded = compute_return(AGENTS, positions("a", [0.5] * 60, [False] * 60, stake=500.0), PLAN).estimate
    assert (bounded.value, bounded.lower) == (-0.75, -0.75)
    ruined = compute_return(AGENTS, positions("a", [0.5] * 60, [n % 2 == 0 for n in range(60)], stake=5_000.0), PLAN).estimate
    assert ruined.lower is not None
    assert ruined.lower >= -1
    debt = compute_return(AGENTS, positions("a", [0.5] * 60, [False] * 60, stake=1_000.0), PLAN).estimate
    assert (debt.value, debt.lower) == (-1.5, -1.5)


def test_sold_positions_have_the_spread_over_cohorts_instead_of_an_interval() -> None:
    rows = positions("a", [0.5] * 12, [n % 3 == 0 for n in range(12)]).with_columns(sold=pl.col("market") == 5)
    found = compute_return(AGENTS, rows, PLAN)
    assert (found.estimate.lower, found.estimate.upper, found.estimate.reason) == (None, None, SOLD)
    # Each cohort has three of the bets; markets 0, 3, 6 and 9 won, in cohorts 0, 3, 2 and 1.
    assert found.cohorts == pytest.approx([-0.01] * 4)
    assert found.estimate.value == pytest.approx(-0.01)


def test_few_events_have_no_interval() -> None:
    found = compute_return(AGENTS, positions("a", [0.5, 0.5], [True, False]), PLAN).estimate
    assert (found.lower, found.reason) == (None, "2 clusters; an interval needs 3")


def compare(parts: list[pl.DataFrame], names: list[str], cells: pl.DataFrame | None = None) -> PairComparison:
    due = pl.DataFrame({"family": names}).join(AGENTS, how="cross").with_columns(week="cohort") if cells is None else cells
    return compare_pairs(profit_outcomes(pl.concat(parts)), due, names, [True] * len(names), PLAN, higher_is_better=True)


def test_equal_families_have_a_difference_of_zero_and_share_letters() -> None:
    price, won = [0.3 + 0.05 * n for n in range(12)], [n % 2 == 0 for n in range(12)]
    found = compare([positions(name, price, won) for name in ("a", "b")], ["a", "b", "hold", "rest"])
    rows = {(row["family"], row["other"]): row for row in found.pairs.iter_rows(named=True)}
    for pair in (("a", "b"), ("hold", "rest")):
        assert [rows[pair][name] for name in ("difference", "lower", "upper", "p", "reason")] == [
            0.0,
            None,
            None,
            1.0,
            "no outcome changes it",
        ]
    expected = sum(100 / one - 100 if win else -100 for one, win in zip(price, won, strict=True)) / (4 * CASH)
    assert rows["a", "hold"]["difference"] == pytest.approx(expected)
    assert rows["a", "hold"]["n_clusters"] == 12
    assert found.letters == ["a"] * 4
    idle = compare([positions("a", [0.5], [True]).clear()], ["hold", "rest"]).pairs
    assert idle.select("difference", "lower", "upper", "p").rows() == [(0.0, None, None, 1.0)]


def test_one_outcome_of_a_question_serves_both_families() -> None:
    """Both buy the same shares, b for more: a is better by a known amount, whatever happens."""
    won = [n % 2 == 0 for n in range(12)]
    cheap = positions("a", [0.5] * 12, won)
    dear = cheap.with_columns(
        family=pl.lit("b"), stake=pl.col("stake") + 10, **{name: pl.col(name) - 10 for name in ("no", "yes", "profit")}
    )
    row = compare([cheap, dear], ["a", "b"]).pairs.row(0, named=True)
    gap = 12 * 10 / (4 * CASH)
    assert (row["difference"], row["lower"], row["reason"]) == (pytest.approx(gap), None, "no outcome changes it")
    assert row["p"] == 0


def test_only_common_cohort_weeks_count() -> None:
    """In cohort 0, a alone wins a fortune; c decides in no cohort of the others."""
    price = [0.5] * 12
    a, b = (positions(name, price, [win] * 12) for name, win in (("a", True), ("b", False)))
    a = a.with_columns(profit=pl.when(pl.col("cohort") == 0).then(1e6).otherwise("profit"))
    due = pl.DataFrame([("a", n) for n in range(4)] + [("b", n) for n in (1, 2, 3)] + [("c", 9)], ["family", "cohort"], orient="row")
    cells = due.with_columns(week="cohort", initial_cash=pl.lit(CASH))
    found = compare([a, b.filter(pl.col("cohort") > 0)], ["a", "b", "c"], cells)
    row = found.pairs.row(0, named=True)
    assert row["n"] == 3
    assert row["difference"] == pytest.approx(2 * 9 * 100 / (3 * CASH))
    assert row["p"] < 0.05
    assert found.pairs["reason"].to_list() == ["no outcome changes it", NO_COMMON, NO_COMMON]
    assert found.letters[:2] == ["a", "b"]


def test_pairs_of_scores_are_the_bootstrap_of_the_difference_of_two_means() -> None:
    bets = draw_bets()
    outcomes = score_outcomes(bets, "brier_stated")
    row = compare_pairs(
        outcomes, bets.select("family", "cohort", "week").unique(), ["a", "b"], [True] * 2, PLAN, higher_is_better=False
    ).pairs.row(0, named=True)
    shared = bets.join(bets.select("cohort", "week", "family").unique(), on=["cohort", "week"], suffix="_of").filter(
        pl.col("family") != pl.col("family_of")
    )
    p, y, is_a = shared["p"].to_numpy(), shared["y"].to_numpy(), (shared["family"] == "a").to_numpy()
    terms = [np.stack([(p - o) ** 2 * is_a, is_a * 1.0, (p - o) ** 2 * ~is_a, ~is_a * 1.0]) for o in (y, 0 * y, 0 * y + 1)]
    raises = np.where(is_a, p < 0.5, p > 0.5)
    lower, upper = bootstrap_ends(
        lambda totals: totals[:, 0] / totals[:, 1] - totals[:, 2] / totals[:, 3], terms, shared["event"].to_numpy(), raises
    )
    width = upper - lower
    assert row["difference"] == pytest.approx(((p - y) ** 2)[is_a].mean() - ((p - y) ** 2)[~is_a].mean())
    assert (row["lower"], row["upper"]) == (pytest.approx(lower, abs=0.05 * width), pytest.approx(upper, abs=0.05 * width))


def test_sold_positions_are_not_tested() -> None:
    won = [n % 2 == 0 for n in range(12)]
    a, b = (positions(name, [price] * 12, won) for name, price in (("a", 0.4), ("b", 0.5)))
    row = compare([a.with_columns(sold=pl.col("market") == 3), b], ["a", "b"]).pairs.row(0, named=True)
    assert (row["p"], row["lower"], row["reason"]) == (None, None, SOLD)
    assert row["difference"] is not None


@pytest.mark.nightly
def test_simulated_intervals_cover_the_truth_at_all_prices() -> None:
    """30 replicates; benchmarks/README.md has more. The tolerance is three standard errors of a cell."""
    from benchmarks.arena_intervals import COVERAGE, PRICES, measure_coverage

    found = measure_coverage("legs that tie", 3, 30)
    covered = found.group_by("metric", "price").agg(((pl.col("lower") <= pl.col("truth")) & (pl.col("truth") <= pl.col("upper"))).mean())
    assert covered.height == 2 * len(PRICES)
    assert covered.filter(pl.col("lower") < COVERAGE - 3 * (0.95 * 0.05 / 30) ** 0.5).is_empty()


def test_families_of_different_events_have_a_pseudo_event_each() -> None:
    """18 losses at .1 (probability .15) prove nothing against 18 wins at .97, although the losses are 18 of 36 events."""
    longshots, favourites = positions("a", [0.1] * 18, [False] * 18), positions("b", [0.97] * 18, [True] * 18)
    apart = favourites.with_columns(pl.col("market", "event") + 100)
    row = compare([longshots, apart], ["a", "b"]).pairs.row(0, named=True)
    assert row["p"] > 0.05
    assert row["upper"] > 0
    assert row["n_clusters"] == 18
