"""Faults of a served WebSocket: lost and swapped frames, silence, and refused handshakes."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Faults:
    """ASGI middleware that disturbs the stream of an application.

    lost: numbers of the frames that are left out. swapped: of those that change places with the next one. silent_from: number of a connection's
    frame from which on the connection sends nothing; each connection is as silent. refuses: handshakes are refused for their key.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.lost, self.swapped = frozenset[int](), frozenset[int]()
        self.silent_from: int | None = None
        self.refuses = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
        elif self.refuses:
            await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b"{}"})
        else:
            number, delayed = 0, list[Message]()

            async def send_disturbed(message: Message) -> None:
                nonlocal number
                if message["type"] == "websocket.send" and b'"seq"' in message["text"].encode():
                    number += 1
                    if number in self.lost or (self.silent_from is not None and number >= self.silent_from):
                        return
                    if number in self.swapped:
                        delayed.append(message)
                        return
                elif message["type"] == "websocket.send" and self.silent_from is not None and number >= self.silent_from:
                    return
                await send(message)
                while delayed:
                    await send(delayed.pop())

            await self._app(scope, receive, send_disturbed)
