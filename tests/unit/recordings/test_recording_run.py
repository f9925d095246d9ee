"""Recording of the replayed captures, from the first call to the rows: frames, gaps and books."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import ConfigError, VenueError
from bellwether.recordings.frames import to_rows
from bellwether.recordings.gaps import build_gap_report
from bellwether.recordings.recording import Recording, RecordingStatus
from bellwether.recordings.recording_run import RecordingPlan, RecordingProgress, default_name, record_events
from bellwether.sandbox import create_app, serve
from bellwether.venues.http.client import KalshiClient
from bellwether.venues.http.retry import RetryPolicy
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.stream.client import StreamTimeouts
from bellwether.worlds import Addresses
from tests.captures import GAME, LADDER, SHORT
from tests.unit.journal.calls import Clock
from tests.unit.recordings.book_replay import check_books, parse_price, parse_size
from tests.unit.recordings.stream_faults import Faults
from tests.unit.venues.stream_peer import CREDENTIALS

NOW = datetime(2026, 10, 1, tzinfo=UTC)
SOON = RetryPolicy(base=0.001, cap=0.01, attempts=8)
PATIENCE = StreamTimeouts(quiet=0.3, answer=5.0, first=SOON, again=SOON)


class Place:
    """A served exchange with a clock that the test moves, and faults that it chooses."""

    def __init__(self, clock: Clock, addresses: Addresses, faults: Faults) -> None:
        self.clock, self.addresses, self.faults = clock, addresses, faults


@contextmanager
def served() -> Iterator[Place]:
    clock = Clock(NOW)
    faults = Faults(create_app(7, clock))
    with serve(faults) as site:
        yield Place(clock, Addresses(site.kalshi, site.kalshi_stream, site.gamma, site.clob, lambda: CREDENTIALS), faults)


@pytest.fixture
def place() -> Iterator[Place]:
    with served() as found:
        yield found


async def run_until(
    place: Place, plan: RecordingPlan, root: Path, frames: int, *, step: timedelta = timedelta(minutes=2), settle: bool = False
) -> Recording:
    """Record until the files have enough frames of markets; then stop. The clock advances by a step after each new line of the files.

    `settle`: at last wait until all pending frames have arrived, which the answer to a later request proves.
    """
    task = asyncio.create_task(record_events(place.addresses, plan, root))
    folder = root / default_name(plan.events)
    async with asyncio.timeout(300):
        while not task.done() and count_lines(folder, b"\n" if plan.rest else NUMBERED) < frames:
            place.clock.advance(step)
            lines = count_lines(folder)
            while not task.done() and count_lines(folder) == lines:
                await asyncio.sleep(0.02)
        answers = count_lines(folder, ANSWER)
        while settle and not (count_lines(folder, ANSWER) > answers and ANSWER in last_line(folder)):
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return Recording(folder)


ANSWER, NUMBERED = b'"type":"ok"', b'"seq":'


def count_lines(folder: Path, text: bytes = b"\n") -> int:
    return sum(path.read_bytes().count(text) for path in folder.glob("*.ndjson"))


def last_line(folder: Path) -> bytes:
    return max(folder.glob("*.ndjson")).read_bytes().splitlines()[-1]


async def test_an_event_is_recorded_whole_and_its_books_agree_with_the_exchange(place: Place, tmp_path: Path) -> None:
    recording = await run_until(place, RecordingPlan((GAME,), sync_seconds=0.1, patience=PATIENCE), tmp_path, 400, settle=True)
    check, gaps = check_books(recording)
    assert (recording.status, recording.done["reason"]) == (RecordingStatus.FINISHED, "ended by hand")
    assert recording.about.events == (GAME,)
    assert (gaps.lost, gaps.connections, gaps.outages) == (0, 1, ())
    assert check.is_sound
    assert check["deltas"] > 200
    frames = list(recording.frames())
    assert [frame.ordinal for frame in frames] == list(range(len(frames)))
    assert set(to_rows("x", frames)["market_ticker"].drop_nulls()) >= set(recording.about.tickers)
    async with KalshiClient(place.addresses.kalshi) as client:
        page = await client.fetch(routes.orderbooks(recording.about.tickers))
    for book in page.items("orderbooks"):
        held_now = check.books[book["ticker"]]
        for side, levels in (("yes_dollars", held_now.yes.levels), ("no_dollars", held_now.no.levels)):
            shown = {parse_price(price): parse_size(size) for price, size in book["orderbook_fp"][side] or ()}
            assert shown == levels


async def test_lost_and_swapped_frames_are_reported_and_the_books_are_requested_again(place: Place, tmp_path: Path) -> None:
    place.faults.lost, place.faults.swapped = frozenset({50, 300, 301}), frozenset(range(100, 140, 2))
    recording = await run_until(place, RecordingPlan((LADDER,), sync_seconds=0.1, patience=PATIENCE), tmp_path, 600)
    check, gaps = check_books(recording)
    assert gaps.lost == 3
    assert gaps.inversions > 0
    assert check["snapshots"] > len(recording.about.tickers)
    assert any(outage.cause == "gap" and outage.end is not None for outage in gaps.outages)
    assert check.is_sound, check.counts
    assert check["unapplied"] > 0


async def test_a_socket_that_falls_silent_is_replaced_and_books_are_invalid_in_between(place: Place, tmp_path: Path) -> None:
    patience = StreamTimeouts(quiet=0.1, answer=1.0, first=SOON, again=SOON)
    place.faults.silent_from = 200
    recording = await run_until(place, RecordingPlan((GAME,), sync_seconds=0.1, patience=patience), tmp_path, 300)
    check, gaps = check_books(recording)
    assert gaps.connections > 1
    assert gaps.lost == 0
    assert {outage.cause for outage in gaps.outages} == {"break"}
    assert check.is_sound


async def test_a_refused_key_interrupts_the_recording_and_a_later_run_continues_it(place: Place, tmp_path: Path) -> None:
    place.faults.refuses = True
    with pytest.raises(VenueError) as caught:
        await record_events(place.addresses, RecordingPlan((GAME,)), tmp_path)
    assert caught.value.kind == "authentication"
    assert CREDENTIALS.key_id not in str(caught.value)
    assert Recording(tmp_path / GAME).status is RecordingStatus.INTERRUPTED
    place.faults.refuses = False
    recording = await run_until(place, RecordingPlan((GAME,), sync_seconds=0.1, patience=PATIENCE), tmp_path, 50)
    assert (recording.status, build_gap_report(recording).lost) == (RecordingStatus.FINISHED, 0)


@pytest.mark.parametrize("rest", [False, True])
async def test_it_ends_by_itself_when_the_markets_close(place: Place, tmp_path: Path, rest: bool) -> None:
    plan = RecordingPlan((SHORT,), rest=rest, interval=0.05, sync_seconds=0.1, patience=PATIENCE)
    task = asyncio.create_task(record_events(place.addresses, plan, tmp_path))
    async with asyncio.timeout(300):
        while count_lines(tmp_path / SHORT) < 2:
            await asyncio.sleep(0.02)
        place.clock.advance(timedelta(hours=1))
        recording = await task
    assert recording.done["reason"] == "every market has closed"


async def test_it_ends_when_time_is_up_and_tells_how_far_it_is(place: Place, tmp_path: Path) -> None:
    told: list[RecordingProgress] = []
    plan = RecordingPlan((GAME,), minutes=0.3 / 60, sync_seconds=0.1, patience=PATIENCE)
    recording = await record_events(place.addresses, plan, tmp_path, name="short", tell=told.append, every=0.1)
    assert (recording.name, recording.done["reason"]) == ("short", "time was up")
    assert told
    assert told[-1].open_markets == len(recording.about.tickers)


async def test_without_a_key_books_and_trades_are_polled_verbatim(place: Place, tmp_path: Path) -> None:
    def refuse() -> Any:
        raise AssertionError("polling asks for no key")

    keyless = Place(place.clock, Addresses(place.addresses.kalshi, "ws://nowhere", "", "", refuse), place.faults)
    recording = await run_until(keyless, RecordingPlan((GAME,), rest=True, interval=0.05, sync_seconds=0.1), tmp_path, 12)
    found = [json.loads(frame.data) for frame in recording.frames()]
    books = [frame["msg"] for frame in found if frame["type"] == "orderbook_rest"]
    trades = [frame["msg"]["trades"] for frame in found if frame["type"] == "trade_rest"]
    assert {book["ticker"] for book in books[0]["orderbooks"]} == set(recording.about.tickers)
    assert all("orderbook_fp" in book for page in books for book in page["orderbooks"])
    assert trades
    assert all(datetime.fromisoformat(trade["created_time"]) >= NOW - timedelta(seconds=2) for page in trades for trade in page)
    new: set[str] = set()
    for page in trades:
        ids = {trade["trade_id"] for trade in page}
        assert ids - new
        new |= ids
    assert (recording.about.source, recording.done["frames"]) == ("rest", len(found))


async def test_an_event_that_the_venue_does_not_list_is_named(place: Place, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="recording KXNONE-1: the venue lists no open or upcoming market"):
        await record_events(place.addresses, RecordingPlan((GAME, "KXNONE-1")), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [{"events": ()}, {"events": ("A",), "minutes": 0}, {"events": ("A",), "minutes": -1.0}])
def test_a_plan_that_records_nothing_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError):
        RecordingPlan(**given)


def test_names_are_made_of_events() -> None:
    assert default_name(["KXA-1"]) == "KXA-1"
    assert default_name(["KXA-1", "KX/B 2", "C", "D"]) == "KXA-1+KX_B_2+2"
