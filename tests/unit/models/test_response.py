"""Parsing of chat completions in the forms that providers really send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.models.attempt_outcomes import RawReply, classify
from bellwether.models.model import Model
from bellwether.models.response import Ending, parse_ending, read_reply
from tests.models.stub import chat, responses

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
