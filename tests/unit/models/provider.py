"""The sandbox's model endpoint behind middleware that counts requests and injects faults."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.models.keys import SANDBOX_KEY, Endpoint
from bellwether.models.model import Model
from bellwether.sandbox import Clock, GeneratedWorld, create_app, serve
from bellwether.sandbox.models import Truth
from tests.faulty_server import FaultyServer, at_random, read_body, replay_body


class Doorman:
    """ASGI middleware that counts requests by their prompt.

    `most`: number of requests that are answered; later ones wait until it is None.
    """

    def __init__(self, app: ASGIApp, latency: float = 0.0, most: int | None = None) -> None:
        self._app = app
        self.latency = latency
        self.most = most
        self.asked: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        prompt = json.loads(body)["messages"][-1]["content"]
        self.asked[prompt] += 1
        number = self.total
        await asyncio.sleep(self.latency)
        while self.most is not None and number > self.most:
            await asyncio.sleep(0.01)
        await self._app(scope, replay_body(body, receive), send)

    @property
    def total(self) -> int:
        return sum(self.asked.values())


@contextmanager
def provider(*, rates: dict[str, float] | None = None, latency: float = 0.0, most: int | None = None) -> Iterator[tuple[Doorman, str]]:
    """Serve the endpoint, and yield the middleware with the address."""
    app = create_app(GeneratedWorld(11), truth=Truth(None), clock=Clock(datetime(2026, 4, 1, tzinfo=UTC)))
    doorman = Doorman(FaultyServer(app, at_random(rates or {}, seed=3)), latency, most)
    with serve(doorman) as site:
        yield doorman, site.models


def personality(name: str = "calibrated", **changes: Any) -> Model:
    """Return a model of the sandbox that gives up quickly. It costs a dollar per million tokens."""
    priced = {"input_price": "1", "output_price": "1", "timeout": 10.0, **changes}
    return Model.model_validate({"name": f"sandbox-{name}", "model": f"sandbox/{name}", **priced})


def endpoint_at(url: str, key: str = SANDBOX_KEY) -> Any:
    """Return a function that gives every model this endpoint."""
    return lambda model: Endpoint(url, key)
