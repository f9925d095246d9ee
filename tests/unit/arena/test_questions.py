"""Questions shared by forecasts, baselines, ties, minimum samples of a rank, and submitted forecasts, in small arenas."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.rankings.estimates import NO_TRADES, TRADED
from bellwether.calibration.bootstrap import Inference
from bellwether.formatting import floor_percent, rounded_down
from bellwether.tables import table
from bellwether.tables.arena import PRICES
from bellwether.tables.arena_rankings import SUBMISSIONS
from bellwether.tables.schema import TIME
from tests.unit.arena.simulated_arena import Simulated
from tests.unit.arena.test_rankings import metric as by_family

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
            "trade_id",
            "agent_id",
            "week",
            "amount",
            "market_id",
            "side",
            "probability",
            "mid",
            "price",
            position_id="trade_id",
            action=pl.lit("BUY"),
            shares=200.0,
            fee=0.0,
        ),
        scores=frame.select(
            "trade_id", "agent_id", "market_id", "side", "probability", "price", "won", "o_yes", "brier_size", "methodology"
        ),
        cutoffs=cutoffs or {},
        **empty,
    )


def row(inputs: RankingInputs, family: str, metric: str) -> dict[str, Any]:
    found = compute_rankings(inputs, PLAN)["arena/rankings"]
    return found.filter(family=family, metric=metric).row(0, named=True)


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
    bins = compute_rankings(inputs, PLAN)["arena/calibration"].filter(family="b", n=1)
    assert bins.select("bin", "mean_forecast", "yes_rate").rows() == [(2, 0.25, 1.0)]


@pytest.mark.parametrize("listed", [Listed(("Fairmont", "Bayside", "Greywater")), Listed(("Fairmont", "Bayside"), "kalshi")])
def test_each_outcome_of_a_race_is_a_question(listed: Listed) -> None:
    """A race of three outcomes, and two contracts of Kalshi that may both lose."""
    inputs = arena([Bet("a", "race", "Fairmont", 0.7, won=False), Bet("b", "race", "Bayside", 0.6, won=False)], {"race": listed})
    assert inputs.bets["question"].n_unique() == 2
    assert inputs.bets.select("p", "y").rows() == [(0.7, 0.0), (0.6, 0.0)]


def submitted(said: list[tuple[str, str, float, bool]]) -> pl.DataFrame:
    at = datetime(2026, 1, 4, 1, tzinfo=UTC)
    names = ("family", "market_id", "probability", "late")
    frame = pl.DataFrame([dict(zip(names, one, strict=True)) for one in said])
    more = frame.with_columns(week=pl.lit(WEEK), stated_at=pl.lit(at, TIME), known_at=pl.lit(at, TIME), reconstructed=pl.lit(value=False))
    return more.select(SUBMISSIONS.names)


def test_an_agent_that_states_the_price_is_a_baseline_outside_the_ranks() -> None:
    """The prices are the listed one, the midpoint and the price paid. One probability of its own makes an agent a competitor."""
    markets = {f"m{number}": Listed(prices=(0.35, 0.65)) for number in range(12)}
    copied = [
        *(("copier", f"m{number}", "YES", 0.35, 0.36, 0.37) for number in range(4)),
        *(("copier", f"m{number}", "NO", 0.63, 0.64, 0.63) for number in range(4, 8)),
        *(("copier", f"m{number}", "YES", 0.36, 0.36, 0.37) for number in range(8, 12)),
    ]
    bets = [Bet(name, market, side, p, market == "m1", price, mid) for name, market, side, p, price, mid in copied]
    own = [bet._replace(family="own", p=0.2 if bet.market == "m0" else bet.p) for bet in bets]
    rows = compute_rankings(arena([*bets, *own], markets), PLAN)["arena/rankings"]
    for metric in ("brier_vs_price", "brier_stated", "brier_size", "win_rate"):
        found = {one["family"]: one for one in rows.filter(metric=metric).iter_rows(named=True)}
        assert {name: (one["baseline"], one["rank"], one["unranked_because"]) for name, one in found.items()} == {
            "copier": (True, None, "baseline: it states the market's price"),
            "own": (False, 1, None),
        }, metric


def test_families_with_equal_values_share_a_rank() -> None:
    bets = [Bet(name, f"m{number}", "YES", p, number == 0) for name, p in (("a", 0.3), ("b", 0.3), ("c", 0.9)) for number in range(10)]
    rows = compute_rankings(arena(bets), PLAN)["arena/rankings"].filter(metric="brier_vs_price")
    assert dict(rows.select("family", "rank").iter_rows()) == {"a": 1, "b": 1, "c": 3}


def test_several_bets_on_one_question_count_singly() -> None:
    """The errors are 0.04 and 0.16, not 0.09 for the mean of both."""
    inputs = arena([Bet("a", "m", "YES", 0.2, won=False, price=0.3), Bet("a", "m", "YES", 0.4, won=False, price=0.5)])
    found = row(inputs, "a", "brier_stated")
    assert (found["value"], found["n"]) == (pytest.approx(0.1), 2)


@pytest.mark.parametrize(("events", "skill"), [(2, None), (3, 1 - 0.16 / 0.25)])
def test_a_skill_needs_three_events(events: int, skill: float | None) -> None:
    found = row(arena([Bet("a", f"m{number}", "YES", 0.4, won=False) for number in range(events)]), "a", "skill_price")
    assert found["value"] == (None if skill is None else pytest.approx(skill))
    if skill is None:
        assert (found["reason"], found["unranked_because"]) == ("fewer than three clusters",) * 2


# --- minimum samples of a rank ---------------------------------------------------------------------------------------


def ranks(rows: pl.DataFrame, metric: str = "brier_vs_price") -> dict[str, tuple[int | None, str | None]]:
    chosen = rows.filter(metric=metric)
    return {row["family"]: (row["rank"], row["unranked_because"]) for row in chosen.iter_rows(named=True)}


def world(count: int = 20) -> list[Bet]:
    return [Bet("agent", f"m{number}", "YES", 0.4, won=number % 3 == 0, price=0.35) for number in range(count)]


def with_forecasts(said: list[tuple[str, str, float, bool]], count: int = 20) -> pl.DataFrame:
    return compute_rankings(replace(arena(world(count)), submissions=submitted(said)), PLAN)["arena/rankings"]


def test_one_safe_forecast_has_no_rank_and_says_why() -> None:
    found = with_forecasts([("safe", "m1", 0.0001, False)])
    for metric in ("brier_stated", "brier_vs_price", "skill_price", "log_loss"):
        assert ranks(found, metric)["safe"] == (None, "forecasts of 1 of 20 questions (5%); a rank needs 90%"), metric
    assert ranks(found)["agent"] == (1, None)


def test_nine_of_ten_questions_earn_a_rank_and_fewer_do_not() -> None:
    said = [("wide", f"m{number}", 0.33, False) for number in range(18)]
    assert ranks(with_forecasts(said))["wide"][1] is None
    assert ranks(with_forecasts(said[:17]))["wide"] == (None, "forecasts of 17 of 20 questions (85%); a rank needs 90%")


def test_a_score_over_few_events_has_no_rank() -> None:
    found = compute_rankings(arena(world(9)), PLAN)["arena/rankings"]
    assert ranks(found)["agent"] == (None, "scored on 9 events; a rank needs 10")
    assert ranks(found, "win_rate")["agent"][0] is None
    missing = found.filter(pl.col("rank").is_null() == pl.col("unranked_because").is_null())
    assert missing.is_empty()


def test_the_relative_score_is_the_difference_of_both_brier_scores() -> None:
    found = compute_rankings(arena(world()), PLAN)["arena/rankings"]
    row: dict[str, Any] = found.filter(metric="brier_vs_price").row(0, named=True)
    won = np.array([number % 3 == 0 for number in range(20)])
    assert row["value"] == pytest.approx(((0.4 - won) ** 2).mean() - ((0.35 - won) ** 2).mean())
    assert row["lower"] < row["value"] < row["upper"]


@pytest.mark.parametrize(
    ("share", "text"), [(269 / 300, "89.6%"), (0.9, "90%"), (0.89999, "89.9%"), (1.0, "100%"), (0.29, "29%"), (0.0, "0%")]
)
def test_a_share_below_a_minimum_never_appears_to_reach_it(share: float, text: str) -> None:
    assert floor_percent(share) == text
    assert rounded_down(share) <= share


# --- submitted forecasts ------------------------------------------------------------------------------------------------


POINTS = Inference(replicates=0)
AT = pl.col("week").cast(pl.Datetime("us")).dt.replace_time_zone("UTC") + timedelta(hours=1)


def submit_forecasts(inputs: RankingInputs, p: pl.Expr, family: str = "oracle", *, late: bool = False) -> pl.DataFrame:
    """Return a forecast of every question of the families."""
    asked = inputs.bets.select("week", "market_id", "y", "price").unique(["week", "market_id"], keep="first", maintain_order=True)
    rows = asked.select("week", "market_id", family=pl.lit(family), stated_at=AT, known_at=AT, probability=p)
    return rows.with_columns(late=late, reconstructed=pl.lit(value=False)).select(SUBMISSIONS.names)


def draw_inputs(cohorts: int = 12, *, reconstructed: bool = False) -> RankingInputs:
    return Simulated({"worst": 2.5, "best": 0.0}, cohorts=cohorts, reconstructed=reconstructed).inputs(1)


def test_a_submitted_forecaster_is_ranked_with_the_families_whose_scores_it_does_not_change() -> None:
    """It has no trading columns."""
    inputs = draw_inputs()
    joined = compute_rankings(replace(inputs, submissions=submit_forecasts(inputs, 0.1 + 0.8 * pl.col("y"))), POINTS)
    rows = joined["arena/rankings"]
    for name in ("brier_stated", "brier_vs_price", "log_loss", "skill_price"):
        assert {family: row["rank"] for family, row in by_family(rows, name).items()} == {"oracle": 1, "best": 2, "worst": 3}, name
    oracle = by_family(rows, "brier_stated")["oracle"]
    assert oracle["value"] == pytest.approx(0.01)
    assert by_family(rows, "brier_stated")["best"]["lower"] is not None
    assert by_family(rows, "finished")["oracle"]["value"] == 1
    pairs = joined["arena/pairs"].filter(metric="brier_stated", family="best", other="oracle").row(0, named=True)
    assert pairs["n"] == by_family(rows, "finished")["oracle"]["n"] == 60
    assert pairs["p_holm"] < 0.05
    assert joined["arena/calibration"].filter(family="oracle")["n"].sum() == oracle["n"]
    assert "oracle" not in joined["arena/equity_by_day"]["family"]
    for name, _ in TRADED:
        row = by_family(rows, name)["oracle"]
        assert (row["value"], row["rank"], row["n"], row["reason"]) == (None, None, 0, NO_TRADES), name
    assert rows.group_by("family").len()["len"].unique().to_list() == [16]
    columns = ["family", "metric", "value", "lower", "upper", "n", "n_events"]
    alone = compute_rankings(inputs, POINTS)["arena/rankings"]
    assert rows.filter(pl.col("family") != "oracle").select(columns).equals(alone.select(columns))


def test_a_week_that_it_left_out_lowers_its_coverage() -> None:
    inputs = draw_inputs()
    whole = submit_forecasts(inputs, pl.lit(0.5))
    weeks = whole["week"].unique().sort()
    gap = whole.filter(pl.col("week").is_in(weeks[:4].to_list()), pl.col("week") != weeks[1])
    rows = compute_rankings(replace(inputs, submissions=gap), POINTS)["arena/rankings"]
    asked = 1 + 2 + 3 + 4
    assert by_family(rows, "finished")["oracle"]["value"] == pytest.approx((asked - 2) / asked)
    assert by_family(rows, "missing")["oracle"]["value"] == pytest.approx(2 / asked)


def test_late_forecasts_are_ranked_apart_and_those_of_live_weeks_never_meet_reconstructed_cohorts() -> None:
    inputs = draw_inputs(4)
    both = pl.concat([submit_forecasts(inputs, pl.lit(0.6)), submit_forecasts(inputs, pl.col("y"), late=True)])
    rows = compute_rankings(replace(inputs, submissions=both), POINTS)["arena/rankings"]
    scored = rows.filter(family="oracle", metric="brier_stated").select("contaminated", "reconstructed", "value")
    assert [row[:2] for row in scored.rows()] == [(False, False), (True, False)]
    assert scored["value"][1] == 0
    assert set(rows.filter("contaminated")["family"]) == {"oracle"}
    past = draw_inputs(4, reconstructed=True)
    apart = compute_rankings(replace(past, submissions=submit_forecasts(past, pl.lit(0.6))), POINTS)["arena/rankings"]
    assert "oracle" not in apart.filter(pl.col("n") > 0)["family"], "forecasts of live weeks"


def test_the_last_forecast_before_the_decisions_counts_and_its_price_is_the_last_mark() -> None:
    inputs = draw_inputs()
    first = submit_forecasts(inputs, pl.lit(0.5))
    second = first.with_columns(stated_at=pl.col("stated_at") + timedelta(hours=5), probability=0.25)
    market, week = first.row(0, named=True)["market_id"], first.row(0, named=True)["week"]
    begun = datetime(week.year, week.month, week.day, tzinfo=UTC)
    marks = [
        {
            "day": week,
            "market_id": market,
            "outcome": "YES",
            "at": at,
            "price": price,
            "source": "live",
            "disagrees": False,
            "reconstructed": False,
        }
        for at, price in ((begun - timedelta(days=1), 0.9), (begun + timedelta(hours=2), 0.35), (begun + timedelta(hours=9), 0.8))
    ]
    known = replace(inputs, submissions=pl.concat([second, first]), prices=PRICES.frame(list(marks)))
    assert known.submitted["p"].unique().to_list() == [0.25]
    own = pl.col("market_id") == market, pl.col("week") == week
    assert known.submitted.filter(own)["price"].unique().to_list() == [0.35]
    early = replace(known, submissions=first)
    paid = inputs.bets.filter(own).group_by("cohort").agg(pl.col("price").mean()).sort("cohort")["price"]
    assert early.submitted.filter(own).sort("cohort")["price"].to_list() == pytest.approx(paid.to_list())


@pytest.mark.parametrize(("minutes", "expected"), [(0, 0.35), (9, 0.35), (10, 0.8)])
def test_a_mark_of_the_ten_minutes_of_the_forecast_may_be_younger_than_it(minutes: int, expected: float) -> None:
    inputs = draw_inputs()
    first = submit_forecasts(inputs, pl.lit(0.5)).head(1)
    market, week = first.row(0, named=True)["market_id"], first.row(0, named=True)["week"]
    ten = datetime(week.year, week.month, week.day, 10, tzinfo=UTC)
    mark = {"day": week, "market_id": market, "outcome": "YES", "source": "live", "disagrees": False}
    marks = [
        {**mark, "at": ten - timedelta(minutes=50), "price": 0.35, "reconstructed": False},
        {**mark, "at": ten - timedelta(minutes=20), "price": 0.1, "reconstructed": True},
        {**mark, "at": ten, "price": 0.8, "reconstructed": False},
    ]
    stated = first.with_columns(stated_at=ten + timedelta(minutes=minutes))
    known = replace(inputs, submissions=stated, prices=PRICES.frame(list(marks)))
    assert known.submitted["price"].unique().to_list() == [expected], "a live forecast has the price of a live mark"


def test_a_forecaster_with_the_name_of_a_family_is_told_apart() -> None:
    inputs = draw_inputs(4)
    rows = compute_rankings(replace(inputs, submissions=submit_forecasts(inputs, pl.lit(0.5), "best")), POINTS)["arena/rankings"]
    assert rows["family"].unique().sort().to_list() == ["best", "best (submitted)", "worst"]
