"""Bots of forecasting-tools, through a local server: as forecasters of the benchmark, and a forecaster of the registry as a bot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

tools = pytest.importorskip("forecasting_tools", reason="forecasting-tools is not installed; docs/bridges.md")

from bellwether.bridges.metaculus import score_reports
from bellwether.bridges.metaculus_bot import ForecasterBot
from bellwether.bridges.metaculus_server import API_PATH, Interview, build_application
from bellwether.sandbox.server import serve
from bellwether.submissions import Submissions
from tests.unit.bridges.posts import post
from tests.unit.bridges.rounds import write
from tests.unit.report import frames


@pytest.fixture
def store(tmp_path: Path) -> Submissions:
    return Submissions(tmp_path / "submissions")


@pytest.fixture
def client(store: Submissions) -> Iterator[Any]:
    """Client of forecasting-tools for a local server with four questions."""
    interview = Interview(frames.release(4), store, "bot", clock=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    with serve(build_application(interview)) as site:
        yield tools.MetaculusClient(site.root + API_PATH, sleep_seconds_between_requests=0, sleep_jitter_seconds=0, token="none")


class Guess(tools.ForecastBot):  # type: ignore[name-defined]
    """Bot with a probability that depends on the question."""

    async def run_research(self, question: Any) -> str:
        return "none"

    async def _run_forecast_on_binary(self, question: Any, research: str) -> Any:
        return tools.ReasonedPrediction(prediction_value=question.id_of_question / 10, reasoning="A guess.")

    async def _run_forecast_on_multiple_choice(self, question: Any, research: str) -> Any:
        raise NotImplementedError

    _run_forecast_on_numeric = _run_forecast_on_multiple_choice


def test_a_bot_answers_the_questions_of_a_release(client: Any, store: Submissions) -> None:
    bot = Guess(publish_reports_to_metaculus=True, metaculus_client=client, enable_summarize_research=False)
    questions = client.get_all_open_questions_from_tournament("release")
    reports = asyncio.run(bot.forecast_questions(questions))
    assert [report.prediction for report in reports] == [0.1, 0.2, 0.3, 0.4]
    rows = store.read(["bot"]).sort("market")
    assert rows["probability"].to_list() == [0.1, 0.2, 0.3, 0.4]
    assert rows["market"].to_list() == frames.release(4)["id"].to_list()


def test_a_forecaster_of_the_registry_is_a_bot(client: Any, store: Submissions, tmp_path: Path) -> None:
    bot = ForecasterBot("always-half", publish_reports_to_metaculus=True, metaculus_client=client, folder_to_save_reports_to=f"{tmp_path}/")
    questions = client.get_all_open_questions_from_tournament("release")
    asyncio.run(bot.forecast_questions(questions))
    assert store.read(["bot"])["probability"].to_list() == [0.5] * 4
    (saved,) = tmp_path.glob("*.json")
    asked = write(tmp_path / "posts.txt", [post(number, "yes", id=number) for number in range(1, 5)])
    assert score_reports([saved], asked).theirs["baseline"].to_list() == [0.0]


def test_a_model_of_the_sandbox_is_a_bot_and_other_types_are_refused(client: Any) -> None:
    bot = ForecasterBot("sandbox-calibrated", metaculus_client=client)
    (first, *_) = client.get_all_open_questions_from_tournament("release")
    assert 0.001 <= asyncio.run(bot.forecast_question(first)).prediction <= 0.999
    numeric = tools.NumericQuestion(
        question_text="How many?", upper_bound=10.0, lower_bound=0.0, open_upper_bound=False, open_lower_bound=False, id_of_post=7
    )
    with pytest.raises(Exception, match="forecasting post 7: it is no binary question"):
        asyncio.run(bot.forecast_question(numeric))


def test_questions_saved_by_forecasting_tools_are_read(tmp_path: Path) -> None:
    question = tools.BinaryQuestion.from_metaculus_api_json(
        post(1, "yes") | {"question": {**post(1, "yes")["question"], "status": "resolved"}}
    )
    tools.BinaryQuestion.save_object_list_to_file_path([question], str(tmp_path / "saved.json"))
    saved = write(tmp_path / "mine.json", [{"question": {"id_of_post": 1}, "prediction": 0.5}])
    assert score_reports([saved], tmp_path / "saved.json").theirs["n_baseline"].to_list() == [1]
