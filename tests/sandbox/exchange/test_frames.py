"""Frames in bulk for benchmarks: as the socket would send them, the same every time."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import orjson

from bellwether.sandbox.exchange.frames import realistic_frames


def test_there_are_as_many_as_wanted_the_same_every_time() -> None:
    frames = list(realistic_frames(3000, markets=5))
    assert len(frames) == 3000
    assert list(realistic_frames(3000, markets=5)) == frames
    assert list(realistic_frames(10, markets=5)) == frames[:10]
    assert list(realistic_frames(50, seed=12, markets=5)) != frames[:50]


def test_they_are_numbered_without_a_gap_and_make_possible_books() -> None:
    numbers: dict[int, int] = {}
    kinds = Counter[str]()
    books: dict[str, dict[tuple[str, str], Decimal]] = {}
    for frame in map(orjson.loads, realistic_frames(40_000, markets=3)):
        kinds[frame["type"]] += 1
        assert frame["seq"] == numbers.get(frame["sid"], 0) + 1
        numbers[frame["sid"]] = frame["seq"]
        body = frame["msg"]
        if frame["type"] == "orderbook_snapshot":
            sides = ((side, body.get(f"{side}_dollars_fp", [])) for side in ("yes", "no"))
            books[body["market_ticker"]] = {(side, price): Decimal(size) for side, levels in sides for price, size in levels}
        elif frame["type"] == "orderbook_delta":
            book, level = books[body["market_ticker"]], (body["side"], body["price_dollars"])
            book[level] = book.get(level, Decimal(0)) + Decimal(body["delta_fp"])
            assert book[level] >= 0
    assert set(numbers) == {1, 2}
    assert kinds["orderbook_snapshot"] >= 6, "more than one day"
    assert kinds["trade"] > 100
