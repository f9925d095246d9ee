"""Client of Kalshi's WebSocket, which yields verbatim frames and recovers from lost frames, silence and broken connections."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.http.page import strip_user
from bellwether.venues.http.retry import (
    CONNECTION,
    MALFORMED,
    RATE_LIMIT,
    REFUSALS,
    SERVER,
    TIMEOUT,
    RetryPolicy,
    TransientFailure,
    parse_error_text,
)
from bellwether.venues.kalshi.stream.frame import (
    CHANNELS,
    DELTA,
    ENDING,
    LIFECYCLES,
    NO_KEY,
    RENEWING,
    SNAPSHOT,
    START,
    Frame,
    StreamStart,
    StreamSubscription,
    TradingStatus,
    parse_message,
    read_body,
    read_envelope,
    read_subscription_end,
)
from bellwether.venues.kalshi.stream.signing import Credentials, build_headers

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

log = logging.getLogger(__name__)

#: Returns those of some markets that no longer trade. Raises `VenueError` if the venue does not respond.
FindOverMarkets = Callable[[Sequence[str]], Awaitable[set[str]]]

#: Maximum number of unread frames, and maximum bytes of a frame.
_QUEUE, _LARGEST = 4096, 1 << 24
#: Seconds after which a failed request for the ended markets is repeated.
_ENDED_AGAIN = 60.0
#: The debug messages of the library contain the signed headers.
_QUIET = logging.getLogger("bellwether.websocket")
_QUIET.setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Timeouts of a stream.

    handshake: seconds to open a connection. quiet: seconds without a frame after which the connection is probed. answer: seconds to wait for
    a response to a command. first: retry bounds of the first connection. again: retry bounds of later ones, because the venue's maintenance
    takes hours.
    """

    handshake: float = 10.0
    quiet: float = 15.0
    answer: float = 10.0
    first: RetryPolicy = field(default_factory=RetryPolicy)
    again: RetryPolicy = field(default_factory=lambda: RetryPolicy(base=0.5, cap=60.0, seconds=6 * 3600.0, attempts=10_000))


# --- handshake ---------------------------------------------------------------------------------------------------------


def format_handshake(url: str) -> str:
    """Format the handshake as text for messages, such as "GET /path (WebSocket)"."""
    return f"GET {urlsplit(url).path} (WebSocket)"


class _NoRedirects(connect):
    """WebSocket connection without redirects, because the signed headers must not reach another host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Refuse the redirect: return it as an error instead of its target."""
        return exc


async def open_socket(url: str, credentials: Credentials, *, timeout: float) -> ClientConnection:
    """Open a signed connection. Raises `TransientFailure` for failures that may pass, and `VenueError` for a refusal.

    timeout: seconds. The signature uses the real time. No error message contains the key or a signature.
    """
    path = urlsplit(url).path
    try:
        return await _NoRedirects(
            url,
            additional_headers=build_headers(credentials, "GET", path, time.time_ns() // 1_000_000),
            compression=None,
            open_timeout=timeout,
            close_timeout=2.0,
            logger=_QUIET,
            ping_interval=None,
            max_queue=_QUEUE,
            max_size=_LARGEST,
        )
    except InvalidStatus as error:
        raise _status_failure(format_handshake(url), error) from None
    except InvalidURI as error:
        raise ConfigError(
            f"connecting to Kalshi's stream: {strip_user(url)!r} is no address ({error.msg}); mend kalshi_stream_url"
        ) from None
    except InvalidHandshake as error:
        raise TransientFailure(MALFORMED, f"no WebSocket at the other end ({type(error).__name__})") from None
    except TimeoutError:
        raise TransientFailure(TIMEOUT, f"no answer to the handshake within {timeout:g} s") from None
    except (OSError, EOFError) as error:
        raise TransientFailure(CONNECTION, f"no connection ({type(error).__name__})") from None


def _status_failure(call: str, error: InvalidStatus) -> Exception:
    """Convert a refused handshake to an exception, by its status."""
    status = error.response.status_code
    cause = f"HTTP {status}: {parse_error_text(bytes(error.response.body or b''))}"
    if status == 429 or status >= 500:
        return TransientFailure(RATE_LIMIT if status == 429 else SERVER, cause)
    if 300 <= status < 500:
        return _refusal(call, 1, cause, REFUSALS.get(status, "refused"))
    return TransientFailure(MALFORMED, cause)


def _refusal(call: str, attempts: int, cause: str, kind: str) -> VenueError:
    """Build the error for a refused handshake or command. kind: see `VenueError.kind`."""
    advice = "The same request will be refused again: check the address and the subscription"
    if kind == "authentication":
        advice = "Look at the key, whether it has expired, and at this machine's clock"
    return VenueError(call, attempts, cause, advice, kind=kind)


# --- stream ------------------------------------------------------------------------------------------------------------


class KalshiStream:
    """Stream of the frames of selected markets, in order of arrival.

    After a gap in the sequence numbers of the books, the client requests them again. If they do not arrive, if messages about the lifecycle of
    markets are lost, or if the venue ends a subscription, which also counts as a gap, it opens a new connection. A silent connection is probed,
    and replaced if it does not respond. Books are invalid from a gap to their next snapshot; see `bellwether.recordings.gaps`.

    Attributes:
        url: address of the WebSocket. credentials: API key that signs the handshake.
        wanted: markets and channels. patience: timeouts and retries.
        closes: known close times of the markets; a market that is deactivated after its close counts as closed.
        over_among: returns those of some markets that no longer trade; called after each reconnection. Without it the
            stream may wait for the end of a market that has already ended.
        start: position of the first frame. clock: nanoseconds since 1970. rng: jitter between attempts.
        connections: number of opened connections so far.

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
        if not wanted.channels or not wanted.tickers or not set(wanted.channels) <= set(CHANNELS):
            raise ConfigError(
                f"listening to Kalshi: the channels are {wanted.channels}, the markets {len(wanted.tickers)}; name some of each"
            )
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.netloc:
            raise ConfigError(
                f"connecting to Kalshi's stream: the address {strip_user(url)!r} does not start with ws:// or wss:// and a host; mend kalshi_stream_url"
            )
        self.connections = 0
        self._gaps = Counter[str]()
        self._trading = TradingStatus(wanted.tickers, closes or {})
        self._url = url
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
        return self._trading.open

    @property
    def gaps(self) -> int:
        """Number of gaps so far."""
        return self._gaps.total()

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames until no market trades any longer. Cancel the task, or close the generator, to stop earlier.

        Raises `VenueError` if the venue refuses the key or a command, or if connecting fails for longer than the bounds allow.
        """
        retry, attempts, since = self._patience.first, 0, time.monotonic()
        while not self._trading.is_over:
            attempts += 1
            try:
                socket = await open_socket(self._url, self._credentials, timeout=self._patience.handshake)
                session = _Session(socket, self._wanted, self._patience, self._trading, self._gaps)
                self.connections += 1
                number, self._connection = self._connection, self._connection + 1
                ended = asyncio.create_task(self._remove_ended(socket)) if self._over_among and self.connections > 1 else None
                try:
                    async with aclosing(session.messages(self._clock)) as messages:
                        async for at, data in messages:
                            yield Frame(at, number, self._ordinal, data)
                            self._ordinal += 1
                finally:
                    if ended is not None:
                        ended.cancel()
                    await socket.close()
                    if session.is_lively:
                        retry, attempts, since = self._patience.again, 0, time.monotonic()
            except TransientFailure as failure:
                await self._wait(failure, retry, attempts, since)
            except VenueError as refusal:
                raise _refusal(refusal.call, max(attempts, 1), refusal.cause, refusal.kind) from None

    async def _wait(self, failure: TransientFailure, retry: RetryPolicy, attempts: int, since: float) -> None:
        """Wait before the next attempt, or raise `VenueError` once the retry limit is reached. attempts: failed ones in a row. since:
        monotonic seconds of the first one.
        """
        pause = retry.draw(max(attempts, 1), self._rng)
        if retry.is_spent(attempts, time.monotonic() - since + pause):
            advice = "What came so far is kept: record again under the same name to continue"
            raise VenueError(format_handshake(self._url), max(attempts, 1), failure.cause, advice, kind=failure.kind) from failure
        log.info("%s: %s; attempt %d in %.1f s", format_handshake(self._url), failure.cause, attempts + 1, pause)
        await asyncio.sleep(pause)

    async def _remove_ended(self, socket: ClientConnection) -> None:
        """Remove the markets that have ended while the connection was interrupted, and close the socket if none trades any longer."""
        assert self._over_among is not None
        while True:
            try:
                self._trading.remove(await self._over_among(sorted(self._trading.open)))
                break
            except VenueError as failure:
                log.info("which markets have ended is not known yet: %s", failure)
                await asyncio.sleep(_ENDED_AGAIN)
        if self._trading.is_over:
            await socket.close()


class _Session:
    """One connection of a stream, which subscribes, checks sequence numbers and detects silence.

    is_lively: a numbered message has arrived.
    """

    def __init__(
        self,
        socket: ClientConnection,
        wanted: StreamSubscription,
        patience: StreamTimeouts,
        trading: TradingStatus,
        gaps: Counter[str],
    ) -> None:
        self.is_lively = False
        self._gaps = gaps
        self._socket = socket
        self._wanted = wanted
        self._patience = patience
        self._trading = trading
        self._last: dict[int, int] = {}
        self._channels: dict[int, str] = {}
        self._commands = 0
        #: Descriptions of the subscribe commands, by number; the channels that are not confirmed yet; numbers of the requests for books,
        #: the markets whose requested books have not arrived, and the monotonic time until which they must.
        self._subscribing: dict[int, str] = {}
        self._unconfirmed: set[str] = set()
        self._book_requests: set[int] = set()
        self._awaited: set[str] = set()
        self._books_due = 0.0

    async def messages(self, clock: Callable[[], int]) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield receive time and bytes of each message until no market trades. Raises `TransientFailure` if the connection has failed."""
        try:
            for params in self._wanted.subscriptions():
                number = await self._send("subscribe", params)
                markets = len(params.get("market_tickers", ()))
                self._subscribing[number] = f"subscribe to {', '.join(params['channels'])} for {markets} markets"
                self._unconfirmed |= set(params["channels"])
            latest = time.monotonic() + self._patience.answer
            while not self._trading.is_over:
                data = await self._receive()
                at = clock()
                message = parse_message(data)
                kind, sid, seq = read_envelope(message)
                has_gap = sid is not None and seq is not None and self._has_gap(sid, seq)
                yield at, data
                if sid is not None and has_gap:
                    await self._process_gap(sid)
                if kind != DELTA:
                    self._process_message(kind, message)
                if self._unconfirmed and time.monotonic() > latest:
                    raise TransientFailure(TIMEOUT, f"no answer to subscribing to {', '.join(sorted(self._unconfirmed))}")
                if self._awaited & self._trading.open and time.monotonic() > self._books_due:
                    raise TransientFailure(TIMEOUT, "books that were requested after a gap did not arrive")
        except ConnectionClosed as closed:
            if not self._trading.is_over:
                raise TransientFailure(CONNECTION, f"the connection was closed ({closed})") from None

    async def _receive(self) -> bytes:
        """Return the next message. If none arrives for long, send a command whose response shows that the connection works."""
        try:
            async with asyncio.timeout(self._patience.quiet):
                return await self._socket.recv(decode=False)
        except TimeoutError:
            await self._send("list_subscriptions")
        try:
            async with asyncio.timeout(self._patience.answer):
                return await self._socket.recv(decode=False)
        except TimeoutError:
            self._socket.transport.abort()
            silence = self._patience.quiet + self._patience.answer
            raise TransientFailure(TIMEOUT, f"silence for {silence:g} s, and no answer when asked") from None

    async def _send(self, name: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a command and return its number."""
        self._commands += 1
        command = {"id": self._commands, "cmd": name} | ({} if params is None else {"params": params})
        await self._socket.send(orjson.dumps(command).decode())
        return self._commands

    def _has_gap(self, sid: int, seq: int) -> bool:
        """Return True if sequence numbers, which begin with 1, are missing before this one."""
        last = self._last.get(sid, 0)
        self._last[sid] = max(seq, last)
        self.is_lively = True
        return seq > last + 1

    async def _process_gap(self, sid: int) -> None:
        """Count a gap in a subscription's sequence numbers, and request complete books if they are affected."""
        channel = self._channels.get(sid, "")
        self._gaps[channel] += 1
        if channel in LIFECYCLES:
            raise TransientFailure(SERVER, "messages about the lifecycle of markets were lost")
        if channel == DELTA:
            params = {"sids": [sid], "market_tickers": list(self._wanted.tickers), "action": "get_snapshot"}
            self._book_requests.add(await self._send("update_subscription", params))
            self._awaited, self._books_due = set(self._wanted.tickers), time.monotonic() + self._patience.answer

    def _process_message(self, kind: str | None, message: dict[str, Any]) -> None:
        """Process a message that is not a change of a price level."""
        if kind in LIFECYCLES:
            self._trading.process(message)
        elif kind == SNAPSHOT:
            self._awaited.discard(str(read_body(message).get("market_ticker")))
        elif kind == "subscribed":
            body = read_body(message)
            if type(body.get("sid")) is int and type(body.get("channel")) is str:
                self._channels[body["sid"]] = body["channel"]
                self._unconfirmed.discard(body["channel"])
        elif kind in ENDING:
            self._process_refusal(message)

    def _process_refusal(self, message: dict[str, Any]) -> None:
        """Process an error or the end of a subscription: raise, or log it."""
        body = read_body(message)
        number, code = (value if type(value) is int else None for value in (message.get("id"), body.get("code")))
        cause = f"error {code}: {str(body.get('msg'))[:200]}"
        if (end := read_subscription_end(message)) is not None:
            self._gaps[end.cause] += 1
            raise TransientFailure(SERVER, f"the venue ended a subscription ({end.cause})")
        if number in self._book_requests:
            raise TransientFailure(SERVER, f"the venue refused to send books ({cause})")
        if number in self._subscribing and code in RENEWING:
            raise TransientFailure(SERVER, cause)
        if number in self._subscribing or code == NO_KEY:
            kind = "authentication" if code == NO_KEY else "refused"
            raise VenueError(self._subscribing.get(number or 0, "listening"), 1, cause, kind=kind)
        log.info("Kalshi's stream answered with %s", cause)
