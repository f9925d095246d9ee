"""Scores of Prophet Arena's own packages on 100,000 random forecasts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bellwether.bridges.prophet_arena import Cell, average_return, score_cells

pytestmark = pytest.mark.nightly


def draw_cells(count: int, draw: random.Random) -> Iterator[Cell]:
    """Yield cells of 20 agents on binary and larger events, with void outcomes, missing prices and round probabilities."""
    for event in range(count // 20):
        names = ["Yes", "No"] if event % 3 else [f"o{index}" for index in range(draw.randint(3, 8))]
        resolutions = {name: draw.choice(["yes", "no", "no", "void" if event % 7 == 0 else "no"]) for name in names}
        crowd = {name: round(draw.random(), 2) for name in names if event % 5 or draw.random() < 0.7}
        for agent in range(20):
            p = {name: round(draw.random(), draw.choice([1, 2, 15])) for name in names}
            yield Cell(
                f"agent-{agent}",
                f"event-{event // (1 + agent % 2)}",
                event % 2,
                p,
                resolutions,
                crowd,
                f"c{event % 4}" if event % 6 else None,
            )


def test_scores_and_digest_are_those_of_arena_evaluation() -> None:
    engine = pytest.importorskip("arena_evaluation")
    cells = list(draw_cells(100_000, random.Random(1)))
    theirs = engine.evaluate_cells(
        engine.Cell(cell.agent, cell.event, cell.window, dict(cell.probabilities), dict(cell.resolutions), dict(cell.crowd), cell.category)
        for cell in cells
    )
    ours = score_cells(cells)
    assert len(ours.scores) == 20 * 7
    for mine, other in zip(ours.scores, theirs.scores, strict=True):
        assert (mine.agent, mine.slice, mine.n_events, mine.n_pairs) == (other.agent, other.slice, other.n_events, other.n_pairs)
        found = [mine.brier, mine.skill, mine.skill_se, mine.ece]
        assert found == pytest.approx([other.brier, other.skill, other.skill_se, other.ece], abs=1e-12)
    assert ours.digest() == theirs.digest()


def test_average_returns_are_those_of_pm_rank() -> None:
    base = pytest.importorskip("pm_rank.data.base")
    model = pytest.importorskip("pm_rank.model.average_return")
    draw = random.Random(2)
    cells, problems = [], []
    for event in range(2_500):
        names = [f"o{index}" for index in range(draw.randint(2, 6))]
        happened = [draw.random() < 0.4 for _ in names]
        crowd = [draw.choice([0.0, 1.0, round(draw.random(), 2)]) for _ in names]
        forecasts = []
        for agent in ("a", "b", "c", "d"):
            p = [round(draw.random(), 2) for _ in names]
            resolutions = {name: "yes" if yes else "no" for name, yes in zip(names, happened, strict=True)}
            cells.append(Cell(agent, f"e{event}", 0, dict(zip(names, p, strict=True)), resolutions, dict(zip(names, crowd, strict=True))))
            forecasts.append(
                base.ForecastEvent(
                    forecast_id=agent,
                    problem_id=str(event),
                    username=agent,
                    timestamp=datetime(2026, 1, 1, tzinfo=UTC),
                    probs=[1 / len(names)] * len(names),
                    unnormalized_probs=p,
                    odds=crowd,
                    no_odds=[1 - price for price in crowd],
                )
            )
        correct = [index for index, yes in enumerate(happened) if yes]
        problems.append(
            base.ForecastProblem(
                title="",
                problem_id=str(event),
                options=names,
                correct_option_idx=correct,
                forecasts=forecasts,
                end_time=datetime(2026, 1, 2, tzinfo=UTC),
                num_forecasters=4,
            )
        )
    scores, _ = model.AverageReturn().fit(problems)
    assert average_return(cells) == pytest.approx(scores, abs=1e-9)
