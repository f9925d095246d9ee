"""A local HTTP server that sends exactly the given bytes, and bodies in the formats of OpenAI, Anthropic and Google."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

HANG = b"<hang>"
KEY = "sk-topsecret-0123456789"


@dataclass
class Asked:
    """A request: its first line, headers in lower case, and body."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def http(status: int, body: Any = b"", headers: dict[str, str] | None = None, *, length: int | None = None) -> bytes:
    """Return an HTTP response. `length`: the stated content length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", "Content-Type: application/json", f"Content-Length: {len(data) if length is None else length}"]
    lines += ["Connection: close", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@dataclass
class Stub:
    """Serve `response`, or the result of `answers`, to every request. After a trailing HANG the connection stays silent."""

    response: bytes = b""
    answers: Callable[[Asked], bytes] | None = None
    asked: list[Asked] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._over = asyncio.Event()
        self.root = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._over.set()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append(Asked(head[0], headers, body))
            response = self.answers(self.asked[-1]) if self.answers else self.response
            writer.write(response.removesuffix(HANG))
            await writer.drain()
            if response.endswith(HANG):
                await self._over.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def chat(finish: str | None = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    """Return a chat completion with this message, of 1,000 and 2,000 tokens."""
    counted = {"prompt_tokens": 1000, "completion_tokens": 2000, "total_tokens": 3000} if usage is None else usage
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": counted}


def openai_error(message: str, code: Any = None, kind: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(stop: str | None = "end_turn", content: Any = None, **usage: int) -> dict[str, Any]:
    """Return a message of Anthropic of 1,000 and 2,000 tokens, with thinking before the answer."""
    parts = [{"type": "thinking", "thinking": "let me see", "signature": "s"}, {"type": "text", "text": "0.4"}]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": parts if content is None else content,
        "stop_reason": stop,
        "usage": {"input_tokens": 1000, "output_tokens": 2000, **usage},
    }


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def gemini(finish: str | None = "STOP", text: str | None = "0.4") -> dict[str, Any]:
    """Return an answer of Google with 1,000 tokens of prompt, 500 of answer, and 1,500 of thoughts counted separately."""
    parts = [{"text": "let me see", "thought": True}, *([{"text": text}] if text is not None else [])]
    counts = {"promptTokenCount": 1000, "candidatesTokenCount": 500, "thoughtsTokenCount": 1500, "totalTokenCount": 3000}
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **({"finishReason": finish} if finish else {})}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-x", "responseId": "r1"}


def responses(
    status: str = "completed", reason: str | None = None, refusal: str | None = None, error: Any = None, output: Any = None
) -> dict[str, Any]:
    """Return a body of OpenAI's Responses interface with 1,000 and 2,000 tokens, with reasoning before the answer."""
    said = {"type": "refusal", "refusal": refusal} if refusal else {"type": "output_text", "text": "0.4", "annotations": []}
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "let me see"}]},
        {"type": "message", "id": "m", "role": "assistant", "status": status, "content": [said]},
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": "served-x",
        "tools": [],
        "output": items if output is None else output,
        "usage": {"input_tokens": 1000, "output_tokens": 2000, "total_tokens": 3000, "output_tokens_details": {"reasoning_tokens": 1500}},
    }


def cohere(finish: str | None) -> dict[str, Any]:
    """Return an answer of Cohere, which does not state the model."""
    return {
        "id": "c1",
        **({"finish_reason": finish} if finish else {}),
        "message": {"role": "assistant", "content": [{"type": "text", "text": "0.4"}]},
        "usage": {"tokens": {"input_tokens": 10, "output_tokens": 5}},
    }


def bedrock(stop: str) -> dict[str, Any]:
    """Return an answer of Bedrock's Converse interface, which does not state the model."""
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": "0.4"}]}},
        "stopReason": stop,
        "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
        "metrics": {"latencyMs": 1},
    }


def gemini_error(code: int, status: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, **more}}
