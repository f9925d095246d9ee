"""Routes of the model endpoint: OpenAI's chat completions, answered by the sandbox's personalities."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.models.beliefs import Truth, hash_text
from bellwether.sandbox.models.personalities import PERSONALITIES
from bellwether.sandbox.models.replies import ModelReply, ReplyWriter, cut_reply
from bellwether.sandbox.models.request import BadRequest, ChatRequest, OpenAIError, read_request
from bellwether.sandbox.timestamps import SECOND, Clock, to_instant

#: Characters of every token.
CHARACTERS_PER_TOKEN = 4
#: Tokens that a message takes in addition to its text.
TOKENS_PER_MESSAGE = 4
#: Beginning of every valid key.
KEY_PREFIX = "sandbox-"

Body = dict[str, Any]


def count_tokens(text: str) -> int:
    """Estimate the number of tokens of a text from its length."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def _refuse_key(authorization: str) -> Response | None:
    """Return the error response for an invalid key; None for a valid one."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer" or not key.startswith(KEY_PREFIX):
        message = "Incorrect API key provided." if key else "You didn't provide an API key."
        return OpenAIError(401, message, "invalid_request_error", "invalid_api_key").response()
    if key == "sandbox-expired":
        return OpenAIError(401, "Your API key has expired.", "invalid_request_error", "expired_api_key").response()
    if key == "sandbox-broke":
        return OpenAIError(
            402, "Insufficient credits: add credit to your account to go on.", "insufficient_quota", "insufficient_credits"
        ).response()
    return None


class ModelEndpoint:
    """Handlers of POST /chat/completions and GET /models, compatible with OpenAI's clients.

    Any bearer key that begins with `sandbox-` is accepted, except `sandbox-expired` (401) and `sandbox-broke` (402).

    Attributes:
        truth: knowledge of the models.
        clock: time of the responses, which limits that knowledge.
        delay: delay of the model `slow` in seconds of real time.
        sleep: coroutine function that waits for the delay.
    """

    def __init__(
        self, truth: Truth, clock: Clock, *, delay: float = 2.0, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._truth = truth
        self._clock = clock
        self._delay = delay
        self._sleep = sleep

    def routes(self) -> list[Route]:
        """Return the routes, relative to /v1."""
        return [
            Route("/chat/completions", self._guarded(self._complete), methods=["POST"]),
            Route("/models", self._guarded(self._list), methods=["GET"]),
        ]

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a handler so that invalid keys and invalid requests are answered with an error."""

        async def endpoint(request: Request) -> Response:
            try:
                return _refuse_key(request.headers.get("authorization", "")) or await handler(request)
            except BadRequest as bad:
                return bad.error.response()

        return endpoint

    async def _list(self, request: Request) -> Response:
        models = [{"id": name, "object": "model", "created": 1735689600, "owned_by": "sandbox"} for name in PERSONALITIES]
        return _json({"object": "list", "data": models})

    async def _complete(self, request: Request) -> Response:
        content = await request.body()
        chat, now = read_request(content), to_instant(self._clock())
        if chat.personality.late:
            await self._sleep(self._delay)
        reply = await asyncio.to_thread(ReplyWriter(self._truth, chat, now).reply, 0 if chat.seed is None else hash_text(f"{chat.seed}/0"))
        finish = "tool_calls" if reply.calls else "stop"
        if chat.most_tokens is not None:
            whole, reply = reply, cut_reply(reply, chat.most_tokens * CHARACTERS_PER_TOKEN)
            finish = finish if reply == whole else "length"
        return _json(
            {
                "id": f"chatcmpl-{hashlib.sha256(content + now.to_bytes(8)).hexdigest()[:24]}",
                "created": now // SECOND,
                "model": chat.model,
                "object": "chat.completion",
                "choices": [{"index": 0, "message": _message(reply), "logprobs": None, "finish_reason": finish}],
                "usage": _usage(chat, reply),
                "system_fingerprint": None,
            }
        )


def _json(body: Body) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")


def _message(reply: ModelReply) -> Body:
    message: Body = {"role": "assistant", "content": reply.content, "refusal": reply.refusal}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = _calls(reply)
    return message


def _calls(reply: ModelReply) -> list[Body]:
    hashes = (hashlib.sha256(f"{place}\0{call.name}\0{call.arguments}".encode()).hexdigest() for place, call in enumerate(reply.calls))
    return [
        {"id": f"call_{digest[:24]}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for digest, call in zip(hashes, reply.calls, strict=True)
    ]


def _usage(chat: ChatRequest, reply: ModelReply) -> Body:
    prompt = sum(count_tokens(turn.text) + TOKENS_PER_MESSAGE for turn in chat.turns)
    reasoning = count_tokens(reply.reasoning)
    answer = count_tokens("".join((reply.content or "", reply.refusal or "", *(call.name + call.arguments for call in reply.calls))))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reasoning + answer,
        "total_tokens": prompt + reasoning + answer,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
