"""A provider on loopback: some models answer, `echo` and `parrot` repeat the key, and keys and other models are refused."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from bellwether.sandbox import serve
from tests.unit.models.stub import chat, openai_error

#: Environment variable of the key for these models, and a key that is easy to find in unwanted places.
VARIABLE = "TEST_MODELS_KEY"
KEY = "sandbox-canary-5d1f0c7e9b"

#: Keys that are refused: status, message and code.
REFUSED: Mapping[str, tuple[int, str, str]] = MappingProxyType(
    {
        "sandbox-expired": (401, "Your API key has expired.", "expired_api_key"),
        "sandbox-broke": (402, "Insufficient credits.", "insufficient_credits"),
    }
)
SURE = "<answer>yes</answer><confidence>90</confidence>"
USAGE = {"prompt_tokens": 300, "completion_tokens": 50, "total_tokens": 350}
#: Models that answer each question: their text.
ANSWERS: Mapping[str, str] = MappingProxyType(
    {"calibrated": SURE, "hostile": f"<script>alert(1)</script> '); DROP TABLE calls; -- [x](javascript:1) {SURE}"}
)


class Provider:
    """ASGI application that counts requests by model and prompt, and at once. `latency`: seconds per answer."""

    def __init__(self, latency: float = 0.0) -> None:
        self._latency = latency
        self.asked: Counter[tuple[str, str]] = Counter()
        self.at_once = self.most_at_once = 0

    def calls(self, model: str) -> int:
        """Return the number of requests to this model."""
        return sum(count for (name, _), count in self.asked.items() if name == model)

    def most(self, model: str) -> int:
        """Return the count of the most frequent request."""
        return max((count for (name, _), count in self.asked.items() if name == model), default=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        asked = await request.json()
        self.asked[asked["model"], json.dumps(asked["messages"])] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self._latency)
        self.at_once -= 1
        status, content = _reply(asked["model"], request.headers.get("authorization", ""))
        await JSONResponse(content, status)(scope, receive, send)


def _reply(model: str, authorization: str) -> tuple[int, dict[str, Any]]:
    """Return status and body."""
    key = authorization.removeprefix("Bearer ")
    if key in REFUSED or not key.startswith("sandbox-"):
        status, message, code = REFUSED.get(key, (401, "Incorrect API key provided.", "invalid_api_key"))
        return status, openai_error(message, code)
    if model == "echo":
        return 400, openai_error(f"I do not understand: Authorization: {authorization}")
    if model != "parrot" and model not in ANSWERS:
        return 404, openai_error(f"The model {model} does not exist.", "model_not_found")
    return 200, chat(usage=USAGE, content=ANSWERS.get(model, f"You sent {authorization}. {SURE}"))


@contextmanager
def provider(latency: float = 0.0) -> Iterator[tuple[Provider, str]]:
    """Serve the provider, and yield it with its address."""
    served = Provider(latency)
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
