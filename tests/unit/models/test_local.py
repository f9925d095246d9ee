"""A local model as a LiteLLM provider, and an endpoint added in four lines of a file, both used through the client."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting.parsing import read
from bellwether.forecasting.prompt import messages
from bellwether.journal import CostSource, Journal, Outcome
from bellwether.models import local, providers
from bellwether.models.client import Answer, ModelClient, NoAnswer
from bellwether.models.keys import endpoints, status
from bellwether.models.model import Model
from bellwether.models.providers import has_local_extra
from bellwether.models.registry import model
from bellwether.sandbox import serve
from bellwether.sandbox.worlds import build_application
from bellwether.settings import Settings
from tests.models.stub import Stub, chat, http

SMOLLM2 = "smollm2-135m"
QUESTION = {"source": "kalshi", "market_id": "KXRAIN-26JUL01", "question": "Will it rain?", "description": "Resolves to Yes if it rains."}
AS_OF = datetime(2026, 6, 30, tzinfo=UTC)
SURE = "<answer>no</answer><confidence>80</confidence>"


class Played:
    """Answer like `llama_cpp.Llama`, and record the arguments."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def create_chat_completion(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if len(asked["messages"][-1]["content"]) > 10_000:
            raise ValueError("Requested tokens (5000) exceed context window of 4096")
        choice = {"index": 0, "message": {"role": "assistant", "content": SURE}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "/w.gguf", "choices": [choice], "usage": usage}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    llama = Played()
    monkeypatch.setattr(local, "_llama", lambda name: llama)
    monkeypatch.setattr(local, "weights", lambda name: Path("w.gguf"))
    return llama


async def query(one: Model, journal: Path, **parameters: Any) -> Answer | NoAnswer:
    with Journal(f"sqlite:///{journal}") as opened:
        async with ModelClient(opened, endpoint=endpoints(None), run="test") as client:
            return await client.ask(one, messages(QUESTION, AS_OF, one.elicitation), purpose="test", parameters=parameters)


async def test_the_local_model_is_a_provider_of_litellm(played: Played, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"p_yes": {"type": "number"}}}
    form = {"type": "json_schema", "json_schema": {"name": "forecast", "schema": schema}}
    answer = await query(model(SMOLLM2), tmp_path / "journal.db", temperature=0.0, seed=3, user="x", response_format=form)
    assert isinstance(answer, Answer)
    assert (answer.content, answer.usage.completion_tokens, answer.usage.cost) == (SURE, 4, 0)
    assert answer.served.model == SMOLLM2
    [sent] = played.asked
    assert sent.pop("messages") == messages(QUESTION, AS_OF, "tags")
    assert sent.pop("max_tokens") == model(SMOLLM2).max_tokens
    assert sent == {"temperature": 0.0, "seed": 3, "response_format": {"type": "json_object", "schema": schema}}


async def test_what_the_local_model_refuses_is_a_failure_in_its_words(played: Played, tmp_path: Path) -> None:
    missed = await query(model(SMOLLM2), tmp_path / "journal.db", tools=[{"type": "function", "function": {"name": "look"}}])
    assert isinstance(missed, NoAnswer)
    assert (missed.outcome, missed.final, missed.attempts, missed.usage.cost) == (Outcome.PROVIDER_ERROR, False, 1, 0)
    assert "tools are not supported by the local model" in missed.reason
    long = {**QUESTION, "description": "x" * 20_000}
    with Journal(f"sqlite:///{tmp_path}/journal.db") as opened:
        async with ModelClient(opened, endpoint=endpoints(None), run="test") as client:
            missed = await client.ask(model(SMOLLM2), messages(long, AS_OF, "tags"), purpose="test")
    assert isinstance(missed, NoAnswer)
    assert "exceed context window" in missed.reason


def test_without_the_extra_the_error_states_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "find_spec", lambda name: None)
    assert status(model(SMOLLM2)).readiness == "extra not installed"
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[local\]'"):
        endpoints(None)(model(SMOLLM2))


def test_an_unknown_local_model_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"local/gpt.*local/smollm2-135m"):
        local.weights("gpt")


@pytest.mark.slow
@pytest.mark.skipif(not has_local_extra(), reason="the extra `local` is not installed: pip install -e '.[local]'")
async def test_the_real_model_answers_without_a_key_and_the_same_twice(tmp_path: Path) -> None:
    found = [await query(model(SMOLLM2), tmp_path / f"{number}.db", max_tokens=32) for number in range(2)]
    assert all(isinstance(one, Answer) for one in found)
    assert found[0].content == found[1].content != ""  # type: ignore[union-attr]


async def test_four_lines_ask_a_server_without_a_key(tmp_path: Path) -> None:
    async with Stub(http(200, chat(content=SURE))) as server:
        lines = ["[my-llama]", 'model = "openai/llama"', f'api_base = "{server.root}"', "knowledge_cutoff = 2025-01-01"]
        (tmp_path / "models.toml").write_text("\n".join(lines), encoding="utf-8")
        answer = await query(model("my-llama", tmp_path), tmp_path / "journal.db")
    assert isinstance(answer, Answer)
    assert read(answer.content).p_yes == pytest.approx(0.2)
    assert (answer.usage.completion_tokens, answer.usage.cost, answer.usage.cost_source) == (2000, 0, CostSource.PRICE_LIST)


async def test_a_line_more_asks_a_server_that_wants_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_VLLM_KEY", "sandbox-mine")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else-0123456789")
    with serve(build_application(Settings(sandbox_now=datetime(2025, 2, 1, tzinfo=UTC)), running=False)) as site:
        text = f'[my-vllm]\nmodel = "openai/calibrated"\napi_base = "{site.models}"\nkey_variable = "MY_VLLM_KEY"\n'
        (tmp_path / "models.toml").write_text(text, encoding="utf-8")
        answer = await query(model("my-vllm", tmp_path), tmp_path / "journal.db")
    assert isinstance(answer, Answer)
    assert read(answer.content).p_yes is not None
