"""A provider on loopback whose model ids name the failure: `openai/cut` cuts its answers, `openai/calibrated` works."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from starlette.types import Receive, Scope, Send

from bellwether.sandbox import serve

#: Environment variable of the key for these models, and a key that is easy to find in unwanted places.
VARIABLE = "TEST_MODELS_KEY"
KEY = "sandbox-canary-5d1f0c7e9b"

#: Models that answer each question, and keys that are refused.
MODELS = frozenset({"calibrated", "overconfident", "noisy", "contrarian"})
REFUSED: Mapping[str, tuple[int, str, str]] = MappingProxyType(
    {
        "sandbox-expired": (401, "Your API key has expired.", "expired_api_key"),
        "sandbox-broke": (402, "Insufficient credits.", "insufficient_credits"),
    }
)
#: Faults by model, and how often each request meets them; the answer follows. None: always.
FAULTS: Mapping[str, tuple[str, int | None]] = MappingProxyType(
    {
        "cut": ("cut", None),
        "down": ("down", None),
        "page": ("page", None),
        "storm": ("storm", None),
        "cut-once": ("cut", 1),
        "storm-once": ("storm", 4),
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
    """ASGI application that counts requests by model and prompt. `latency`: seconds per answer."""

    def __init__(self, latency: float = 0.0) -> None:
        self._latency = latency
        self.asked: Counter[tuple[str, str]] = Counter()

    def calls(self, model: str) -> int:
        """Return the number of requests to this model."""
        return sum(count for (name, _), count in self.asked.items() if name == model)

    def most(self, model: str) -> int:
        """Return the count of the most frequent request."""
        return max((count for (name, _), count in self.asked.items() if name == model), default=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chat = json.loads(await _read_body(receive))
        model, prompt = chat["model"], json.dumps(chat["messages"])
        self.asked[model, prompt] += 1
        await asyncio.sleep(self._latency)
        authorization = next((value.decode() for name, value in scope["headers"] if name == b"authorization"), "")
        key = authorization.removeprefix("Bearer ")
        if key in REFUSED or not key.startswith("sandbox-"):
            status, message, code = REFUSED.get(key, (401, "Incorrect API key provided.", "invalid_api_key"))
            await _send(send, status, _error(message, code))
        elif model == "echo":
            await _send(send, 400, _error(f"I do not understand: Authorization: {authorization}", None))
        elif model == "parrot":
            await _send(send, 200, _completion({"content": f"You sent {authorization}. {SURE}"}, "stop"))
        elif model in REPLIES:
            await _send(send, 200, _completion(*REPLIES[model]))
        elif model in FAULTS:
            fault, times = FAULTS[model]
            await _fail(send, fault if times is None or self.asked[model, prompt] <= times else None, prompt)
        elif model in MODELS:
            await _fail(send, None, prompt)
        else:
            await _send(send, 404, _error(f"The model {model} does not exist.", "model_not_found"))


async def _fail(send: Send, fault: str | None, prompt: str) -> None:
    """Send an answer that depends on the prompt, or a fault."""
    digest = sha256(prompt.encode()).digest()
    text = f"<answer>{('yes', 'no')[digest[0] % 2]}</answer><confidence>{50 + digest[1] % 50}</confidence>"
    if fault == "down":
        await _send(send, 500, _error("The service failed.", None))
    elif fault == "storm":
        await _send(send, 429, _error("Slow down.", "rate_limit_exceeded"))
    elif fault == "page":
        await _send(send, 200, b"<html>maintenance</html>")
    else:
        await _send(send, 200, _completion({"content": text}, "stop"), cut=fault == "cut")


async def _read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def _error(message: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def _completion(message: dict[str, Any], finish: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 300, "completion_tokens": 50, "total_tokens": 350}
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}], "usage": usage}


async def _send(send: Send, status: int, content: dict[str, Any] | bytes, *, cut: bool = False) -> None:
    """Send a response. cut: end the connection within the body."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body[: len(body) // 2] if cut else body, "more_body": cut})


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
