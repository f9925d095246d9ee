"""Playback of captured frames: recognised by content, in order, up to the current time."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.errors import BellwetherError
from bellwether.sandbox.exchange.captures import read_capture
from bellwether.sandbox.exchange.exchange import MARKET_CHANNELS, Interest, TradeFilter
from bellwether.sandbox.exchange.recorded_exchange import RecordedExchange
from bellwether.sandbox.timestamps import SECOND, format_time, to_instant

Object = dict[str, Any]
START = datetime(2026, 3, 18, 19, 36, tzinfo=UTC)
BEGIN = to_instant(START)
A, B = "KXGAME-26MAR18AB-A", "KXGAME-26MAR18AB-B"
EVER = 1 << 62


def snapshot(ticker: str, number: int, **sides: list[list[str]]) -> Object:
    return {
        "type": "orderbook_snapshot",
        "sid": 1,
        "seq": number,
        "msg": {"market_ticker": ticker, "market_id": f"id of {ticker}", **sides},
    }


def delta(ticker: str, number: int, second: float, price: str, size: str, side: str = "yes") -> Object:
    body = {"market_ticker": ticker, "market_id": f"id of {ticker}", "price_dollars": price, "delta_fp": size, "side": side}
    return {"type": "orderbook_delta", "sid": 1, "seq": number, "msg": {**body, "ts": format_time(BEGIN + int(second * SECOND))}}


def trade(ticker: str, number: int, second: int, size: str) -> Object:
    body = {"trade_id": f"{ticker} {number}", "market_ticker": ticker, "yes_price_dollars": "0.5400", "no_price_dollars": "0.4600"}
    return {
        "type": "trade",
        "sid": 2,
        "seq": number,
        "msg": {**body, "count_fp": size, "taker_side": "yes", "ts": BEGIN // SECOND + second},
    }


FRAMES = [
    snapshot(A, 1, yes_dollars_fp=[["0.5300", "8.00"]], no_dollars_fp=[["0.4500", "3.00"], ["0.4600", "20.00"]]),
    snapshot(B, 2),
    delta(A, 3, 3.07, "0.5400", "8.00"),
    delta(A, 4, 6.5, "0.4600", "-5.00", "no"),
    trade(A, 1, 6, "5.00"),
    delta(B, 5, 6.2, "0.1000", "1.50"),
    delta(A, 6, 9.0, "0.5300", "-8.00"),
    snapshot(A, 7),
]


def lines(frames: list[Object]) -> bytes:
    return b"\n\n".join(json.dumps(frame, separators=(",", ":")).encode() for frame in frames) + b"\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(lines([frame for frame in FRAMES if frame["msg"]["market_ticker"] == A])))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.ndjson").write_bytes(lines([frame for frame in FRAMES if frame["msg"]["market_ticker"] == B]))
    return tmp_path


def play_frames(exchange: RecordedExchange, interest: Interest, start: int = 0, end: int = EVER) -> list[tuple[str, Object]]:
    return [(message.kind, message.body) for message in exchange.messages(interest, start, end)]


BOTH = Interest({A: MARKET_CHANNELS, B: MARKET_CHANNELS})


# --- recognition -----------------------------------------------------------------------------------------------------


def test_bare_lines_are_captures(folder: Path) -> None:
    exchange = RecordedExchange(folder)
    assert exchange.tickers() == {A, B}
    assert play_frames(exchange, Interest({A: MARKET_CHANNELS})) == [
        (one["type"], one["msg"]) for one in FRAMES if one["msg"]["market_ticker"] == A
    ]


def wrappings(frames: list[Object]) -> dict[str, bytes]:
    """The same frames in the formats of four recorders, received a second apart."""
    at = [BEGIN + index * SECOND for index in range(len(frames))]
    events = [
        {
            "channel": "orderbook_delta",
            "event_type": one["type"],
            "local_recv_ns": received * 1000,
            "market_ticker": one["msg"]["market_ticker"],
            "payload_json": one["msg"],
            "sequence_number": one["seq"],
        }
        for one, received in zip(frames, at, strict=True)
    ]
    own = [
        b'{"received_at":%d,"connection":1,"ordinal":%d,"frame":%b}\n' % (received * 1000, index, json.dumps(one).encode())
        for index, (one, received) in enumerate(zip(frames, at, strict=True))
    ]
    texts = [{"received_ms": received // 1000, "text": json.dumps(one)} for one, received in zip(frames, at, strict=True)]
    document = {
        "note": "as it came",
        "tickers": [A, B],
        "frames": [{"received_ms": received // 1000, "frame": one} for one, received in zip(frames, at, strict=True)],
    }
    return {
        "events.ndjson": b"\n".join(json.dumps(event).encode() for event in [{"event_type": "ws_connected", "payload_json": {}}, *events]),
        "000001.ndjson": b"".join(own),
        "texts.jsonl": b"\n".join(json.dumps(text).encode() for text in texts) + b"\n",
        "stream.json": json.dumps(document, indent=1).encode(),
    }


@pytest.mark.parametrize("name", list(wrappings(FRAMES)))
def test_wrapped_frames_are_played_when_they_were_received(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(wrappings(FRAMES)[name])
    exchange = RecordedExchange(tmp_path)
    assert exchange.tickers() == {A, B}
    assert [(message.at, message.kind, message.body) for message in exchange.messages(BOTH, 0, EVER)] == [
        (BEGIN + index * SECOND, one["type"], one["msg"]) for index, one in enumerate(FRAMES)
    ]


def test_other_files_are_none(tmp_path: Path) -> None:
    (tmp_path / "markets.json").write_text(json.dumps({"markets": [{"ticker": A, "event_ticker": "KXGAME", "status": "active"}]}))
    (tmp_path / "frames.json").write_text(json.dumps({"frames": [{"type": "picture"}, 3], "type": "trade"}))
    (tmp_path / "rows.ndjson").write_text('{"type":"row","market_ticker":"KXA"}\n')
    (tmp_path / "checkpoints.ndjson").write_text('{"event_type":"orderbook_checkpoint","market_ticker":"KXA","yes_bid_prices":[1]}\n')
    (tmp_path / "noise.ndjson.gz").write_bytes(b"not gzip")
    (tmp_path / "broken.json").write_text('{"frames": [{"type":"trade"')
    (tmp_path / "table.csv").write_text("type,market_ticker\ntrade,KXA\n")
    exchange = RecordedExchange(tmp_path)
    assert exchange.tickers() == frozenset()
    assert list(exchange.messages(Interest(everywhere=MARKET_CHANNELS), 0, EVER)) == []
    assert exchange.book("KXA", 0) is None
    assert exchange.snapshot("KXA", 0) is None
    assert list(exchange.trades(TradeFilter(None, 0, EVER))) == []


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_line_left_half_written_at_the_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(lines(FRAMES) + b'{"type":"orderbook_delta","sid":1,"seq":8,"msg":{"market_ticker":"KXGAM')
    assert len(play_frames(RecordedExchange(tmp_path), BOTH)) == len(FRAMES)


def test_a_torn_archive_is_played_as_far_as_it_goes(tmp_path: Path) -> None:
    frames = [FRAMES[0], *(delta(A, 2 + index, index, f"0.{1000 + index % 4000}", "1.00") for index in range(3000))]
    whole = gzip.compress(lines(frames))
    (tmp_path / "a.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    played = play_frames(RecordedExchange(tmp_path), BOTH)
    assert 100 < len(played) < len(frames)
    assert played == [(frame["type"], frame["msg"]) for frame in frames[: len(played)]]


def test_a_broken_line_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(lines(FRAMES[:3]) + b'{"type":"orderbook_delta",\n' + lines(FRAMES[3:]))
    with pytest.raises(BellwetherError, match=r"a\.ndjson is broken"):
        play_frames(RecordedExchange(tmp_path), BOTH)


# --- time ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=20))
def test_times_never_go_back_and_the_order_stays(tmp_path_factory: pytest.TempPathFactory, seconds: list[int | None]) -> None:
    frames = [
        snapshot(A, number) if second is None else delta(A, number, second, "0.5000", "1.00") for number, second in enumerate(seconds, 1)
    ]
    path = tmp_path_factory.mktemp("captures") / "a.ndjson"
    path.write_bytes(lines(frames))
    captured = list(read_capture(path))
    assert [one.number for one in captured] == list(range(1, len(frames) + 1))
    assert [one.at for one in captured] == sorted(one.at for one in captured)
    known = [second for second in seconds if second is not None]
    if known:
        assert {one.at for one in captured} <= {BEGIN + second * SECOND for second in known}
        assert captured[-1].at == BEGIN + max(known) * SECOND


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 10), max_size=6))
def test_windows_add_up_to_the_whole(folders: Path, cuts: list[int]) -> None:
    exchange = RecordedExchange(folders)
    whole = play_frames(exchange, BOTH)
    bounds = [0, *sorted(BEGIN + cut * SECOND + 1 for cut in cuts), EVER]
    parts = [part for low, high in pairwise(bounds) for part in play_frames(exchange, BOTH, low, high)]
    assert parts == whole


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("module")
    (folder / "a.ndjson").write_bytes(lines([frame for frame in FRAMES if frame["msg"]["market_ticker"] == A]))
    (folder / "b.ndjson").write_bytes(lines([frame for frame in FRAMES if frame["msg"]["market_ticker"] == B]))
    return folder


# --- REST ------------------------------------------------------------------------------------------------------------


def test_books_are_those_of_the_moment(folder: Path) -> None:
    exchange = RecordedExchange(folder)

    def sides(second: float, ticker: str = A) -> tuple[Any, Any]:
        book = exchange.book(ticker, BEGIN + int(second * SECOND))
        assert book is not None
        return book.yes, book.no

    first = (("0.5300", "8.00"),), (("0.4500", "3.00"), ("0.4600", "20.00"))
    assert sides(0) == ((), ())
    assert sides(4) == ((("0.5300", "8.00"), ("0.5400", "8.00")), first[1])
    assert sides(7)[1] == (("0.4500", "3.00"), ("0.4600", "15.00"))
    assert sides(60) == ((), ())
    assert sides(4) == ((("0.5300", "8.00"), ("0.5400", "8.00")), first[1]), "also after a later moment was looked at"
    assert sides(8, B) == ((("0.1000", "1.50"),), ())
    message = exchange.snapshot(A, BEGIN + 7 * SECOND)
    assert message is not None
    assert message.body["market_id"] == f"id of {A}"
    assert message.body["no_dollars_fp"] == sides(7)[1]


def test_books_of_the_old_format_are_read(tmp_path: Path) -> None:
    old = {"market_ticker": A, "market_id": "x", "yes": [[41, 2559]], "no": [[57, 10]]}
    change = {"market_ticker": A, "price": 41, "delta": -59, "side": "yes", "ts": format_time(BEGIN)}
    frames = [
        {"type": "orderbook_snapshot", "sid": 1, "seq": 1, "msg": old},
        {"type": "orderbook_delta", "sid": 1, "seq": 2, "msg": change},
    ]
    (tmp_path / "a.ndjson").write_bytes(lines(frames))
    book = RecordedExchange(tmp_path).book(A, BEGIN)
    assert book is not None
    assert (book.yes, book.no) == ((("0.4100", "2500.00"),), (("0.5700", "10.00"),))


def test_trades_are_listed_in_the_current_format_the_newest_first(tmp_path: Path) -> None:
    old = {
        "trade_id": "old",
        "market_ticker": A,
        "yes_price": 42,
        "no_price": 58,
        "count": 7,
        "taker_side": "no",
        "ts": BEGIN // SECOND + 1,
    }
    frames = [
        {"type": "trade", "sid": 2, "seq": 1, "msg": old},
        trade(A, 2, 5, "1.00"),
        trade(A, 3, 5, "2.00"),
        trade(B, 4, 3, "4.00"),
        snapshot(A, 1),
    ]
    (tmp_path / "a.ndjson").write_bytes(lines(frames))
    exchange = RecordedExchange(tmp_path)
    rows = list(exchange.trades(TradeFilter(None, 0, EVER)))
    assert [row.body["count_fp"] for row in rows] == ["2.00", "1.00", "4.00", "7.00"]
    assert [row.key for row in rows] == sorted(row.key for row in rows)
    assert rows[-1].body == {
        "trade_id": "old",
        "ticker": A,
        "count_fp": "7.00",
        "yes_price_dollars": "0.4200",
        "no_price_dollars": "0.5800",
        "taker_side": "no",
        "taker_outcome_side": "no",
        "taker_book_side": "ask",
        "is_block_trade": False,
        "created_time": format_time(BEGIN + SECOND),
    }
    behind = list(exchange.trades(TradeFilter(None, 0, EVER, after=rows[1].key)))
    assert [row.body["trade_id"] for row in behind] == [row.body["trade_id"] for row in rows[2:]]
    assert [row.body["ticker"] for row in exchange.trades(TradeFilter(B, 0, EVER))] == [B]
    assert [row.body["count_fp"] for row in exchange.trades(TradeFilter(A, BEGIN + 2 * SECOND, BEGIN + 9 * SECOND))] == ["2.00", "1.00"]


def test_two_who_listen_do_not_disturb_each_other(folder: Path) -> None:
    exchange = RecordedExchange(folder)
    whole = play_frames(exchange, BOTH)
    middle = BEGIN + 6 * SECOND + 300_000
    first = exchange.messages(BOTH, 0, EVER)
    begun = [next(first) for _ in range(2)]
    assert play_frames(exchange, BOTH, 0, middle) + play_frames(exchange, BOTH, middle, EVER) == whole
    assert [(one.kind, one.body) for one in (*begun, *first)] == whole
    assert play_frames(exchange, BOTH, middle, EVER) == play_frames(RecordedExchange(folder), BOTH, middle, EVER)
