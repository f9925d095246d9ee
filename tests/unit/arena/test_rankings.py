"""Comparison of families: separate groups, ranks, intervals, pairs, and equity over time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from bellwether.arena.as_known import read_as_known
from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.rankings.possible_outcomes import SOLD
from bellwether.arena.rankings.tables import mean_total
from bellwether.calibration import evaluate
from bellwether.calibration.bootstrap import Inference
from bellwether.lake import Lake
from bellwether.lake.sql import sql_text
from bellwether.lake.warehouse import publish, query
from bellwether.pages.columns import text_table
from bellwether.site.arena_rankings import leaderboard, read_rankings
from bellwether.tables import arena as tables
from bellwether.tables import table
from tests.unit.arena.simulated_arena import CASH, START, WEEK, Simulated
from tests.unit.arena.weeks import WEEK as REAL_WEEK
from tests.unit.arena.weeks import Arena
from tests.unit.arena.world import row_of

FEW = Inference(replicates=200)
SKILLS = {"worst": 2.5, "best": 0.0, "middle": 1.2}


@cache
def draw_inputs() -> RankingInputs:
    """Draw an arena of families of known skill. The result is not changed by tests."""
    return Simulated(SKILLS).inputs(1)


@cache
def draw_rankings() -> dict[str, pl.DataFrame]:
    return compute_rankings(draw_inputs(), FEW)


def metric(rows: pl.DataFrame, name: str) -> dict[str, dict[str, object]]:
    chosen = rows.filter(pl.col("metric") == name)
    return {row["family"]: row for row in chosen.iter_rows(named=True)}


def test_known_skill_is_ranked_as_it_is() -> None:
    rankings = draw_rankings()
    for name in ("brier_stated", "brier_vs_price", "log_loss"):
        ranks = metric(rankings["arena/rankings"], name)
        assert {family: row["rank"] for family, row in ranks.items()} == {"best": 1, "middle": 2, "worst": 3}, name
        assert all(row["lower"] < row["value"] < row["upper"] for row in ranks.values()), name
    best = metric(rankings["arena/rankings"], "brier_stated")["best"]
    assert best["in_mcs"]
    assert (best["letters"], metric(rankings["arena/rankings"], "brier_stated")["worst"]["letters"]) != ("a", "a")
    assert metric(rankings["arena/rankings"], "skill_price")["best"]["value"] > 0


def test_values_are_those_of_the_benchmark_over_events() -> None:
    inputs, rankings = draw_inputs(), draw_rankings()
    mine = inputs.bets.filter(pl.col("family") == "middle")
    scores = evaluate(mine["p"], mine["y"], mine["event"], market=mine["price"], replicates=200)
    for name, other in (("brier_stated", "brier"), ("log_loss", "log_loss"), ("skill_price", "skill_vs_market"), ("ece", "ece")):
        row, estimate = metric(rankings["arena/rankings"], name)["middle"], scores[other]
        assert (row["value"], row["reason"], row["p_calibrated"]) == (pytest.approx(estimate.value), estimate.reason, estimate.p_calibrated)


def test_every_number_without_an_interval_says_why() -> None:
    rankings = draw_rankings()
    rows = rankings["arena/rankings"]
    assert rows.filter((pl.col("lower").is_null()) != (pl.col("reason").is_not_null())).is_empty()
    assert rows["metric"].n_unique() == 16
    pairs = rankings["arena/pairs"]
    assert pairs.filter((pl.col("lower").is_null()) != (pl.col("reason").is_not_null())).is_empty()
    assert pairs.filter((pl.col("p") < 0.05) != ((pl.col("lower") > 0) | (pl.col("upper") < 0))).is_empty()


def test_the_order_of_rows_changes_nothing() -> None:
    inputs, rankings = draw_inputs(), draw_rankings()
    frames = {name: getattr(inputs, name) for name in RankingInputs.__dataclass_fields__ if name != "cutoffs"}
    shuffled = {name: rows.sample(fraction=1, shuffle=True, seed=3) for name, rows in frames.items()}
    again = compute_rankings(RankingInputs(**shuffled, cutoffs={}), FEW)
    for name, rows in rankings.items():
        floats = [column for column, dtype in rows.schema.items() if dtype == pl.Float64]
        assert again[name].drop(floats).equals(rows.drop(floats)), name
        for column in floats:
            np.testing.assert_allclose(again[name][column].to_numpy(), rows[column].to_numpy(), rtol=1e-9, err_msg=f"{name} {column}")


def test_live_reconstructed_and_contaminated_cohorts_never_meet() -> None:
    inputs, rankings = draw_inputs(), draw_rankings()
    later = START + 6 * WEEK
    mixed = replace(
        inputs,
        agents=inputs.agents.with_columns(reconstructed=pl.col("week") < later),
        cutoffs={"model/best": datetime(2026, 1, 18, tzinfo=UTC), "model/middle": None},
    )
    parts = compute_rankings(mixed, replace(FEW, replicates=0))
    for name in ("arena/rankings", "arena/pairs", "arena/calibration", "arena/equity_by_age"):
        keys = set(parts[name].select("reconstructed", "contaminated").unique().rows())
        assert keys == ({(True, False), (False, False)} | ({(True, True)} if name != "arena/pairs" else set())), name
    tainted = parts["arena/rankings"].filter("contaminated")
    assert tainted["family"].unique().to_list() == ["best"]
    assert tainted.filter(pl.col("metric") == "finished")["n"].item() == 3 * 5, "the cohorts of 4, 11 and 18 January, five decisions each"
    assert metric(rankings["arena/rankings"], "brier_stated")["best"]["n"] == 300


def test_cohorts_of_two_methodologies_never_meet() -> None:
    """Each methodology is ranked as if the other did not exist."""
    inputs, plan = Simulated({"worst": 2.5, "best": 0.0}, cohorts=4, bets=3).inputs(1), replace(FEW, replicates=0)
    earlier = pl.col("week") < START + 2 * WEEK
    named = inputs.agents.with_columns(methodology=pl.when(earlier).then(pl.lit("v1")).otherwise(pl.lit("v2")))
    mixed = compute_rankings(replace(inputs, agents=named), plan)
    for name in ("v1", "v2"):
        alone = compute_rankings(replace(inputs, agents=named.filter(methodology=name)), plan)
        for table_name in ("arena/rankings", "arena/pairs", "arena/calibration", "arena/equity_by_age"):
            assert mixed[table_name].filter(methodology=name).equals(alone[table_name]), table_name
            assert not alone[table_name].is_empty(), table_name


def test_equity_is_a_mean_with_how_many_agents() -> None:
    inputs, rankings = draw_inputs(), draw_rankings()
    ages, days = rankings["arena/equity_by_age"], rankings["arena/equity_by_day"]
    assert ages.filter(family="best", age=0)["n"].item() == 12
    assert days.filter(family="best", day=START)["n"].item() == 1
    assert days.filter(family="best")["n"].to_list()[-1] == 12
    newest = inputs.portfolios.sort("at").group_by("agent_id").agg(pl.col("total").last())
    best = newest.filter(pl.col("agent_id").str.ends_with("/best"))["total"].mean()
    assert float(days.filter(family="best")["total"][-1]) == pytest.approx(best, abs=1e-6)


def standings(rankings: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return the lines of the leaderboard on a terminal of 80 columns."""
    text = StringIO()
    for ranking in read_rankings(lambda name: rankings.get(name, table(name).empty())):
        Console(file=text, width=80).print(text_table(leaderboard(ranking)))
    return text.getvalue().replace("\N{NO-BREAK SPACE}", " ").splitlines()


def rows_of(lines: list[str]) -> dict[str, str]:
    """Return the rank and the numbers of each family, in order."""
    rows = (re.match(rf"\s*(\S+(?: \w+)?)\s+({'|'.join(SKILLS)})\s+(.*)", line) for line in lines)
    return {row[2]: row[1] + " " + row[3] for row in rows if row}


def test_ties_and_baselines_are_shown_as_such_and_never_lead() -> None:
    rankings = draw_rankings()
    is_main = pl.col("metric") == "brier_vs_price"
    worst = pl.col("family") == "worst"
    tied = rankings["arena/rankings"].with_columns(
        rank=pl.when(is_main & worst).then(None).when(is_main).then(1).otherwise("rank").cast(pl.Int32), baseline=worst
    )
    found = rows_of(standings({**rankings, "arena/rankings": tied}))
    assert {name: row.split()[0] for name, row in found.items()} == {"best": "=1", "middle": "=1", "worst": "baseline"}
    assert list(found) == ["best", "middle", "worst"]


def test_a_return_with_sales_shows_the_range_over_cohorts() -> None:
    inputs = draw_inputs()
    bought = inputs.trades.filter(pl.col("agent_id").str.ends_with("/best")).head(1)
    sale = bought.with_columns(trade_id=pl.lit("sale"), action=pl.lit("SELL"))
    rows = compute_rankings(replace(inputs, trades=pl.concat([inputs.trades, sale])), replace(FEW, replicates=0))["arena/rankings"]
    found = metric(rows, "return")
    profits = inputs.ledger.join(inputs.positions, on="position_id").filter(pl.col("agent_id").str.ends_with("/best"))
    returns = profits.group_by("agent_id").agg(pl.col("amount").sum() / CASH)["amount"].sort().to_list()
    assert [found["best"][name] for name in ("lower", "upper", "reason")] == [None, None, SOLD]
    assert [found["best"][name] for name in ("cohort_low", "cohort_high")] == pytest.approx([returns[0], returns[-1]])
    assert found["worst"]["lower"] is not None
    shown = rows_of(standings({"arena/rankings": rows}))
    assert f"({100 * returns[0]:.1f} % to {100 * returns[-1]:.1f} %)".replace("-", "−") in shown["best"]
    assert "(" not in shown["worst"]


@pytest.mark.parametrize(
    ("events", "place", "reason"), [(0, None, "no position was opened"), (2, None, "fewer than three clusters"), (3, 1, None)]
)
def test_a_return_needs_positions_in_three_events_for_a_rank(events: int, place: int | None, reason: str | None) -> None:
    inputs = draw_inputs()
    mine = inputs.profits.filter(family="best")
    kept = mine.filter(pl.col("event").is_in(mine["event"].unique().sort().head(events).implode()))["position_id"]
    few = replace(
        inputs, agents=inputs.agents.filter(family="best"), positions=inputs.positions.filter(pl.col("position_id").is_in(kept.implode()))
    )
    found = metric(compute_rankings(few, replace(FEW, replicates=0))["arena/rankings"], "return")["best"]
    assert (found["rank"], found["unranked_because"]) == (place, reason)
    assert found["value"] is not None


def test_nothing_gives_empty_tables() -> None:
    names = ("agents", "decisions", "universe", "trades", "prices", "ledger", "positions", "portfolios", "scores")
    empty = RankingInputs(**{name: getattr(tables, name.upper()).empty() for name in names}, cutoffs={})
    assert all(rows.is_empty() for rows in compute_rankings(empty, FEW).values())


def test_a_real_week_has_the_money_of_the_books_and_can_be_restated(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="rules")
    arena.decide(REAL_WEEK)
    arena.evidence(REAL_WEEK)
    arena.evidence(REAL_WEEK + timedelta(days=7))
    rules, board = methodologies(arena.registry), arena.results().frames["arena/leaderboard"]
    now = read_as_known(arena.lake, rules, datetime(2030, 1, 1, tzinfo=UTC))(table("arena/rankings"))
    for name in ("return", "drawdown", "turnover", "brier_price", "brier_stated", "win_rate"):
        values = {family: row["value"] for family, row in metric(now, name).items()}
        expected = dict(board.select("family", name).iter_rows())
        for family, value in expected.items():
            assert values[family] == (None if value is None else pytest.approx(value, abs=1e-9)), (name, family)
    assert metric(now, "brier_price")["favourite"]["n"] > 0
    unscored = now.filter(pl.col("value").is_null())
    assert "hold" in unscored["family"]
    assert unscored["rank"].null_count() == unscored.height
    then = read_as_known(arena.lake, rules, datetime(2026, 4, 20, tzinfo=UTC))(table("arena/rankings"))
    assert all(row["n"] == 0 for row in metric(then, "brier_price").values()), "no resolution was known"
    assert metric(then, "turnover") == metric(now, "turnover")


def test_the_queries_answer_what_they_say(tmp_path: Path) -> None:
    rankings = draw_rankings()
    lake, models = Lake(str(tmp_path / "lake")), {"best": "gpt", "middle": "claude", "worst": "rule/random"}
    for name, rows in rankings.items():
        lake.write(table(name), (), rows, run_id="r")
    agents = [
        row_of("arena/agents", week=START, agent_id=f"{START}/{family}", family=family, model=model, methodology="v1")
        for family, model in models.items()
    ]
    lake.write(table("arena/agents"), (START.isoformat(),), table("arena/agents").frame(list(agents)), run_id="r")
    publish(lake, tmp_path / "warehouse.duckdb")

    def ask(name: str) -> list[dict[str, object]]:
        return query(tmp_path / "warehouse.duckdb", sql_text(f"analysis/{name}"), {}).to_dicts()

    standing = ask("arena_standings")
    assert [row["family"] for row in standing] == ["best", "middle", "worst"]
    assert all(row["brier_stated_lower"] < row["brier_stated_value"] < row["brier_stated_upper"] for row in standing)
    differ = rankings["arena/pairs"].filter(pl.col("p_holm") <= 0.05)
    assert len(ask("arena_pairs_that_differ")) == differ.height > 0
    (trivial,) = ask("arena_trivial_agents")
    returns = {family: row["value"] for family, row in metric(rankings["arena/rankings"], "return").items()}
    assert (trivial["family"], trivial["earned"], trivial["models"]) == ("worst", returns["worst"], 2)
    assert trivial["models_above"] == sum(returns[name] > returns["worst"] for name in ("best", "middle"))
    assert {(row["age"], row["agents"]) for row in ask("arena_equity_by_age") if row["family"] == "best"} >= {(0, 12), (105, 1)}
    warned = rankings["arena/rankings"].filter(family="best").with_columns(contaminated=pl.lit(True))
    lake.write(table("arena/rankings"), (), pl.concat([rankings["arena/rankings"], warned]).sort(table("arena/rankings").order), run_id="r")
    publish(lake, tmp_path / "warehouse.duckdb")
    assert [row["models"] for row in ask("arena_trivial_agents")] == [2], "contaminated agents are a group of their own"


def test_a_mean_is_exact_and_rounded_once_half_to_even() -> None:
    """Means of six sums often end in exactly half a millionth."""
    rng = Random(5)
    groups = [[rng.randrange(-10_000_000, 20_000_000_000) for _ in range(rng.choice((1, 2, 3, 4, 6, 8)))] for _ in range(300)]
    rows = [(place, Decimal(micros) / 1_000_000) for place, group in enumerate(groups) for micros in group]
    frame = pl.DataFrame(rows, schema={"place": pl.Int64, "total": pl.Decimal(18, 6)}, orient="row").with_columns(initial_cash=pl.lit(0.0))
    found = frame.group_by("place", maintain_order=True).agg(mean=mean_total())["mean"].to_list()
    assert found == [Decimal(round(Fraction(sum(group), len(group)))) / 1_000_000 for group in groups]
    missing = pl.DataFrame({"total": [None, 1.0], "initial_cash": [10_000.000001, 5.0]}, schema_overrides={"total": pl.Decimal(18, 6)})
    assert missing.select(mean_total()).item() == Decimal("5000.500000")
