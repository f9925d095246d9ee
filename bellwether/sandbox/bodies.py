"""The bodies of requests: how large they may be, and reading them before the application does."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: A request may carry so many bytes.
MOST_BYTES = 16 << 20


class _TooLarge(Exception):
    """A body that is longer than allowed."""


class Bounded:
    """ASGI middleware: a request whose body is longer than `most` bytes is answered with 413, however it is sent."""

    def __init__(self, app: ASGIApp, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on while its body is within the limit."""
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted if scope["type"] == "http" else receive, send)
        except _TooLarge:
            await Response("Payload Too Large", 413, media_type="text/plain")(scope, receive, send)


async def read_body(receive: Receive) -> bytes:
    """The whole body; what has come of it where the client leaves."""
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def handing_out(body: bytes, receive: Receive) -> Receive:
    """An ASGI `receive` that hands out a body that was read already, and then what comes."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
