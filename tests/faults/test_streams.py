"""Kalshi's stream under every fault of handshakes and frames: what is missing is known, the books that are left are right, and it ends.

A cell is one of:

- `complete`: every number came, in order, over one connection;
- `resumed`: what did not come in order, or at all, is in the gap report, and the books were asked for anew; frames that came late are no loss;
- the kind of the `VenueError` that ends it, and `@` the number of attempts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from bellwether.errors import VenueError
from bellwether.recordings.books import BookReplay
from bellwether.recordings.gaps import GapReport
from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.exchange.generated import GeneratedExchange
from bellwether.sandbox.faults import HEADER, HTTP_FAULTS, STREAM_FAULTS, Faults
from bellwether.sandbox.instants import moment
from bellwether.sandbox.server import serve
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.model import Market
from bellwether.venues.http.retry import Retry
from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from bellwether.venues.kalshi.stream.client import KalshiStream, OverAmong, Patience
from bellwether.venues.kalshi.stream.frame import Frame
from bellwether.venues.kalshi.stream.poll import over_among
from bellwether.venues.kalshi.stream.protocol import Wanted
from bellwether.venues.kalshi.stream.signing import Credentials
from tests.faults.cells import table

DAY = datetime(2025, 6, 14, tzinfo=UTC).date()
FAST = Retry(base=0.001, cap=0.01, attempts=6)
#: Seconds that a machine may take for an answer; of silence only as long as the silence is the fault.
CALM = Patience(handshake=30.0, quiet=30.0, answer=30.0, first=FAST, again=FAST, tick=0.02)
ALERT = Patience(handshake=30.0, quiet=1.0, answer=2.0, first=FAST, again=FAST, tick=0.02)

#: Faults that cannot strike a stream: they are of bodies and listings.
OF_ANSWERS = {"stall", "cut", "html", "duplicate", "drop", "cursor"}
CELLS = """
fault       once              always
storm       complete          rate limit@6
status      complete          server@6
expired     authentication@1  authentication@1
credit      out of credit@1   out of credit@1
reorder     resumed           resumed
gap         resumed           resumed
disconnect  resumed           resumed
"""


class Forcing:
    """ASGI: asks for a fault with the first `connections` handshakes that get through, and with all before."""

    def __init__(self, app: ASGIApp, fault: str, connections: int) -> None:
        self._app = app
        self._header = (HEADER.lower().encode(), fault.encode())
        self._left = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self._left:
            scope = {**scope, "headers": [*scope["headers"], self._header]}

        async def counting(message: object) -> None:
            if isinstance(message, dict) and message["type"] == "websocket.accept":
                self._left -= 1
            await send(message)  # type: ignore[arg-type]

        await self._app(scope, receive, counting)


@dataclass
class Heard:
    """What a stream brought, and how it went."""

    stream: KalshiStream
    frames: list[Frame] = field(default_factory=list)
    error: VenueError | None = None

    def replayed(self) -> tuple[bool, GapReport]:
        """Whether the books were right wherever they counted as valid, and what is missing."""
        replay = BookReplay()
        for frame in self.frames:
            replay.apply(frame)
        return replay.finish().is_sound, replay.watch.report("heard")


@dataclass(frozen=True)
class Exchange:
    """A served exchange and two of its markets, shortly before they close."""

    url: str
    rest: str
    clock: Clock
    faults: Faults
    credentials: Credentials
    markets: tuple[Market, ...]

    @property
    def close(self) -> datetime:
        return moment(min(market.life.closes for market in self.markets))

    @property
    def over(self) -> datetime:
        return moment(max(market.life.settled for market in self.markets)) + timedelta(minutes=1)

    def stream(self, patience: Patience, over: OverAmong) -> KalshiStream:
        wanted = Wanted(tuple(market.ticker for market in self.markets))
        return KalshiStream(self.url, self.credentials, wanted, patience=patience, over_among=over)

    async def listen(self, heard: Heard) -> None:
        try:
            async for frame in heard.stream.frames():
                heard.frames.append(frame)
        except VenueError as error:
            heard.error = error

    async def pass_time(self, heard: Heard, connections: int) -> None:
        """Minute by minute until so many connections were made, as long as there is trading; then the rest of the markets' lives."""
        while heard.stream.connections < connections:
            if self.clock.now() < self.close - timedelta(minutes=5):
                self.clock.advance(timedelta(minutes=1))
            await asyncio.sleep(0.03)
        await until(lambda: len(heard.frames) >= 5)
        while self.clock.now() < self.over:
            self.clock.advance(timedelta(minutes=5))
            await asyncio.sleep(0.01)


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def world() -> GeneratedWorld:
    return GeneratedWorld(11)


@pytest.fixture(scope="module")
def markets(world: GeneratedWorld) -> tuple[Market, ...]:
    """Two markets of one event that close at one time and are settled soon after."""
    found = [market for ticker in world.closing(DAY) if (market := world.market(ticker))]
    by_end = sorted(found, key=lambda market: market.life.settled - market.life.closes)
    first = next(
        market
        for market in by_end
        if sum(other.event_ticker == market.event_ticker for other in found) > 1 and market.life.disputed is None
    )
    return tuple(market for market in found if market.event_ticker == first.event_ticker)[:2]


@contextmanager
def exchange(world: GeneratedWorld, markets: tuple[Market, ...], fault: str | None, connections: int) -> Iterator[Exchange]:
    clock, faults = Clock(moment(min(market.life.closes for market in markets)) - timedelta(hours=4)), Faults()
    app = create_app(world, exchange=GeneratedExchange(world), clock=clock, faults=faults)
    with serve(Forcing(app, fault, connections) if fault else app) as site:
        yield Exchange(site.kalshi_stream, site.kalshi, clock, faults, app.state.keys.issue(), markets)


async def hear(place: Exchange, fault: str | None, *, once: bool) -> Heard:
    """Listen until the stream ends by itself; one that is silenced goes through two connections, or three, before the markets close."""
    silent = fault == "disconnect"
    connections = (2 if once else 3) if silent else 1
    async with asyncio.timeout(300), KalshiClient(place.rest, limits=RateLimit(tokens_per_second=1e9)) as client:
        heard = Heard(place.stream(ALERT if silent else CALM, partial(over_among, client)))
        listening = asyncio.create_task(place.listen(heard))
        passing = asyncio.create_task(place.pass_time(heard, connections))
        await asyncio.wait([listening])
        passing.cancel()
        await asyncio.wait([passing])
    return heard


def check_gaps(heard: Heard) -> None:
    """All that the venue kept back or sent late is told."""
    sound, report = heard.replayed()
    assert sound
    assert report.lost + report.inversions > 0 or report.connections > 1
    assert report.outages


def end_of(heard: Heard, faults: Faults) -> str:
    """The cell."""
    if heard.error is not None:
        assert heard.error.call == "GET /trade-api/ws/v2 (WebSocket)"
        return f"{heard.error.kind}@{heard.error.attempts}"
    sound, report = heard.replayed()
    assert sound
    if not report.gaps and not report.outages and report.connections == 1:
        return "complete"
    check_gaps(heard)
    assert report.lost <= faults.stats["gap"]
    return "resumed"


@pytest.mark.parametrize("mode", ["once", "always"])
@pytest.mark.parametrize("fault", table(CELLS))
async def test_a_stream_ends_under_a_fault_as_declared(
    world: GeneratedWorld, markets: tuple[Market, ...], fault: str, mode: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    forced = f"{fault}=1000" if mode == "always" else fault
    with exchange(world, markets, forced, 1000 if mode == "always" else 1) as place:
        heard = await hear(place, fault, once=mode == "once")
    assert end_of(heard, place.faults) == table(CELLS)[fault][mode]
    assert place.faults.stats[fault]
    secret = secret_of(place.credentials)
    assert secret not in "".join([caplog.text, repr(heard.error), repr(place.credentials), repr(heard.stream)])


def secret_of(credentials: Credentials) -> str:
    """A part of the private key that nothing may show."""
    return str(credentials.private_key.private_numbers().d)


async def test_a_stream_without_faults_is_complete(world: GeneratedWorld, markets: tuple[Market, ...]):
    with exchange(world, markets, None, 0) as place:
        heard = await hear(place, None, once=True)
    assert end_of(heard, place.faults) == "complete"
    assert len(heard.frames) > 50


def test_every_fault_is_declared_or_cannot_strike_a_stream():
    assert table(CELLS).keys() | OF_ANSWERS == HTTP_FAULTS.keys() | STREAM_FAULTS.keys()
