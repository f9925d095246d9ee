"""A WebSocket server on loopback that follows a script per connection, and frames to send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from itertools import count
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from bellwether.venues.http.retry import RetryPolicy
from bellwether.venues.kalshi.stream.client import KalshiStream, StreamTimeouts
from bellwether.venues.kalshi.stream.frame import DELTA, TRADE, StreamSubscription
from bellwether.venues.kalshi.stream.signing import Credentials

A, B = "KXONE-26NOV21-A", "KXONE-26NOV21-B"
FAST = RetryPolicy(base=0.001, cap=0.01, attempts=5)
#: Timeout for a slow machine where no wait is expected.
CALM = StreamTimeouts(quiet=60.0, answer=60.0, first=FAST, again=FAST)
CREDENTIALS = Credentials("the-key-id", rsa.generate_private_key(public_exponent=65537, key_size=2048))

Json = dict[str, Any]


def snapshot(market: str, seq: int, *, sid: int = 1, **body: Any) -> Json:
    """Return a book of 10 contracts at 40 cents on each side, unless changed."""
    sides = body or {"yes_dollars_fp": [["0.4000", "10.00"]], "no_dollars_fp": [["0.4000", "10.00"]]}
    return {"type": "orderbook_snapshot", "sid": sid, "seq": seq, "msg": {"market_ticker": market, "market_id": "m", **sides}}


def delta(market: str, seq: int, *, sid: int = 1, price: str = "0.4000", by: str = "1.00", side: str = "yes", **body: Any) -> Json:
    """Return a change of a level."""
    message = {"market_ticker": market, "market_id": "m", "price_dollars": price, "delta_fp": by, "side": side, **body}
    return {"type": "orderbook_delta", "sid": sid, "seq": seq, "msg": message}


def trade(market: str, seq: int, *, sid: int = 2) -> Json:
    """Return a trade."""
    message = {
        "trade_id": f"t{seq}",
        "market_ticker": market,
        "yes_price_dollars": "0.4000",
        "no_price_dollars": "0.6000",
        "count_fp": "1.00",
    }
    return {"type": "trade", "sid": sid, "seq": seq, "msg": message}


def lifecycle(market: str, seq: int, event: str, *, sid: int = 3, **body: Any) -> Json:
    """Return a lifecycle message of a market."""
    return {"type": "market_lifecycle_v2", "sid": sid, "seq": seq, "msg": {"market_ticker": market, "event_type": event, **body}}


class Peer:
    """The server's end of one connection."""

    def __init__(self, socket: ServerConnection, commands: list[Json]) -> None:
        self.socket = socket
        self._commands = commands
        self._sids = count(1)

    async def read(self) -> Json:
        """Return the next command."""
        command: Json = json.loads(await self.socket.recv())
        self._commands.append(command)
        return command

    async def send(self, *frames: Json) -> None:
        """Send frames as compact JSON, like the venue."""
        for frame in frames:
            await self.socket.send(json.dumps(frame, separators=(",", ":")))

    async def confirm(self, commands: int = 1) -> None:
        """Confirm subscribe commands. Subscriptions are numbered in order."""
        for _ in range(commands):
            command = await self.read()
            assert command["cmd"] == "subscribe", command
            for channel in command["params"]["channels"]:
                await self.send({"id": command["id"], "type": "subscribed", "msg": {"channel": channel, "sid": next(self._sids)}})

    async def until_gone(self) -> None:
        """Read commands until the client leaves."""
        while True:
            await self.read()


Script = Callable[[Peer], Awaitable[None]]


class Venue:
    """Handshakes by their headers, commands in order, and the number of connections."""

    def __init__(self) -> None:
        self.url = ""
        self.handshakes: list[Any] = []
        self.commands: list[Json] = []
        self.connections = 0

    def sent(self, name: str) -> list[Json]:
        """Return the parameters of all commands of this name."""
        return [command.get("params", {}) for command in self.commands if command["cmd"] == name]

    def stream(self, *, tickers: tuple[str, ...] = (A,), channels: tuple[str, ...] = (DELTA, TRADE), **given: Any) -> KalshiStream:
        """Return a client of this venue."""
        return KalshiStream(self.url, CREDENTIALS, StreamSubscription(tickers, channels), **{"patience": CALM, **given})


@asynccontextmanager
async def venue(*scripts: Script, refusals: tuple[tuple[int, str], ...] = (), elsewhere: str = "") -> AsyncIterator[Venue]:
    """Serve these scripts, repeating the last, after refusing handshakes with these statuses and bodies.

    `elsewhere`: the Location of refusals.
    """
    heard = Venue()
    refused = iter(refusals)

    async def play(socket: ServerConnection) -> None:
        script = scripts[min(heard.connections, len(scripts) - 1)]
        heard.connections += 1
        with suppress(ConnectionClosed):
            await script(Peer(socket, heard.commands))

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        heard.handshakes.append(request)
        answer = next(refused, None)
        if answer is None:
            return None
        response = connection.respond(HTTPStatus(answer[0]), answer[1])
        if elsewhere:
            response.headers["Location"] = elsewhere
        return response

    async with serve(play, "127.0.0.1", 0, process_request=admit, ping_interval=None) as server:
        heard.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/trade-api/ws/v2"
        yield heard
