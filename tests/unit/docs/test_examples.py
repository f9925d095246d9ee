"""The programs in `examples/`."""

from __future__ import annotations

import asyncio
import importlib.util
import tomllib
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

from bellwether.forecasting import prompt
from bellwether.forecasting.parsing import read
from bellwether.journal.journal import Journal
from bellwether.models.client import Answer, Limits, ModelClient
from bellwether.models.keys import endpoints
from bellwether.models.model import models
from bellwether.replay import BacktestSettings, load, run
from bellwether.replay.agents.loader import load_agent_class
from bellwether.replay.units import SECOND
from tests.unit.forecasting.test_prompt import AS_OF, QUESTION
from tests.unit.replay.episode.folders import Native

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples"


def example(name: str) -> ModuleType:
    """Import an example as a module, without its main part."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.nightly
def test_the_csv_is_scored_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
    assert f"```csv\n{(FOLDER / 'forecasts.csv').read_text(encoding='utf-8')}```" in page
    scores = example("score_csv").main(FOLDER / "forecasts.csv", tmp_path / "scores")
    assert set(scores.ranking["forecaster"]) == {"market", "gpt", "claude"}
    assert "0.115 [0.078, 0.251]" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "scores").iterdir()} == {"reliability.png", "differences.png", "scores.html"}


def test_the_market_maker_quotes_within_the_book_and_its_limit(tmp_path: Path) -> None:
    episode = load(Native().write(tmp_path / "KXTEST-26JAN20"))
    maker = load_agent_class(f"{FOLDER / 'market_maker.py'}:Maker")
    done = run(episode, maker(half_spread_cents=1, size=3, max_position=5), BacktestSettings(cadence=5 * SECOND))
    assert done.failure is None
    assert done.orders.height > 1
    assert set(done.orders["reason"].drop_nulls()) <= {"agent", "closed"}  # no rejects
    prices = [price for price in done.orders["price"] if price is not None]
    assert prices and all(price * 100 == int(price * 100) for price in prices)


@pytest.mark.nightly
def test_the_language_model_trades_and_repeats_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = example("llm_agent").main(Native().write(tmp_path / "KXTEST-26JAN20"), trajectory=tmp_path / "trajectory.jsonl")
    assert done.failure is None
    assert (tmp_path / "trajectory.jsonl").is_file()


def test_the_endpoint_answers_a_forecast(tmp_path: Path) -> None:
    own = example("custom_endpoint")
    server = own.server(0)
    Thread(target=server.serve_forever, daemon=True).start()
    entry = tomllib.loads((FOLDER / "models.toml").read_text(encoding="utf-8"))["example-endpoint"]
    model = models(FOLDER)["example-endpoint"].model_copy(update={"api_base": f"http://127.0.0.1:{server.server_port}/v1"})
    messages = list(prompt.messages(QUESTION, AS_OF, entry["elicitation"]))

    async def ask() -> object:
        with Journal(f"sqlite:///{tmp_path}/journal.db") as journal:
            async with ModelClient(journal, endpoint=endpoints(None), run="test", limits=Limits()) as client:
                return await client.ask(model, messages, purpose="test", scope="")

    try:
        answer = asyncio.run(ask())
    finally:
        server.shutdown()
        server.server_close()
    assert isinstance(answer, Answer)
    assert read(answer.content).p_yes == pytest.approx(own.probability(messages[-1]["content"]), abs=1e-4)


def test_the_arms_differ_in_their_tools() -> None:
    arms = [model for name, model in models(FOLDER).items() if name.startswith("arm-")]
    assert [arm.tools for arm in arms] == [(), ("prices",), ("search",), ("search", "prices")]
    assert len({arm.model for arm in arms}) == 1
