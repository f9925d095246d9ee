"""Captured WebSocket frames of the real venue through the sandbox's socket."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.sandbox.exchange.exchange import BOOKS, MARKET_CHANNELS, Interest
from bellwether.sandbox.exchange.recorded_exchange import RecordedExchange

pytestmark = pytest.mark.real

Frame = dict[str, Any]
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


def test_the_book_of_a_replay_is_never_crossed(exchange: RecordedExchange) -> None:
    ticker = some(exchange, "KXMLBGAME")[0]
    interest = Interest({ticker: frozenset({BOOKS})})
    times = sorted({message.at for message in exchange.messages(interest, 0, EVER)})
    for at in times[:: max(len(times) // 20, 1)]:
        book = exchange.book(ticker, at)
        assert book is not None
        assert Decimal(book.yes[-1][0]) + Decimal(book.no[-1][0]) < 1
