"""Costs of calls, compared with LiteLLM's calculator, and their bounds and estimates in advance."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.models.model import Model
from bellwether.models.prices import (
    Tokens,
    compute_max_cost,
    cost,
    count_tokens,
    estimate,
    find_listing,
    price,
    price_map,
    price_map_version,
)

MESSAGES = [{"role": "system", "content": "Forecast."}, {"role": "user", "content": "Will it rain in Paris? " * 20}]
#: LiteLLM's calculator has discounts for these that its map lacks: for cached tokens, and by time of day.
DISCOUNTED = {"fireworks_ai", "deepseek", "tencent"}


def make_model(model: str = "openai/gpt-4o", **fields: Any) -> Model:
    return Model.model_validate({"name": "one", "model": model, **fields})


def test_the_version_names_litellm_and_the_map() -> None:
    assert re.fullmatch(r"litellm \d+\.\d+\.\d+\S* sha256:[0-9a-f]{8}", price_map_version())


@pytest.mark.parametrize(
    ("model", "prompt", "completion"),
    [("openai/gpt-4o", "2.5", "10"), ("anthropic/claude-sonnet-4-5-20250929", "3", "15"), ("gemini/gemini-2.5-pro", "1.25", "10")],
)
def test_prices_are_those_of_the_map(model: str, prompt: str, completion: str) -> None:
    found = price(make_model(model), 1000)
    assert found is not None
    assert (found.prompt * 10**6, found.completion * 10**6) == (Decimal(prompt), Decimal(completion))


def test_a_name_of_another_provider_is_no_price() -> None:
    assert find_listing("openai/gpt-4o")
    assert not find_listing("groq/gpt-4o")
    assert not find_listing("openai/claude-opus-4-5-20251101")
    assert not find_listing("openai/no-such-model")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("prompt", "completion", "reasoning", "cached"), [(1000, 500, 0, 0), (5000, 3000, 2000, 1500), (300_000, 3000, 0, 9)]
)
def test_costs_are_those_of_litellms_own_calculator(prompt: int, completion: int, reasoning: int, cached: int) -> None:
    from bellwether.models.transport import load_litellm

    litellm = load_litellm()
    calculate = litellm.litellm_core_utils.llm_cost_calc.utils.generic_cost_per_token
    usage = litellm.Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details={"cached_tokens": cached},
        completion_tokens_details={"reasoning_tokens": reasoning, "text_tokens": completion - reasoning},
    )
    compared = 0
    for name, entry in price_map().items():
        provider = entry.get("litellm_provider", "")
        if entry.get("mode") != "chat" or provider in DISCOUNTED or not name.startswith(f"{provider}/"):
            continue
        found = price(make_model(name), prompt) if re.fullmatch(r"[a-z0-9_]+/\S+", name) and len(name) < 200 else None
        if found is None:
            continue
        theirs = sum(calculate(model=name, usage=usage, custom_llm_provider=provider))
        assert float(found.of(Tokens(prompt, completion, reasoning, cached)) or 0) == pytest.approx(theirs, rel=1e-9), name
        compared += 1
    assert compared > 800


def test_a_long_prompt_is_charged_at_its_own_price() -> None:
    model = make_model("gemini/gemini-2.5-pro")
    assert cost(model, Tokens(200_000, 0)) == 250_000
    assert cost(model, Tokens(200_001, 0)) == 500_002


def test_prices_in_bands_follow_the_length_of_the_prompt() -> None:
    model = make_model("dashscope/qwen-flash")
    bands = find_listing(model.model)["tiered_pricing"]
    short, long = price(model, 1000), price(model, 300_000)
    assert short is not None
    assert long is not None
    assert [float(short.completion), float(long.completion)] == [band["output_cost_per_token"] for band in bands]


def test_the_registrys_prices_come_before_the_map() -> None:
    model = make_model(input_price="1", output_price="2")
    assert cost(model, Tokens(1_000, 500, cached=900)) == 2_000


def test_what_is_free_costs_nothing_even_where_its_usage_is_not_known() -> None:
    assert cost(make_model("openai/llama", api_base="http://127.0.0.1:1/v1"), Tokens()) == 0


def test_what_is_not_known_is_not_zero() -> None:
    assert cost(make_model("openai/no-such-model"), Tokens(1000, 1000)) is None
    assert cost(make_model(), Tokens(1000, None)) is None
    assert compute_max_cost(make_model("openai/no-such-model"), MESSAGES) is None


@given(
    text=st.text(max_size=300),
    completion=st.integers(0, 4096),
    cached=st.integers(0, 500),
    reasoning=st.integers(0, 4096),
    name=st.sampled_from(
        ["openai/gpt-4o", "anthropic/claude-sonnet-4-5-20250929", "gemini/gemini-2.5-pro", "mistral/mistral-large-latest"]
    ),
)
def test_no_call_costs_more_than_its_bound(text: str, completion: int, cached: int, reasoning: int, name: str) -> None:
    model = make_model(name)
    prompt = len(text.encode("utf-8", "surrogatepass"))  # one token per byte: more than any tokenizer makes
    found = cost(model, Tokens(prompt, completion, reasoning, cached))
    bound = compute_max_cost(model, [{"role": "user", "content": text}])
    assert found is not None
    assert bound is not None
    assert found <= bound


def test_the_bound_counts_tools_and_the_form_of_the_answer() -> None:
    parameters = {"max_tokens": 1}
    plain = compute_max_cost(make_model(), MESSAGES, parameters)
    with_tools = compute_max_cost(make_model(), MESSAGES, {**parameters, "tools": [{"type": "function", "function": {"name": "x" * 1000}}]})
    assert plain is not None
    assert with_tools is not None
    assert with_tools - plain >= 2500


def test_tokens_are_counted_by_a_rule_of_thumb() -> None:
    assert count_tokens([{"role": "user", "content": "x" * 400}]) == 108
    assert count_tokens([{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "assistant", "content": None}]) > 16


def test_an_estimate_adds_up_and_says_what_it_rests_on() -> None:
    model = make_model(max_tokens=8000)
    found = estimate(model, [MESSAGES] * 200, completion_tokens=321.4)
    each = count_tokens(MESSAGES)
    assert (found.calls, found.prompt_tokens, found.completion_tokens) == (200, 200 * each, 200 * 321)
    assert found.expected_cost == 200 * cost(model, Tokens(each, 321))
    assert found.most_cost == 200 * (compute_max_cost(model, MESSAGES) or 0)
    assert found.price_map == price_map_version()


def test_more_reasoning_is_expected_to_cost_more_but_never_more_than_the_limit() -> None:
    efforts = ["low", "medium", "high", "xhigh"]
    costs = [
        estimate(make_model("openai/gpt-5.2", reasoning_effort=effort, max_tokens=32_768), [MESSAGES]).expected_cost or 0
        for effort in efforts
    ]
    assert costs == sorted(set(costs))
    assert estimate(make_model(reasoning_effort="xhigh", max_tokens=100), [MESSAGES]).completion_tokens == 100


def test_an_estimate_without_a_price_is_unknown_and_of_a_free_model_nothing() -> None:
    unknown, free = (estimate(make_model(name), [MESSAGES] * 3) for name in ("openai/no-such-model", "sandbox/calibrated"))
    assert [(one.expected_cost, one.most_cost) for one in (unknown, free)] == [(None, None), (0, 0)]
