"""Client of Kalshi's WebSocket, which yields verbatim frames and recovers from lost frames, silence and broken connections."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.http.retry import CONNECTION, SERVER, TIMEOUT, RetryPolicy, TransientFailure
from bellwether.venues.kalshi.stream.frame import (
    DELTA,
    LIFECYCLES,
    SNAPSHOT,
    START,
    Frame,
    StreamStart,
    parse_envelope,
    parse_message,
    read_body,
    read_ticker,
)
from bellwether.venues.kalshi.stream.handshake import check_url, format_handshake, open_socket
from bellwether.venues.kalshi.stream.protocol import (
    CHANNELS,
    ENDING,
    ErrorMeaning,
    StreamSubscription,
    TradingStatus,
    classify_error,
    format_command,
    get_snapshot,
    list_subscriptions,
    read_subscription_end,
)
from bellwether.venues.kalshi.stream.signing import Credentials

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

log = logging.getLogger(__name__)

#: Returns those of some markets that no longer trade. Raises `VenueError` if the venue does not respond.
FindOverMarkets = Callable[[Sequence[str]], Awaitable[set[str]]]

_ADVICE = defaultdict(
    lambda: "The venue will refuse it again: look at the address and at what is asked",
    {"authentication": "Look at the key, whether it has expired, and at this machine's clock"},
)


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Timeouts of a stream.

    handshake: seconds to open a connection. quiet: seconds without a frame after which the connection is probed. answer: seconds to wait for
    a response to a command. first: retry bounds of the first connection. again: retry bounds of later ones, because the venue's maintenance
    takes hours. tick: seconds between two checks of the timeouts.
    """

    handshake: float = 10.0
    quiet: float = 15.0
    answer: float = 10.0
    first: RetryPolicy = field(default_factory=RetryPolicy)
    again: RetryPolicy = field(default_factory=lambda: RetryPolicy(base=0.5, cap=60.0, seconds=6 * 3600.0, attempts=10_000))
    tick: float = 1.0


@dataclass(slots=True)
class StreamStats:
    """Statistics of a stream: opened connections, gaps (in sequence numbers, or by the end of a subscription), requests for complete books,
    and failures by kind.
    """

    connections: int = 0
    gaps: int = 0
    snapshot_requests: int = 0
    failures: dict[str, int] = field(default_factory=dict)


class KalshiStream:
    """Stream of the frames of selected markets, in order of arrival.

    After a gap in the sequence numbers, the client requests the books again: by a command, then by a new connection. When the venue ends a subscription, the client opens a new connection, which also counts as a gap. A silent connection is
    probed, and replaced if it does not respond. Books are invalid from a gap to their next snapshot; see
    `bellwether.recordings.gaps`.

    Attributes:
        url: address of the WebSocket. credentials: API key that signs the handshake.
        wanted: markets and channels. patience: timeouts and retries.
        closes: known close times of the markets; a market that is deactivated after its close counts as closed.
        over_among: returns those of some markets that no longer trade; called when lifecycle messages may have been lost.
            Without it the stream may wait for the end of a market that has already ended.
        start: position of the first frame. clock: nanoseconds since 1970. rng: jitter between attempts.

    Raises `ConfigError` for an invalid address or channel.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        wanted: StreamSubscription,
        *,
        patience: StreamTimeouts | None = None,
        closes: Mapping[str, datetime] | None = None,
        over_among: FindOverMarkets | None = None,
        start: StreamStart = START,
        clock: Callable[[], int] = time.time_ns,
        rng: Random | None = None,
    ) -> None:
        unknown = [channel for channel in wanted.channels if channel not in CHANNELS]
        if unknown or not wanted.channels or not wanted.tickers:
            raise ConfigError(
                f"listening to Kalshi: the channels are {wanted.channels}, the markets {len(wanted.tickers)}; name some of each"
            )
        self.stats = StreamStats()
        self.trading = TradingStatus(wanted.tickers, closes or {})
        self._url = check_url(url)
        self._credentials = credentials
        self._wanted = wanted
        self._patience = patience or StreamTimeouts()
        self._over_among = over_among
        self._connection, self._ordinal = start
        self._clock = clock
        self._rng = rng or Random()

    @property
    def open(self) -> set[str]:
        """Markets that still trade, according to the venue's messages."""
        return self.trading.open

    @property
    def gaps(self) -> int:
        """Number of gaps so far."""
        return self.stats.gaps

    @property
    def connections(self) -> int:
        """Number of connections opened so far."""
        return self.stats.connections

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames until no market trades any longer. Cancel the task, or close the generator, to stop earlier.

        Raises `VenueError` if the venue refuses the key or a command, or if connecting fails for longer than the bounds allow.
        """
        retry, attempts, since = self._patience.first, 0, time.monotonic()
        while not self.trading.is_over:
            attempts += 1
            try:
                socket = await open_socket(self._url, self._credentials, timeout=self._patience.handshake)
                session = _Session(
                    socket, self._wanted, self._patience, stats=self.stats, trading=self.trading, over_among=self._over_among
                )
                self.trading.in_doubt = self.trading.in_doubt or self.stats.connections > 0
                self.stats.connections += 1
                number, self._connection = self._connection, self._connection + 1
                try:
                    async with aclosing(session.messages(self._clock)) as messages:
                        async for at, data in messages:
                            yield Frame(at, number, self._ordinal, data)
                            self._ordinal += 1
                finally:
                    await session.close()
                    if session.is_lively:
                        retry, attempts, since = self._patience.again, 0, time.monotonic()
            except TransientFailure as failure:
                await self._wait(failure, retry, attempts, since)
            except VenueError as refusal:
                raise VenueError(refusal.call, max(attempts, 1), refusal.cause, _ADVICE[refusal.kind], kind=refusal.kind) from None

    async def _wait(self, failure: TransientFailure, retry: RetryPolicy, attempts: int, since: float) -> None:
        """Wait before the next attempt, or raise `VenueError` once the retry limit is reached. attempts: failed ones in a row. since:
        monotonic seconds of the first one.
        """
        self.stats.failures[failure.kind] = self.stats.failures.get(failure.kind, 0) + 1
        pause = retry.draw(max(attempts, 1), self._rng)
        if retry.is_spent(attempts, time.monotonic() - since + pause):
            advice = "What came so far is kept: record again under the same name to continue"
            raise VenueError(format_handshake(self._url), max(attempts, 1), failure.cause, advice, kind=failure.kind) from failure
        log.info("%s: %s; attempt %d in %.1f s", format_handshake(self._url), failure.cause, attempts + 1, pause)
        await asyncio.sleep(pause)


@dataclass(slots=True)
class _BookRequest:
    """Pending request for complete books, made because a subscription has lost messages (a gap).

    awaited: markets whose books have not arrived. requested_at: monotonic seconds. again: another gap has occurred since.
    """

    sid: int
    awaited: set[str]
    requested_at: float
    again: bool = False


class _Session:
    """One connection of a stream, which subscribes, checks sequence numbers and detects silence."""

    def __init__(
        self,
        socket: ClientConnection,
        wanted: StreamSubscription,
        patience: StreamTimeouts,
        *,
        stats: StreamStats,
        trading: TradingStatus,
        over_among: FindOverMarkets | None,
    ) -> None:
        self.is_lively = False
        self._socket = socket
        self._wanted = wanted
        self._patience = patience
        self._stats = stats
        self._trading = trading
        self._over_among = over_among
        self._last: dict[int, int] = {}
        self._channels: dict[int, str] = {}
        self._commands = 0
        #: Descriptions of the commands that must succeed, by number; and the channels whose subscription is not confirmed yet.
        self._required: dict[int, str] = {}
        self._unconfirmed: set[str] = set()
        self._request: _BookRequest | None = None
        self._snapshot_command: int | None = None
        self._heard = 0
        self._failure: TransientFailure | None = None
        self._watch: asyncio.Task[None] | None = None

    async def messages(self, clock: Callable[[], int]) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield receive time and bytes of each message until no market trades. Raises `TransientFailure` if the connection has failed."""
        self._watch = asyncio.create_task(self._watch_over())
        try:
            for params in self._wanted.subscriptions():
                await self._subscribe(params)
            while not self._trading.is_over:
                data = await self._socket.recv(decode=False)
                at = clock()
                self._heard += 1
                kind, sid, seq = parse_envelope(data)
                gap = sid if sid is not None and seq is not None and self._has_gap(sid, seq) else None
                yield at, data
                if gap is not None:
                    await self._process_gap(gap)
                if kind != DELTA:
                    await self._process_message(kind, data)
        except ConnectionClosed as closed:
            if self._trading.is_over:
                return
            raise self._failure or TransientFailure(CONNECTION, f"the connection was closed ({_describe_close(closed)})") from None

    async def close(self) -> None:
        """Close the connection, with a closing handshake if the server still responds."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        await self._socket.close()

    # --- sequence numbers ------------------------------------------------------------------------------------------------

    def _has_gap(self, sid: int, seq: int) -> bool:
        """Return True if sequence numbers, which begin with 1, are missing before this one."""
        last = self._last.get(sid, 0)
        if seq > last:
            self._last[sid] = seq
        self.is_lively = True
        return seq > last + 1

    async def _process_gap(self, sid: int) -> None:
        """Count a gap in a subscription's sequence numbers, and request complete books if they are affected."""
        self._stats.gaps += 1
        if self._channels.get(sid) in LIFECYCLES:
            self._trading.in_doubt = True
        if self._channels.get(sid) != DELTA:
            return
        if self._request is not None:
            self._request.again = True
            return
        await self._request_books(sid)

    async def _request_books(self, sid: int) -> None:
        """Send the command that requests complete books of a subscription's markets."""
        self._stats.snapshot_requests += 1
        self._request = _BookRequest(sid, set(self._wanted.tickers), time.monotonic())
        self._snapshot_command = await self._send(lambda number: get_snapshot(number, sid, self._wanted.tickers))

    async def _note_book(self, market: str | None) -> None:
        """Note that the complete book of a market has arrived."""
        request = self._request
        if request is None or market is None:
            return
        request.awaited.discard(market)
        if request.awaited:
            return
        self._request = None
        if request.again:
            sid = next((sid for sid, channel in self._channels.items() if channel == DELTA), request.sid)
            await self._request_books(sid)

    # --- messages --------------------------------------------------------------------------------------------------------

    async def _process_message(self, kind: str | None, data: bytes) -> None:
        """Process a message that is not a change of a price level."""
        if kind == SNAPSHOT:
            await self._note_book(read_ticker(read_body(parse_message(data))))
        elif kind in LIFECYCLES:
            self._trading.process(parse_message(data))
        elif kind == "subscribed":
            body = read_body(parse_message(data))
            if type(body.get("sid")) is int and type(body.get("channel")) is str:
                self._channels[body["sid"]] = body["channel"]
                self._unconfirmed.discard(body["channel"])
        elif kind in ENDING:
            self._process_refusal(parse_message(data))

    def _process_refusal(self, message: dict[str, Any]) -> None:
        """Process an error or the end of a subscription: raise, or log it."""
        body = read_body(message)
        number, code = (value if type(value) is int else None for value in (message.get("id"), body.get("code")))
        cause = f"error {code}: {str(body.get('msg'))[:200]}"
        if (end := read_subscription_end(message)) is not None:
            self._stats.gaps += 1
            raise TransientFailure(SERVER, f"the venue ended a subscription ({end.cause})")
        if number is not None and number == self._snapshot_command:
            raise TransientFailure(SERVER, f"the venue refused to send books ({cause})")
        command = None if number is None else self._required.get(number)
        meaning = classify_error(code)
        if meaning is ErrorMeaning.RENEW and command:
            raise TransientFailure(SERVER, cause)
        if command is not None or meaning is ErrorMeaning.KEY:
            raise VenueError(command or "listening", 1, cause, kind=meaning.value)
        log.info("Kalshi's stream answered with %s", cause)

    # --- commands --------------------------------------------------------------------------------------------------------

    async def _send(self, build: Callable[[int], str]) -> int:
        """Send a command, which `build` formats with its number, and return the number."""
        self._commands += 1
        number = self._commands
        await self._socket.send(build(number))
        return number

    async def _subscribe(self, params: dict[str, Any]) -> None:
        """Send the command that subscribes to channels."""
        self._unconfirmed |= set(params["channels"])
        self._required[self._commands + 1] = (
            f"subscribe to {', '.join(params['channels'])} for {len(params.get('market_tickers', ()))} markets"
        )
        await self._send(lambda number: format_command(number, "subscribe", params))

    # --- silence ---------------------------------------------------------------------------------------------------------

    async def _watch_over(self) -> None:
        """Check repeatedly that the connection responds in time, and abort it otherwise; `messages` then raises the failure."""
        heard, since, probed, begun = 0, time.monotonic(), False, time.monotonic()
        patience = self._patience
        while True:
            await asyncio.sleep(patience.tick)
            now = time.monotonic()
            if self._heard != heard:
                heard, since, probed = self._heard, now, False
            try:
                if self._unconfirmed and now - begun > patience.answer + patience.tick:
                    raise TransientFailure(TIMEOUT, f"no answer to subscribing to {', '.join(sorted(self._unconfirmed))}")
                if now - since > patience.quiet + patience.answer and probed:
                    raise TransientFailure(TIMEOUT, f"silence for {now - since:.0f} s, and no answer when asked")
                if now - since > patience.quiet and not probed:
                    probed = True
                    await self._send(list_subscriptions)
                await self._settle_doubt()
                if self._request is not None and now - self._request.requested_at > patience.answer:
                    raise TransientFailure(TIMEOUT, "the books that were requested did not arrive")
            except TransientFailure as failure:
                self._failure = failure
                self._socket.transport.abort()
                return
            except ConnectionClosed:
                return

    async def _settle_doubt(self) -> None:
        """If messages about the end of markets may have been lost, fetch the markets' status; if none trades any longer, abort the
        connection.
        """
        if not self._trading.in_doubt or self._over_among is None:
            return
        self._trading.in_doubt = False
        try:
            over = await self._over_among(sorted(self._trading.open))
        except VenueError as failure:
            self._trading.in_doubt = True
            log.info("which markets have ended is not known yet: %s", failure)
            return
        if over and self._trading.open <= over:
            await asyncio.sleep(self._patience.tick)
        self._trading.remove(over)
        if self._trading.is_over:
            self._socket.transport.abort()


def _describe_close(closed: ConnectionClosed) -> str:
    """Describe the code and reason of a closed connection."""
    if closed.rcvd is None:
        return "without a closing message"
    return f"code {closed.rcvd.code}{f': {closed.rcvd.reason[:100]}' if closed.rcvd.reason else ''}"
