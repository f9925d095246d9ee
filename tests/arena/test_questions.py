"""Questions shared by forecasts, who must answer them, and imputation of missing answers, in small arenas with hand-computed numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.rankings.difficulty import UNCONNECTED, Losses, adjust_scores
from bellwether.arena.rankings.estimates import compute_money_metrics
from bellwether.calibration.clusters import Grouping
from bellwether.calibration.inference import Inference
from bellwether.tables import table
from bellwether.tables.arena_rankings import SUBMISSIONS
from bellwether.tables.schema import TIME

WEEK = date(2026, 1, 4)
PLAN = Inference(replicates=0)


class Bet(NamedTuple):
    """A scored bet: probability p that its side wins, the price paid, and the quoted midpoint."""

    family: str
    market: str
    side: str
    p: float
    won: bool
    price: float = 0.5
    mid: float | None = 0.5


class Listed(NamedTuple):
    """A market of the universe."""

    outcomes: tuple[str, ...] = ("Yes", "No")
    venue: str = "polymarket"
    prices: tuple[float | None, ...] = ()


def arena(
    bets: list[Bet], markets: dict[str, Listed] | None = None, others: tuple[str, ...] = (), cutoffs: dict[str, Any] | None = None
) -> RankingInputs:
    """Build one cohort-week. Each family decides; `others` do not bet. Markets that are not listed are binary, each in its own event."""
    listed = {bet.market: Listed() for bet in bets} | (markets or {})
    families = sorted({bet.family for bet in bets} | set(others))
    agents = [f"{WEEK}/{family}" for family in families]
    rows = [
        {
            "trade_id": f"{WEEK}/{bet.family}/{WEEK}/{number}",
            "agent_id": f"{WEEK}/{bet.family}",
            "market_id": bet.market,
            "side": bet.side,
            "probability": bet.p,
            "price": bet.price,
            "mid": bet.mid,
            "won": bet.won,
            "o_yes": int(bet.won == (bet.side == "YES")) if bet.side in ("YES", "NO") else None,
            "brier_size": 0.25,
        }
        for number, bet in enumerate(bets, 1)
    ]
    types = {"mid": pl.Float64, "o_yes": pl.Int8}
    frame = pl.DataFrame(rows, schema_overrides=types).with_columns(week=pl.lit(WEEK), amount=pl.lit(100.0), methodology=pl.lit("v1"))
    empty = {name: table(f"arena/{name}").empty() for name in ("prices", "ledger", "positions", "portfolios")}
    return RankingInputs(
        agents=pl.DataFrame({"agent_id": agents, "family": families}).with_columns(
            week=pl.lit(WEEK),
            model=pl.col("family"),
            methodology=pl.lit("v1"),
            reconstructed=pl.lit(value=False),
            initial_cash=pl.lit(10_000.0),
            archived_at=pl.lit(None, TIME),
        ),
        decisions=pl.DataFrame({"agent_id": agents}).with_columns(
            decision_id=pl.col("agent_id") + f"/{WEEK}",
            week=pl.lit(WEEK),
            state=pl.lit("finished"),
            action=pl.lit("BET"),
            cost=pl.lit(0.0),
        ),
        universe=pl.DataFrame(
            {
                "market_id": list(listed),
                "event_id": list(listed),
                "venue": [one.venue for one in listed.values()],
                "outcomes": [list(one.outcomes) for one in listed.values()],
                "prices": pl.Series([list(one.prices) for one in listed.values()], dtype=pl.List(pl.Float64)),
            }
        ).with_columns(week=pl.lit(WEEK)),
        trades=frame.select(
            "trade_id", "agent_id", "week", "amount", "mid", "price", position_id="trade_id", action=pl.lit("BUY"), shares=200.0
        ),
        scores=frame.select(
            "trade_id", "agent_id", "market_id", "side", "probability", "price", "won", "o_yes", "brier_size", "methodology"
        ),
        cutoffs=cutoffs or {},
        **empty,
    )


def row(inputs: RankingInputs, family: str, metric: str, imputation: str = "none") -> dict[str, Any]:
    found = compute_rankings(inputs, PLAN)["arena/rankings"]
    return found.filter(family=family, metric=metric, imputation=imputation).row(0, named=True)


def alone_and_two() -> Losses:
    """Forecaster 0 answers ten questions alone. Forecasters 1 and 2 share one question and answer one more each."""
    return Losses(
        np.array([0.9] * 10 + [0.5, 0.1, 0.3, 0.2]),
        np.array([0] * 10 + [1, 1, 2, 2], dtype=np.intp),
        np.array([*range(10), 10, 11, 10, 12], dtype=np.intp),
        Grouping.of(np.arange(13)),
        3,
    )


def test_the_largest_set_of_connected_families_is_adjusted_however_much_one_alone_forecasts() -> None:
    """The questions have g = 0.5 − a1, 0.1 − a1 and 0.2 − a2, with a1 − a2 = 0.2. The mean of g over the three questions is (0.8 − 2 a1 −
    a2) / 3.
    """
    fitted = adjust_scores(alone_and_two(), np.ones(3, dtype=bool), Inference(replicates=200))
    np.testing.assert_allclose(fitted.score, [np.nan, 1 / 3, 1 / 3 - 0.2], atol=1e-12)
    assert fitted.bounds[0].reason == UNCONNECTED
    assert np.isnan(fitted.first[0])
    assert fitted.first[1:].sum() == pytest.approx(1)
    assert fitted.first_raw.sum() == pytest.approx(1)


@pytest.mark.parametrize(("more", "inside"), [([], [True, True, False, False]), ([2], [False, False, True, True])])
def test_of_equally_large_sets_that_with_the_most_forecasts_counts_then_that_of_the_first_family(
    more: list[int], inside: list[bool]
) -> None:
    who = np.array([0, 1, 2, 3, *more], dtype=np.intp)
    what = np.array([1, 1, 0, 0, *more], dtype=np.intp)
    one = Losses(np.full(len(who), 0.2), who, what, Grouping.of(np.arange(3)), 4)
    assert (~np.isnan(adjust_scores(one, np.ones(4, dtype=bool), PLAN).score)).tolist() == inside


def test_a_family_that_shares_no_question_has_no_adjusted_score_and_no_rank() -> None:
    alone = arena([Bet("alone", f"m{number}", "YES", 0.9, won=True) for number in range(4)])
    found = row(alone, "alone", "brier_adjusted")
    assert (found["value"], found["rank"], found["share_first"], found["reason"]) == (None, None, None, UNCONNECTED)
    assert row(alone, "alone", "brier_stated")["value"] == pytest.approx(0.01)
    more = arena([Bet("alone", f"m{number}", "YES", 0.9, won=True) for number in range(10)])
    result = compute_rankings(more, Inference(replicates=200))["arena/rankings"].filter(imputation="none")
    shares = dict(result.select("metric", "share_first").iter_rows())
    assert (shares["brier_stated"], shares["brier_adjusted"]) == (1, None)


def test_a_family_connected_by_submitted_forecasts_alone_has_no_adjusted_share_either() -> None:
    inputs = arena([Bet("alone", f"m{number}", "YES", 0.9, won=number > 0) for number in range(4)])
    said = [("oracle", f"m{number}", 0.8, False) for number in range(4)]
    found = compute_rankings(replace(inputs, submissions=submitted(said)), Inference(replicates=200))["arena/rankings"]
    one = {family: (value, share) for family, value, share in adjusted_none(found)}
    assert one["alone"] == (None, None)
    assert one["oracle"][0] == pytest.approx((0.64 + 3 * 0.04) / 4)


def adjusted_none(found: pl.DataFrame) -> list[tuple[Any, ...]]:
    return found.filter(metric="brier_adjusted", imputation="none").select("family", "value", "share_first").rows()


def test_both_sides_of_a_market_with_two_outcomes_are_one_question_about_the_first() -> None:
    game = {"game": Listed(("Fairmont", "Bayside"))}
    inputs = arena([Bet("a", "game", "Fairmont", 0.7, won=True, price=0.6), Bet("b", "game", "Bayside", 0.75, won=False, price=0.45)], game)
    assert inputs.bets["question"].n_unique() == 1
    assert inputs.bets.select("family", "p", "y", "price", "won", "paid").rows() == [
        ("a", 0.7, 1.0, 0.6, 1.0, 0.6),
        ("b", 0.25, 1.0, 0.55, 0.0, 0.45),
    ]
    for family, value in (("a", 0.09), ("b", 0.5625)):
        assert row(inputs, family, "brier_stated")["value"] == pytest.approx(value)
        assert row(inputs, family, "brier_adjusted")["value"] == pytest.approx(value)
        half = row(inputs, family, "brier_stated", "half")
        assert (half["value"], half["n"], half["imputed"]) == (pytest.approx(value), 1, 0)
    bins = compute_rankings(inputs, PLAN)["arena/calibration"].filter(family="b", n=1)
    assert bins.select("bin", "mean_forecast", "yes_rate").rows() == [(2, 0.25, 1.0)]


@pytest.mark.parametrize("listed", [Listed(("Fairmont", "Bayside", "Greywater")), Listed(("Fairmont", "Bayside"), "kalshi")])
def test_each_outcome_of_a_race_is_a_question(listed: Listed) -> None:
    """A race of three outcomes, and two contracts of Kalshi that may both lose."""
    inputs = arena([Bet("a", "race", "Fairmont", 0.7, won=False), Bet("b", "race", "Bayside", 0.6, won=False)], {"race": listed})
    assert inputs.bets["question"].n_unique() == 2
    assert inputs.bets.select("p", "y").rows() == [(0.7, 0.0), (0.6, 0.0)]
    assert row(inputs, "a", "brier_stated", "half")["n"] == 2


def test_what_is_missing_is_imputed_with_the_midpoint_and_what_was_stated_keeps_the_price_it_paid() -> None:
    """The book is 0.05 to 0.09. The bets filled several levels, at 0.2397 and 0.2026 on average. The second bought NO in the mirrored book,
    so its quote is the same.
    """
    walked = [Bet("a", "m", "YES", 0.2, won=False, price=0.2397, mid=0.07), Bet("b", "m", "NO", 0.9, won=True, price=1 - 0.2026, mid=0.93)]
    inputs = arena(walked, others=("c",))
    missing = row(inputs, "c", "brier_stated", "price")
    assert (missing["value"], missing["imputed"]) == (pytest.approx(0.07**2), 1)
    for imputation in ("none", "price", "half"):
        assert row(inputs, "a", "skill_price", imputation)["value"] == pytest.approx(1 - 0.2**2 / 0.2397**2), imputation
    assert row(inputs, "c", "skill_price", "half")["value"] == pytest.approx(1 - 0.25 / 0.07**2)


@pytest.mark.parametrize(("prices", "expected"), [((0.88, 0.12), 0.12), ((None, None), 0.3)])
def test_without_a_midpoint_the_price_of_the_universe_is_imputed_and_without_that_the_price_paid(
    prices: tuple[float, float], expected: float
) -> None:
    """YES is the second outcome of this market."""
    inputs = arena([Bet("a", "m", "NO", 0.9, won=True, price=0.7, mid=None)], {"m": Listed(("No", "Yes"), prices=prices)}, others=("c",))
    assert row(inputs, "c", "brier_stated", "price")["value"] == pytest.approx(expected**2)


def submitted(said: list[tuple[str, str, float, bool]]) -> pl.DataFrame:
    at = datetime(2026, 1, 4, 1, tzinfo=UTC)
    names = ("family", "market_id", "probability", "late")
    frame = pl.DataFrame([dict(zip(names, one, strict=True)) for one in said])
    more = frame.with_columns(week=pl.lit(WEEK), stated_at=pl.lit(at, TIME), known_at=pl.lit(at, TIME), reconstructed=pl.lit(value=False))
    return more.select(SUBMISSIONS.names)


def test_everybody_is_asked_what_any_agent_of_the_cohort_answered() -> None:
    """Contaminated agents count like others. Submitted forecasts, late or not, add no questions, and must answer the binary ones."""
    bets = [
        *(Bet("clean", market, "YES", 0.9, won=True) for market in ("m1", "m2")),
        Bet("clean", "game", "Fairmont", 0.9, won=True),
        *(Bet("tainted", market, "YES", 0.9, won=True) for market in ("m1", "m3")),
    ]
    said = [("late", "m1", 0.8, True), ("in time", "m1", 0.8, False), ("in time", "m4", 0.8, False)]
    inputs = arena(bets, {"game": Listed(("Fairmont", "Bayside")), "m4": Listed()}, cutoffs={"tainted": datetime(2026, 1, 5, tzinfo=UTC)})
    inputs = replace(inputs, submissions=submitted(said))
    expected = {"clean": (4, 1, 0.01), "tainted": (4, 2, 0.01), "late": (3, 2, 0.04), "in time": (3, 2, 0.04)}
    for family, (n, imputed, own) in expected.items():
        found = row(inputs, family, "brier_stated", "half")
        assert (found["n"], found["imputed"]) == (n, imputed), family
        assert found["value"] == pytest.approx(((n - imputed) * own + imputed * 0.25) / n), family
        assert found["contaminated"] == (family in ("tainted", "late"))


def test_several_bets_on_one_question_count_singly_whatever_is_imputed() -> None:
    """The errors are 0.04 and 0.16, not 0.09 for the mean of both."""
    inputs = arena([Bet("a", "m", "YES", 0.2, won=False, price=0.3), Bet("a", "m", "YES", 0.4, won=False, price=0.5)])
    for imputation in ("none", "price", "half"):
        found = row(inputs, "a", "brier_stated", imputation)
        assert (found["value"], found["n"], found["imputed"]) == (pytest.approx(0.1), 2, 0), imputation
        assert row(inputs, "a", "skill_price", imputation)["value"] == pytest.approx(1 - 0.2 / 0.34), imputation


@pytest.mark.parametrize(("least", "lower"), [(-9_000.0, -1.0), (-10_000.0, -1.035)])
def test_no_interval_of_a_return_goes_below_the_loss_of_everything(least: float, lower: float) -> None:
    """Only a debt after a correction makes a return less than −100 %."""
    agents = pl.DataFrame({"agent_id": ["a"], "initial_cash": [10_000.0]})
    profits = pl.DataFrame(
        {"event": [1, 2, 3, 4], "market": [1, 2, 3, 4], "profit": [least, -300.0, -50.0, 0.0], "exposed": 100.0, "price": 0.5}
    )
    due = pl.DataFrame({"kind": ["finished"], "cost": [0.0]})
    none = pl.DataFrame(schema={"agent_id": pl.String, "at": TIME, "total": pl.Float64, "amount": pl.Float64})
    found = {one.metric: one.estimate for one in compute_money_metrics(agents, due, none, profits, none, plan=PLAN)}["return"]
    assert found.value == pytest.approx((least - 350) / 10_000)
    assert found.lower == pytest.approx(lower)
    assert found.upper is not None
    assert found.upper > 0
