"""Models of a generated world whose markets are mostly settled."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.models import Truth
from bellwether.sandbox.models.replies import ModelReply, ReplyWriter
from bellwether.sandbox.models.request import read_request
from bellwether.sandbox.timestamps import to_datetime, to_instant
from bellwether.sandbox.world.model import Market

LATER = datetime(2025, 9, 1, tzinfo=UTC)

SYSTEM = """You are an expert forecaster evaluating prediction market questions.
Given a question and its description, predict whether the outcome will be "yes" or "no".

Be calibrated: if you're 70% confident, you should be correct about 70% of the time on similar questions.

Answer in this form:
<think>[reasoning]</think>
<answer>[yes or no]</answer>
<confidence>[0-100]</confidence>"""


def seed_prompt(market: Market) -> list[dict[str, str]]:
    """Return the benchmark's two messages about a market, and the day of its close."""
    terms, day = market.terms, to_datetime(market.life.closes).date()
    question = f"{terms['title']} — {terms['yes_sub_title']}"
    text = f"Question: {question}\nCloses: {day}\n\nDescription: {terms['rules_primary']}\n\nPredict yes or no."
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


@pytest.fixture(scope="session")
def truth(world: GeneratedWorld) -> Truth:
    """One truth for all tests, so that its index is shared."""
    return Truth(world)


@pytest.fixture(scope="session")
def query_model(truth: Truth) -> Callable[..., ModelReply]:
    """Function that returns a model's answer at an instant, without HTTP."""

    def say(model: str, messages: list[dict[str, Any]], now: datetime = LATER, sample: int = 0, **more: Any) -> ModelReply:
        request = read_request(json.dumps({"model": model, "messages": messages, **more}).encode())
        return ReplyWriter(truth, request, to_instant(now)).reply(sample)

    return say


@pytest.fixture(scope="session")
def market_messages() -> Callable[[Market], list[dict[str, str]]]:
    """Function that returns the benchmark's two messages about a market."""
    return seed_prompt


@pytest.fixture(scope="session")
def settled(world: GeneratedWorld) -> list[Market]:
    """One market per event, chosen independently of its outcome, so that all are independent. Only those that resolved yes or no."""
    events = [event for home in range(60, 190) for event in world.day(home).events if not event.is_combo]
    sample = [event.markets[index % len(event.markets)] for index, event in enumerate(events)]
    return [market for market in sample if market.determination.result in ("yes", "no") and market.life.settled < to_instant(LATER)]
