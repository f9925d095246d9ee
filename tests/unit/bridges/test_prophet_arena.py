"""Events and forecasts of Prophet Arena: reading, writing and scores."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.bridges.prophet_arena import (
    Cell,
    Event,
    Forecast,
    average_return,
    import_events,
    list_forecasts,
    read_events,
    read_forecasts,
    score_cells,
    select_forecasts,
    write_forecasts,
)
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.questions import release
from bellwether.settings import World
from tests.unit.bridges.events import ANSWERS, EVENTS, write

TASK = {
    "task_id": "T",
    "title": "Who wins?",
    "outcomes": ["A", "B"],
    "predict_by": "2026-05-15T20:00:00+00:00",
    "metadata": {"category": "Sports"},
}


def load(folder: Path, events: list[Any] | None = None, forecasts: list[Any] | None = None) -> list[Cell]:
    """Read events and forecasts, by default those above."""
    known = read_events(write(folder / "events.jsonl", EVENTS if events is None else events))
    return read_forecasts([write(folder / "forecasts.jsonl", ANSWERS if forecasts is None else forecasts)], known)


def test_scores_are_means_over_events(tmp_path: Path) -> None:
    report = score_cells(load(tmp_path))
    scores = {(row.agent, row.slice): row for row in report.scores}
    assert list(scores) == [
        *(("a", name) for name in ("all", "cat:Economics", "cat:Sports", "type:binary", "type:multi")),
        *(("b", name) for name in ("all", "cat:Sports", "type:binary")),
    ]
    rate, game = ((0.3**2 + 0.3**2) / 2 + (0.2**2 + 0.1**2) / 2) / 2, (0.2**2 + 0.1**2) / 2
    skills = [((0.4**2 + 0.3**2) / 2 - (0.3**2 + 0.3**2) / 2 + 0.2**2 - 0.1**2) / 2, (0.7**2 + 0.69**2) / 2 - game]
    own = scores["a", "all"]
    assert (own.brier, own.skill) == (pytest.approx((rate + game) / 2, abs=1e-12), pytest.approx(sum(skills) / 2, abs=1e-12))
    assert own.skill_se == pytest.approx(abs(skills[0] - skills[1]) / math.sqrt(2) / math.sqrt(2), abs=1e-12)
    assert (own.n_events, own.n_cells, own.n_pairs, own.n_skill_events) == (2, 3, 5, 2)
    assert own.ece == pytest.approx((0.1 + 0.2 + 0.3 + 0.3 + 0.2 + 0.1) / 6, abs=1e-12)
    assert scores["b", "all"].skill_se is None


def test_the_digest_is_that_of_the_engine(tmp_path: Path) -> None:
    """The digest was computed with arena-evaluation 2.2.0."""
    assert score_cells(load(tmp_path)).digest() == "34b943ece972b523e33a9ddef56b0e955fede1026a6ed092c8abec8c42800d3e"


def test_events_without_an_outcome_are_not_scored(tmp_path: Path) -> None:
    void = [EVENTS[1] | {"outcomes": [{"name": "Home", "resolution": "void"}, {"name": "Away", "resolution": "pending"}]}]
    report = score_cells(load(tmp_path, void, ANSWERS[2:]))
    assert (report.scores, report.n_cells, report.unscored_cells) == ([], 0, 2)


def test_the_return_is_that_of_the_contract_with_the_best_ratio(tmp_path: Path) -> None:
    """For `a`, yes on Away has 0.9 / 0.31, more than 0.8 / 0.3 of no on Home; for `b`, no on Away loses. The void event does not count."""
    assert average_return(load(tmp_path)) == {"a": pytest.approx(1 / 0.31), "b": 0.0}


def load_release(folder: Path, events: list[Any]) -> pl.DataFrame:
    """Import events as the release `arena`."""
    (folder / "registry").mkdir()
    lake = Lake(str(folder / "lake"), durable=False)
    return import_events(lake, folder / "registry", write(folder / "events.jsonl", events), name="arena", world=World.SANDBOX)


def test_events_become_a_release_and_its_forecasts_those_of_agents(tmp_path: Path) -> None:
    rows = load_release(tmp_path, EVENTS)
    assert rows["id"].to_list() == [
        "prophet-arena:rate:2:Up",
        "prophet-arena:rate:2:Flat",
        "prophet-arena:game:1:Home",
        "prophet-arena:game:1:Away",
    ]
    assert rows["ground_truth"].to_list() == ["yes", "no", "no", "yes"]
    assert [rows[f"price_{horizon}"].to_list()[1] for horizon in ("24h", "7d")] == [Decimal("0.2"), None]
    assert rows["price_24h"].to_list()[0] is None
    assert release("arena", tmp_path / "registry").cutoff == datetime(2026, 5, 2, 5, 59, 59, tzinfo=UTC)
    stated = rows.select(
        "release", question_id="id", forecaster=pl.lit("a"), combine=pl.lit("median"), p_yes=pl.Series([0.1, 0.2, 0.3, 0.4])
    )
    stated = pl.concat([stated, *(stated.with_columns(p_yes=pl.lit(p)) for p in (0.3, 0.9))])
    (found,) = select_forecasts(stated, [Event.model_validate(row) for row in EVENTS])
    assert (found.agent, found.event, found.window, found.probabilities) == ("a", "game", 1, {"Home": 0.3, "Away": 0.4})


@pytest.mark.parametrize("name", ["Bad Name", "arena@5", 'a"]', "x" * 65])
def test_an_invalid_name_of_a_release_is_refused_before_anything_is_stored(tmp_path: Path, name: str) -> None:
    events = write(tmp_path / "events.jsonl", EVENTS)
    with pytest.raises(ConfigError, match="not a valid name of a release"):
        import_events(Lake(str(tmp_path / "lake")), tmp_path / "registry", events, name=name, world=World.LIVE)
    assert not (tmp_path / "lake").exists() and not (tmp_path / "registry").exists()


def test_a_name_twice_in_an_object_is_refused(tmp_path: Path) -> None:
    events, file = read_events(write(tmp_path / "events.jsonl", EVENTS)), tmp_path / "forecasts.jsonl"
    file.write_text('{"agent": "a", "event": "game", "window": 1, "probabilities": {"Home": 0.7, "Home": 0.1, "Away": 0.3}}\n')
    with pytest.raises(ConfigError, match="line 1: it is not JSON \\('Home' occurs twice in an object\\)"):
        read_forecasts([file], events)
    file.write_text("[" * 200_000)
    with pytest.raises(ConfigError, match="line 1: it is not JSON \\(it is nested too deeply\\)"):
        read_forecasts([file], events)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (EVENTS[1] | {"windows": []}, "slug = 'game', windows: there is none"),
        (EVENTS[1] | {"windows": [{"round": 4, "taken_at": "2026-05-01T00:00:00Z"}]}, "window 4 lacks taken_at or closes_at"),
        (EVENTS[1] | {"outcomes": [{"name": "Home"}, {"name": "Away"}]}, "no outcome is resolved"),
        (EVENTS[1] | {"close_at": 5}, "line 1, close_at = 5: must be a time as text"),
    ],
)
def test_events_that_are_not_resolved_are_no_release(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_release(tmp_path, [row])
    assert not (tmp_path / "lake").exists()


def test_graded_outcomes_are_listed_for_our_scores(tmp_path: Path) -> None:
    rows = list_forecasts(load(tmp_path))
    assert rows.row(2) == ("a", "rate 2 Flat", 0.1, 0, "rate", 0.2)
    assert (rows.height, rows["market_price"].null_count()) == (8, 1)


def test_open_tasks_are_events_without_windows(tmp_path: Path) -> None:
    (event,) = read_events(write(tmp_path / "tasks.jsonl", [TASK]))
    assert (event.slug, event.category, event.resolutions, event.windows) == ("T", "Sports", {"A": "void", "B": "void"}, [])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (EVENTS[0] | {"slug": None}, "events.jsonl, line 1, slug = None"),
        ({"slug": "x", "close_at": "2026-01-01"}, "line 1, outcomes: Field required"),
        (EVENTS[1] | {"outcomes": [{"name": "Home", "resolution": "maybe"}]}, r"line 1, outcomes\[0\].resolution = 'maybe'"),
        (EVENTS[1] | {"outcomes": [{"name": "Home"}, {"name": "home"}]}, "line 1, outcomes = 'home': it occurs twice"),
        (EVENTS[1] | {"windows": [{"round": 1}, {"round": 1}]}, "line 1, windows = 1: it occurs twice"),
        (EVENTS[1] | {"windows": [{"round": 1, "crowd": {"Home": 1.2}}]}, r"line 1, windows\[0\].crowd.Home = 1.2"),
        (EVENTS[1] | {"windows": [{"round": 1, "crowd": {"Draw": 0.2}}]}, "line 1, crowd: game has no outcome 'Draw'"),
        (TASK | {"outcomes": "A"}, "line 1, outcomes = 'A'"),
    ],
)
def test_an_invalid_event_is_refused(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_events(write(tmp_path / "events.jsonl", [row]))


def test_an_event_occurs_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"events.jsonl, slug = 'game': it occurs twice"):
        load(tmp_path, [*EVENTS, EVENTS[1]])


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"event": "x"}, "event|there is no such event"),
    ({"probabilities": {"Home": 0.5}}, "the outcome 'Away' of game is missing"),
    ({"probabilities": {"Home": 0.5, "Away": 0.5, "Draw": 0}}, "game has no outcome 'draw'"),
    ({"probabilities": {"Home": 0.5, "HOME": 0.5, "Away": 0.5}}, "two names differ in case only"),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *INVALID,
        ({"window": 3}, "forecasts.jsonl, line 1, window = 3: game has 1"),
        ({"probabilities": {"Home": 1.5, "Away": 0}}, "forecasts.jsonl, line 1, probabilities.Home = 1.5"),
        ({"probabilities": {"Home": True, "Away": 0}}, "forecasts.jsonl, line 1, probabilities.Home = True"),
        ({"agent": ""}, "line 1, agent = ''"),
    ],
)
def test_an_invalid_forecast_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, forecasts=[ANSWERS[2] | changes])


def test_a_repeated_forecast_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 2, window = 1: .*forecasts.jsonl, line 1 has a forecast of b for this window of game"):
        load(tmp_path, forecasts=[ANSWERS[3], ANSWERS[3]])


def test_forecasts_are_written_as_they_are_read(tmp_path: Path) -> None:
    events = [Event.model_validate(row) for row in EVENTS]
    write_forecasts(tmp_path / "out.jsonl", [Forecast.model_validate(row) for row in ANSWERS], events)
    assert read_forecasts([tmp_path / "out.jsonl"], events) == load(tmp_path)


@pytest.mark.parametrize(("changes", "message"), INVALID)
def test_what_prophet_arena_refuses_is_not_written(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    forecasts = [Forecast.model_validate(row) for row in (ANSWERS[0], ANSWERS[2] | changes)]
    with pytest.raises(ConfigError, match=message):
        write_forecasts(tmp_path / "out.jsonl", forecasts, [Event.model_validate(row) for row in EVENTS])
    assert not list(tmp_path.iterdir())
