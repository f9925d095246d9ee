"""The WebSocket: handshake, commands, sequence numbers, and messages as the clock advances."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import websockets
from starlette.applications import Starlette

from bellwether.sandbox import Clock, GeneratedWorld, create_app, serve
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.exchange.keys import KeyRing
from bellwether.sandbox.exchange.stream import ERRORS
from bellwether.sandbox.source import ListingFilter
from bellwether.sandbox.timestamps import SECOND, to_datetime, to_instant
from bellwether.sandbox.world.model import Market
from bellwether.venues.kalshi.stream.signing import Credentials, build_headers

NOW = datetime(2025, 6, 15, 17, 19, 3, tzinfo=UTC)
PATH = "/trade-api/ws/v2"
Frame = dict[str, Any]


class Client:
    """One connection that sends commands and reads frames until a given one."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._ids = iter(range(1, 1000))

    async def read(self) -> Frame:
        async with asyncio.timeout(300):
            return json.loads(await self._socket.recv())

    async def until(self, wanted: Callable[[Frame], bool]) -> list[Frame]:
        frames = [await self.read()]
        while not wanted(frames[-1]):
            frames.append(await self.read())
        return frames

    async def send(self, command: str, **params: Any) -> int:
        command_id = next(self._ids)
        await self._socket.send(json.dumps({"id": command_id, "cmd": command, "params": params}))
        return command_id

    async def ask(self, command: str, answers: int = 1, **params: Any) -> list[Frame]:
        """Send a command. Returns its answers, and all frames before the last of them."""
        command_id = await self.send(command, **params)
        frames: list[Frame] = []
        while sum(frame.get("id") == command_id for frame in frames) < answers:
            frames.append(await self.read())
        return frames

    async def settle(self) -> list[Frame]:
        """Return all pending frames, up to the answer of a command without effect."""
        command_id = await self.send("list_subscriptions")
        return (await self.until(lambda frame: frame.get("id") == command_id))[:-1]

    async def raw(self, text: str | bytes) -> Frame:
        await self._socket.send(text)
        return await self.read()


class Place:
    """A served exchange with its own clock."""

    def __init__(self, app: Starlette, clock: Clock, keys: KeyRing, credentials: Credentials, url: str) -> None:
        self.app, self.clock, self.keys, self.credentials, self.url = app, clock, keys, credentials, url

    @asynccontextmanager
    async def connect(self, at_ms: int | None = None) -> AsyncIterator[Client]:
        signed = build_headers(self.credentials, "GET", PATH, time.time_ns() // 1_000_000 if at_ms is None else at_ms)
        async with websockets.connect(self.url, additional_headers=signed) as socket:
            yield Client(socket)

    async def refused(self, **headers_changed: str | None) -> tuple[int, Frame]:
        signed: dict[str, str | None] = {**build_headers(self.credentials, "GET", PATH, time.time_ns() // 1_000_000), **headers_changed}
        present = {name: value for name, value in signed.items() if value is not None}
        with pytest.raises(websockets.InvalidStatus) as caught:
            async with websockets.connect(self.url, additional_headers=present):
                pass
        return caught.value.response.status_code, json.loads(bytes(caught.value.response.body or b""))


@pytest.fixture(scope="module")
def ring() -> tuple[KeyRing, Credentials]:
    keys = KeyRing()
    return keys, keys.issue()


@pytest.fixture
def place(world: GeneratedWorld, exchange: GeneratedExchange, ring: tuple[KeyRing, Credentials]) -> Iterator[Place]:
    """The exchange at `NOW`, with a stopped clock."""
    clock = Clock(NOW)
    app = create_app(world, exchange=exchange, clock=clock)
    app.state.keys.admit(ring[1])
    with serve(app) as site:
        yield Place(app, clock, app.state.keys, ring[1], site.kalshi_stream)


@pytest.fixture(scope="module")
def lively(world: GeneratedWorld) -> list[Market]:
    """The most liquid markets, with two-sided books and some hours before their close."""
    rows = world.markets(ListingFilter(), to_instant(NOW))
    markets = [world.market(row.ticker) for row in rows if row.status == "active"]
    open_long = [market for market in markets if market.life.closes > to_instant(NOW) + 6 * 3600 * SECOND]
    return sorted(open_long, key=lambda market: (-market.trading.requote, market.key))[:8]


@pytest.fixture(scope="module")
def tickers(lively: list[Market]) -> list[str]:
    return [market.ticker for market in lively]


def numbers(frames: list[Frame], sid: int) -> list[int]:
    return [frame["seq"] for frame in frames if frame.get("sid") == sid and "seq" in frame]


def of(frames: list[Frame], kind: str) -> list[Frame]:
    return [frame for frame in frames if frame["type"] == kind]


# --- handshake -------------------------------------------------------------------------------------------------------


async def test_a_client_on_real_time_gets_in_while_the_clock_stands_elsewhere(place: Place) -> None:
    async with place.connect() as client:
        assert (await client.ask("list_subscriptions"))[0]["msg"] == []


async def test_bad_handshakes_are_refused_before_they_are_accepted(place: Place) -> None:
    assert (await place.refused(**{"KALSHI-ACCESS-SIGNATURE": "AAAA"}))[0] == 401
    status, body = await place.refused(**{"KALSHI-ACCESS-KEY": "nobody"})
    assert (status, body["error"]["code"], body["error"]["details"]) == (401, "authentication_error", "NOT_FOUND")
    assert (await place.refused(**{"KALSHI-ACCESS-TIMESTAMP": None}))[0] == 401
    far = build_headers(place.credentials, "GET", PATH, int((NOW - timedelta(minutes=1)).timestamp() * 1000))
    assert (await place.refused(**far))[1]["error"]["details"] == "TIMESTAMP_EXPIRED"
    elsewhere = build_headers(place.credentials, "GET", "/trade-api/v2", time.time_ns() // 1_000_000)
    assert (await place.refused(**elsewhere))[1]["error"]["details"] == "INCORRECT_API_KEY_SIGNATURE"


# --- subscriptions ---------------------------------------------------------------------------------------------------


async def test_a_subscription_begins_with_the_books_of_the_moment(place: Place, exchange: GeneratedExchange, tickers: list[str]) -> None:
    async with place.connect() as client:
        subscribed = (await client.ask("subscribe", channels=["orderbook_delta"], market_tickers=tickers))[0]
        assert subscribed["type"] == "subscribed"
        assert subscribed["msg"] == {"channel": "orderbook_delta", "sid": 1}
        frames = await client.settle()
    assert numbers(frames, 1) == list(range(1, len(tickers) + 1))
    assert {frame["msg"]["market_ticker"] for frame in frames} == set(tickers)
    for frame in frames:
        book = exchange.book(frame["msg"]["market_ticker"], to_instant(NOW))
        assert frame["type"] == "orderbook_snapshot"
        assert frame["msg"].get("yes_dollars_fp", []) == [list(level) for level in book.yes]
        assert frame["msg"].get("no_dollars_fp", []) == [list(level) for level in book.no]
        assert frame["msg"]["clock"] == book.clock


async def test_deltas_lead_from_one_snapshot_to_the_next(place: Place, exchange: GeneratedExchange, tickers: list[str]) -> None:
    async with place.connect() as client:
        await client.ask("subscribe", channels=["orderbook_delta", "trade"], answers=2, market_tickers=tickers)
        frames = await client.settle()
        place.clock.advance(timedelta(minutes=25))
        await client.until(lambda frame: frames.append(frame) is None and frame["type"] == "orderbook_delta")
        frames += await client.settle()
        frames += await client.settle()
    assert numbers(frames, 1) == list(range(1, len(numbers(frames, 1)) + 1))
    assert numbers(frames, 2) == list(range(1, len(numbers(frames, 2)) + 1))
    assert len(of(frames, "orderbook_delta")) > 500
    assert of(frames, "trade")
    books: dict[str, dict[tuple[str, str], Decimal]] = {}
    last: Frame = {}
    for frame in frames:
        body = frame["msg"]
        book = books.setdefault(body["market_ticker"], {})
        if frame["type"] == "orderbook_snapshot":
            book.update({(side, price): Decimal(size) for side in ("yes", "no") for price, size in body.get(f"{side}_dollars_fp", [])})
        elif frame["type"] == "orderbook_delta":
            place_in_book = (body["side"], body["price_dollars"])
            book[place_in_book] = book.get(place_in_book, Decimal(0)) + Decimal(body["delta_fp"])
            assert book[place_in_book] >= 0
            last = body
        elif not body["is_block_trade"]:
            passive = "no" if body["taker_outcome_side"] == "yes" else "yes"
            assert (last["side"], last["price_dollars"]) == (passive, body[f"{passive}_price_dollars"])
            assert Decimal(last["delta_fp"]) == -Decimal(body["count_fp"])
            assert last["market_ticker"] == body["market_ticker"]
    later = to_instant(NOW + timedelta(minutes=25))
    for ticker in tickers:
        shown = exchange.book(ticker, later)
        levels = {("yes", price): Decimal(size) for price, size in shown.yes} | {("no", price): Decimal(size) for price, size in shown.no}
        assert {place_in_book: size for place_in_book, size in books[ticker].items() if size} == levels


async def test_in_yes_prices_the_no_side_is_mirrored(place: Place, tickers: list[str]) -> None:
    async with place.connect() as client:
        await client.ask("subscribe", channels=["orderbook_delta"], market_tickers=[tickers[0]])
        plain = await client.settle()
        await client.ask("subscribe", channels=["orderbook_delta"], market_tickers=[tickers[0]], use_yes_price=True)
        mirrored = await client.settle()
        place.clock.advance(timedelta(minutes=1))
        frames = await client.until(lambda frame: frame["type"] == "orderbook_delta" and frame["sid"] == 2)
        frames += await client.settle()
    assert mirrored[0]["msg"]["yes_dollars_fp"] == plain[0]["msg"]["yes_dollars_fp"]
    expected = [[f"{1 - Decimal(price):.4f}", size] for price, size in plain[0]["msg"]["no_dollars_fp"]]
    assert mirrored[0]["msg"]["no_dollars_fp"] == expected
    pairs = zip(*([one["msg"] for one in of(frames, "orderbook_delta") if one["sid"] == sid] for sid in (1, 2)), strict=True)
    sides = set()
    for one, other in pairs:
        sides.add(one["side"])
        price = Decimal(one["price_dollars"])
        assert Decimal(other["price_dollars"]) == (price if one["side"] == "yes" else 1 - price)
    assert sides == {"yes", "no"}


async def test_a_snapshot_can_be_asked_for(place: Place, tickers: list[str]) -> None:
    async with place.connect() as client:
        await client.ask("subscribe", channels=["orderbook_delta"], market_tickers=[tickers[0]])
        first = (await client.settle())[0]
        again = (await client.ask("update_subscription", sids=[1], action="get_snapshot", market_tickers=[tickers[0]]))[0]
        assert again["type"] == "orderbook_snapshot"
        assert (again["seq"], again["msg"]) == (2, first["msg"])
        other = (await client.ask("update_subscription", sids=[1], action="get_snapshot", market_tickers=[tickers[1]]))[0]
        assert (other["seq"], other["msg"]["market_ticker"]) == (3, tickers[1])


async def test_nothing_comes_after_unsubscribing(place: Place, tickers: list[str]) -> None:
    async with place.connect() as client:
        await client.ask("subscribe", channels=["orderbook_delta", "trade"], answers=2, market_tickers=tickers)
        await client.settle()
        answer = (await client.ask("unsubscribe", sids=[1]))[0]
        assert (answer["type"], answer["sid"], answer["seq"]) == ("unsubscribed", 1, len(tickers) + 1)
        assert (await client.ask("list_subscriptions"))[0]["msg"] == [{"channel": "trade", "sid": 2}]
        place.clock.advance(timedelta(hours=1))
        frames = await client.until(lambda frame: frame["type"] == "trade")
        frames += await client.settle()
        assert {frame["type"] for frame in frames} == {"trade"}


# --- other channels --------------------------------------------------------------------------------------------------


async def test_the_ticker_channel_tells_every_new_quote_without_numbers(place: Place, lively: list[Market], tickers: list[str]) -> None:
    async with place.connect() as client:
        await client.ask("subscribe", channels=["ticker"], market_tickers=tickers)
        place.clock.advance(timedelta(minutes=25))
        frames = await client.until(lambda frame: frame["type"] == "ticker")
        frames += await client.settle()
    assert not [frame for frame in frames if "seq" in frame]
    at = to_instant(NOW + timedelta(minutes=25))
    for market in lively:
        tape = market.tape()
        slot = tape.at(at)
        last = [frame["msg"] for frame in frames if frame["msg"]["market_ticker"] == market.ticker][-1]
        assert Decimal(last["yes_bid_dollars"]) * 1000 == int(tape.bid[slot])
        assert Decimal(last["yes_ask_dollars"]) * 1000 == int(tape.ask[slot])
        assert Decimal(last["volume_fp"]) * 100 == int(tape.volume[slot])


async def test_lives_are_told_from_the_opening_to_the_settlement(place: Place, world: GeneratedWorld) -> None:
    day = range((NOW.date() - datetime(2025, 1, 1).date()).days - 1, (NOW.date() - datetime(2025, 1, 1).date()).days + 8)
    markets = [market for home in day for event in world.day(home).events if not event.is_combo for market in event.markets]
    market = next(
        one for one in markets if one.life.opens < to_instant(NOW) < one.life.closes and one.life.settled < one.life.closes + 86400 * SECOND
    )
    async with place.connect() as client:
        await client.ask("subscribe", channels=["market_lifecycle_v2", "orderbook_delta"], answers=2, market_tickers=[market.ticker])
        await client.settle()
        place.clock.set(to_datetime(market.life.settled))
        frames = await client.until(
            lambda frame: frame["msg"].get("event_type") == "settled" and frame["msg"]["market_ticker"] == market.ticker
        )
    told = [frame for frame in frames if frame["type"] == "market_lifecycle_v2" and frame["msg"]["market_ticker"] == market.ticker]
    kinds = [frame["msg"]["event_type"] for frame in told]
    assert [kind for kind in kinds if kind != "close_date_updated"] == ["deactivated", "determined", "settled"]
    assert ("close_date_updated" in kinds) == (market.life.closes != market.life.scheduled)
    determined = next(frame["msg"] for frame in told if frame["msg"]["event_type"] == "determined")
    assert determined["result"] == market.determination.result
    assert {frame["msg"]["market_ticker"] for frame in of(frames, "market_lifecycle_v2")} > {market.ticker}
    wiped = of(frames, "orderbook_snapshot")
    assert [set(frame["msg"]) for frame in wiped] == [{"market_ticker", "market_id", "clock"}]
    books = [frame for frame in frames if frame["type"].startswith("orderbook")]
    assert books[-1] == wiped[0]
    assert frames.index(wiped[0]) < frames.index(told[0])
    assert numbers(frames, 1) == list(range(1, len(numbers(frames, 1)) + 1))
    assert numbers(frames, 2) == list(range(2, len(numbers(frames, 2)) + 2))


async def test_a_running_clock_brings_messages_by_itself(
    world: GeneratedWorld, exchange: GeneratedExchange, tickers: list[str], ring: Any
) -> None:
    clock = Clock(NOW, rate=600.0)
    app = create_app(world, exchange=exchange, clock=clock)
    app.state.keys.admit(ring[1])
    with serve(app) as site:
        async with Place(app, clock, app.state.keys, ring[1], site.kalshi_stream).connect() as client:
            await client.ask("subscribe", channels=["orderbook_delta"], market_tickers=tickers)
            frames = await client.until(lambda frame: frame["type"] == "orderbook_delta" and frame["seq"] > 400)
    assert numbers(frames, 1) == list(range(1, len(frames) + 1))
    times = [frame["msg"]["ts_ms"] for frame in of(frames, "orderbook_delta")]
    assert times == sorted(times)
    assert all(frame["msg"]["ts_ms"] <= frame["sending_ts_ms"] for frame in of(frames, "orderbook_delta"))


# --- mistakes --------------------------------------------------------------------------------------------------------


async def test_a_command_that_makes_no_sense_gets_its_code(place: Place, tickers: list[str]) -> None:
    subscribe = {"cmd": "subscribe", "params": {"channels": ["orderbook_delta"], "market_tickers": tickers[:1]}}
    cases: list[tuple[Any, int]] = [
        ("nonsense", 1),
        ({"cmd": "subscribe"}, 2),
        ({"cmd": "subscribe", "params": {"channels": []}}, 3),
        ({"cmd": "unsubscribe", "params": {}}, 4),
        ({"cmd": "dance", "params": {}}, 5),
        ({"cmd": "unsubscribe", "params": {"sids": [9]}}, 7),
        ({"cmd": "subscribe", "params": {"channels": ["weather"]}}, 8),
        ({"cmd": "subscribe", "params": {"channels": ["trade"], "market_tickers": ["KXNOSUCH-1"]}}, 11),
        ({"cmd": "update_subscription", "params": {"sids": [1, 2], "action": "get_snapshot"}}, 12),
        ({"cmd": "update_subscription", "params": {"sids": [1], "action": "dance", "market_tickers": tickers[:1]}}, 13),
        ({"cmd": "subscribe", "params": {"channels": ["orderbook_delta"]}}, 14),
    ]
    async with place.connect() as client:
        assert (await client.raw(json.dumps({"id": 1, **subscribe})))["type"] == "subscribed"
        await client.settle()
        for command, code in cases:
            answer = await client.raw(command if isinstance(command, str) else json.dumps({"id": 7, **command}))
            assert (answer["type"], answer["msg"]["code"], answer["msg"]["msg"]) == ("error", code, ERRORS[code]), command
            assert answer.get("id") == (None if code == 1 else 7)


async def test_unknown_markets_and_channels_are_named_and_the_others_subscribed(place: Place, tickers: list[str]) -> None:
    async with place.connect() as client:
        markets = ["KXNOSUCH-1", tickers[0]]
        unknown, channel, subscribed = await client.ask("subscribe", channels=["weather", "trade"], answers=3, market_tickers=markets)
    assert (unknown["msg"]["code"], unknown["msg"]["market_tickers"]) == (11, ["KXNOSUCH-1"])
    assert channel["msg"]["code"] == 8
    assert subscribed["msg"] == {"channel": "trade", "sid": 1}
