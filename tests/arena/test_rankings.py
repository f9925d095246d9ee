"""Comparison of families: effects by least squares, separate groups, intervals, pairs, imputation and equity."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.rankings.difficulty import Losses, adjust_scores
from bellwether.arena.rankings.pairs import NO_COMMON, compare_pairs
from bellwether.arena.rankings.standings import read_tables_as_known, render_standings
from bellwether.calibration import evaluate
from bellwether.calibration.clusters import Grouping
from bellwether.calibration.inference import Inference
from bellwether.lake import Lake
from bellwether.lake.sql import sql_text
from bellwether.lake.warehouse import publish, query
from bellwether.tables import arena as tables
from bellwether.tables import table
from tests.arena.simulated_arena import START, WEEK, Simulated
from tests.arena.test_queries import _row as row_of
from tests.arena.weeks import WEEK as REAL_WEEK
from tests.arena.weeks import Arena

FEW = Inference(replicates=200)
SKILLS = {"worst": 2.5, "best": 0.0, "middle": 1.2}


@pytest.fixture(scope="module")
def inputs() -> RankingInputs:
    return Simulated(SKILLS).inputs(1)


@pytest.fixture(scope="module")
def rankings(inputs: RankingInputs) -> dict[str, pl.DataFrame]:
    return compute_rankings(inputs, FEW)


def metric(rows: pl.DataFrame, name: str, imputation: str = "none") -> dict[str, dict[str, object]]:
    chosen = rows.filter(pl.col("metric") == name, pl.col("imputation") == imputation)
    return {row["family"]: row for row in chosen.iter_rows(named=True)}


def losses(seed: int, families: int = 4, questions: int = 12, n: int = 60) -> Losses:
    generator = np.random.default_rng(seed)
    loss, who, what = generator.random(n), generator.integers(0, families, n), generator.integers(0, questions, n)
    events = Grouping.of(np.arange(questions) // 2)
    return Losses(loss, who.astype(np.intp), what.astype(np.intp), events, families)


def least_squares(one: Losses, rows: np.ndarray) -> np.ndarray:
    """Compute effects of forecasters plus the mean effect of questions with a design matrix. Each row counts once."""
    questions = len(one.events.index)
    design = np.zeros((len(rows), one.forecasters + questions))
    design[np.arange(len(rows)), one.forecaster[rows]] = 1
    design[np.arange(len(rows)), one.forecasters + one.question[rows]] = 1
    effect = np.linalg.lstsq(design, one.loss[rows], rcond=None)[0]
    asked = np.unique(one.question[rows])
    return effect[: one.forecasters] + effect[one.forecasters + asked].mean()


@pytest.mark.parametrize("seed", range(3))
def test_adjusted_scores_are_those_of_least_squares_on_all_and_without_each_event(seed: int) -> None:
    one = losses(seed)
    fitted = adjust_scores(one, np.ones(4, dtype=bool), FEW)
    np.testing.assert_allclose(fitted.score, least_squares(one, np.arange(60)), atol=1e-10)
    event = one.events.index[one.question]
    without = np.array([least_squares(one, np.flatnonzero(event != left)) for left in range(one.events.count)])
    variance = np.square(without - fitted.score).sum(axis=0)
    from scipy.special import stdtrit

    reach = stdtrit([bound.df for bound in fitted.bounds], 0.975) * np.sqrt(variance)
    np.testing.assert_allclose([bound.lower for bound in fitted.bounds], np.maximum(fitted.score - reach, 0), rtol=1e-9)
    np.testing.assert_allclose([bound.upper for bound in fitted.bounds], np.minimum(fitted.score + reach, 1), rtol=1e-9)
    assert fitted.first.sum() == pytest.approx(1)
    assert fitted.first_raw.sum() == pytest.approx(1)


def test_known_skill_is_ranked_as_it_is(rankings: dict[str, pl.DataFrame]) -> None:
    for name in ("brier_stated", "brier_adjusted", "log_loss"):
        ranks = metric(rankings["arena/rankings"], name)
        assert {family: row["rank"] for family, row in ranks.items()} == {"best": 1, "middle": 2, "worst": 3}, name
        assert all(row["lower"] < row["value"] < row["upper"] for row in ranks.values()), name
    best = metric(rankings["arena/rankings"], "brier_stated")["best"]
    assert best["share_first"] > 0.9
    assert best["in_mcs"]
    assert (best["letters"], metric(rankings["arena/rankings"], "brier_stated")["worst"]["letters"]) != ("a", "a")
    assert metric(rankings["arena/rankings"], "skill_price")["best"]["value"] > 0


def test_values_are_those_of_the_benchmark_over_events(inputs: RankingInputs, rankings: dict[str, pl.DataFrame]) -> None:
    mine = inputs.bets.filter(pl.col("family") == "middle")
    scores = evaluate(mine["p"], mine["y"], mine["event"], market=mine["price"], replicates=200)
    for name, other in (("brier_stated", "brier"), ("log_loss", "log_loss"), ("skill_price", "skill_vs_market"), ("ece", "ece")):
        row, estimate = metric(rankings["arena/rankings"], name)["middle"], scores[other]
        assert (row["value"], row["reason"], row["p_calibrated"]) == (pytest.approx(estimate.value), estimate.reason, estimate.p_calibrated)


def test_every_number_without_an_interval_says_why(rankings: dict[str, pl.DataFrame]) -> None:
    rows = rankings["arena/rankings"]
    assert rows.filter((pl.col("lower").is_null()) != (pl.col("reason").is_not_null())).is_empty()
    assert rows.filter(pl.col("imputation") == "none")["metric"].n_unique() == 17


def test_the_order_of_rows_changes_nothing(inputs: RankingInputs, rankings: dict[str, pl.DataFrame]) -> None:
    frames = {name: getattr(inputs, name) for name in RankingInputs.__dataclass_fields__ if name != "cutoffs"}
    shuffled = {name: rows.sample(fraction=1, shuffle=True, seed=3) for name, rows in frames.items()}
    again = compute_rankings(RankingInputs(**shuffled, cutoffs={}), FEW)
    for name, rows in rankings.items():
        floats = [column for column, dtype in rows.schema.items() if dtype == pl.Float64]
        assert again[name].drop(floats).equals(rows.drop(floats)), name
        for column in floats:
            np.testing.assert_allclose(again[name][column].to_numpy(), rows[column].to_numpy(), rtol=1e-9, err_msg=f"{name} {column}")


def test_live_reconstructed_and_contaminated_cohorts_never_meet(inputs: RankingInputs, rankings: dict[str, pl.DataFrame]) -> None:
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


def test_cohorts_of_two_methodologies_never_meet(inputs: RankingInputs) -> None:
    """Each methodology is ranked as if the other did not exist."""
    later, plan = START + 6 * WEEK, replace(FEW, replicates=0)
    named = inputs.agents.with_columns(methodology=pl.when(pl.col("week") < later).then(pl.lit("v1")).otherwise(pl.lit("v2")))
    mixed = compute_rankings(replace(inputs, agents=named), plan)
    for name in ("v1", "v2"):
        alone = compute_rankings(replace(inputs, agents=named.filter(methodology=name)), plan)
        for table_name in ("arena/rankings", "arena/pairs", "arena/calibration", "arena/equity_by_age"):
            assert mixed[table_name].filter(methodology=name).equals(alone[table_name]), table_name
            assert not alone[table_name].is_empty(), table_name
    again = compute_rankings(replace(inputs, agents=named), plan)
    assert all(rows.equals(again[name]) for name, rows in mixed.items())


def test_pairs_are_paired_by_cohort_and_week() -> None:
    """A week that is hard for both families does not change their difference."""
    rows = []
    for cohort in range(4):
        for week in range(cohort, cohort + 3):
            hard = 0.3 * (week % 2)
            rows += [("a", cohort, week, 0.2 + hard), ("b", cohort, week, 0.25 + hard + 0.01 * (cohort - week % 3))]
    rows.append(("c", 9, 9, 0.1))
    values = pl.DataFrame(rows, schema=["family", "cohort", "week", "value"], orient="row")
    values = values.with_columns(pl.col("cohort", "week") * 7).with_columns(
        cohort=START + pl.duration(days="cohort"), week=START + pl.duration(days="week")
    )
    values = values.with_columns(slope=None, y=None, price=None, market=None, event=None)
    found = compare_pairs(values, ["a", "b", "c"], [True] * 3, higher_is_better=False, level=0.95)
    first = found.pairs.row(0, named=True)
    expected = [0.05 + 0.01 * (cohort - week % 3) for cohort in range(4) for week in range(cohort, cohort + 3)]
    assert first["difference"] == pytest.approx(-np.mean(expected))
    assert (first["n"], first["n_clusters"]) == (12, 4)
    assert first["p"] < 0.05
    assert first["p_holm"] == first["p"], "one pair was tested"
    assert found.pairs["reason"].to_list() == [None, NO_COMMON, NO_COMMON]
    assert found.in_mcs[:2] == [True, first["p"] > 0.1]


def test_equity_is_a_mean_with_how_many_agents(inputs: RankingInputs, rankings: dict[str, pl.DataFrame]) -> None:
    ages, days = rankings["arena/equity_by_age"], rankings["arena/equity_by_day"]
    assert ages.filter(family="best", age=0)["n"].item() == 12
    assert days.filter(family="best", day=START)["n"].item() == 1
    assert days.filter(family="best")["n"].to_list()[-1] == 12
    newest = inputs.portfolios.sort("at").group_by("agent_id").agg(pl.col("total").last())
    best = newest.filter(pl.col("agent_id").str.ends_with("/best"))["total"].mean()
    assert float(days.filter(family="best")["total"][-1]) == pytest.approx(best, abs=1e-6)


def test_the_standings_say_which_cohorts_and_what_was_imputed(rankings: dict[str, pl.DataFrame]) -> None:
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    for part in render_standings(rankings["arena/rankings"], "half"):
        Console(file=text, width=80).print(part)
    assert "Arena, v1, live cohorts; missing forecasts are one half" in text.getvalue()
    assert text.getvalue().index("best") < text.getvalue().index("middle") < text.getvalue().index("worst")


def test_nothing_gives_empty_tables() -> None:
    names = ("agents", "decisions", "universe", "trades", "prices", "ledger", "positions", "portfolios", "scores")
    empty = RankingInputs(**{name: getattr(tables, name.upper()).empty() for name in names}, cutoffs={})
    assert all(rows.is_empty() for rows in compute_rankings(empty, FEW).values())


def test_a_real_week_has_the_money_of_the_books_and_can_be_restated(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="rules")
    arena.decide(REAL_WEEK)
    arena.evidence(REAL_WEEK)
    for week in range(1, 4):
        arena.evidence(REAL_WEEK + week * timedelta(days=7))
    rules, board = methodologies(arena.registry), arena.results().frames["arena/leaderboard"]
    now = read_tables_as_known(arena.lake, rules, {}, datetime(2030, 1, 1, tzinfo=UTC), {})(table("arena/rankings"))
    for name in ("return", "drawdown", "turnover", "brier_price", "brier_stated", "win_rate", "skill_price"):
        values = {family: row["value"] for family, row in metric(now, name).items()}
        expected = dict(board.select("family", name).iter_rows())
        for family, value in expected.items():
            assert values[family] == (None if value is None else pytest.approx(value, abs=1e-9)), (name, family)
    assert metric(now, "brier_price")["favourite"]["n"] > 0
    unscored = now.filter(pl.col("value").is_null())
    assert "hold" in unscored["family"]
    assert unscored["share_first"].null_count() == unscored.height
    then = read_tables_as_known(arena.lake, rules, {}, datetime(2026, 4, 20, tzinfo=UTC), {})(table("arena/rankings"))
    assert all(row["n"] == 0 for row in metric(then, "brier_price").values()), "no resolution was known"
    assert metric(then, "turnover") == metric(now, "turnover")


def test_the_queries_answer_what_they_say(rankings: dict[str, pl.DataFrame], tmp_path: Path) -> None:
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
