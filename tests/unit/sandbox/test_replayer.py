"""The sandbox's captures, and their replay over Kalshi's WebSocket and REST."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from bellwether.replay.episode_builder.build import build_recording
from bellwether.sandbox import create_app
from bellwether.sandbox.replayer import CAPTURES, load_events
from tests.capture_generator import EVENTS, generate_capture
from tests.captures import GAME, LADDER, SHORT, import_event
from tests.unit.journal.calls import Clock
from tests.unit.recordings.book_replay import RecordedBook, check_books, is_empty

START = datetime(2026, 10, 1, tzinfo=UTC)
KEY = {"KALSHI-ACCESS-KEY": "any", "KALSHI-ACCESS-SIGNATURE": "any", "KALSHI-ACCESS-TIMESTAMP": "0"}
UP = f"{SHORT}-00"
#: Age of the events at the start, because times move by whole seconds and a frame is received 25 ms after it was sent; in microseconds.
BEGUN = 975_000

Json = dict[str, Any]


# --- the captures --------------------------------------------------------------------------------------------------


def test_the_generator_makes_the_shipped_captures() -> None:
    for terms in EVENTS:
        assert gzip.decompress((CAPTURES / f"{terms.ticker}.json.gz").read_bytes()) == generate_capture(terms)


@pytest.mark.parametrize(("event", "results"), [(GAME, ["NO", "YES"]), (LADDER, ["NO", "YES", "NO", "NO", "NO"]), (SHORT, ["NO"])])
def test_an_imported_capture_has_sound_books_and_is_settled(tmp_path: Path, event: str, results: list[str]) -> None:
    recording = import_event(tmp_path, event)
    check, report = check_books(recording)
    assert check.is_sound and check["deltas"] > 1000
    assert [is_empty(book) for book in check.books.values()] == [True] * len(results), "the venue wipes books at the close"
    [draft] = build_recording(recording)
    assert [settlement.result for settlement in draft.settlements] == results
    assert {market.ticker for market in draft.metadata.markets} == set(recording.about.tickers)
    gaps = {gap.ticker: ((gap.end or 0) - gap.start) / 1e9 for gap in draft.metadata.gaps}
    assert set(gaps) == (set(recording.about.tickers) if event == LADDER else set())
    assert all(90 <= seconds < 100 for seconds in gaps.values())
    assert (report.lost > 0) == (event == LADDER)


# --- the replay ----------------------------------------------------------------------------------------------------


class Connection:
    """A connection to the replayed stream, whose clock the test moves."""

    def __init__(self, socket: Any, clock: Clock) -> None:
        self._socket, self._clock = socket, clock
        self.advance = lambda seconds: clock.advance(timedelta(seconds=seconds))

    def ask(self, command: str, **params: Any) -> Json:
        """Send a command and return the next frame."""
        self._socket.send_text(json.dumps({"id": 7, "cmd": command, "params": params}))
        return self.read()

    def read(self) -> Json:
        frame: Json = json.loads(self._socket.receive_text())
        return frame

    def read_until_answer(self) -> list[Json]:
        """Return all frames before the response to a later command."""
        self._socket.send_text(json.dumps({"id": 8, "cmd": "list_subscriptions"}))
        return list(iter(self.read_unless_answer, None))

    def read_unless_answer(self) -> Json | None:
        frame = self.read()
        return None if frame.get("id") == 8 else frame


@contextmanager
def served() -> Iterator[tuple[TestClient, Clock]]:
    clock = Clock(START)
    with TestClient(create_app(7, clock), base_url="http://sandbox/trade-api/v2") as client:
        yield client, clock


@contextmanager
def connected() -> Iterator[tuple[Connection, TestClient]]:
    with served() as (client, clock), client.websocket_connect("ws://sandbox/trade-api/ws/v2", headers=KEY) as socket:
        yield Connection(socket, clock), client


def apply(book: RecordedBook, frames: list[Json]) -> RecordedBook:
    for frame in frames:
        if frame["type"] == "orderbook_delta":
            book.apply(frame["msg"])
    return book


def test_a_subscription_gets_the_book_and_then_every_message_when_its_time_has_come() -> None:
    with connected() as (connection, client):
        assert connection.ask("subscribe", channels=["orderbook_delta", "trade"], market_tickers=[UP])["msg"] == {
            "channel": "orderbook_delta",
            "sid": 1,
        }
        snapshot, confirmed = connection.read(), connection.read()
        assert (snapshot["type"], snapshot["seq"], confirmed["msg"]["sid"]) == ("orderbook_snapshot", 1, 2)
        assert connection.read_until_answer() == [], "the clock stands still"
        connection.advance(600)
        frames = connection.read_until_answer()
        assert [frame["seq"] for frame in frames if frame["sid"] == 1] == list(range(2, 2 + sum(frame["sid"] == 1 for frame in frames)))
        times = [frame["msg"]["ts_ms"] / 1000 - START.timestamp() for frame in frames]
        assert times == sorted(times) and -1 < times[0] < 30 and 550 < times[-1] <= 600
        own = [message for event in load_events() for message in event if message.ticker == UP]
        begin = next(message.at for message in own if message.kind == "orderbook_snapshot")
        due = [
            message
            for message in own
            if message.channel != "market_lifecycle_v2" and begin + BEGUN < message.at <= begin + BEGUN + 600_000_000
        ]
        assert [frame["msg"].get("trade_id") for frame in frames] == [message.body.get("trade_id") for message in due]
        book = apply(RecordedBook.of(snapshot["msg"]), frames)
        again = connection.ask("update_subscription", sids=[1], market_tickers=[UP], action="get_snapshot")
        assert RecordedBook.of(again["msg"]).yes.levels == book.yes.levels and RecordedBook.of(again["msg"]).no.levels == book.no.levels
        listed = client.get("/markets/orderbooks", params={"tickers": UP}).json()["orderbooks"][0]["orderbook_fp"]
        assert listed == {"yes_dollars": again["msg"]["yes_dollars_fp"], "no_dollars": again["msg"]["no_dollars_fp"]}
        ended = connection.ask("unsubscribe", sids=[1])
        assert (ended["type"], ended["sid"], ended["seq"]) == ("unsubscribed", 1, again["seq"] + 1)


def test_messages_that_a_capture_lacks_are_missing_sequence_numbers() -> None:
    tickers = [f"{LADDER}-T68", f"{LADDER}-T73"]
    with connected() as (connection, _):
        connection.ask("subscribe", channels=["orderbook_delta"], market_tickers=tickers)
        snapshots = [connection.read(), connection.read()]
        connection.advance(2 * 3600)
        frames = connection.read_until_answer()
        numbers = [frame["seq"] for frame in (*snapshots, *frames)]
        [gap] = [place for place, (one, other) in enumerate(itertools.pairwise(numbers)) if other != one + 1]
        after = list((*snapshots, *frames)[gap + 1 :])
        assert [frame["type"] for frame in after[:2]] == ["orderbook_snapshot"] * 2
        for place, ticker in enumerate(tickers):
            book = apply(RecordedBook.of(after[place]["msg"]), [frame for frame in after[2:] if frame["msg"]["market_ticker"] == ticker])
            shown = connection.ask("update_subscription", sids=[1], market_tickers=[ticker], action="get_snapshot")["msg"]
            assert RecordedBook.of(shown).yes.levels == book.yes.levels and RecordedBook.of(shown).no.levels == book.no.levels


def test_lifecycle_and_listing_follow_the_clock_to_the_settlement() -> None:
    with connected() as (connection, client):
        connection.ask("subscribe", channels=["market_lifecycle_v2"])
        assert {market["status"] for market in client.get("/markets", params={"event_ticker": GAME}).json()["markets"]} == {"active"}
        connection.advance(4 * 3600)
        steps = [frame["msg"] for frame in connection.read_until_answer() if frame["msg"]["market_ticker"] == f"{GAME}-NYY"]
        assert [step["event_type"] for step in steps] == ["close_date_updated", "deactivated", "determined", "settled"]
        close = START + timedelta(hours=3, seconds=-1)
        assert steps[0]["close_ts"] == close.timestamp() and steps[2]["result"] == "yes"
        listed = {market["ticker"]: market for market in client.get("/markets", params={"tickers": f"{GAME}-NYY,{UP}"}).json()["markets"]}
        assert {ticker: (market["status"], market["result"]) for ticker, market in listed.items()} == {
            f"{GAME}-NYY": ("finalized", "yes"),
            UP: ("finalized", "no"),
        }
        assert datetime.fromisoformat(listed[f"{GAME}-NYY"]["close_time"]) == close
        trades = client.get("/markets/trades", params={"ticker": UP, "min_ts": int(START.timestamp()) + 300}).json()["trades"]
        created = [datetime.fromisoformat(trade["created_time"]) for trade in trades]
        assert len(created) > 50 and created == sorted(created, reverse=True) and created[-1] >= START + timedelta(seconds=300)


@pytest.mark.parametrize(
    ("command", "params", "code"),
    [
        ("dance", {}, 5),
        ("unsubscribe", {"sids": [4]}, 7),
        ("subscribe", {"channels": ["weather"]}, 8),
        ("subscribe", {"channels": ["trade"], "market_tickers": ["KXOTHER-1"]}, 11),
    ],
)
def test_an_invalid_command_is_answered_with_an_error(command: str, params: Json, code: int) -> None:
    with connected() as (connection, _):
        answer = connection.ask(command, **params)
        assert (answer["type"], answer["id"], answer["msg"]["code"]) == ("error", 7, code)


def test_a_handshake_without_a_key_is_refused_and_other_markets_come_from_the_world() -> None:
    with served() as (client, _):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("ws://sandbox/trade-api/ws/v2"):
            pass
        world = client.get("/markets", params={"limit": 3}).json()["markets"]
        assert len(world) == 3 and not {market["event_ticker"] for market in world} & {GAME, LADDER, SHORT}
