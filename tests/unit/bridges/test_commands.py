"""Commands that score by the rules of other benchmarks."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.bridges.forecastbench import read_forecast_set
from bellwether.forecasting import forecaster
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.settings import settings
from bellwether.tables.benchmark import FORECASTS, QUESTIONS
from cli.main import main
from tests.unit.bridges.events import ANSWERS, EVENTS
from tests.unit.bridges.events import write as write_lines
from tests.unit.bridges.rounds import forecast_set, question_set, resolution_set, write


def run(*words: str | Path, code: int = 0) -> str:
    """Run `bellwether` and return its output."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_forecast_sets_are_scored_beside_published_rows(tmp_path: Path) -> None:
    mine, resolved = write(tmp_path / "mine.json", forecast_set(cost=1.5)), write(tmp_path / "resolved.json", resolution_set())
    asked = write(tmp_path / "asked.json", question_set())
    (tmp_path / "board.csv").write_text("Team,Model,Overall\nForecastBench,best,99.9\nForecastBench,worst,1.0\n")
    words = ("score", mine, "--forecastbench", resolved, "--question-set", asked, "--leaderboard", tmp_path / "board.csv")
    found = json.loads(run(*words, "--json"))
    assert found["forecastbench"][0]["forecaster"] == "me mine"
    assert (found["difficulty"], found["forecastbench"][0]["rank"], found["forecastbench"][0]["cost"]) == ("none", 2, "1.500000")
    text = run(*words)
    assert text.index("ForecastBench best") < text.rindex("me mine", 0, text.index("ForecastBench worst"))
    assert "Difficulty is not adjusted for" in text
    assert "--leaderboard needs --forecastbench" in run("score", mine, "--leaderboard", tmp_path / "board.csv", code=2)
    assert "--percent is not an option with --forecastbench" in run(*words, "--percent", "p", code=2)


def test_a_round_is_imported_and_forecasts_of_it_are_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registry").mkdir()
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path / "registry"))
    asked, resolved = write(tmp_path / "asked.json", question_set()), write(tmp_path / "resolved.json", resolution_set())
    assert "--to is not an option of the format forecastbench" in run("import", asked, "--format", "forecastbench", "--to", "x", code=2)
    text = run("import", asked, "--format", "forecastbench", "--resolutions", resolved, "--release", "round")
    assert "4 questions in the release round, under CC BY-SA 4.0" in text
    assert "1 resolution left out: unresolved" in text
    text = run(
        "import", write(tmp_path / "mine.json", forecast_set()), "--format", "forecastbench", "--forecaster", "mine", "--questions", asked
    )
    assert "5 forecasts of mine stored" in text
    lake = Lake.of(settings())
    rows = forecaster("mine").forecast(lake.slice(QUESTIONS, [("round",)]).read())
    lake.write(FORECASTS, ("round", "mine"), rows, run_id="r")
    publish(lake, settings().warehouse_uri, tables=(QUESTIONS, FORECASTS))
    words = ("export", "round", "--format", "forecastbench", "--to", tmp_path / "out.json", "--forecaster", "mine", "--questions", asked)
    assert "20.0% of the required forecasts are missing" in run(*words, "--organization", "me", code=1)
    run(*words, "--organization", "me", "--resolutions", resolved)
    written = read_forecast_set(tmp_path / "out.json")
    assert [item.forecast for item in written.forecasts if item] == [0.2, 0.1, 0.7, 0.8]
    assert written.cost is None
    costs = [None if partly else Decimal("0.01") for partly in (True, *[False] * (rows.height - 1))]
    for known, expected in ((costs, None), ([Decimal("0.01")] * rows.height, Decimal("0.01") * rows.height)):
        lake.write(FORECASTS, ("round", "mine"), rows.with_columns(cost=pl.Series(known, dtype=FORECASTS.schema["cost"])), run_id="r")
        publish(lake, settings().warehouse_uri, tables=(QUESTIONS, FORECASTS))
        run(*words, "--organization", "me", "--resolutions", resolved)
        assert read_forecast_set(tmp_path / "out.json").cost == expected


def test_forecasts_of_prophet_arena_are_scored_with_their_digest(tmp_path: Path) -> None:
    events, forecasts = write_lines(tmp_path / "events.jsonl", EVENTS), write_lines(tmp_path / "forecasts.jsonl", ANSWERS)
    found = json.loads(run("score", forecasts, "--prophet-arena", events, "--json"))
    assert found["digest"] in run("score", forecasts, "--prophet-arena", events).replace("\n", "")
    assert found["average_return"]["a"] == pytest.approx(1 / 0.31)
    for option in ("--effects", "--question-set"):
        assert f"{option} is not an option with --prophet-arena" in run("score", forecasts, "--prophet-arena", events, option, "x", code=2)
    twice = write_lines(tmp_path / "more.jsonl", ANSWERS[3:])
    text = run("score", forecasts, twice, "--prophet-arena", events, code=1)
    assert f"{twice}, line 1, window = 1: {forecasts}, line 4 has a forecast of b" in text
    open_events = [row | {"outcomes": [{"name": outcome["name"]} for outcome in row["outcomes"]]} for row in EVENTS]
    pending = write_lines(tmp_path / "open.jsonl", open_events)
    assert f"{pending} resolves no outcome of these forecasts" in run("score", forecasts, "--prophet-arena", pending, code=1)
