"""Names that mean the same model."""

from __future__ import annotations

import polars as pl

from bellwether.registry.model_names import is_requested, named_as_requested

SAME = [
    ("openai/gpt-4o", "gpt-4o-2024-08-06"),
    ("openai/gpt-4o-2024-08-06", "gpt-4o-2024-08-06"),
    ("openai/gpt-4o-2024-08-06", "gpt-4o"),
    ("openai/gpt-4", "gpt-4-0613"),
    ("openai/gpt-3.5-turbo", "gpt-3.5-turbo-0125"),
    ("openai/o1", "o1-2024-12-17"),
    ("openrouter/openai/gpt-4o", "openai/gpt-4o-2024-11-20"),
    ("openrouter/deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
    ("anthropic/claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
    ("vertex_ai/claude-3-5-sonnet@20240620", "claude-3-5-sonnet-20240620"),
    ("gemini/gemini-1.5-pro", "models/gemini-1.5-pro-002"),
    ("mistral/mistral-large-latest", "mistral-large-2411"),
    ("xai/grok-2", "grok-2-1212"),
    ("together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    ("fireworks_ai/accounts/fireworks/models/llama-v3p1-8b-instruct", "accounts/fireworks/models/llama-v3p1-8b-instruct"),
    ("ollama/llama3.1", "llama3.1:latest"),
    ("sandbox/calibrated", "calibrated"),
]
OTHERS = [
    ("openai/gpt-4o", "gpt-4o-mini-2024-07-18"),
    ("openai/gpt-4o", "gpt-4"),
    ("openai/gpt-4", "gpt-4-32k-0613"),
    ("openai/gpt-4", "gpt-4-1106-preview"),
    ("openai/gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
    ("anthropic/claude-sonnet-4", "claude-sonnet-4-5-20250929"),
    ("anthropic/claude-3-5-sonnet-latest", "claude-3-7-sonnet-20250219"),
    ("gemini/gemini-1.5-pro-001", "gemini-1.5-pro-002"),
    ("gemini/gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
    ("ollama/llama3.1:8b", "llama3.1:70b"),
    ("openai/llama", "gpt-3.5-turbo"),
]


def test_a_snapshot_is_the_requested_model_and_another_model_is_not() -> None:
    assert [pair for pair in SAME if not is_requested(*pair)] == []
    assert [pair for pair in OTHERS if is_requested(*pair)] == []


def test_rows_without_a_name_are_not_judged() -> None:
    rows = pl.DataFrame({"model": ["a/b", "a/b", None, "a/b"], "served_model": ["b", "c", "b", None]})
    assert rows.select(named_as_requested().alias("same"))["same"].to_list() == [True, False, None, None]
