"""Finish reasons as the providers' own documents spell them."""

from __future__ import annotations

import pytest

from bellwether.models.ending import Ending, ending_of

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
    assert ending_of(CUT[provider]) is Ending.CUT


def test_other_words_are_what_they_say() -> None:
    assert {ending_of(word) for word in NORMAL} == {Ending.NORMAL}
    assert {ending_of(word) for word in FILTERED} == {Ending.FILTERED}
    assert {ending_of(word) for word in ("error", "abort", "MALFORMED_FUNCTION_CALL", "network_error")} == {Ending.BROKEN}


@pytest.mark.parametrize("word", [None, "", " ", "null", "banana", "FINISH_REASON_UNSPECIFIED", "stop \udfff", "OTHER"])
def test_an_unknown_or_missing_word_is_no_normal_ending(word: str | None) -> None:
    assert ending_of(word) is Ending.UNKNOWN
