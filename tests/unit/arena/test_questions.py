"""Questions shared by forecasts, baselines, ties and minimum samples of a rank, in small arenas with hand-computed numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import polars as pl
import pytest

from bellwether.arena.rankings import RankingInputs, compute_rankings
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
