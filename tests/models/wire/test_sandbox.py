"""The wire against the sandbox's models and its faults, over both transports where it matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bellwether.journal import Outcome
from bellwether.models.keys import SANDBOX_KEY, Endpoint
from bellwether.models.model import Model
from bellwether.models.wire import Call, ProviderWire, Result, Stop
from bellwether.models.wire.litellm import LiteLLM
from bellwether.sandbox import GeneratedWorld, Site, create_app, serve
from bellwether.sandbox.faults import Faults
from bellwether.sandbox.models import Truth

PROMPT = [
    {
        "role": "system",
        "content": "Answer in this form:\n<think>[reasoning]</think>\n<answer>[yes or no]</answer>\n<confidence>[0-100]</confidence>",
    },
    {"role": "user", "content": "Question: Will something happen that no market asks about?"},
]


@pytest.fixture(scope="module")
def world() -> GeneratedWorld:
    return GeneratedWorld(7)


@pytest.fixture(scope="module")
def truth(world: GeneratedWorld) -> Truth:
    return Truth(world)


@pytest.fixture(scope="module")
def site(world: GeneratedWorld, truth: Truth) -> Iterator[Site]:
    with serve(create_app(world, truth=truth)) as served:
        yield served


async def ask(site: Site, name: str, *, key: str = SANDBOX_KEY, times: int = 1, timeout: float = 5.0, **parameters: Any) -> list[Result]:
    model = Model.model_validate({"name": "one", "model": f"sandbox/{name}", "timeout": timeout})
    async with ProviderWire() as wire:
        call = Call(model, Endpoint(site.models, key), PROMPT, parameters)
        return [await wire.send(call) for _ in range(times)]


@pytest.mark.parametrize("transport", ["direct", "litellm"])
async def test_a_personality_answers_thinks_and_costs_nothing(site: Site, transport: str) -> None:
    model = Model.model_validate({"name": "one", "model": "sandbox/overconfident"})
    call = Call(model, Endpoint(site.models, SANDBOX_KEY), PROMPT, {"max_tokens": 500})
    if transport == "direct":
        async with ProviderWire() as wire:
            result = await wire.send(call)
    else:
        lite = LiteLLM()
        result = await lite.send(call)
        await lite.close()
    assert result.outcome is Outcome.OK, result.reason
    assert "<answer>" in (result.reply.content or "")
    assert result.reply.reasoning
    usage = result.reply.usage
    assert usage.cost == 0
    assert 0 < (usage.reasoning_tokens or 0) < (usage.completion_tokens or 0)


async def test_a_refusal_in_its_own_field_is_a_refusal(site: Site) -> None:
    schema = {"type": "object", "properties": {"p_yes": {"type": "number"}}, "required": ["p_yes"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "forecast", "strict": True, "schema": schema}}
    [result] = await ask(site, "refusing", response_format=form)
    assert (result.outcome, result.reply.content) == (Outcome.REFUSAL, None)


async def test_an_answer_that_is_cut_keeps_what_was_said(site: Site) -> None:
    [result] = await ask(site, "calibrated", max_tokens=3)
    assert result.outcome is Outcome.TRUNCATION
    assert result.reply.content


@pytest.mark.parametrize(
    ("name", "key", "outcome", "stop"),
    [
        ("calibrated", "sandbox-broke", Outcome.OUT_OF_CREDIT, Stop.OUT_OF_CREDIT),
        ("calibrated", "sandbox-expired", Outcome.AUTHENTICATION, Stop.AUTHENTICATION),
        ("calibrated", "no-key-of-the-sandbox", Outcome.AUTHENTICATION, Stop.AUTHENTICATION),
        ("unheard-of", SANDBOX_KEY, Outcome.PROVIDER_ERROR, Stop.UNKNOWN_MODEL),
    ],
)
async def test_what_no_further_call_can_mend_stops_the_model(site: Site, name: str, key: str, outcome: Outcome, stop: Stop) -> None:
    [result] = await ask(site, name, key=key)
    assert (result.outcome, result.stop, result.permanent) == (outcome, stop, True)


@pytest.mark.parametrize(
    ("fault", "outcomes"),
    [
        ("storm", {Outcome.RATE_LIMIT}),
        ("status", {Outcome.PROVIDER_ERROR}),
        ("stall", {Outcome.TIMEOUT}),
        ("cut", {Outcome.PROVIDER_ERROR}),
        ("html", {Outcome.MALFORMED}),
        ("expired", {Outcome.AUTHENTICATION}),
        ("credit", {Outcome.OUT_OF_CREDIT}),
    ],
)
async def test_every_fault_of_the_sandbox_is_an_outcome(world: GeneratedWorld, truth: Truth, fault: str, outcomes: set[Outcome]) -> None:
    with serve(create_app(world, truth=truth, faults=Faults({fault: 1.0}, stall_seconds=3.0))) as site:
        results = await ask(site, "calibrated", times=2, timeout=1.0)
    assert {result.outcome for result in results} == outcomes, [result.reason for result in results]
    if fault == "storm":
        assert {result.retry_after for result in results} == {1.0}
