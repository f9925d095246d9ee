"""A provider on loopback whose model ids name the failure: `openai/cut` cuts its answers, `openai/calibrated` works."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.sandbox import Clock, GeneratedWorld, create_app, serve
from bellwether.sandbox.models import Truth
from tests.faulty_server import FaultyServer, Plan, always, at_first, read_body, replay_body

#: Environment variable of the key for these models, and a key that is easy to find in unwanted places.
VARIABLE = "TEST_MODELS_KEY"
KEY = "sandbox-canary-5d1f0c7e9b"

#: Plans of faults by model.
FAULTS: Mapping[str, Plan] = MappingProxyType(
    {
        "cut": always("cut"),
        "down": always("502"),
        "page": always("html"),
        "storm": always("429"),
        "cut-once": at_first("cut"),
        "storm-once": at_first("429", 4),
    }
)

SURE = "<answer>yes</answer><confidence>90</confidence>"
#: Complete replies by model: the message and the finish reason.
REPLIES: Mapping[str, tuple[dict[str, Any], str]] = MappingProxyType(
    {
        "empty": ({"content": ""}, "stop"),
        "nothing": ({"content": None}, "stop"),
        "filtered": ({"content": None}, "content_filter"),
        "musing": ({"content": "", "reasoning_content": "It may, or it may not."}, "stop"),
        "thinking": ({"content": "", "reasoning_content": "It may, or it may not."}, "length"),
        "megabyte": ({"content": "Let me think. " * 75_000 + SURE}, "stop"),
        "contradicting": ({"content": f"{SURE} On reflection: <answer>no</answer><confidence>80</confidence>"}, "stop"),
        "certain": ({"content": "<answer>yes</answer><confidence>250</confidence>"}, "stop"),
        "vague": ({"content": "<answer>yes</answer><confidence>NaN</confidence>"}, "stop"),
        "hostile": ({"content": f"<script>alert(1)</script> '); DROP TABLE calls; -- [x](javascript:1) {SURE}"}, "stop"),
    }
)


class Provider:
    """ASGI middleware over the sandbox that counts requests by model and prompt. `latency`: seconds per answer."""

    def __init__(self, app: ASGIApp, latency: float = 0.0) -> None:
        self._app = app
        self._faulty = {model: FaultyServer(app, plan) for model, plan in FAULTS.items()}
        self._latency = latency
        self.asked: Counter[tuple[str, str]] = Counter()

    def calls(self, model: str) -> int:
        """Return the number of requests to this model."""
        return sum(count for (name, _), count in self.asked.items() if name == model)

    def most(self, model: str) -> int:
        """Return the count of the most frequent request."""
        return max((count for (name, _), count in self.asked.items() if name == model), default=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        chat = json.loads(body)
        model = chat["model"]
        self.asked[model, json.dumps(chat["messages"])] += 1
        await asyncio.sleep(self._latency)
        if model == "echo":
            key = next(value.decode() for name, value in scope["headers"] if name == b"authorization")
            await _send(send, 400, {"error": {"message": f"I do not understand: Authorization: {key}", "type": "invalid_request_error"}})
        elif model == "parrot":
            key = next(value.decode() for name, value in scope["headers"] if name == b"authorization")
            await _send(send, 200, _completion({"content": f"You sent {key}. {SURE}"}, "stop"))
        elif model in REPLIES:
            await _send(send, 200, _completion(*REPLIES[model]))
        elif model in FAULTS:
            good = json.dumps({**chat, "model": "calibrated"}).encode()
            await self._faulty[model](scope, replay_body(good, receive), send)
        else:
            await self._app(scope, replay_body(body, receive), send)


def _completion(message: dict[str, Any], finish: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 300, "completion_tokens": 50, "total_tokens": 350}
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}], "usage": usage}


async def _send(send: Send, status: int, body: dict[str, Any]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


@contextmanager
def provider(latency: float = 0.0) -> Iterator[tuple[Provider, str]]:
    """Serve the provider, and yield it with its address."""
    served = Provider(create_app(GeneratedWorld(11), truth=Truth(None), clock=Clock(datetime(2026, 4, 1, tzinfo=UTC))), latency)
    with serve(served) as site:
        yield served, site.models


def write_models(folder: Path, url: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write models.toml with entries by name: `model` and other fields. A token costs a millionth of a dollar."""
    folder.mkdir(parents=True, exist_ok=True)
    usual = {"api_base": url, "key_variable": VARIABLE, "input_price": 1, "output_price": 1, "max_tokens": 200}
    text = "".join(
        f"[{name}]\n" + "".join(f"{field} = {json.dumps(value)}\n" for field, value in {**usual, **fields}.items())
        for name, fields in entries.items()
    )
    (folder / "models.toml").write_text(text)
