"""Responses of providers: chat completions in the forms that are really sent, errors and their meaning, requested waits, and costs."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.journal.values import CostSource, Outcome
from bellwether.models.failures import Stop, retry_after, tidy_reason
from bellwether.models.model import Model
from bellwether.models.prices import price_map_version
from bellwether.models.response import AttemptResult, Ending, NextStep, RawReply, classify, decide_next_step, parse_ending, read_reply
from tests.unit.models.stub import anthropic_error, chat, gemini_error, openai_error, responses

MODEL = Model.model_validate({"name": "one", "model": "openai/gpt-4o"})


def read(**message: Any) -> Any:
    return read_reply(json.dumps(chat(**message)).encode())


@pytest.mark.parametrize(
    ("message", "content", "reasoning"),
    [
        pytest.param({"content": "0.4", "reasoning_content": "hm"}, "0.4", "hm", id="reasoning_content"),
        pytest.param({"content": "0.4", "reasoning": "hm"}, "0.4", "hm", id="reasoning"),
        pytest.param({"content": "0.4", "reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}, "0.4", "hm", id="summary"),
        pytest.param({"content": "0.4", "thinking_blocks": [{"type": "thinking", "thinking": "hm"}]}, "0.4", "hm", id="thinking blocks"),
        pytest.param(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "0.4"}]},
            "0.4",
            "hm",
            id="parts of a content",
        ),
        pytest.param({"content": "\n<think>\nhm\n</think>0.4"}, "\n<think>\nhm\n</think>0.4", "hm", id="a block that stays in the content"),
        pytest.param({"content": "so <think>hm</think>"}, "so <think>hm</think>", None, id="a block elsewhere is text"),
        pytest.param({"content": "0.4", "reasoning_details": [{"type": "reasoning.encrypted", "data": "…"}]}, "0.4", None, id="encrypted"),
    ],
)
def test_reasoning_is_found_wherever_providers_put_it(message: dict[str, Any], content: str, reasoning: str | None) -> None:
    found = read(**message)
    assert (found.content, found.reasoning) == (content, reasoning)
    assert found.has_answer


@pytest.mark.parametrize("content", [None, "", "  \n", "<think>hm</think>", "<think>hm</think>\n"])
def test_thoughts_without_an_answer_are_none(content: str | None) -> None:
    assert not read(content=content).has_answer


@pytest.mark.parametrize(
    ("usage", "prompt", "completion", "reasoning", "cached"),
    [
        pytest.param({"prompt_tokens": 5, "completion_tokens": 7}, 5, 7, None, 0, id="plain"),
        pytest.param(
            {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 4}},
            5,
            7,
            4,
            0,
            id="reasoning within the completion (OpenAI)",
        ),
        pytest.param(
            {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 16, "completion_tokens_details": {"reasoning_tokens": 4}},
            5,
            11,
            4,
            0,
            id="reasoning beside the completion (xAI)",
        ),
        pytest.param(
            {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}, 5, 7, None, 3, id="cached"
        ),
        pytest.param({"prompt_tokens": 5, "completion_tokens": 7, "prompt_cache_hit_tokens": 3}, 5, 7, None, 3, id="cached (DeepSeek)"),
        pytest.param({"prompt_tokens": 5.0, "completion_tokens": "7"}, 5, None, None, 0, id="not numbers"),
        pytest.param({"prompt_tokens": -5, "completion_tokens": True}, None, None, None, 0, id="no counts"),
        pytest.param({"prompt_tokens": 10**30, "completion_tokens": 1.5}, None, None, None, 0, id="impossible counts"),
        pytest.param([], None, None, None, 0, id="no usage"),
    ],
)
def test_usage_is_read_as_it_is_counted(usage: Any, prompt: int | None, completion: int | None, reasoning: int | None, cached: int) -> None:
    tokens = read(content="0.4", usage=usage).tokens
    assert (tokens.prompt, tokens.completion, tokens.reasoning, tokens.cached) == (prompt, completion, reasoning, cached)


def test_a_lone_surrogate_or_a_control_sign_spoils_no_answer() -> None:
    body = b'{"choices": [{"message": {"content": "0.4 \\ud83d and \x01"}, "finish_reason": "stop"}], "usage": {"x": NaN}}'
    found = classify(MODEL, RawReply(200, {}, body))
    assert (found.outcome, found.reply.content) == ("ok", "0.4 \ud83d and \x01")


def test_arguments_of_a_tool_that_come_as_an_object_become_text() -> None:
    calls = [{"function": {"name": "submit", "arguments": {"p": 0.4}}}, {"function": {}}, "nonsense"]
    found = read(tool_calls=calls).tool_calls
    assert [(one.id, one.name, one.arguments) for one in found] == [("", "submit", '{"p": 0.4}')]


def test_reasoning_and_signatures_that_providers_want_back_are_kept_as_they_came() -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    calls = [{"id": "1", "function": {"name": "look", "arguments": "{}"}, "extra_content": signature, "index": 0}]
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    found = read(tool_calls=calls, reasoning_content="hm", thinking_blocks=blocks, refusal=None, annotations=[])
    assert found.thoughts == {"reasoning_content": "hm", "thinking_blocks": blocks}
    assert found.tool_calls[0].signed == {"extra_content": signature}


def test_what_was_stored_reads_as_what_was_heard() -> None:
    body = json.dumps(chat(content="0.4", reasoning_content="hm")).encode()
    result = classify(MODEL, RawReply(200, {}, body))
    again = read_reply(result.reply.body)
    assert (again.content, again.reasoning, again.tool_calls) == (result.reply.content, result.reply.reasoning, result.tool_calls)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "error",
                    "usage",
                    "finish_reason",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "reasoning_content",
                    "thinking",
                    "type",
                    "code",
                    "reasoning_details",
                    "refusal",
                    "prompt_tokens",
                    "completion_tokens",
                    "total_tokens",
                    "cost",
                    "text",
                    "id",
                    "status",
                    "metadata",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(whole=JSON, status=st.sampled_from([200, 302, 400, 401, 404, 429, 500]))
def test_no_json_raises(whole: Any, status: int) -> None:
    result = classify(MODEL, RawReply(status, {}, json.dumps(whole).encode()))
    assert status == 200 or result.outcome != "ok"


@given(body=st.binary(max_size=200), status=st.sampled_from([200, 400, 500]))
def test_no_bytes_raise(body: bytes, status: int) -> None:
    classify(MODEL, RawReply(status, {}, body))


def test_json_nested_beyond_all_measure_is_malformed() -> None:
    assert classify(MODEL, RawReply(200, {}, b"[" * 200_000)).outcome == "malformed"


def test_a_megabyte_of_thoughts_is_read_in_one_pass() -> None:
    found = read(content="<think>" + "<" * (1 << 20) + "</think>0.4")
    assert found.has_answer
    assert len(found.reasoning) == 1 << 20


@pytest.mark.parametrize(
    ("said", "native", "found"),
    [
        ("stop", "MAX_TOKENS", "MAX_TOKENS"),
        (None, "end_turn", "end_turn"),
        ("length", "max_tokens", "length"),
        ("stop", "STOP", "stop"),
        ("content_filter", "stop", "content_filter"),
        ("tool_calls", None, "tool_calls"),
        ("stop", "something new", "something new"),
        ("stop", "SAFETY", "SAFETY"),
    ],
)
def test_the_provider_s_own_word_says_more_than_a_gateway_s(said: str | None, native: str | None, found: str) -> None:
    choice = {"message": {"content": "0.4"}, "finish_reason": said, "native_finish_reason": native}
    assert read_reply(json.dumps({"choices": [choice]}).encode()).finish_reason == found


# --- streams that were not requested ----------------------------------------------------------------------------------------


def events(*parts: Any) -> bytes:
    return b": ping\n\n" + b"".join(b"event: x\r\ndata: " + json.dumps(part).encode() + b"\r\n\r\n" for part in parts) + b"data: [DONE]\n\n"


def delta(finish: str | None = None, **parts: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "served-x", "choices": [{"index": 0, "delta": parts, "finish_reason": finish}], "usage": None}


@pytest.mark.parametrize(
    ("body", "outcome", "content", "finish"),
    [
        pytest.param(
            events(delta(role="assistant", content=""), delta(reasoning_content="hm"), delta(content="0."), delta("stop", content="4")),
            "ok",
            "0.4",
            "stop",
            id="parts",
        ),
        pytest.param(events(delta(content="0."), delta(content="4")), "ok", "0.4", None, id="without its end"),
        pytest.param(events(delta("length", content="0.4")), "truncation", "0.4", "length", id="cut"),
        pytest.param(events({**chat(content="0.4"), "model": "served-x"}), "ok", "0.4", "stop", id="one whole completion"),
        pytest.param(events({"type": "response.completed", "response": responses()}), "ok", "0.4", "completed", id="Responses"),
        pytest.param(
            events(delta(content="0."), {"error": {"message": "overloaded"}}), "provider_error", "0.", "error", id="an error at the end"
        ),
        pytest.param(events({"error": {"message": "overloaded"}}), "rate_limit", None, None, id="an error alone"),
        pytest.param(b"data: [DONE]\n\n", "malformed", None, None, id="nothing"),
    ],
)
def test_a_stream_is_read_as_the_completion_that_it_carries(body: bytes, outcome: str, content: str | None, finish: str | None) -> None:
    found = classify(MODEL, RawReply(200, {}, body))
    assert (found.outcome, found.reply.content, found.reply.finish_reason) == (outcome, content, finish)
    assert found.reply.served.model == ("served-x" if content else None)


def test_a_stream_s_usage_reasoning_and_calls_are_joined() -> None:
    calls = [
        [{"index": 0, "id": "1", "function": {"name": "look", "arguments": '{"a"'}}],
        [{"index": 0, "function": {"arguments": ": 1}"}}],
    ]
    parts = [delta(reasoning_content="h"), *(delta(tool_calls=call) for call in calls), delta("tool_calls", reasoning_content="m")]
    found = read_reply(events(*parts, {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}))
    assert [(one.id, one.name, one.arguments) for one in found.tool_calls] == [("1", "look", '{"a": 1}')]
    assert (found.reasoning, found.finish_reason, found.tokens.prompt, found.tokens.completion) == ("hm", "tool_calls", 5, 7)


# --- finish reasons, as the providers' own documents spell them ------------------------------------------------------------

CUT = {
    "OpenAI, vLLM, Ollama": "length",
    "Responses API": "max_output_tokens",
    "Responses API, status": "incomplete",
    "Anthropic, Bedrock": "max_tokens",
    "Anthropic, context": "model_context_window_exceeded",
    "Anthropic, paused": "pause_turn",
    "Gemini": "MAX_TOKENS",
    "Vertex": "FINISH_REASON_MAX_TOKENS",
    "Gemini in Python": "FinishReason.MAX_TOKENS",
    "Cohere": "MAX_TOKENS",
    "Cohere, context": "ERROR_LIMIT",
    "Mistral": "model_length",
    "Titan": "LENGTH",
    "watsonx": "token_limit",
    "watsonx, time": "time_limit",
    "xAI": "REASON_MAX_LEN",
    "xAI, context": "REASON_MAX_CONTEXT",
    "llama.cpp": "limit",
}
NORMAL = (
    "stop",
    "STOP",
    "end_turn",
    "COMPLETE",
    "FINISH",
    "eos_token",
    "stop_sequence",
    "tool_calls",
    "tool_use",
    "REASON_STOP",
    "completed",
)
FILTERED = ("content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "guardrail_intervened", "refusal", "sensitive", "ERROR_TOXIC")


@pytest.mark.parametrize("provider", CUT)
def test_every_provider_s_word_for_a_limit_is_a_cut(provider: str) -> None:
    assert parse_ending(CUT[provider]) is Ending.CUT


def test_other_words_are_what_they_say() -> None:
    assert {parse_ending(word) for word in NORMAL} == {Ending.NORMAL}
    assert {parse_ending(word) for word in FILTERED} == {Ending.FILTERED}
    assert {parse_ending(word) for word in ("error", "abort", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "network_error")} == {
        Ending.BROKEN
    }


@pytest.mark.parametrize("word", [None, "", " ", "null", "banana", "FINISH_REASON_UNSPECIFIED", "stop \udfff", "OTHER"])
def test_an_unknown_or_missing_word_is_no_normal_ending(word: str | None) -> None:
    assert parse_ending(word) is Ending.UNKNOWN


# --- errors ----------------------------------------------------------------------------------------------------------


def judged(status: int, body: Any, headers: dict[str, str] | None = None, model: str = "openai/gpt-4o") -> AttemptResult:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(MODEL.model_copy(update={"model": model}), RawReply(status, headers or {}, data))


@pytest.mark.parametrize(
    ("status", "body", "outcome", "stop"),
    [
        pytest.param(402, {"error": {"message": "Insufficient Balance"}}, "out_of_credit", "out_of_credit", id="DeepSeek"),
        pytest.param(
            403,
            {"code": "permission denied", "error": "Your newly created team doesn't have any credits yet."},
            "out_of_credit",
            "out_of_credit",
            id="xAI without credit",
        ),
        pytest.param(
            412,
            openai_error("Account x is suspended, possibly due to reaching the monthly spending limit"),
            "out_of_credit",
            "out_of_credit",
            id="Fireworks",
        ),
        *(
            pytest.param(status, body, "out_of_credit", "out_of_credit", id=id)
            for id, status, body in (
                ("Anthropic's limit", 400, anthropic_error("invalid_request_error", "You have reached your specified API usage limits.")),
                ("OpenRouter's key", 403, {"error": {"code": 403, "message": "Key limit exceeded (total limit)"}}),
                ("OpenRouter's key within 200", 200, {"error": {"code": 403, "message": "Key limit exceeded (daily limit)"}}),
                ("New API", 403, openai_error("…", "insufficient_user_quota")),
                ("DashScope", 400, openai_error("Access denied, please make sure your account is in good standing.", "Arrearage")),
                ("Moonshot", 429, openai_error("Your account is suspended, please recharge", kind="exceeded_current_quota_error")),
                ("LiteLLM's proxy", 400, openai_error("Budget has been exceeded! Current cost: 1", kind="budget_exceeded")),
                ("OpenAI", 429, openai_error("You exceeded your current quota, please check your plan", "insufficient_quota")),
            )
        ),
        *(
            pytest.param(status, body, "refusal", None, id=id)
            for id, status, body in (
                (
                    "OpenRouter's moderation",
                    403,
                    {
                        "error": {
                            "code": 403,
                            "message": "openai/x requires moderation. Your input was flagged",
                            "metadata": {"reasons": ["x"]},
                        }
                    },
                ),
                ("OpenAI flags", 400, openai_error("Invalid prompt: your prompt was flagged as potentially harmful")),
                ("OpenAI's safety", 403, openai_error("Your request was rejected as a result of our safety system.")),
                (
                    "xAI",
                    403,
                    {
                        "code": "The caller does not have permission to execute the specified operation",
                        "error": "Content violates usage guidelines. Team: T, API key ID: K, Failed check: SAFETY_CHECK_TYPE_BIO",
                    },
                ),
                ("xAI within 200", 200, {"error": "Content violates usage guidelines."}),
                ("DeepSeek", 400, openai_error("Content Exists Risk", "invalid_request_error")),
                ("DashScope inspects", 400, openai_error("DataInspectionFailed", "data_inspection_failed")),
                (
                    "Moonshot filters",
                    400,
                    openai_error("The request was rejected because it was considered high risk", kind="content_filter"),
                ),
                ("Anthropic filters", 400, anthropic_error("invalid_request_error", "Output blocked by content filtering policy")),
                ("Azure", 400, openai_error("…", "content_filter")),
                ("Azure's completion", 400, {**chat("content_filter", content=""), "usage": {"prompt_tokens": 55, "total_tokens": 55}}),
                ("a refusal as a failure", 422, chat(refusal="No.")),
                ("moderation by a proxy", 422, {"detail": "prompt blocked by moderation"}),
            )
        ),
        *(
            pytest.param(status, body, "authentication", "authentication", id=id)
            for id, status, body in (
                ("Anthropic's permission", 403, anthropic_error("permission_error", "You do not have permission to use the resource.")),
                ("a bare refusal of the key", 403, openai_error("Forbidden")),
                (
                    "OpenAI's country",
                    403,
                    openai_error("Country, region, or territory not supported", "unsupported_country_region_territory"),
                ),
                ("Google's country", 400, gemini_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
                ("a closed account", 401, openai_error("Your account was deactivated for violating our policies", "account_deactivated")),
                ("a suspended organization", 400, openai_error("This organization has been disabled.")),
                ("an expired key", 400, openai_error("API key expired. Please renew the API key.")),
            )
        ),
        *(
            pytest.param(status, body, "rate_limit", None, id=id)
            for id, status, body in (
                ("Groq's capacity", 498, openai_error("capacity", kind="capacity_exceeded")),
                ("Anthropic's capacity", 529, anthropic_error("overloaded_error", "Overloaded")),
                ("Bedrock's limit", 400, {"message": "Too many requests, please wait before trying again."}),
                ("Google's old limit", 403, openai_error("Rate Limit Exceeded", "rateLimitExceeded")),
            )
        ),
        pytest.param(503, openai_error("The moderation service is at capacity"), "provider_error", None, id="a service that is down"),
        pytest.param(403, {}, "provider_error", None, id="403 without a reason"),
        pytest.param(403, b"<html>blocked</html>", "provider_error", None, id="403 of a firewall"),
        pytest.param(
            403, openai_error("Project p has no access", "model_not_found"), "provider_error", "unknown_model", id="no right to a model"
        ),
        pytest.param(413, openai_error("Request too large: tokens per minute", "rate_limit_exceeded"), "provider_error", None, id="413"),
        pytest.param(
            400, openai_error("Model Not Exist", "invalid_request_error"), "provider_error", "unknown_model", id="DeepSeek's model"
        ),
        pytest.param(
            400, {"object": "error", "message": "Invalid model: x", "code": "1500"}, "provider_error", "unknown_model", id="Mistral"
        ),
        pytest.param(404, openai_error("No endpoints found for x."), "provider_error", "unknown_model", id="OpenRouter's model"),
        pytest.param(404, b"<html>nothing here</html>", "provider_error", "unknown_model", id="a wrong address"),
        pytest.param(410, openai_error("gone"), "provider_error", "unknown_model", id="a retired model"),
        pytest.param(422, {"detail": [{"msg": "extra"}]}, "provider_error", None, id="a wrong request"),
        pytest.param(400, openai_error("This model's maximum context length is 10 tokens"), "provider_error", None, id="too long a prompt"),
        pytest.param(
            429, openai_error("You exceeded your current quota", "RESOURCE_EXHAUSTED"), "rate_limit", None, id="Google's quota per minute"
        ),
        pytest.param(302, b"", "provider_error", None, id="a redirect"),
        pytest.param(200, {"error": {"code": 429, "message": "slow"}}, "rate_limit", None, id="429 within 200"),
        pytest.param(200, {"error": {"code": 402, "message": "pay"}}, "out_of_credit", "out_of_credit", id="402 within 200"),
        pytest.param(200, {"error": "rate limit reached"}, "rate_limit", None, id="words within 200"),
        pytest.param(
            200, {"choices": [{"error": {"code": 502, "message": "x"}, "message": {"content": ""}}]}, "provider_error", None, id="a choice"
        ),
        pytest.param(200, chat("error", content="half of it"), "provider_error", None, id="an answer that the provider broke off"),
    ],
)
def test_an_error_means_what_the_provider_means(status: int, body: Any, outcome: str, stop: str | None) -> None:
    result = judged(status, body)
    assert (result.outcome, result.stop) == (Outcome(outcome), Stop(stop) if stop else None), result.reason
    step = NextStep.STOP if stop else {"refusal": NextStep.FINAL, "rate_limit": NextStep.AGAIN}.get(outcome)
    assert step in (None, decide_next_step(result))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["account_a", "violates a ", "insufficient_a_", "rate limit ", "api key ", "model ", "free tier "])
def test_an_error_of_a_megabyte_is_classified_in_linear_time(piece: str) -> None:
    judged(400, {"error": {"message": piece * (1_000_000 // len(piece))}})
    judged(400, {"error": piece * 1000 + "_a" * 500_000})


def test_a_request_that_is_wrong_is_permanent_and_a_server_that_fails_is_not() -> None:
    assert judged(422, {}).permanent
    assert judged(302, b"").permanent
    assert not judged(500, {}).permanent
    assert not judged(429, {}).permanent
    assert not judged(409, {}).permanent


def test_an_answer_beside_an_empty_error_is_an_answer() -> None:
    assert judged(200, {**chat(content="0.4"), "error": None}).outcome is Outcome.OK


NOW = {"date": "Sat, 21 Nov 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT", **NOW}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT", **NOW}, 0.0),
        ({"retry-after-ms": "120", "retry-after": "1"}, 0.12),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "50", "x-ratelimit-reset-tokens": "6m"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_what_the_provider_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(429, headers, b"") == seconds


def test_a_reason_is_one_short_line_without_credentials() -> None:
    said = tidy_reason("wrong\n\tkey \x1b[31m my-private-key-value and sk-abcdefgh12345678 " + "x" * 1000, "my-private-key-value")
    assert said.startswith("wrong key [31m *** and *** xxx")
    assert len(said) == 300


def test_a_body_that_repeats_the_key_is_kept_without_it() -> None:
    heard = RawReply(401, {}, b'{"error": {"message": "no such key: my-private-key-value"}}')
    result = classify(MODEL, heard, secret="my-private-key-value")
    assert result.reply.body == b'{"error": {"message": "no such key: ***"}}'


def test_a_key_that_is_a_mere_word_spoils_no_body() -> None:
    heard = RawReply(200, {}, json.dumps(chat(content="EMPTY")).encode())
    assert classify(MODEL, heard, secret="EMPTY").reply.content == "EMPTY"


@pytest.mark.parametrize(
    ("model", "usage", "cost", "source"),
    [
        pytest.param("openrouter/openai/x", {"cost": 0.00123456}, 1235, CostSource.PROVIDER, id="OpenRouter"),
        pytest.param(
            "openrouter/openai/x",
            {"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}},
            21_000,
            CostSource.PROVIDER,
            id="OpenRouter with the user's own key",
        ),
        pytest.param("openrouter/openai/x", {"cost": 0}, 0, CostSource.PROVIDER, id="a free model of OpenRouter's"),
        pytest.param("openrouter/unheard/of", {"cost": "dear"}, None, None, id="no number"),
        pytest.param("xai/grok-4", {"cost_in_usd_ticks": 37_756_000}, 3776, CostSource.PROVIDER, id="xAI"),
        pytest.param("perplexity/x", {"cost": {"total_cost": 0.006}}, 6000, CostSource.PROVIDER, id="Perplexity"),
        pytest.param("openai/gpt-4o", {"cost": 99}, 12_500, CostSource.PRICE_LIST, id="a number that means nothing"),
        pytest.param("openai/unheard-of", {}, None, None, id="no price: unknown, not 0"),
    ],
)
def test_a_cost_is_the_providers_own_report_where_there_is_one(model: str, usage: dict[str, Any], cost: int | None, source: Any) -> None:
    counted = {"prompt_tokens": 1000, "completion_tokens": 1000, **usage}
    found = judged(200, chat(content="0.4", usage=counted), model=model).reply.usage
    assert (found.cost, found.cost_source) == (cost, source)
    assert found.price_list == (price_map_version() if source is CostSource.PRICE_LIST else None)


def test_a_cost_by_the_prices_of_the_registry_names_them() -> None:
    model = MODEL.model_copy(update={"input_price": Decimal("2.5"), "output_price": Decimal(10)})
    usage = classify(model, RawReply(200, {}, json.dumps(chat(content="0.4")).encode())).reply.usage
    assert (usage.cost, usage.price_list) == (22_500, "registry: 2.5 in, 10 out")


@pytest.mark.parametrize("model", ["openai/gpt-4o", "xai/grok-4"])
@pytest.mark.parametrize(
    "usage", [{"completion_tokens": 2**61}, {"total_tokens": 2**62 - 1}, {"cost_in_usd_ticks": 10**40, "total_tokens": 2**62 - 1}]
)
def test_a_usage_beyond_belief_has_an_unknown_cost_and_loses_no_answer(model: str, usage: dict[str, Any]) -> None:
    found = judged(200, chat(content="0.4", usage={"prompt_tokens": 1000, "completion_tokens": 1000, **usage}), model=model)
    assert (found.outcome, found.reply.content) == (Outcome.OK, "0.4")
    assert (found.reply.usage.cost, found.reply.usage.cost_source) == (None, None)


@pytest.mark.parametrize("status", [301, 307, 308])
@pytest.mark.parametrize("setting", ["api_base in models.toml", "OPENAI_API_BASE or OPENAI_BASE_URL"])
def test_a_redirect_names_its_address_and_the_setting_to_correct(status: int, setting: str) -> None:
    own = MODEL.model_copy(update={"model": "openai/gpt-4o", "api_base": "http://a.example/v1" if "toml" in setting else None})
    found = classify(own, RawReply(status, {"location": "https://user:hidden@b.example/v1/chat?token=hidden#x"}))
    assert (found.outcome, found.permanent, found.reply.usage.cost) == (Outcome.PROVIDER_ERROR, True, 0)
    assert found.reason == (
        f"HTTP {status}: a redirect, which is not followed; correct the base address ({setting}). It names https://b.example/v1/chat"
    )


@pytest.mark.parametrize("target", ["//[b", "/v1\x1b[2J\n" + "x" * 9999, "?token=hidden", "//user:hidden@b.example/v1"])
def test_a_strange_redirect_is_one_short_line_without_credentials(target: str) -> None:
    reason = classify(MODEL, RawReply(307, {"location": target})).reason
    assert reason.startswith("HTTP 307: a redirect, which is not followed; correct the base address (")
    assert reason.isprintable()
    assert len(reason) <= 300
    assert "hidden" not in reason
