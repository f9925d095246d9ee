"""Server of Kalshi's WebSocket: handshake, commands, and messages that are sent when the clock reaches them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.exchange.exchange import BOOKS, CHANNELS, MARKET_CHANNELS, TICKER, Exchange, Interest, StreamMessage
from bellwether.sandbox.exchange.keys import KeyRing
from bellwether.sandbox.exchange.wire import MILLISECOND, to_yes_prices
from bellwether.sandbox.params import VenueRefusal
from bellwether.sandbox.services import KALSHI_STREAM_PATH
from bellwether.sandbox.timestamps import to_instant

#: Seconds between two looks at the clock.
POLL_SECONDS = 0.02

#: Frames that are sent before other tasks get a turn.
_BURST = 200

#: Messages of error codes.
ERRORS = {
    1: "Unable to process message",
    2: "Params required",
    3: "Channels required",
    4: "Subscription IDs required",
    5: "Unknown command",
    7: "Unknown subscription ID",
    8: "Unknown channel name",
    11: "Invalid parameter",
    12: "Exactly one subscription ID is required",
    13: "Unsupported action",
    14: "Market Ticker required",
}

Frame = dict[str, Any]


class CommandError(Exception):
    """Invalid command, which is answered with an error message. tickers: affected markets."""

    def __init__(self, code: int, tickers: Iterable[str] = ()) -> None:
        super().__init__(ERRORS[code])
        self.code = code
        self.tickers = list(tickers)


@dataclass(slots=True, eq=False)
class Subscription:
    """Subscription to one channel on one connection.

    tickers: None means all markets. numbers: sequence numbers of everything that is sent, including responses.
    """

    sid: int
    channel: str
    tickers: set[str] | None
    yes_prices: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def includes(self, message: StreamMessage) -> bool:
        """Return True if a message belongs to the subscription."""
        return message.channel == self.channel and (self.tickers is None or message.ticker in self.tickers)

    def frame(self, message: StreamMessage) -> Frame:
        """Wrap a message for this subscription: add its number and, except on the ticker channel, the next sequence number."""
        numbered = {} if self.channel == TICKER else {"seq": next(self.numbers)}
        body = to_yes_prices(message) if self.yes_prices else message.body
        return {"type": message.kind, "sid": self.sid, **numbered, "msg": body}


class KalshiSocket:
    """WebSocket at `/trade-api/ws/v2`.

    The handshake is signed; its time must be within ten seconds of the sandbox's clock or of the real time. Each message is sent once, in
    order, as soon as the clock has passed it.
    """

    def __init__(self, exchange: Exchange, clock: Clock, keys: KeyRing) -> None:
        self._exchange = exchange
        self._clock = clock
        self._keys = keys

    def routes(self) -> list[BaseRoute]:
        """Return the route with its complete path, as a mount would require a trailing slash."""
        return [WebSocketRoute(KALSHI_STREAM_PATH, self._serve)]

    async def _serve(self, websocket: WebSocket) -> None:
        try:
            clocks = (to_instant(self._clock.now()) // MILLISECOND, time.time_ns() // 1_000_000)
            self._keys.verify(websocket.headers, "GET", websocket.scope["path"], *clocks)
        except VenueRefusal as refusal:
            await _deny(websocket, refusal)
            return
        await websocket.accept()
        with suppress(WebSocketDisconnect):
            await Connection(websocket, self._exchange, self._clock).run()


async def _deny(websocket: WebSocket, refusal: VenueRefusal) -> None:
    """Refuse a handshake with an error response, or close it if the server does not support that."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(refusal.response())
    else:
        await websocket.close(1008)


class Connection:
    """Connection of one client. Before it executes a command, it sends all messages that are due by the clock."""

    def __init__(self, websocket: WebSocket, exchange: Exchange, clock: Clock) -> None:
        self._websocket = websocket
        self._exchange = exchange
        self._clock = clock
        self._position = to_instant(clock.now())
        self._subscriptions: dict[int, Subscription] = {}
        self._interest = Interest()
        self._sids = count(1)
        self._commands: asyncio.Queue[str | None] = asyncio.Queue()
        self._frames = 0

    async def run(self) -> None:
        """Serve until the client disconnects."""
        reader = asyncio.create_task(self._read())
        try:
            while True:
                await self._catch_up()
                command: str | None = ""
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        command = await self._commands.get()
                if command is None:
                    return
                if command:
                    await self._catch_up()
                    await self._execute(command)
        finally:
            reader.cancel()

    async def _read(self) -> None:
        try:
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                self._commands.put_nowait(message.get("text") or (message.get("bytes") or b" ").decode("utf-8", "replace"))
        finally:
            self._commands.put_nowait(None)

    async def _send(self, frame: bytes) -> None:
        await self._websocket.send_text(frame.decode())

    def _encoded(self, frame: Frame) -> bytes:
        return orjson.dumps({**frame, "sending_ts_ms": max(self._position, to_instant(self._clock.now())) // MILLISECOND})

    async def _answer(self, command_id: int | None, frame: Frame) -> None:
        """Send the response to a command."""
        await self._send(self._encoded({**({"id": command_id} if command_id else {}), **frame}))

    async def _send_message(self, frame: Frame) -> None:
        """Send a message of a subscription."""
        self._frames += 1
        await self._send(self._encoded(frame))
        if self._frames % _BURST == 0:
            await asyncio.sleep(0)

    async def _catch_up(self) -> None:
        """Send the messages that have become due since the last call."""
        now = to_instant(self._clock.now())
        if now <= self._position:
            return
        if not self._subscriptions:
            self._position = now
            return
        for message in self._exchange.messages(self._interest, self._position + 1, now + 1):
            for subscription in tuple(self._subscriptions.values()):
                if subscription.includes(message):
                    await self._send_message(subscription.frame(message))
        self._position = now

    async def _execute(self, text: str) -> None:
        """Parse and execute a command; an invalid command is answered with an error message."""
        command_id: int | None = None
        try:
            command = _parse_command(text)
            command_id = command.get("id") if isinstance(command.get("id"), int) else None
            match command.get("cmd"):
                case "subscribe":
                    await self._subscribe(command_id, _params(command))
                case "unsubscribe":
                    await self._unsubscribe(command_id, _params(command))
                case "update_subscription":
                    await self._update(command_id, _params(command))
                case "list_subscriptions":
                    listed = [{"channel": item.channel, "sid": item.sid} for item in self._subscriptions.values()]
                    await self._answer(command_id, {"type": "ok", "msg": listed})
                case _:
                    raise CommandError(5)
        except CommandError as error:
            await self._refuse(command_id, error)

    async def _refuse(self, command_id: int | None, error: CommandError) -> None:
        about = {"market_tickers": error.tickers} if error.tickers else {}
        await self._answer(command_id, {"type": "error", "msg": {"code": error.code, "msg": str(error), **about}})

    async def _filter_known(self, command_id: int | None, tickers: Iterable[str]) -> list[str]:
        """Return those tickers that belong to listed markets; send an error that names the unknown tickers."""
        unique = list(dict.fromkeys(tickers))
        unknown = [ticker for ticker in unique if not self._exchange.is_listed(ticker, self._position)]
        if unknown:
            await self._refuse(command_id, CommandError(11, unknown))
        return [ticker for ticker in unique if ticker not in unknown]

    async def _subscribe(self, command_id: int | None, params: Frame) -> None:
        channels, tickers = params.get("channels"), _read_tickers(params)
        if not isinstance(channels, list) or not channels:
            raise CommandError(3)
        listed = set(await self._filter_known(command_id, tickers))
        added: list[Subscription] = []
        for channel in dict.fromkeys(map(str, channels)):
            if channel not in CHANNELS:
                await self._refuse(command_id, CommandError(8))
            elif channel in MARKET_CHANNELS and not tickers:
                await self._refuse(command_id, CommandError(14))
            elif channel not in MARKET_CHANNELS or listed:
                yes_prices = channel == BOOKS and params.get("use_yes_price") is True
                subscription = Subscription(next(self._sids), channel, listed if channel in MARKET_CHANNELS else None, yes_prices)
                self._subscriptions[subscription.sid] = subscription
                added.append(subscription)
                await self._answer(command_id, {"type": "subscribed", "msg": {"channel": channel, "sid": subscription.sid}})
        self._interest = _collect_interest(self._subscriptions.values())
        for message in self._exchange.opening(_collect_interest(added), self._position):
            for subscription in added:
                if subscription.includes(message):
                    await self._send_message(subscription.frame(message))

    async def _unsubscribe(self, command_id: int | None, params: Frame) -> None:
        sids = params.get("sids")
        if not isinstance(sids, list) or not sids:
            raise CommandError(4)
        for sid in sids:
            subscription = self._subscriptions.pop(sid, None) if isinstance(sid, int) else None
            if subscription is None:
                await self._refuse(command_id, CommandError(7))
            else:
                await self._answer(command_id, {"type": "unsubscribed", "sid": sid, "seq": next(subscription.numbers)})
        self._interest = _collect_interest(self._subscriptions.values())

    async def _update(self, command_id: int | None, params: Frame) -> None:
        """Execute update_subscription, of which only one action is supported: sending complete books of markets."""
        sids, tickers = params.get("sids"), _read_tickers(params)
        if not isinstance(sids, list) or len(sids) != 1:
            raise CommandError(12)
        subscription = self._subscriptions.get(sids[0]) if isinstance(sids[0], int) else None
        if subscription is None:
            raise CommandError(7)
        if params.get("action") != "get_snapshot" or subscription.channel != BOOKS:
            raise CommandError(13)
        if not tickers:
            raise CommandError(14)
        for ticker in await self._filter_known(command_id, tickers):
            message = self._exchange.snapshot(ticker, self._position)
            if message is not None:
                await self._answer(command_id, subscription.frame(message))


def _collect_interest(subscriptions: Iterable[Subscription]) -> Interest:
    """Collect the channels of all subscriptions: those for selected markets by market, and those for all markets."""
    chosen: dict[str, frozenset[str]] = {}
    everywhere: frozenset[str] = frozenset()
    for subscription in subscriptions:
        if subscription.tickers is None:
            everywhere |= {subscription.channel}
        for ticker in sorted(subscription.tickers or ()):
            chosen[ticker] = chosen.get(ticker, frozenset()) | {subscription.channel}
    return Interest(chosen, everywhere)


def _parse_command(text: str) -> Frame:
    try:
        command = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise CommandError(1) from None
    if not isinstance(command, dict):
        raise CommandError(1)
    return command


def _params(command: Frame) -> Frame:
    params = command.get("params")
    if not isinstance(params, dict):
        raise CommandError(2)
    return params


def _read_tickers(params: Frame) -> list[str]:
    """Return the tickers in a command's parameters."""
    tickers = params.get("market_tickers", [])
    if not isinstance(tickers, list) or not all(isinstance(ticker, str) for ticker in tickers):
        raise CommandError(11)
    return tickers
