"""Recorded answers of venues and models: recorded from an ASGI application, and returned for equal requests."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from bellwether.sandbox.exchange.keys import KeyRing
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Headers that do not change the meaning of an answer.
_OF_THE_TRANSPORT = ("content-length", "server", "connection")
#: Parts of a chat request that determine the answer. Transports may add others.
_OF_A_CHAT = ("model", "messages", "seed", "n", "tools", "response_format")


def request_key(scope: Scope, body: bytes) -> str:
    """Return the key of a request: method, path, parameters, and a digest of the body."""
    query = urlencode(sorted(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)))
    key = f"{scope['method']} {scope['path']}" + (f"?{query}" if query else "")
    if not body:
        return key
    whole = json.loads(body)
    if isinstance(whole, dict) and "messages" in whole:
        whole = {name: whole[name] for name in _OF_A_CHAT if whole.get(name) is not None}
    return f"{key} {hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:24]}"


class Recorder:
    """Application that records its answers. Raises `ValueError` if equal requests have different answers."""

    def __init__(self, app: ASGIApp, answers: dict[str, dict[str, Any]]) -> None:
        self._app, self._answers = app, answers
        self.state = app.state  # type: ignore[attr-defined]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer like the application, and record the answer."""
        body = await _body(receive)
        status, headers, chunks = 0, {}, []

        async def note(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                every = {name.decode().lower(): value.decode() for name, value in message["headers"]}
                headers = {name: value for name, value in every.items() if name not in _OF_THE_TRANSPORT}
            elif message["type"] == "http.response.body":
                chunks.append(message.get("body", b""))
            await send(message)

        await self._app(scope, _again(body), note)
        answer = {"status": status, "headers": headers, "body": b"".join(chunks).decode()}
        name = request_key(scope, body)
        if self._answers.setdefault(name, answer) != answer:
            raise ValueError(f"recording {name}: it was answered in two ways")


class Player:
    """Application that returns recorded answers. `unknown` lists requests without one."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self._answers = answers
        self.unknown: list[str] = []
        self.state = SimpleNamespace(keys=KeyRing())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the recorded answer, or HTTP 400."""
        name = request_key(scope, await _body(receive))
        answer = self._answers.get(name)
        if answer is None:
            self.unknown.append(name)
            answer = {"status": 400, "headers": {}, "body": f"no recorded answer to {name}"}
        body = answer["body"].encode()
        headers = {**answer["headers"], "content-length": str(len(body))}
        await send(
            {
                "type": "http.response.start",
                "status": answer["status"],
                "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
            }
        )
        await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> bytes:
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


def _again(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def save(answers: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Write answers sorted by key, so that equal answers give equal bytes."""
    lines = [json.dumps({"asked": name, **answers[name]}, sort_keys=True, ensure_ascii=False) for name in sorted(answers)]
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Return the answers by key."""
    return {found.pop("asked"): found for found in map(json.loads, lzma.decompress(path.read_bytes()).decode().split("\n"))}
