"""Transport of model calls over a local HTTP server: sent bytes, recorded replies, and the outcome of each response."""

from __future__ import annotations

import asyncio
import gzip
import json
import platform
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from bellwether.journal.values import CostSource, Outcome
from bellwether.models.failures import Stop
from bellwether.models.keys import SANDBOX_KEY, Endpoint
from bellwether.models.model import Model
from bellwether.models.response import AttemptResult, Ending, parse_ending
from bellwether.models.transport import LARGEST_BODY, ModelCall, ProviderWire, chat_completions, load_litellm
from tests.shared import until
from tests.unit.models.stub import (
    HANG,
    KEY,
    Asked,
    Stub,
    anthropic,
    anthropic_error,
    bedrock,
    chat,
    cohere,
    gemini,
    gemini_error,
    http,
    openai_error,
    responses,
)

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "rain?"}]
OPENAI = {"name": "one", "model": "openai/gpt-4o", "timeout": 30.0}
ANTHROPIC = {"name": "one", "model": "anthropic/claude-sonnet-4-5-20250929", "timeout": 30.0}
GEMINI = {"name": "one", "model": "gemini/gemini-2.5-pro", "timeout": 30.0}
RESPONSES = {"name": "one", "model": "openai/o3-pro", "timeout": 30.0}


@pytest.fixture(autouse=True)
def _loaded() -> None:
    load_litellm()
    platform.processor()  # the first call of OpenAI's client starts `uname` for this


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with Stub(http(200, chat(content="0.4"))) as server:
        yield server


def make_model(**fields: Any) -> Model:
    return Model.model_validate({**OPENAI, **fields})


async def send(
    stub: Stub | str, entry: dict[str, Any] | Model = OPENAI, key: str | None = KEY, messages: Any = MESSAGES, **parameters: Any
) -> AttemptResult:
    model = entry if isinstance(entry, Model) else Model.model_validate(entry)
    async with ProviderWire() as wire:
        return await wire.send(ModelCall(model, Endpoint(stub if isinstance(stub, str) else stub.root, key), messages, parameters))


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_the_request_contains_what_the_call_states_and_nothing_else(stub: Stub) -> None:
    await send(stub.root + "/v1/", temperature=0.7, seed=3, top_p=None, min_p=0.1, reasoning_effort="low")
    asked = stub.asked[0]
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    parameters = {"temperature": 0.7, "seed": 3, "min_p": 0.1, "reasoning_effort": "low"}
    assert asked.json == {"model": "gpt-4o", "messages": MESSAGES, **parameters}


async def test_reasoning_tools_and_odd_text_are_sent_verbatim(stub: Stub) -> None:
    odd = "a lone \ud83d surrogate, a \x00 and </script>"
    calls = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": {"google": {"s": "c2ln"}}}]
    assistant = {
        "role": "assistant",
        "content": None,
        "tool_calls": calls,
        "reasoning_content": "hm",
        "thinking_blocks": [{"thinking": "x"}],
    }
    messages = [MappingProxyType({"role": "user", "content": odd}), assistant, {"role": "tool", "tool_call_id": "1", "content": "rain"}]
    tools = [
        {"type": "function", "function": {"name": "look", "strict": True, "parameters": {"type": "object", "additionalProperties": False}}}
    ]
    assert (await send(stub, messages=messages, tools=tools)).outcome is Outcome.OK
    assert stub.asked[0].json["messages"] == [dict(message) for message in messages]
    assert stub.asked[0].json["tools"] == tools


async def test_without_a_key_none_is_sent(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    await send(stub, make_model(api_base=stub.root), None)
    assert "authorization" not in stub.asked[0].headers


async def test_the_key_of_the_entry_precedes_one_in_the_address(stub: Stub) -> None:
    address = stub.root.replace("http://", "http://user:hidden@")
    await send(address)
    await send(address, key=None)
    assert [asked.headers["authorization"] for asked in stub.asked] == [f"Bearer {KEY}", "Basic dXNlcjpoaWRkZW4="]


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("openai/gpt-5.2", {"max_completion_tokens", "seed"}),
        ("together_ai/meta-llama/Llama", {"max_tokens", "seed"}),
        ("mistral/mistral-large-latest", {"max_tokens", "random_seed"}),
    ],
)
async def test_parameters_have_the_names_of_the_interface(stub: Stub, model: str, names: set[str]) -> None:
    await send(stub, make_model(model=model), max_tokens=100, seed=1)
    sent = stub.asked[0].json
    assert sent.keys() - {"model", "messages"} == names
    assert sent["model"] == model.partition("/")[2]


@pytest.mark.parametrize(
    ("fields", "base"),
    [
        ({"model": "openai/gpt-4o"}, "https://api.openai.com/v1"),
        ({"model": "fireworks_ai/accounts/fireworks/models/x"}, "https://api.fireworks.ai/inference/v1"),
        ({"model": "anthropic/claude-x", "api_base": "http://127.0.0.1:1/v1"}, "http://127.0.0.1:1/v1"),
        ({"model": "anthropic/claude-x"}, None),
        ({"model": "cohere/command-r"}, None),
        ({"model": "openai/o3-pro"}, None),
    ],
)
def test_endpoints_of_openai_s_form_are_asked_verbatim(fields: dict[str, Any], base: str | None) -> None:
    assert chat_completions(make_model(**fields), Endpoint(None)) == base


@pytest.mark.nightly
def test_the_verbatim_providers_are_those_for_which_litellm_too_uses_openais_form() -> None:
    from bellwether.models.providers import PROVIDERS

    litellm = load_litellm()

    def speaks_openai(provider: str) -> bool:
        config = litellm.utils.ProviderConfigManager.get_provider_chat_config("some-model", litellm.LlmProviders(provider))
        return isinstance(config, litellm.OpenAIGPTConfig)

    taken = {one.prefix for one in PROVIDERS if chat_completions(make_model(model=f"{one.prefix}/some-model"), Endpoint(None))}
    assert taken == {one.prefix for one in PROVIDERS if speaks_openai(one.prefix)}
    assert len(taken) >= 9


async def test_a_key_is_not_carried_to_where_a_redirect_points(stub: Stub) -> None:
    async with Stub(http(200, chat(content="0.4"))) as other:
        stub.response = http(307, b"", {"Location": other.root})
        result = await send(stub)
        assert (result.outcome, result.permanent, other.asked) == (Outcome.PROVIDER_ERROR, True, [])


# --- one request per attempt -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", [b"", http(500)], ids=["none", "500"])
@pytest.mark.parametrize("model", ["openai/gpt-4o", "openai/o1-pro", "anthropic/claude-x", "azure/x", "nvidia_nim/x", "cohere/x"])
async def test_a_request_that_fails_is_sent_once_whatever_client_litellm_takes(stub: Stub, model: str, response: bytes) -> None:
    stub.response = response
    result = await send(stub, make_model(model=model))
    assert result.outcome in (Outcome.PROVIDER_ERROR, Outcome.RATE_LIMIT), result.reason
    assert len(stub.asked) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://no-such-host.invalid/v1", "ftp://127.0.0.1/v1", "nonsense"])
async def test_nothing_is_billed_if_there_was_no_connection(address: str) -> None:
    result = await send(address)
    assert (result.outcome, result.unreachable, result.reply.usage.cost) == (Outcome.PROVIDER_ERROR, True, 0)
    assert "no connection" in result.reason


# --- status, headers and body ----------------------------------------------------------------------------------------


async def test_the_body_of_an_answer_is_kept_byte_for_byte(stub: Stub) -> None:
    body = b' {"choices" : [{"message": {"content": "0.4\\u00e9"}}], "usage":null}\n'
    stub.response = http(200, body, {"x-request-id": "r-1"})
    reply = (await send(stub)).reply
    assert (reply.body, reply.http_status, reply.request_id) == (body, 200, "r-1")


@pytest.mark.parametrize("model", ["anthropic/x", "gemini/x", "azure/x", "nvidia_nim/x", "bedrock/meta.llama3-8b-instruct-v1:0"])
async def test_status_headers_and_body_of_a_failure_are_the_providers(stub: Stub, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "x")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    stub.response = http(429, openai_error("slow down"), {"x-request-id": "r-1", "retry-after": "7"})
    result = await send(stub, make_model(model=model), max_tokens=9)
    reply = result.reply
    assert (json.loads(reply.body), reply.http_status, reply.request_id) == (openai_error("slow down"), 429, "r-1")
    assert (result.outcome, result.retry_after) == (Outcome.RATE_LIMIT, 7.0)


async def test_the_part_of_a_broken_body_is_kept(stub: Stub) -> None:
    whole = json.dumps(chat(content="0.4")).encode()
    stub.response = http(200, whole[:50], length=len(whole))
    result = await send(stub)
    assert (result.outcome, result.reply.body, result.reply.http_status) == (Outcome.PROVIDER_ERROR, whole[:50], 200)
    assert "broke" in result.reason


async def test_an_answer_of_a_megabyte_passes_also_packed(stub: Stub) -> None:
    text = "long " * 210_000
    for body, headers in (
        (json.dumps(chat(content=text)).encode(), {}),
        (gzip.compress(json.dumps(chat(content=text)).encode()), {"Content-Encoding": "gzip"}),
    ):
        stub.response = http(200, body, headers)
        result = await send(stub)
        assert (result.outcome, result.reply.content) == (Outcome.OK, text)


@cache
def bomb() -> bytes:
    """Return a quarter of a gigabyte, compressed."""
    return gzip.compress(bytes(1 << 28), 1)


@pytest.mark.parametrize("entry", [OPENAI, ANTHROPIC], ids=["OpenAI", "Anthropic"])
@pytest.mark.parametrize("packed", [False, True], ids=["endless", "gzip bomb"])
async def test_a_huge_body_is_cut_at_the_cap_with_bounded_memory(stub: Stub, entry: dict[str, Any], packed: bool) -> None:
    if packed:
        stub.response = http(200, bomb(), {"Content-Encoding": "gzip"})
    else:
        stub.response = http(200, b"x" * (LARGEST_BODY + 100_000), length=1 << 40)
    tracemalloc.start()
    try:
        result = await send(stub, entry)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.outcome is Outcome.MALFORMED
    assert "more than 8 MB" in result.reason
    assert len(result.reply.body) == 100_000
    assert peak < 4 * LARGEST_BODY


@pytest.mark.parametrize("entry", [OPENAI, ANTHROPIC], ids=["OpenAI", "Anthropic"])
async def test_concurrent_calls_get_their_own_answers(stub: Stub, entry: dict[str, Any]) -> None:
    def answer(asked: Asked) -> bytes:
        content = asked.json["messages"][0]["content"]
        number = content if isinstance(content, str) else content[0]["text"]
        parts = [{"type": "text", "text": number}]
        body = chat(content=number) if "chat" in asked.line else anthropic(content=parts)
        return http(429 if int(number) % 3 == 0 else 200, body, {"x-request-id": f"request-{number}"})

    stub.answers = answer
    model = Model.model_validate(entry)
    async with ProviderWire() as wire:
        calls = [
            ModelCall(model, Endpoint(stub.root, KEY), [{"role": "user", "content": str(number)}], {"max_tokens": 9})
            for number in range(30)
        ]
        results = await asyncio.gather(*map(wire.send, calls))
    assert [one.reply.request_id for one in results] == [f"request-{number}" for number in range(30)]
    assert [one.reply.content for one in results if one.outcome is Outcome.OK] == [str(number) for number in range(30) if number % 3]


async def test_cancelling_is_passed_on(stub: Stub) -> None:
    stub.response = HANG
    task = asyncio.create_task(send(stub))
    await until(lambda: stub.asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# --- outcomes, in three formats --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    outcome: Outcome
    response: bytes
    stop: Stop | None = None
    permanent: bool = False
    retry_after: float | None = None
    content: str | None = None
    says: str = ""


#: The same for every format. Outcomes of Anthropic and Google pass through LiteLLM equally.
BROKEN = {
    "web page": Case(Outcome.MALFORMED, http(200, b"<html>maintenance</html>"), says="a web page"),
    "broken JSON": Case(Outcome.MALFORMED, http(200, b'{"choices": [{"mess'), says="no JSON"),
    "empty body": Case(Outcome.MALFORMED, http(200, b""), says="an empty body"),
    "gateway page": Case(Outcome.PROVIDER_ERROR, http(503, b"<html>busy</html>", {"retry-after": "2"}), retry_after=2.0, says="HTTP 503"),
    "silence": Case(Outcome.TIMEOUT, http(200, chat(content="0.4"), length=9999) + HANG, says="0.5 seconds"),
    "cut connection": Case(Outcome.PROVIDER_ERROR, http(200, chat(content="0.4"), length=9999), says="broke"),
    "no answer at all": Case(Outcome.PROVIDER_ERROR, b"", says="broke"),
    "no gzip": Case(Outcome.MALFORMED, http(200, b"{}", {"Content-Encoding": "gzip"}), says="cannot be unpacked"),
}
OPENAI_CASES = {
    "answer": Case(Outcome.OK, http(200, chat(content="0.4")), content="0.4"),
    "wrong key": Case(
        Outcome.AUTHENTICATION,
        http(401, openai_error(f"Incorrect API key provided: {KEY}", "invalid_api_key")),
        Stop.AUTHENTICATION,
        permanent=True,
        says="HTTP 401: the key was refused",
    ),
    "rate limit in milliseconds": Case(Outcome.RATE_LIMIT, http(429, openai_error("slow"), {"retry-after-ms": "1500"}), retry_after=1.5),
    "error in the answer": Case(Outcome.PROVIDER_ERROR, http(200, openai_error("upstream is down", 502)), says="upstream is down"),
    "no choices": Case(Outcome.MALFORMED, http(200, {**chat(content="x"), "choices": []}), says="no choices"),
    "cut at the limit": Case(Outcome.TRUNCATION, http(200, chat("length", content="half of")), content="half of", says="2000"),
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
    "overloaded": Case(Outcome.RATE_LIMIT, http(529, anthropic_error("overloaded_error", "Overloaded")), says="HTTP 529"),
    "another form": Case(Outcome.MALFORMED, http(200, {"type": "message", "content": []})),
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
    "rate limit": Case(
        Outcome.RATE_LIMIT,
        http(429, gemini_error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", details=[{"retryDelay": "37s"}])),
        retry_after=37.0,
    ),
}
TABLE = [
    pytest.param(entry, case, id=f"{format}: {name}")
    for format, entry, cases in (
        ("OpenAI", OPENAI, OPENAI_CASES),
        ("Anthropic", ANTHROPIC, ANTHROPIC_CASES),
        ("Google", GEMINI, GEMINI_CASES),
    )
    for name, case in {**cases, **({} if format == "Google" else BROKEN)}.items()
]


@pytest.mark.parametrize(("entry", "case"), TABLE)
async def test_each_response_has_its_outcome(stub: Stub, entry: dict[str, Any], case: Case) -> None:
    stub.response = case.response
    # Only a silent provider is waited for. On a busy machine the first call of a kind takes more than a second.
    result = await send(stub, {**entry, "timeout": 0.5} if case.response.endswith(HANG) else entry, max_tokens=100)
    assert (result.outcome, result.stop, result.permanent) == (case.outcome, case.stop, case.permanent), result.reason
    assert (result.reply.content or None, result.retry_after) == (case.content, case.retry_after)
    assert case.says in result.reason
    assert (result.reason == "") == (result.outcome is Outcome.OK)
    assert len(result.reason) <= 300
    assert "\n" not in result.reason
    assert "topsecret" not in f"{result!r}{result.reply.body!r}"
    assert result.reply.latency_ms is not None
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("entry", "response", "reasoning_tokens", "request_id", "cost"),
    [
        pytest.param(OPENAI, chat(content="0.4", reasoning_content="let me see"), None, "chatcmpl-1", 1000 * 2.5 + 2000 * 10, id="OpenAI"),
        pytest.param(ANTHROPIC, anthropic(), None, "msg_1", 1000 * 3 + 2000 * 15, id="Anthropic"),
        pytest.param(GEMINI, gemini(), 1500, "r1", 1000 * 1.25 + 2000 * 10, id="Google"),
        pytest.param(RESPONSES, responses(), 1500, "resp_1", 1000 * 20 + 2000 * 80, id="Responses"),
    ],
)
async def test_an_answer_has_its_reasoning_its_usage_and_its_cost(
    stub: Stub, entry: dict[str, Any], response: Any, reasoning_tokens: int | None, request_id: str, cost: float
) -> None:
    stub.response = http(200, response)
    reply = (await send(stub, entry, max_tokens=100)).reply
    assert (reply.content, reply.reasoning, reply.http_status) == ("0.4", "let me see", 200)
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens) == (1000, 2000, reasoning_tokens)
    assert (usage.cost, usage.cost_source, reply.request_id) == (cost, CostSource.PRICE_LIST, request_id)


async def test_cached_tokens_cost_what_reading_from_the_cache_costs(stub: Stub) -> None:
    stub.response = http(200, anthropic(cache_read_input_tokens=4000))
    usage = (await send(stub, ANTHROPIC, max_tokens=100)).reply.usage
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


async def test_tools_that_a_model_asks_for_are_handed_on_as_text(stub: Stub) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "submit", "arguments": '{"p": 0.4, "why": "__import__(\'os\')"}'}}
    stub.response = http(200, chat("tool_calls", tool_calls=[called]))
    verbatim = await send(stub, OPENAI)
    stub.response = http(200, anthropic("tool_use", [{"type": "tool_use", "id": "c1", "name": "submit", "input": {"p": 0.4}}]))
    translated = await send(stub, ANTHROPIC, max_tokens=100)
    assert [one.outcome for one in (verbatim, translated)] == [Outcome.OK, Outcome.OK]
    assert verbatim.tool_calls[0].arguments == '{"p": 0.4, "why": "__import__(\'os\')"}'
    assert (translated.tool_calls[0].name, translated.tool_calls[0].arguments) == ("submit", '{"p": 0.4}')


FORM = {
    "type": "json_schema",
    "json_schema": {"name": "forecast", "strict": True, "schema": {"type": "object", "properties": {"p_yes": {"type": "number"}}}},
}


@pytest.mark.parametrize(
    ("entry", "body"),
    [
        pytest.param(OPENAI, chat(content='{"p_yes":0.4}'), id="OpenAI"),
        pytest.param(ANTHROPIC, anthropic(content=[{"type": "text", "text": '{"p_yes":0.4}'}]), id="Anthropic"),
        pytest.param(
            {**ANTHROPIC, "model": "anthropic/claude-3-5-haiku-20241022"},
            anthropic("tool_use", [{"type": "tool_use", "id": "t", "name": "json_tool_call", "input": {"p_yes": 0.4}}]),
            id="an older model of Anthropic's, by way of a tool",
        ),
        pytest.param(GEMINI, gemini(text='{"p_yes":0.4}'), id="Google"),
    ],
)
async def test_structured_output_is_requested_and_comes_as_the_content(stub: Stub, entry: dict[str, Any], body: Any) -> None:
    stub.response = http(200, body)
    result = await send(stub, entry, response_format=FORM, max_tokens=100)
    assert result.outcome is Outcome.OK
    assert (result.reply.content or "").replace(" ", "") == '{"p_yes":0.4}'
    assert result.tool_calls == ()
    assert b'"p_yes"' in stub.asked[0].body


async def test_a_model_of_the_responses_interface_is_asked_there_and_its_body_is_kept(stub: Stub) -> None:
    stub.response = http(200, responses(output=[{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}]))
    result = await send(stub, RESPONSES, reasoning_effort="high")
    assert stub.asked[0].line.startswith("POST /responses")
    assert stub.asked[0].json["reasoning"]["effort"] == "high"
    assert [(one.id, one.name, one.arguments) for one in result.tool_calls] == [("c1", "look", "{}")]
    assert json.loads(result.reply.body)["object"] == "response"


# --- finish reason and served model, on every route --------------------------------------------------------------------

COHERE = {"name": "one", "model": "cohere/command-r", "timeout": 30.0}
BEDROCK = {"name": "one", "model": "bedrock/converse/meta.llama3-8b-instruct-v1:0", "timeout": 30.0}
AZURE = {**OPENAI, "model": "azure/x"}
ENDINGS = [
    pytest.param(entry, body, outcome, ended, served, id=f"{entry['model']}: {id}")
    for entry, served, cases in (
        (
            AZURE,
            "served-x",
            {
                "normal": ({**chat(content="0.4"), "model": "served-x"}, Outcome.OK, True),
                "new": ({**chat("something_new", content="0.4"), "model": "served-x"}, Outcome.OK, False),
                "missing": ({**chat(None, content="0.4"), "model": "served-x"}, Outcome.OK, False),
            },
        ),
        (AZURE, None, {"no model": (chat(content="0.4"), Outcome.OK, True)}),
        (
            RESPONSES,
            "served-x",
            {
                "normal": (responses(), Outcome.OK, True),
                "cut": (responses("incomplete", "max_output_tokens"), Outcome.TRUNCATION, False),
                "cut otherwise": (responses("incomplete", "max_messages"), Outcome.TRUNCATION, False),
                "cut without a reason": (responses("incomplete"), Outcome.TRUNCATION, False),
                "filtered": (responses("incomplete", "content_filter"), Outcome.REFUSAL, False),
                "failed": (responses("failed", error={"code": "server_error", "message": "x"}), Outcome.PROVIDER_ERROR, False),
                "cancelled": (responses("cancelled"), Outcome.PROVIDER_ERROR, False),
                "in progress": (responses("in_progress"), Outcome.OK, False),
                "refused": (responses(refusal="I can't help with that."), Outcome.REFUSAL, True),
            },
        ),
        (
            ANTHROPIC,
            "claude-x",
            {
                "normal": (anthropic(), Outcome.OK, True),
                "context": (anthropic("model_context_window_exceeded"), Outcome.TRUNCATION, False),
                "paused": (anthropic("pause_turn"), Outcome.TRUNCATION, False),
                "new": (anthropic("something_new"), Outcome.OK, False),
                "null": (anthropic(None), Outcome.OK, False),
            },
        ),
        (
            GEMINI,
            "gemini-x",
            {
                "normal": (gemini(), Outcome.OK, True),
                "unspecified": (gemini("FINISH_REASON_UNSPECIFIED"), Outcome.OK, False),
                "malformed": (gemini("MALFORMED_RESPONSE"), Outcome.PROVIDER_ERROR, False),
                "new": (gemini("SOMETHING_NEW"), Outcome.OK, False),
                "missing": (gemini(None), Outcome.OK, False),
            },
        ),
        (
            COHERE,
            None,
            {
                "normal": (cohere("COMPLETE"), Outcome.OK, True),
                "cut": (cohere("MAX_TOKENS"), Outcome.TRUNCATION, False),
                "new": (cohere("SOMETHING_NEW"), Outcome.OK, False),
                "missing": (cohere(None), Outcome.OK, False),
            },
        ),
        (
            BEDROCK,
            None,
            {
                "normal": (bedrock("end_turn"), Outcome.OK, True),
                "context": (bedrock("model_context_window_exceeded"), Outcome.TRUNCATION, False),
                "new": (bedrock("something_new"), Outcome.OK, False),
            },
        ),
    )
    for id, (body, outcome, ended) in cases.items()
]


@pytest.mark.parametrize(("entry", "body", "outcome", "ended", "served"), ENDINGS)
async def test_ending_and_served_model_are_those_of_the_provider(
    stub: Stub,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, Any],
    body: dict[str, Any],
    outcome: Outcome,
    ended: bool,
    served: str | None,
) -> None:
    for variable, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION_NAME", "us-east-1")):
        monkeypatch.setenv(variable, value)
    stub.response = http(200, body)
    result = await send(stub, entry, max_tokens=100)
    assert result.outcome is outcome, result.reason
    assert (parse_ending(result.reply.finish_reason) is Ending.NORMAL) is ended
    assert (result.reply.served.model, result.reply.http_status) == (served, 200)
    assert len(stub.asked) == 1


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


# --- an application in this process ----------------------------------------------------------------------------------


async def ask(application: Any, *, timeout: float = 60.0) -> AttemptResult:
    model = Model.model_validate({"name": "one", "model": "sandbox/calibrated", "timeout": timeout})
    async with ProviderWire(sandbox=httpx.ASGITransport(application)) as wire:
        return await wire.send(ModelCall(model, Endpoint("http://sandbox/v1", SANDBOX_KEY), MESSAGES, {"temperature": 0}))


async def test_an_application_answers_as_over_a_connection() -> None:
    async def answer(scope: Any, receive: Any, reply: Any) -> None:
        asked.append((scope["path"], dict(scope["headers"])[b"authorization"]))
        await reply({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await reply({"type": "http.response.body", "body": json.dumps(chat(content="0.4")).encode()})

    asked: list[tuple[str, bytes]] = []
    result = await ask(answer)
    assert (result.outcome, result.reply.content, result.reply.usage.cost) == (Outcome.OK, "0.4", 0)
    assert asked == [("/v1/chat/completions", f"Bearer {SANDBOX_KEY}".encode())]


async def test_an_application_that_answers_too_late_is_given_up() -> None:
    async def late(*_: Any) -> None:
        await asyncio.Event().wait()

    result = await ask(late, timeout=0.1)
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, "no whole answer in 0.1 seconds")


async def test_an_application_that_fails_is_a_provider_that_fails() -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    result = await ask(broken)
    assert (result.outcome, result.permanent) == (Outcome.PROVIDER_ERROR, False)
    assert "ZeroDivisionError" in result.reason
