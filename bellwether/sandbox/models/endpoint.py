"""The model endpoint: OpenAI's chat completions over the sandbox's personalities."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.instants import SECOND, instant
from bellwether.sandbox.models.author import Author, Reply, cut, sample_of
from bellwether.sandbox.models.personalities import PERSONALITIES
from bellwether.sandbox.models.request import BadRequest, ChatRequest, read
from bellwether.sandbox.models.truth import Truth
from bellwether.sandbox.services import OpenAIError, Service, refusal

#: Every token is so many characters.
CHARACTERS_PER_TOKEN = 4
#: Tokens that a message takes beside its text.
TOKENS_PER_MESSAGE = 4
#: A key begins so.
KEY_PREFIX = "sandbox-"

_CHUNK = 80

Body = dict[str, Any]


def tokens(text: str) -> int:
    """Tokens of a text."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def _refused(authorization: str) -> Response | None:
    """The refusal of a key; None for a good one. No answer repeats the key."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer" or not key.startswith(KEY_PREFIX):
        message = "Incorrect API key provided." if key else "You didn't provide an API key."
        return OpenAIError(401, message, "invalid_request_error", "invalid_api_key").response()
    if key == "sandbox-expired":
        return OpenAIError(401, "Your API key has expired.", "invalid_request_error", "expired_api_key").response()
    return refusal(Service.MODELS, 402) if key == "sandbox-broke" else None


class ModelEndpoint:
    """POST /chat/completions, GET /models and GET /models/{model}, as OpenAI's clients expect them.

    Any bearer key that begins with `sandbox-` passes, except `sandbox-expired` (401) and `sandbox-broke` (402).

    Attributes:
        truth: what the models know.
        clock: stamps the answers, and bounds what is known.
        delay: seconds of real time by which `slow` is late.
        sleep: waits so many of them.
    """

    def __init__(
        self, truth: Truth, clock: Clock, *, delay: float = 2.0, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._truth = truth
        self._clock = clock
        self._delay = delay
        self._sleep = sleep

    def routes(self) -> list[Route]:
        """Routes relative to /v1."""
        return [
            Route("/chat/completions", self._guarded(self._complete), methods=["POST"]),
            Route("/models", self._guarded(self._list), methods=["GET"]),
            Route("/models/{model:path}", self._guarded(self._show), methods=["GET"]),
        ]

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                return _refused(request.headers.get("authorization", "")) or await handler(request)
            except BadRequest as bad:
                return bad.error.response()

        return endpoint

    # --- models ------------------------------------------------------------------------------------------------

    def _model(self, name: str) -> Body:
        return {"id": name, "object": "model", "created": 1735689600, "owned_by": "sandbox"}

    async def _list(self, request: Request) -> Response:
        return _json({"object": "list", "data": [self._model(name) for name in PERSONALITIES]})

    async def _show(self, request: Request) -> Response:
        name = request.path_params["model"]
        if name in PERSONALITIES:
            return _json(self._model(name))
        raise BadRequest(OpenAIError(404, f"The model '{name[:100]}' does not exist.", "invalid_request_error", "model_not_found"))

    # --- completions -------------------------------------------------------------------------------------------

    async def _complete(self, request: Request) -> Response:
        content = await request.body()
        asked, now = read(content), instant(self._clock.now())
        if asked.personality.late:
            await self._sleep(self._delay)
        replies = await asyncio.to_thread(self._replies, asked, now)
        head = {"id": f"chatcmpl-{_digest(content, now)}", "created": now // SECOND, "model": asked.model}
        if asked.streams:
            return StreamingResponse(_stream(head, asked, replies), media_type="text/event-stream")
        choices = [_choice(index, reply, is_cut) for index, (reply, is_cut) in enumerate(replies)]
        return _json({**head, "object": "chat.completion", "choices": choices, "usage": _usage(asked, replies), "system_fingerprint": None})

    def _replies(self, asked: ChatRequest, now: int) -> list[tuple[Reply, bool]]:
        author = Author(self._truth, asked, now)
        replies = [author.reply(sample_of(asked, choice)) for choice in range(asked.choices)]
        if asked.most_tokens is None:
            return [(reply, False) for reply in replies]
        return [cut(reply, asked.most_tokens, CHARACTERS_PER_TOKEN) for reply in replies]


def _json(body: Body) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")


def _digest(content: bytes, now: int) -> str:
    return hashlib.sha256(content + now.to_bytes(8)).hexdigest()[:24]


def _finish(reply: Reply, is_cut: bool) -> str:
    return "length" if is_cut else "tool_calls" if reply.calls else "stop"


def _message(reply: Reply) -> Body:
    message: Body = {"role": "assistant", "content": reply.content, "refusal": reply.refusal}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    return message


def _calls(reply: Reply) -> list[Body]:
    made = []
    for place, call in enumerate(reply.calls):
        call_id = hashlib.sha256(f"{place}\0{call.name}\0{call.arguments}".encode()).hexdigest()[:24]
        made.append({"id": f"call_{call_id}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
    return made


def _choice(index: int, reply: Reply, is_cut: bool) -> Body:
    return {"index": index, "message": _message(reply), "logprobs": None, "finish_reason": _finish(reply, is_cut)}


def _said(reply: Reply) -> str:
    return "".join((reply.content or "", reply.refusal or "", *(call.name + call.arguments for call in reply.calls)))


def _usage(asked: ChatRequest, replies: list[tuple[Reply, bool]]) -> Body:
    prompt = sum(tokens(turn.text) + TOKENS_PER_MESSAGE for turn in asked.turns)
    thought = sum(tokens(reply.reasoning) for reply, _ in replies)
    said = sum(tokens(_said(reply)) for reply, _ in replies)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": thought + said,
        "total_tokens": prompt + thought + said,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


async def _stream(head: Body, asked: ChatRequest, replies: list[tuple[Reply, bool]]) -> AsyncIterator[bytes]:
    """Server-sent events: each choice's role, its pieces, and why it ended; then the usage, if it was asked for."""

    def event(choices: list[Body], **more: Any) -> bytes:
        return b"data: " + orjson.dumps({**head, "object": "chat.completion.chunk", "choices": choices, **more}) + b"\n\n"

    for index, (reply, is_cut) in enumerate(replies):
        for delta in _deltas(reply):
            yield event([{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}])
        yield event([{"index": index, "delta": {}, "logprobs": None, "finish_reason": _finish(reply, is_cut)}])
    if asked.streams_usage:
        yield event([], usage=_usage(asked, replies))
    yield b"data: [DONE]\n\n"


def _deltas(reply: Reply) -> list[Body]:
    """The pieces of one reply."""
    pieces: list[Body] = [{"role": "assistant", "content": "" if reply.content is not None else None}]
    for name, text in (("reasoning_content", reply.reasoning), ("content", reply.content or ""), ("refusal", reply.refusal or "")):
        pieces += [{name: text[start : start + _CHUNK]} for start in range(0, len(text), _CHUNK)]
    return [*pieces, *({"tool_calls": [{"index": place, **call}]} for place, call in enumerate(_calls(reply)))]
