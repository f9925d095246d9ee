"""One table of what providers do, over both transports and three formats: the outcome is the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from bellwether.journal import CostSource, Outcome
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from bellwether.models.wire import Call, ProviderWire, Result, Stop
from bellwether.models.wire.litellm import LiteLLM
from tests.models.wire.bodies import KEY, anthropic, anthropic_error, chat, gemini, gemini_error, openai_error
from tests.models.wire.stub import HANG, Asked, Stub, http

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "rain?"}]
OPENAI = {"name": "one", "model": "openai/gpt-4o", "timeout": 1.0}
ANTHROPIC = {"name": "one", "model": "anthropic/claude-sonnet-4-5-20250929", "timeout": 1.0}
GEMINI = {"name": "one", "model": "gemini/gemini-2.5-pro", "timeout": 1.0}


@dataclass(frozen=True)
class Case:
    outcome: Outcome
    response: bytes
    stop: Stop | None = None
    permanent: bool = False
    retry_after: float | None = None
    content: str | None = None
    says: str = ""


OPENAI_CASES = {
    "answer": Case(Outcome.OK, http(200, chat(content="0.4")), content="0.4"),
    "wrong key": Case(
        Outcome.AUTHENTICATION,
        http(401, openai_error(f"Incorrect API key provided: {KEY}", "invalid_api_key")),
        Stop.AUTHENTICATION,
        permanent=True,
        says="HTTP 401: the key was refused",
    ),
    "forbidden": Case(Outcome.AUTHENTICATION, http(403, openai_error("no")), Stop.AUTHENTICATION, permanent=True),
    "no credit": Case(Outcome.OUT_OF_CREDIT, http(402, openai_error("pay", 402)), Stop.OUT_OF_CREDIT, permanent=True, says="pay"),
    "no quota": Case(
        Outcome.OUT_OF_CREDIT,
        http(429, openai_error("You exceeded your current quota", "insufficient_quota", "insufficient_quota")),
        Stop.OUT_OF_CREDIT,
        permanent=True,
    ),
    "rate limit": Case(Outcome.RATE_LIMIT, http(429, openai_error("slow down"), {"retry-after": "7"}), retry_after=7.0, says="slow down"),
    "rate limit in milliseconds": Case(Outcome.RATE_LIMIT, http(429, openai_error("slow"), {"retry-after-ms": "1500"}), retry_after=1.5),
    "unknown model": Case(
        Outcome.PROVIDER_ERROR,
        http(404, openai_error("The model `x` does not exist", "model_not_found")),
        Stop.UNKNOWN_MODEL,
        permanent=True,
        says="does not exist",
    ),
    "unknown model as a bad request": Case(
        Outcome.PROVIDER_ERROR, http(400, openai_error("x is not a valid model ID", 400)), Stop.UNKNOWN_MODEL, permanent=True
    ),
    "refused parameter": Case(
        Outcome.PROVIDER_ERROR,
        http(400, openai_error("Unsupported value: 'temperature' does not support 0.7 with this model.", "unsupported_value")),
        permanent=True,
        says="temperature",
    ),
    "filtered prompt": Case(
        Outcome.REFUSAL, http(400, openai_error("the prompt was filtered", "content_filter")), permanent=True, says="filtered"
    ),
    "request timeout": Case(Outcome.TIMEOUT, http(408, openai_error("too slow"))),
    "server error": Case(Outcome.PROVIDER_ERROR, http(500, openai_error("oops")), says="HTTP 500"),
    "gateway page": Case(Outcome.PROVIDER_ERROR, http(503, b"<html>busy</html>", {"retry-after": "2"}), retry_after=2.0, says="HTTP 503"),
    "overloaded": Case(Outcome.RATE_LIMIT, http(529, openai_error("overloaded")), says="overloaded"),
    "error in the answer": Case(Outcome.PROVIDER_ERROR, http(200, openai_error("upstream is down", 502)), says="upstream is down"),
    "no choices": Case(Outcome.MALFORMED, http(200, {**chat(content="x"), "choices": []}), says="no choices"),
    "nothing said": Case(Outcome.MALFORMED, http(200, chat(content="")), says="without text"),
    "filtered answer": Case(Outcome.REFUSAL, http(200, chat("content_filter", content=None))),
    "refusal": Case(Outcome.REFUSAL, http(200, chat(refusal="I cannot help with that")), says="I cannot help"),
    "cut at the limit": Case(Outcome.TRUNCATION, http(200, chat("length", content="half of")), content="half of", says="2000"),
    "only reasoning": Case(Outcome.MALFORMED, http(200, chat(content="", reasoning_content="hm")), says="reasoning without an answer"),
    "silence": Case(Outcome.TIMEOUT, http(200, chat(content="0.4"), length=9999) + HANG, says="1 second"),
    "cut connection": Case(Outcome.PROVIDER_ERROR, http(200, chat(content="0.4"), length=9999)),
    "no answer at all": Case(Outcome.PROVIDER_ERROR, b""),
}

#: Only where the body is heard as it came; over LiteLLM's OpenAI client these are provider errors.
VERBATIM_CASES = {
    "web page": Case(Outcome.MALFORMED, http(200, b"<html>maintenance</html>"), says="a web page"),
    "broken JSON": Case(Outcome.MALFORMED, http(200, b'{"choices": [{"mess'), says="no JSON"),
    "empty body": Case(Outcome.MALFORMED, http(200, b""), says="an empty body"),
}

ANTHROPIC_CASES = {
    "answer": Case(Outcome.OK, http(200, anthropic()), content="0.4"),
    "refusal": Case(Outcome.REFUSAL, http(200, anthropic("refusal", []))),
    "cut at the limit": Case(Outcome.TRUNCATION, http(200, anthropic("max_tokens")), content="0.4", says="2000"),
    "only reasoning": Case(Outcome.MALFORMED, http(200, anthropic(content=anthropic()["content"][:1])), says="reasoning without an answer"),
    "wrong key": Case(
        Outcome.AUTHENTICATION, http(401, anthropic_error("authentication_error", f"invalid {KEY}")), Stop.AUTHENTICATION, permanent=True
    ),
    "no credit": Case(
        Outcome.OUT_OF_CREDIT,
        http(400, anthropic_error("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
        Stop.OUT_OF_CREDIT,
        permanent=True,
    ),
    "unknown model": Case(
        Outcome.PROVIDER_ERROR, http(404, anthropic_error("not_found_error", "model: claude-x")), Stop.UNKNOWN_MODEL, permanent=True
    ),
    "rate limit": Case(Outcome.RATE_LIMIT, http(429, anthropic_error("rate_limit_error", "many"), {"retry-after": "7"}), retry_after=7.0),
    "refused parameter": Case(
        Outcome.PROVIDER_ERROR, http(400, anthropic_error("invalid_request_error", "temperature: may only be 1")), permanent=True
    ),
    "overloaded": Case(Outcome.RATE_LIMIT, http(529, anthropic_error("overloaded_error", "Overloaded")), says="HTTP 529"),
    "another form": Case(Outcome.MALFORMED, http(200, {"type": "message", "content": []})),
    "silence": Case(Outcome.TIMEOUT, http(200, anthropic(), length=9999) + HANG),
    "cut connection": Case(Outcome.PROVIDER_ERROR, http(200, anthropic(), length=9999)),
    "no answer at all": Case(Outcome.PROVIDER_ERROR, b""),
    **VERBATIM_CASES,
}

GEMINI_CASES = {
    "answer": Case(Outcome.OK, http(200, gemini()), content="0.4"),
    "blocked prompt": Case(
        Outcome.REFUSAL, http(200, {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}})
    ),
    "filtered answer": Case(Outcome.REFUSAL, http(200, gemini("SAFETY", None))),
    "cut at the limit": Case(Outcome.TRUNCATION, http(200, gemini("MAX_TOKENS")), content="0.4"),
    "wrong key": Case(
        Outcome.AUTHENTICATION,
        http(400, gemini_error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")),
        Stop.AUTHENTICATION,
        permanent=True,
    ),
    "unknown model": Case(
        Outcome.PROVIDER_ERROR, http(404, gemini_error(404, "NOT_FOUND", "models/x is not found")), Stop.UNKNOWN_MODEL, permanent=True
    ),
    "rate limit": Case(
        Outcome.RATE_LIMIT,
        http(429, gemini_error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", details=[{"retryDelay": "37s"}])),
        retry_after=37.0,
    ),
    "overloaded": Case(Outcome.PROVIDER_ERROR, http(503, gemini_error(503, "UNAVAILABLE", "overloaded"))),
    "no answer at all": Case(Outcome.PROVIDER_ERROR, b""),
    **VERBATIM_CASES,
}

TABLE = [
    *(pytest.param("direct", OPENAI, case, id=f"directly: {name}") for name, case in {**OPENAI_CASES, **VERBATIM_CASES}.items()),
    *(pytest.param("litellm", OPENAI, case, id=f"LiteLLM: {name}") for name, case in OPENAI_CASES.items()),
    *(pytest.param("litellm", ANTHROPIC, case, id=f"Anthropic: {name}") for name, case in ANTHROPIC_CASES.items()),
    *(pytest.param("litellm", GEMINI, case, id=f"Google: {name}") for name, case in GEMINI_CASES.items()),
]


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with Stub() as server:
        yield server


async def send(stub: Stub, entry: dict[str, Any], transport: str = "wire", **parameters: Any) -> Result:
    call = Call(Model.model_validate(entry), Endpoint(stub.root, KEY), MESSAGES, {"max_tokens": 100, **parameters})
    if transport == "litellm":
        lite = LiteLLM()
        try:
            return await lite.send(call)
        finally:
            await lite.close()
    async with ProviderWire() as wire:
        return await wire.send(call)


@pytest.mark.parametrize(("transport", "entry", "case"), TABLE)
async def test_what_a_provider_does_is_an_outcome(stub: Stub, transport: str, entry: dict[str, Any], case: Case) -> None:
    stub.response = case.response
    # Only a provider that falls silent is waited for; a busy machine takes longer than a second to load what translates the first call.
    patient = entry if case.response.endswith(HANG) else {**entry, "timeout": 30.0}
    result = await send(stub, patient, transport)
    assert (result.outcome, result.stop, result.permanent) == (case.outcome, case.stop, case.permanent), result.reason
    assert (result.reply.content or None, result.retry_after) == (case.content, case.retry_after)
    assert case.says in result.reason
    assert (result.reason == "") == (result.outcome is Outcome.OK)
    assert len(result.reason) <= 300
    assert "\n" not in result.reason
    assert "topsecret" not in f"{result!r}{result.reply.body!r}"
    assert result.reply.latency_ms is not None
    assert len(stub.asked) == 1, "one call is one request"


@pytest.mark.parametrize(
    ("entry", "response", "reasoning_tokens", "request_id"),
    [
        pytest.param(OPENAI, http(200, chat(content="0.4", reasoning_content="let me see")), None, "chatcmpl-1", id="directly"),
        pytest.param(ANTHROPIC, http(200, anthropic()), None, "msg_1", id="Anthropic"),
        pytest.param(GEMINI, http(200, gemini()), 1500, "r1", id="Google"),
    ],
)
async def test_an_answer_has_its_reasoning_its_usage_and_its_cost(
    stub: Stub, entry: dict[str, Any], response: bytes, reasoning_tokens: int | None, request_id: str
) -> None:
    stub.response = response
    reply = (await send(stub, entry)).reply
    assert (reply.content, reply.reasoning, reply.finish_reason, reply.http_status) == ("0.4", "let me see", "stop", 200)
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens) == (1000, 2000, reasoning_tokens)
    dollars_per_million = {"openai": (2.5, 10), "anthropic": (3, 15), "gemini": (1.25, 10)}[Model.model_validate(entry).provider]
    assert (usage.cost, usage.cost_source) == (
        1000 * dollars_per_million[0] + 2000 * dollars_per_million[1],
        CostSource.PRICE_LIST,
    )
    assert reply.request_id == request_id


async def test_cached_tokens_cost_what_reading_from_the_cache_costs(stub: Stub) -> None:
    stub.response = http(200, anthropic(cache_read_input_tokens=4000))
    usage = (await send(stub, ANTHROPIC)).reply.usage
    assert (usage.prompt_tokens, usage.cost) == (5000, 1000 * 3 + 4000 * 3 // 10 + 2000 * 15)


@pytest.mark.parametrize(
    ("entry", "status", "cost", "source"),
    [
        pytest.param(OPENAI, 429, 0, CostSource.UNBILLED, id="turned away"),
        pytest.param(OPENAI, 400, 0, CostSource.UNBILLED, id="refused"),
        pytest.param(OPENAI, 500, None, None, id="failed midway: unknown"),
        pytest.param({**OPENAI, "input_price": 0, "output_price": 0}, 500, 0, CostSource.PRICE_LIST, id="free"),
    ],
)
async def test_a_failure_costs_nothing_only_where_that_is_known(
    stub: Stub, entry: dict[str, Any], status: int, cost: int | None, source: CostSource | None
) -> None:
    stub.response = http(status, openai_error("no"))
    usage = (await send(stub, entry)).reply.usage
    assert (usage.cost, usage.cost_source) == (cost, source)


async def test_nothing_is_billed_where_nothing_was_sent(stub: Stub) -> None:
    gone = Stub()
    async with gone:
        pass
    result = await send(gone, OPENAI)
    assert (result.outcome, result.reply.usage.cost) == (Outcome.PROVIDER_ERROR, 0)
    assert "no connection" in result.reason


@pytest.mark.parametrize("entry", [OPENAI, ANTHROPIC], ids=["directly", "LiteLLM"])
async def test_calls_side_by_side_get_their_own_answers(stub: Stub, entry: dict[str, Any]) -> None:
    def answer(asked: Asked) -> bytes:
        content = asked.json["messages"][0]["content"]
        number = content if isinstance(content, str) else content[0]["text"]
        parts = [{"type": "text", "text": number}]
        body = chat(content=number) if "chat" in asked.line else anthropic(content=parts)
        return http(429 if int(number) % 3 == 0 else 200, body, {"x-request-id": f"request-{number}"})

    stub.answers, stub.delay = answer, 0.05
    model = Model.model_validate({**entry, "timeout": 20.0})
    async with ProviderWire() as wire:
        calls = [
            Call(model, Endpoint(stub.root, KEY), [{"role": "user", "content": str(number)}], {"max_tokens": 9}) for number in range(30)
        ]
        results = await asyncio.gather(*map(wire.send, calls))
    assert [one.reply.request_id for one in results] == [f"request-{number}" for number in range(30)]
    assert [one.outcome is Outcome.OK for one in results] == [number % 3 > 0 for number in range(30)]
    assert [one.reply.content for one in results if one.outcome is Outcome.OK] == [str(number) for number in range(30) if number % 3]


async def test_tools_that_a_model_asks_for_are_handed_on_as_text(stub: Stub) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "submit", "arguments": '{"p": 0.4, "why": "__import__(\'os\')"}'}}
    stub.response = http(200, chat("tool_calls", tool_calls=[called]))
    direct = await send(stub, OPENAI)
    stub.response = http(200, anthropic("tool_use", [{"type": "tool_use", "id": "c1", "name": "submit", "input": {"p": 0.4}}]))
    translated = await send(stub, ANTHROPIC)
    assert [one.outcome for one in (direct, translated)] == [Outcome.OK, Outcome.OK]
    assert direct.tool_calls[0].arguments == '{"p": 0.4, "why": "__import__(\'os\')"}'
    assert (translated.tool_calls[0].name, translated.tool_calls[0].arguments) == ("submit", '{"p": 0.4}')


FORM = {
    "type": "json_schema",
    "json_schema": {"name": "forecast", "strict": True, "schema": {"type": "object", "properties": {"p_yes": {"type": "number"}}}},
}


@pytest.mark.parametrize(
    ("entry", "body"),
    [
        pytest.param(OPENAI, chat(content='{"p_yes":0.4}'), id="directly"),
        pytest.param(ANTHROPIC, anthropic(content=[{"type": "text", "text": '{"p_yes":0.4}'}]), id="Anthropic"),
        pytest.param(
            {**ANTHROPIC, "model": "anthropic/claude-3-5-haiku-20241022"},
            anthropic("tool_use", [{"type": "tool_use", "id": "t", "name": "json_tool_call", "input": {"p_yes": 0.4}}]),
            id="an older model of Anthropic's, by way of a tool",
        ),
        pytest.param(GEMINI, gemini(text='{"p_yes":0.4}'), id="Google"),
    ],
)
async def test_structured_output_is_asked_for_and_comes_as_the_content(stub: Stub, entry: dict[str, Any], body: Any) -> None:
    stub.response = http(200, body)
    result = await send(stub, entry, response_format=FORM)
    assert result.outcome is Outcome.OK
    assert (result.reply.content or "").replace(" ", "") == '{"p_yes":0.4}'
    assert result.tool_calls == ()
    assert b'"p_yes"' in stub.asked[0].body


async def test_a_model_of_the_responses_interface_is_asked_there(stub: Stub) -> None:
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    stub.response = http(
        200,
        {
            "id": "resp_1",
            "object": "response",
            "status": "completed",
            "model": "o3-pro",
            "created_at": 1,
            "tools": [],
            "output": [{**said, "content": [{"type": "output_text", "text": "0.4", "annotations": []}]}],
            "usage": {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150, "output_tokens_details": {"reasoning_tokens": 30}},
        },
    )
    reply = (await send(stub, {**OPENAI, "model": "openai/o3-pro"}, reasoning_effort="high")).reply
    assert stub.asked[0].line.startswith("POST /responses")
    assert (reply.content, reply.usage.reasoning_tokens, reply.usage.cost) == ("0.4", 30, 100 * 20 + 50 * 80)


async def test_reasoning_effort_reaches_anthropic_as_a_budget_of_thinking(stub: Stub) -> None:
    stub.response = http(200, anthropic())
    await send(stub, ANTHROPIC, reasoning_effort="low", max_tokens=4000)
    assert stub.asked[0].json["thinking"]["type"] == "enabled"
    assert stub.asked[0].json["max_tokens"] == 4000


async def test_a_parameter_that_litellm_cannot_translate_is_a_failure_that_cost_nothing(stub: Stub) -> None:
    stub.response = http(200, anthropic())
    result = await send(stub, ANTHROPIC, logit_bias={"1": 1})
    assert (result.outcome, result.permanent, result.reply.usage.cost) == (Outcome.PROVIDER_ERROR, True, 0)
    assert "logit_bias" in result.reason
    assert stub.asked == []


@pytest.mark.parametrize(
    "response", [b"", http(200, b"{", length=500), http(500), http(429)], ids=["no answer", "half a body", "500", "429"]
)
@pytest.mark.parametrize("model", ["nvidia_nim/x", "deepinfra/x", "cerebras/x", "openai/o1-pro"])
async def test_a_request_that_fails_is_sent_once_whatever_client_litellm_takes(stub: Stub, model: str, response: bytes) -> None:
    stub.response = response
    result = await send(stub, {"name": "one", "model": model})
    assert result.outcome in (Outcome.PROVIDER_ERROR, Outcome.RATE_LIMIT)
    assert len(stub.asked) == 1
