"""Dead, overloaded and interrupted endpoints over real connections: costs, reservations, and the stop of a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.checks.rule import rules_for
from bellwether.forecasting.elicitation_run import Interrupted, run_elicitation
from bellwether.forecasting.evaluation import evaluate_models
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal import Journal, Outcome
from bellwether.journal.budget import RESERVED_FOR
from bellwether.models.client import Answer, Limits, ModelClient, NoAnswer, Retry, Stopped
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from bellwether.models.transport import load_litellm
from tests.clean.rows import market, markets, prices
from tests.forecasting.test_elicitation_run import RELEASE, build
from tests.journal.calls import Clock
from tests.models.stub import KEY, Asked, Stub, anthropic, chat, gemini, http, openai_error
from tests.shared import unused_port

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


def first(count: int, response: bytes, then: bytes = GOOD) -> Callable[[Asked], bytes]:
    """Answer the first `count` requests with `response`, and the others with `then`."""
    remaining = iter(range(count))
    return lambda asked: then if next(remaining, None) is None else response


# --- money -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_responses_that_are_not_charged_leave_the_budget_to_the_others(stub: Stub, journal: Journal, status: int) -> None:
    stub.answers = first(4, http(status, openai_error("Overloaded")))
    async with client(journal, stub.root) as opened:
        rows = await run_elicitation(LanguageModel(dear(stub.root, concurrency=4)), questions(6), opened)
    assert rows["error"].to_list() == [None] * 6
    assert (rows["input_tokens"].to_list(), rows["output_tokens"].to_list()) == ([1000] * 6, [2000] * 6)
    assert rows["cost"].to_list() == [Decimal("0.033")] * 6
    assert rows["attempts"].sum() == len(stub.asked) == 10
    assert journal.spent().committed == 6 * 33_000


async def test_the_tokens_of_the_final_response_are_stored_after_a_failure_of_unknown_cost(stub: Stub, journal: Journal) -> None:
    stub.answers = first(1, http(500, openai_error("oops")))
    async with client(journal, stub.root) as opened:
        rows = await run_elicitation(LanguageModel(dear(stub.root)), questions(1), opened)
    (row,) = rows.iter_rows(named=True)
    assert (row["input_tokens"], row["output_tokens"], row["attempts"]) == (1000, 2000, 2)
    assert row["cost"] is None  # the provider does not state whether it charges for a failure in progress


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


@pytest.mark.parametrize(
    ("model", "address", "reason"),
    [
        ("openai/dear", "http://127.0.0.1:{port}", "Connection refused"),
        ("anthropic/claude-3-5-haiku-20241022", "http://no-such-host.invalid", "not known|No address|resolution"),
    ],
    ids=["directly, refused", "LiteLLM, unknown host"],
)
async def test_a_dead_endpoint_stops_the_model_with_its_address_and_the_reason(
    journal: Journal, model: str, address: str, reason: str
) -> None:
    load_litellm()  # takes longer than a call may on a busy machine
    url = address.format(port=unused_port())
    subject = LanguageModel(Model.model_validate({**DEAR, "model": model}))
    async with client(journal, url) as opened:
        with pytest.raises(Interrupted, match=reason) as caught:
            await run_elicitation(subject, questions(50), opened)
        sent = opened.stats["dear"].asked
    assert url in str(caught.value)
    assert caught.value.cause.kind == "unreachable"
    assert sent <= 3 * subject.model.concurrency
    assert journal.spent().committed == 0
    assert {call.outcome for call in journal.unanswered()} == {Outcome.PROVIDER_ERROR}
    assert all(url in (call.reason or "") for call in journal.unanswered())


async def test_a_server_without_tls_is_unreachable_over_https(stub: Stub, journal: Journal) -> None:
    async with client(journal, stub.root.replace("http", "https")) as opened:
        with pytest.raises(Stopped, match=r"no connection to https://127\.0\.0\.1") as caught:
            await ask(opened, dear(stub.root))
    assert caught.value.kind == "unreachable"
    assert stub.asked == []


async def test_credentials_in_an_address_are_not_repeated(journal: Journal) -> None:
    async with client(journal, f"http://user:hidden@127.0.0.1:{unused_port()}/v1") as opened:
        with pytest.raises(Stopped) as caught:
            await ask(opened, dear("http://127.0.0.1/v1"))
    assert "hidden" not in str(caught.value)
    assert "hidden" not in str(journal.unanswered())


async def test_a_server_that_starts_late_or_restarts_is_no_dead_endpoint(journal: Journal) -> None:
    port, servers, starting = unused_port(), list[asyncio.Server](), asyncio.Lock()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(GOOD)
        await writer.drain()
        writer.close()
        if len(servers) == 1 and servers[0].is_serving():
            servers[0].close()  # restarts after its first answers

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0.02)
        async with starting:  # two calls wait at once
            if not any(server.is_serving() for server in servers):
                servers.append(await asyncio.start_server(serve, "127.0.0.1", port))

    url = f"http://127.0.0.1:{port}"
    async with client(journal, url, sleep=sleep) as opened:
        found = await asyncio.gather(*(ask(opened, dear(url, concurrency=2), number) for number in range(12)))
        assert opened.stats["dear"].failures[Outcome.PROVIDER_ERROR] >= 2
    for server in servers:
        server.close()
    assert len(servers) >= 2
    assert all(isinstance(one, Answer) for one in found)


async def test_a_flaky_connection_among_answers_stops_nothing(stub: Stub, journal: Journal) -> None:
    dead = f"http://127.0.0.1:{unused_port()}"
    numbers = iter(range(1000))

    def wire() -> Any:
        from bellwether.models.attempt_outcomes import AttemptResult
        from bellwether.models.transport import ModelCall, ProviderWire

        class Flaky(ProviderWire):
            async def send(self, call: ModelCall) -> AttemptResult:
                url = dead if next(numbers) % 7 == 0 else stub.root
                return await super().send(ModelCall(call.model, Endpoint(url, None), call.messages, call.parameters))

        return Flaky()

    stub.response = GOOD
    async with client(journal, stub.root, wire=wire(), limits=Limits()) as opened:
        found = await asyncio.gather(*(ask(opened, dear(stub.root), number) for number in range(60)))
        assert opened.stats["dear"].failures[Outcome.PROVIDER_ERROR] >= 9
    assert all(isinstance(one, Answer) for one in found)


async def test_a_gateway_without_a_backend_is_an_error_of_the_evaluation(stub: Stub, journal: Journal) -> None:
    stub.response = http(502, b"<html>Bad Gateway</html>")
    async with client(journal, stub.root, retry=Retry(attempts=2, base=0.01)) as opened:
        ends = await evaluate_models(
            [LanguageModel(dear(stub.root, input_price="0", output_price="0"))], questions(6), opened, lambda *done: None
        )
    assert "all 6 calls failed: HTTP 502" in str(ends["dear"])


@pytest.mark.parametrize(
    ("response", "reason", "requests"),
    [
        (http(200, b"<html>Welcome</html>"), r"HTTP 200 with a web page", 4),
        (http(200, {"choices": [{"message": {"content": ""}}]}), r"an answer without text \(finish reason: none\)", 4),
        (http(429, openai_error("Slow down")), r"HTTP 429", 20),
        (http(308, b"", {"Location": "https://models.example/v1"}), r"HTTP 308: a redirect", 1),
    ],
    ids=["HTML", "empty", "429", "a redirect"],
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
    [
        {"content": "", "reasoning": "Perhaps yes"},
        {"content": ""},
        {"content": None, "refusal": "I cannot help with that"},
    ],
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
        (
            {"model": "gpt-4o"},
            {"x-litellm-model-group": "gpt-4o-mini", "x-litellm-model-id": "3f2a"},
            "gpt-4o-mini",
            "3f2a",
        ),
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


@pytest.mark.parametrize(
    ("model", "body", "served"),
    [
        ("anthropic/claude-3-5-haiku-latest", anthropic(content=[{"type": "text", "text": YES}]), "claude-x"),
        ("gemini/gemini-2.5-pro", gemini(text=YES), "gemini-x"),
    ],
)
async def test_the_model_of_native_formats_is_the_provider_s_own_word(
    stub: Stub, journal: Journal, model: str, body: dict[str, Any], served: str
) -> None:
    load_litellm()
    stub.response = http(200, body)
    subject = LanguageModel(Model.model_validate({**DEAR, "model": model, "timeout": 30.0}))
    async with client(journal, stub.root, limits=Limits()) as opened:
        rows = await run_elicitation(subject, questions(1), opened)
    assert rows["served_model"].to_list() == [served]


@pytest.mark.parametrize(("served", "passes"), [("gpt-4o-2024-08-06", True), ("gpt-4o-mini", False)])
async def test_a_fallback_of_a_gateway_fails_the_check(stub: Stub, journal: Journal, served: str, passes: bool) -> None:
    stub.response = http(200, {**chat(content=YES), "model": served})
    async with client(journal, stub.root, limits=Limits()) as opened:
        rows = await run_elicitation(LanguageModel(dear(stub.root, model="openai/gpt-4o")), questions(3), opened)
    rules = {rule.name: rule for rule in rules_for("benchmark/forecasts")}
    named, single = rules["served_model_is_requested"], rules["one_served_model"]
    assert named.condition is not None
    assert single.condition is not None
    assert not named.blocking
    assert rows.select(named.condition.all())["model"].item() is passes
    assert rows.select(single.condition.all()).item()
    mixed = rows.with_columns(served_model=pl.Series(["gpt-4o", "gpt-4o-2024-08-06", "gpt-4o"]))
    assert not mixed.select(single.condition.all()).item()
