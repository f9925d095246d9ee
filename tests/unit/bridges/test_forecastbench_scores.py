"""Scores by the rules of ForecastBench."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.bridges.forecastbench import ForecastSet, QuestionSet, ResolutionSet, read_resolution_set
from bellwether.bridges.forecastbench_scores import (
    PublishedRow,
    Standing,
    list_neighbours,
    read_effects,
    read_leaderboard,
    score_forecast_sets,
)
from bellwether.errors import ConfigError
from tests.unit.bridges.rounds import DUE, forecast, forecast_set, question_set, resolution, resolution_set, write


def find_row(standing: Standing, name: str) -> dict[str, Any]:
    """Return the scores of a forecaster by the rules of ForecastBench."""
    return standing.theirs.row(by_predicate=pl.col("forecaster") == name, named=True)


def resolved(**changes: Any) -> ResolutionSet:
    """Return the resolution set of `rounds`."""
    return ResolutionSet.model_validate(resolution_set(**changes))


def forecasts(**changes: Any) -> ForecastSet:
    """Return the forecast set of `rounds`."""
    return ForecastSet.model_validate(forecast_set(**changes))


def test_a_missing_forecast_is_one_half() -> None:
    rows = forecast_set()["forecasts"]
    standing = score_forecast_sets([forecasts(forecasts=rows[:3], cost="2.50")], [resolved()])
    mine = find_row(standing, "me mine")
    assert mine["brier_dataset"] == pytest.approx((0.1**2 + 0.5**2 + 0.5**2) / 3, abs=1e-12)
    assert mine["brier_market"] == pytest.approx(0.2**2, abs=1e-12)
    assert mine["brier_overall"] == pytest.approx((mine["brier_dataset"] + mine["brier_market"]) / 2, abs=1e-12)
    assert mine["overall"] == pytest.approx(100 * (1 - math.sqrt(mine["brier_overall"])), abs=1e-12)
    assert (mine["n_dataset"], mine["n_market"], mine["imputed"], mine["excluded"], mine["cost"]) == (3, 1, 0.4, True, Decimal("2.5"))
    assert standing.difficulty == "none"
    (ours,) = standing.ours.scores.filter(metric="brier").rows(named=True)
    assert (ours["n"], ours["value"]) == (2, pytest.approx((0.1**2 + 0.2**2) / 2, abs=1e-12))
    assert standing.ours.scores.filter(metric="coverage")["value"].to_list() == [0.5]


EFFECTS = [
    {"forecast_due_date": DUE, "source": "fred", "id": "DTB3", "horizon": 7.0, "question_fixed_effect": 0.1},
    {"forecast_due_date": DUE, "source": "fred", "id": "DTB3", "horizon": 30.0, "question_fixed_effect": 0.2},
    {"forecast_due_date": "2025-11-09", "source": "fred", "id": "DTB3", "horizon": 7.0, "question_fixed_effect": 0.6},
    {"forecast_due_date": DUE, "source": "manifold", "id": "m1", "horizon": None, "question_fixed_effect": 0.03},
]


def test_published_difficulties_adjust_scores(tmp_path: Path) -> None:
    effects = read_effects(write(tmp_path / "effects.json", EFFECTS))
    board = [PublishedRow("ForecastBench", f"m{index}", Decimal(index)) for index in range(0, 100, 10)]
    standing = score_forecast_sets([forecasts()], [resolved()], effects=effects, leaderboard=board)
    mine = find_row(standing, "me mine")
    assert mine["brier_dataset"] == pytest.approx(((0.1**2 - 0.1) + (0.3**2 - 0.2)) / 2 + (0.1 + 0.2 + 0.6) / 3, abs=1e-12)
    assert mine["brier_market"] == pytest.approx(0.2**2, abs=1e-12)
    assert (mine["n_dataset"], standing.without_effect, standing.difficulty) == (2, 1, "published")
    assert mine["rank"] == 1 + sum(10 * index > round(mine["overall"], 1) for index in range(10))
    assert mine["best_rank"] <= mine["rank"] <= mine["worst_rank"]
    beside = list_neighbours(standing, board, count=1)
    assert beside["forecaster"].to_list()[1] == "me mine"
    assert beside["index"].is_sorted(descending=True)
    assert beside.height == 3


def test_a_set_of_a_part_of_a_round_is_scored_on_it() -> None:
    part = QuestionSet.model_validate(question_set(question_set="part.json", questions=question_set()["questions"][:3]))
    rows = [row for row in forecast_set()["forecasts"] if row["source"] != "acled"]
    human = forecasts(organization="ForecastBench", model_organization="ForecastBench", question_set="part.json", forecasts=rows[1:])
    standing = score_forecast_sets([human], [resolved()], questions=[part])
    found = find_row(standing, "ForecastBench mine")
    assert (found["n_dataset"], found["n_market"], found["imputed"], found["excluded"]) == (2, 1, 0.25, False)


def panel(seed: int) -> tuple[list[ForecastSet], ResolutionSet]:
    """Return sets of four forecasters, with gaps but for the first, and their round of 40 dataset and 20 market questions."""
    draw = random.Random(seed)
    asked = [("fred", f"f{index}", "2025-11-02") for index in range(40)] + [("manifold", f"m{index}", None) for index in range(20)]
    rows = [resolution(source, name, day or "2025-12-01", float(draw.random() < 0.4)) for source, name, day in asked]
    sets = [
        forecasts(
            model=f"m{number}", forecasts=[forecast(*one[:2], draw.random(), one[2]) for one in asked if draw.random() < (1 - number / 6)]
        )
        for number in range(4)
    ]
    return sets, resolved(resolutions=rows)


def test_difficulties_are_those_of_a_regression_on_questions_and_forecasters() -> None:
    """The oracle regresses on a dummy variable of each question and forecaster. Forecasters of two rounds have no forecasts for the other."""
    (first, one), (second, two) = panel(1), panel(2)
    moved = two.model_copy(update={"forecast_due_date": date(2025, 11, 9)})
    later = [item.model_copy(update={"forecast_due_date": date(2025, 11, 9)}) for item in second[1:]]
    standing = score_forecast_sets([*first[:3], *later], [one, moved])
    losses: list[tuple[str, str, float]] = []
    for kind in ("fred", "manifold"):
        losses.clear()
        for sets, outcomes in ((first[:3], one), (later, moved)):
            for item in sets:
                given = {row.key[:2]: row.forecast for row in item.forecasts if row}
                for row in outcomes.resolutions:
                    if row is not None and row.source == kind:
                        loss = (given.get((row.source, row.id), 0.5) - row.resolved_to) ** 2
                        losses.append((f"{item.forecast_due_date} {row.id}", item.model, loss))
        questions, models = sorted({row[0] for row in losses}), sorted({row[1] for row in losses})
        design = np.zeros((len(losses), len(questions) + len(models)))
        for index, (name, model, _) in enumerate(losses):
            design[index, [questions.index(name), len(questions) + models.index(model)]] = 1
        effects = dict(zip(questions, np.linalg.lstsq(design, [row[2] for row in losses], rcond=None)[0], strict=False))
        everywhere = np.mean([effects[name] for name in questions])
        for model in models:
            expected = np.mean([loss - effects[name] for name, other, loss in losses if other == model]) + everywhere
            found = find_row(standing, f"me {model}")
            assert found[f"brier_{'market' if kind == 'manifold' else 'dataset'}"] == pytest.approx(expected, abs=1e-9)


def test_constants_are_scored_beside_the_sets() -> None:
    rows = {row["forecaster"]: row for row in score_forecast_sets([forecasts()], [resolved()]).theirs.rows(named=True)}
    assert [rows[name]["brier_dataset"] for name in ("Always 0", "Always 0.5", "Always 1")] == pytest.approx([1 / 3, 0.25, 2 / 3])
    half = rows["Always 0.5"]
    assert [half[name] for name in ("dataset", "market", "overall", "overall_lower", "overall_upper")] == pytest.approx([50.0] * 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 7.6}, "effects.json, row 1, horizon = '7.6'"),
        ({"horizon": None}, "effects.json, row 1, horizon = None: dataset questions alone have one"),
        ({"source": "kalshi"}, "effects.json, row 1, source = 'kalshi'"),
        ({"question_fixed_effect": "0.1"}, "row 1, question_fixed_effect = '0.1'"),
        ({"horizon": 30.0}, "row 2, id = 2025-10-26 fred DTB3 2025-11-25: the question has two effects"),
    ],
)
def test_invalid_difficulties_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_effects(write(tmp_path / "effects.json", [EFFECTS[0] | changes, *EFFECTS[1:]]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Team,Model\na,b\n", "row 1, Overall: is missing"),
        ("Team,Model,Overall\na,b,x\n", "row 1, Overall = 'x'"),
        ("Team,Model,Overall\na,b,inf\n", "row 1, Overall = 'inf'"),
    ],
)
def test_an_invalid_leaderboard_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "board.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_leaderboard(tmp_path / "board.csv")


def test_a_round_has_one_set_per_forecaster_and_its_resolutions() -> None:
    with pytest.raises(ConfigError, match="the round of 2025-10-26: it has two resolution sets"):
        score_forecast_sets([forecasts()], [resolved(), resolved()])
    with pytest.raises(ConfigError, match="me mine: there are two forecast sets of it for 2025-10-26"):
        score_forecast_sets([forecasts(), forecasts()], [resolved()])
    with pytest.raises(ConfigError, match="me mine: no resolution set of 2025-10-26"):
        score_forecast_sets([forecasts()], [])


@pytest.mark.nightly
@pytest.mark.real
def test_published_rows_of_the_real_rounds(recordings: Path) -> None:
    """Models of the round of July 2024 alone have its numbers of questions on the leaderboard. Always 0 and 1 differ: they answer every round."""
    folder = recordings.parent / "data_2026_11" / "bridges" / "forecastbench"
    if not folder.is_dir():
        pytest.skip(f"no rounds at {folder}")
    first, last = (read_resolution_set(folder / "resolutions" / f"{day}_resolution_set.json.gz") for day in ("2024-07-21", DUE))
    board = read_leaderboard(folder / "leaderboards" / "leaderboard_baseline.csv")
    for outcomes, expected in ((first, (1384, 124, 0.3215, 0.2258)), (last, (977, 112, 0.3787, 0.1607))):
        day = str(outcomes.forecast_due_date)
        one = next(row for row in outcomes.resolutions if row is not None)
        given = forecasts(forecast_due_date=day, forecasts=[forecast(one.source, one.id, 0.5, str(one.resolution_date))])
        rows = {row["forecaster"]: row for row in score_forecast_sets([given], [outcomes], leaderboard=board).theirs.rows(named=True)}
        zero, half = rows["Always 0"], rows["Always 0.5"]
        assert (zero["n_dataset"], zero["n_market"], round(zero["brier_dataset"], 4), round(zero["brier_market"], 4)) == expected
        assert [round(half[name], 1) for name in ("dataset", "market", "overall", "overall_lower", "overall_upper")] == [50.0] * 5
        assert half["rank"] == 118
