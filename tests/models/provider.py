"""The sandbox's model endpoint behind middleware that counts requests and injects the fault named in the prompt."""

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
from bellwether.sandbox.faults import Faults, read_body, replay_body
from bellwether.sandbox.models import Truth

_BODIES: dict[str, dict[str, Any]] = {
    "filtered": {"content": None, "finish_reason": "content_filter"},
    "only reasoning": {"content": "", "reasoning_content": "Let me think.", "finish_reason": "length"},
    "empty": {"content": "", "finish_reason": "stop"},
}


class Doorman:
    """ASGI middleware. The prompt `[cut=2] …` selects a fault of the sandbox, and `[empty] …` or similar a complete reply of that kind.

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
        wish = prompt[1 : prompt.index("]")] if prompt.startswith("[") else ""
        if wish in _BODIES:
            await _reply(send, **_BODIES[wish])
            return
        headers = [*scope["headers"], (b"x-sandbox-fault", wish.encode())] if wish else scope["headers"]
        await self._app({**scope, "headers": headers}, replay_body(body, receive), send)

    @property
    def total(self) -> int:
        return sum(self.asked.values())


async def _reply(send: Send, *, finish_reason: str, **message: Any) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}], "usage": usage}
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(whole).encode()})


@contextmanager
def provider(*, rates: dict[str, float] | None = None, latency: float = 0.0, most: int | None = None) -> Iterator[tuple[Doorman, str]]:
    """Serve the endpoint, and yield the middleware with the address."""
    faults = Faults(rates, seed=3, stall_seconds=5.0)
    app = create_app(GeneratedWorld(11), truth=Truth(None), clock=Clock(datetime(2026, 4, 1, tzinfo=UTC)), faults=faults)
    doorman = Doorman(app, latency, most)
    with serve(doorman) as site:
        yield doorman, site.models


def personality(name: str = "calibrated", **changes: Any) -> Model:
    """Return a model of the sandbox that gives up quickly. It costs a dollar per million tokens."""
    priced = {"input_price": "1", "output_price": "1", "timeout": 10.0, **changes}
    return Model.model_validate({"name": f"sandbox-{name}", "model": f"sandbox/{name}", **priced})


def endpoint_at(url: str, key: str = SANDBOX_KEY) -> Any:
    """Return a function that gives every model this endpoint."""
    return lambda model: Endpoint(url, key)
