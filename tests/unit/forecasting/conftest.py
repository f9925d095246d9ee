"""Fixtures that query models of the sandbox in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.forecasting import prompt
from bellwether.forecasting.elicitation import Elicitation
from bellwether.sandbox import Clock, GeneratedWorld
from bellwether.sandbox.models import ModelEndpoint, Truth, skill
from bellwether.sandbox.timestamps import to_instant
from bellwether.sandbox.world.model import Market

NOW = datetime(2025, 6, 1, tzinfo=UTC)

Ask = Callable[[str, list[dict[str, str]], Elicitation], str | None]


@pytest.fixture(scope="session")
def world() -> GeneratedWorld:
    return GeneratedWorld(11)


@pytest.fixture(scope="session")
def truth(world: GeneratedWorld) -> Truth:
    return Truth(world)


@pytest.fixture(scope="session")
def markets(world: GeneratedWorld) -> list[Market]:
    """One market of each event of several days."""
    return [event.markets[0] for day in range(60, 90) for event in world.day(day).events]


@pytest.fixture(scope="session")
def stated(truth: Truth) -> Callable[[str, Market], float]:
    """Probability that a model of known skill states for a market."""

    def state(model: str, market: Market) -> float:
        known = truth.by_id(market.ticker, to_instant(NOW))
        assert known is not None
        return skill(model).states(known.probability)

    return state


@pytest.fixture(scope="session")
def ask(truth: Truth) -> Iterator[Ask]:
    """Function that returns a model's answer to messages, or None for a refusal in its own field."""
    app = Starlette(routes=[Mount("/v1", routes=ModelEndpoint(truth, Clock(NOW)).routes())])
    http = httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://sandbox/v1", headers={"Authorization": "Bearer sandbox-key"}
    )

    with asyncio.Runner() as runner:

        def answer(model: str, messages: list[dict[str, str]], elicitation: Elicitation) -> str | None:
            body: dict[str, Any] = {"model": model, "messages": messages, "response_format": prompt.response_format(elicitation)}
            response = runner.run(http.post("/chat/completions", json=body))
            assert response.status_code == 200, response.text
            content: str | None = response.json()["choices"][0]["message"]["content"]
            return content

        yield answer
