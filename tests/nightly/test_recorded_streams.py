"""Imported captures of Kalshi's stream from 2026: nothing is lost, and the rebuilt books are right."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bellwether.recordings.books import scale_decimal
from bellwether.recordings.gaps import GapReport
from bellwether.recordings.recording import Recording, RecordingStatus
from bellwether.venues.kalshi.stream.frame import parse_message
from tests.captures import Captures
from tests.unit.recordings.book_replay import CENT, BookCheck, BookReplay

pytestmark = pytest.mark.real

TICKER = re.compile(rb'"market_ticker":"([^"]+)"')
NBA, BTC, LIST = "ws_nba_2026_03", "ws_btc15m_2026_05", "ws_2026_08"


@dataclass(frozen=True, slots=True)
class Imported:
    """Recording of a capture, and the results of its replay."""

    recording: Recording
    check: BookCheck
    gaps: GapReport


@pytest.fixture(scope="module")
def imported(captures: Captures) -> dict[str, Imported]:
    """Every capture by the name of its recording."""
    made = [pair for folder in (NBA, BTC, LIST) for pair in zip(captures.recordings(folder), captures.book_checks(folder), strict=True)]
    return {recording.name: Imported(recording, *checked) for recording, checked in made}


def of(imported: dict[str, Imported], *sources: str) -> list[Imported]:
    found = [one for one in imported.values() if one.recording.about.source.removeprefix("import: ") in sources]
    assert found
    return found


def raw_lines(path: Path) -> Iterator[bytes]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from (line.strip() for line in file if line.strip())


def test_every_capture_is_recognised_and_finished(imported: dict[str, Imported]) -> None:
    sources = {one.recording.about.source for one in imported.values()}
    assert sources == {"import: market files", "import: wrapped events", "import: frame list"}
    assert all(one.recording.status is RecordingStatus.FINISHED for one in imported.values())


def test_files_of_markets_are_kept_line_by_line_in_the_order_of_each_file(recordings: Path, imported: dict[str, Imported]) -> None:
    for one in of(imported, "market files"):
        held: dict[str, list[bytes]] = {ticker: [] for ticker in one.recording.about.tickers}
        for frame in one.recording.frames():
            [ticker] = set(TICKER.findall(frame.data))
            held[ticker.decode()].append(frame.data)
        for ticker, lines in held.items():
            [path] = (recordings / "kalshi" / NBA).glob(f"{ticker}.ndjson*")
            assert lines == list(raw_lines(path)), ticker


def test_whole_captures_have_lost_nothing(imported: dict[str, Imported]) -> None:
    for one in of(imported, "wrapped events", "frame list"):
        assert not one.recording.about.partial
        assert (one.gaps.lost, one.gaps.absent, one.gaps.duplicates, one.gaps.inversions, one.gaps.gaps) == (0, 0, 0, 0, ())
        assert {outage.cause for outage in one.gaps.outages} <= {"break"}


def test_no_book_is_ever_wrong(imported: dict[str, Imported]) -> None:
    for name, one in imported.items():
        assert one.check.is_sound, (name, one.check.counts)
        assert one.check["unapplied"] == 0
        assert one.check["deltas"] > 100


def test_snapshots_sent_again_agree_with_the_books_that_deltas_made(imported: dict[str, Imported]) -> None:
    assert sum(one.check["agreed"] for one in imported.values()) >= 2
    assert sum(one.check["mismatched"] for one in imported.values()) == 0


def test_wrapped_events_keep_receive_times_and_numbers(recordings: Path, imported: dict[str, Imported]) -> None:
    for one in of(imported, "wrapped events"):
        [root] = (recordings / "kalshi" / BTC).glob(f"{one.recording.name}")
        wanted = sorted(
            (event["local_recv_ns"], event["event_type"], event["sequence_number"])
            for path in root.glob("raw_events/**/*.ndjson*")
            for event in map(json.loads, raw_lines(path))
        )
        found = [(frame.received_at, parse_message(frame.data)) for frame in one.recording.frames()]
        assert [at for at, _ in found] == [at for at, _, _ in wanted]
        kinds = {"ws_subscribed": "subscribed"}
        key = lambda row: (row[0], row[1], row[2] or 0)  # noqa: E731
        assert sorted(((at, body["type"], body.get("seq")) for at, body in found), key=key) == sorted(
            ((at, kinds.get(kind, kind), number) for at, kind, number in wanted), key=key
        )


def best_whole_cents(levels: dict[int, int]) -> list[int] | None:
    """Return the sizes of the five best levels, or None if any of them, or one that rounds up to the last, is not at a whole cent."""
    best = sorted(levels, reverse=True)[:5]
    between = [price for price in levels if price % CENT and price >= best[-1] - CENT // 2]
    return None if between or len(best) < 5 else [levels[price] for price in best]


def test_books_agree_with_the_checkpoints_of_the_other_recorder(recordings: Path, imported: dict[str, Imported]) -> None:
    """The other recorder rounded prices to cents, so only books without prices in between are comparable."""
    for one in of(imported, "wrapped events"):
        marks = {
            (mark["market_ticker"], mark["sequence_number"]): mark
            for path in (recordings / "kalshi" / BTC / one.recording.name).glob("book_checkpoints/**/*.ndjson*")
            for mark in map(json.loads, raw_lines(path))
        }
        compared, replay = 0, BookReplay()
        for frame in one.recording.frames():
            market = replay.apply(frame)
            mark = marks.get((market, parse_message(frame.data)["seq"])) if market else None
            if market is None or mark is None:
                continue
            book = replay.check.books[market]
            for side, levels in (("yes", book.yes.levels), ("no", book.no.levels)):
                if (best := best_whole_cents(levels)) is not None:
                    assert best == [scale_decimal(f"{size:.2f}", 2) for size in mark[f"{side}_bid_sizes"]], (market, frame.ordinal, side)
                    compared += 1
        assert compared > 1000
