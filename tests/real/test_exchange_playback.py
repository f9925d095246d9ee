"""Captured WebSocket frames of the real venue through the sandbox's socket."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import websockets
from starlette.applications import Starlette

from bellwether.sandbox import serve
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.exchange.exchange import BOOKS, MARKET_CHANNELS, Interest, WantedTrades
from bellwether.sandbox.exchange.keys import KeyRing
from bellwether.sandbox.exchange.recorded import RecordedExchange
from bellwether.sandbox.exchange.stream import KalshiSocket
from bellwether.venues.kalshi.stream.signing import headers

pytestmark = pytest.mark.real

Frame = dict[str, Any]
PATH = "/trade-api/ws/v2"
EVER = 1 << 62


@pytest.fixture(scope="module")
def exchange(recordings: Path) -> RecordedExchange:
    captured = RecordedExchange(recordings / "kalshi")
    if not captured.tickers():
        pytest.skip("no captured frames in the recordings")
    return captured


def some(exchange: RecordedExchange, prefix: str) -> list[str]:
    found = sorted(ticker for ticker in exchange.tickers() if ticker.startswith(prefix))
    if not found:
        pytest.skip(f"no captures of {prefix} in the recordings")
    return found


def captured_lines(path: Path) -> Iterator[Frame]:
    with gzip.open(path) as file:
        yield from (json.loads(line) for line in file if line.strip())


def test_every_captured_market_is_known(exchange: RecordedExchange, recordings: Path) -> None:
    files = sorted((recordings / "kalshi").glob("ws_nba_*/*.ndjson.gz"))
    assert {path.name.removesuffix(".ndjson.gz") for path in files} <= exchange.tickers()
    wrapped = recordings / "kalshi" / "ws_2026_08" / "ws_orderbook_stream.json"
    if wrapped.is_file():
        assert set(json.loads(wrapped.read_text())["tickers"]) <= exchange.tickers()


@pytest.mark.slow
def test_games_are_played_as_they_were_captured(exchange: RecordedExchange, recordings: Path) -> None:
    path = min((recordings / "kalshi").glob("ws_nba_*/*.ndjson.gz"), key=lambda path: path.stat().st_size, default=None)
    if path is None:
        pytest.skip("no captured games in the recordings")
    ticker = path.name.removesuffix(".ndjson.gz")
    played = exchange.messages(Interest({ticker: MARKET_CHANNELS}), 0, EVER)
    kinds = Counter[str]()
    last = 0
    for frame, message in zip(captured_lines(path), played, strict=True):
        assert (message.kind, message.body) == (frame["type"], frame["msg"])
        assert message.at >= last
        last = message.at
        kinds[message.kind] += 1
    assert min(kinds[kind] for kind in ("orderbook_snapshot", "orderbook_delta", "trade")) >= 1


def test_trades_of_a_game_are_listed(exchange: RecordedExchange) -> None:
    ticker = some(exchange, "KXNBAGAME")[0]
    rows = list(islice(exchange.trades(WantedTrades(ticker, 0, EVER)), 500))
    assert rows
    assert all(Decimal(row.body["yes_price_dollars"]) + Decimal(row.body["no_price_dollars"]) == 1 for row in rows)
    assert [row.body["created_time"] for row in rows] == sorted((row.body["created_time"] for row in rows), reverse=True)
    assert len({row.body["trade_id"] for row in rows}) == len(rows)


def test_recorder_events_keep_sub_cent_prices_and_fractions(exchange: RecordedExchange) -> None:
    tickers = some(exchange, "KXBTC15M")
    messages = list(islice(exchange.messages(Interest(dict.fromkeys(tickers, MARKET_CHANNELS)), 0, EVER), 20_000))
    assert messages[0].kind == "orderbook_snapshot"
    assert {message.kind for message in messages} >= {"orderbook_snapshot", "orderbook_delta", "ticker"}
    deltas = [message.body for message in messages if message.kind == "orderbook_delta"]
    assert any(not body["delta_fp"].endswith(".00") for body in deltas)
    book = exchange.book(tickers[0], messages[-1].at)
    assert book is not None
    assert book.yes
    assert Decimal(book.yes[-1][0]) + Decimal(book.no[-1][0]) < 1


def test_many_markets_of_one_subscription_come_with_fresh_numbers(exchange: RecordedExchange, recordings: Path) -> None:
    path = recordings / "kalshi" / "ws_2026_08" / "ws_orderbook_stream.json"
    if not path.is_file():
        pytest.skip("no capture of a shared subscription in the recordings")
    document = json.loads(path.read_text())
    frames = [(one["received_ms"], one["frame"]) for one in document["frames"] if one["frame"]["type"].startswith("orderbook")]
    keys = KeyRing()
    credentials = keys.issue()
    middle = frames[len(frames) // 2][0]
    clock = Clock(datetime.fromtimestamp(middle / 1000, UTC))
    app = Starlette(routes=KalshiSocket(exchange, clock, keys).routes())

    async def listen(url: str) -> list[list[Frame]]:
        signed = headers(credentials, "GET", PATH, time.time_ns() // 1_000_000)
        async with websockets.connect(url, additional_headers=signed) as socket:

            async def settle(command: Frame) -> list[Frame]:
                await socket.send(json.dumps(command))
                heard: list[Frame] = []
                await socket.send('{"id": 99, "cmd": "list_subscriptions"}')
                async with asyncio.timeout(300):
                    while not heard or heard[-1].get("id") != 99:
                        heard.append(json.loads(await socket.recv()))
                return heard[:-1]

            params = {"channels": ["orderbook_delta"], "market_tickers": document["tickers"]}
            at_once = await settle({"id": 1, "cmd": "subscribe", "params": params})
            clock.advance(timedelta(hours=1))
            return [at_once[1:], (await settle({"id": 2, "cmd": "list_subscriptions"}))[:-1]]

    with serve(app) as site:
        at_once, later = asyncio.run(listen(site.kalshi_stream))
    expected = [frame["msg"] for _, frame in frames]
    assert [frame["msg"] for frame in (*at_once, *later)] == expected
    assert [frame["seq"] for frame in (*at_once, *later)] == list(range(1, len(frames) + 1))
    assert len(at_once) == sum(received <= middle for received, _ in frames)
    assert later


def test_the_book_of_a_replay_is_never_crossed(exchange: RecordedExchange) -> None:
    ticker = some(exchange, "KXMLBGAME")[0]
    interest = Interest({ticker: frozenset({BOOKS})})
    times = sorted({message.at for message in exchange.messages(interest, 0, EVER)})
    for at in times[:: max(len(times) // 20, 1)]:
        book = exchange.book(ticker, at)
        assert book is not None
        assert Decimal(book.yes[-1][0]) + Decimal(book.no[-1][0]) < 1
