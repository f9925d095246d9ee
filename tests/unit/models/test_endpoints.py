"""Endpoints: costs and reservations of failures, the stop of a model, and the model that a gateway served."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.forecasting.elicitation_run import Interrupted, evaluate_models, run_elicitation
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal.export import RESERVED_FOR
from bellwether.journal.journal import Journal
from bellwether.journal.values import Outcome
from bellwether.models.client import Limits, ModelClient, NoAnswer, Retry
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
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
    ("body", "served", "by"),
    [
        ({"model": "gpt-4o-2024-08-06"}, "gpt-4o-2024-08-06", None),
        ({"model": "anthropic/claude-3-haiku", "provider": "Amazon Bedrock"}, "anthropic/claude-3-haiku", "Amazon Bedrock"),
        ({}, None, None),
        ({"model": f"gpt-4o {KEY}\n"}, "gpt-4o ***", None),
        ({"model": 7, "system_fingerprint": None}, None, None),
    ],
)
async def test_the_model_that_answered_is_stored_with_the_forecast(
    stub: Stub, journal: Journal, body: dict[str, Any], served: str | None, by: str | None
) -> None:
    response = http(200, {**chat(content=YES), "system_fingerprint": "fp_1", **body})
    row = await one_row(journal, stub, response)
    stated = None if "system_fingerprint" in body else "fp_1"
    assert (row["served_model"], row["system_fingerprint"], row["served_by"]) == (served, stated, by)
    again = await one_row(journal, stub, b"")
    assert again == row, "what the response states is kept for the next run"
