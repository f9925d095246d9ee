"""Books of real recordings, level by level: equal to a plain implementation, and right or marked invalid after any damage."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from bellwether.recordings.recording import Recording
from bellwether.replay import prepare
from bellwether.replay.episode.folder import write
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.tape.layout import LEVEL, unpack
from tests.captures import Captures
from tests.unit.replay.episode_builder.damage import ALL, WAYS, compare_books, damaged, truth, with_snapshots
from tests.unit.replay.results.test_books import compared

pytestmark = pytest.mark.real

FOLDER = "ws_btc15m_2026_05"
#: In one recording, opening snapshots follow their control by time of receipt. In the other, snapshots share its time.
RUNS = ("rv600_next_evidence_shadow_20260513T230108Z", "rv600_next_evidence_shadow_20260515T113027Z")
#: Lots by side and price in $0.0001.
Levels = dict[tuple[str, int], int]


@pytest.fixture(scope="module")
def imported(captures: Captures) -> dict[str, Recording]:
    return {one.name: one for one in captures.recordings(FOLDER)}


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the book events in the files, sorted by receipt and number."""
    found = []
    for path in [*folder.glob("raw_events/type=orderbook_*/**/*.ndjson"), *folder.glob("raw_events/type=orderbook_*/**/*.ndjson.gz")]:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            found += [json.loads(line) for line in file if line.strip()]
    return sorted(found, key=lambda event: (event["local_recv_ns"], event["sequence_number"]))


def nanoseconds(text: str) -> int:
    since = datetime.fromisoformat(text.replace("Z", "+00:00")) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


def whole(text: str, parts: int) -> int:
    number = Decimal(text) * parts
    assert number == int(number)
    return int(number)


def plain_books(folder: Path) -> dict[str, list[tuple[int | None, Levels]]]:
    """Return each market's book after each of its frames, with the exchange's time. It is None after a snapshot, which has no time."""
    found: dict[str, list[tuple[int | None, Levels]]] = {}
    books: dict[str, Levels] = {}
    for event in events(folder):
        told, market = event["payload_json"], event["market_ticker"]
        if event["event_type"] == "orderbook_snapshot":
            sides = {side: told.get(f"{side}_dollars_fp") or [] for side in ("yes", "no")}
            books[market] = {(side, whole(price, 10_000)): whole(size, 100) for side, held in sides.items() for price, size in held}
            found.setdefault(market, []).append((None, dict(books[market])))
            continue
        level = told["side"], whole(told["price_dollars"], 10_000)
        size = books[market].get(level, 0) + whole(told["delta_fp"], 100)
        assert size >= 0
        books[market][level] = size
        if not size:
            del books[market][level]
        found[market].append((nanoseconds(told["ts"]), dict(books[market])))
    return found


@pytest.mark.parametrize("run", RUNS)
def test_every_book_of_an_episode_is_that_of_the_frames_level_by_level(recordings: Path, imported: dict[str, Recording], run: str) -> None:
    plain = plain_books(recordings / "kalshi" / FOLDER / run)
    compared = 0
    for draft in build_recording(imported[run]):
        assert (draft.metadata.gaps, draft.metadata.source["unapplied"], draft.metadata.source["uncovered"]) == ((), 0, 0)
        [ticker] = draft.metadata.tickers
        wanted = plain[ticker]
        rows = zip(np.repeat(draft.book.ts, draft.book.counts).tolist(), *map(np.ndarray.tolist, unpack(draft.book.words)), strict=True)
        book: Levels = {}
        changes = 0
        for at, kind, _, side, price, lots in rows:
            assert kind == LEVEL
            level = ("yes", "no")[side], price
            book[level] = lots
            if not lots:
                del book[level]
            if changes == 0 and book != wanted[0][1]:
                continue
            assert book == wanted[changes][1], (ticker, changes)
            assert changes == 0 or at == max(time for time, _ in wanted[max(1, changes - 50) : changes + 1] if time is not None)
            changes += 1
        compared += changes
    assert compared > 80_000


def test_the_sampled_top_of_a_book_is_that_of_the_book_rows(imported: dict[str, Recording], tmp_path: Path) -> None:
    count = 0
    for draft in build_recording(imported[RUNS[0]]):
        episode = write(tmp_path / draft.metadata.episode_id, draft)
        count += compared(draft, prepare(episode).tape)
    assert count > 500


#: Number of frames of a run, about some minutes, that tests damage.
FRAMES = 12_000


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("run", RUNS)
def test_a_damaged_recording_shows_right_books_or_none(imported: dict[str, Recording], run: str, way: str) -> None:
    recording = imported[run]
    frames = [frame for frame, _ in zip(recording.frames(), range(FRAMES), strict=False)]
    rng = Random(f"{run} {way}")
    whole = with_snapshots(frames, 1000, way)
    looked = compare_books(damaged(whole, rng, ALL, 12), recording.about, truth(frames))
    # After a loss, a subscription with snapshots alone cannot continue a book.
    assert looked.right > (100 if way == "check" else 1000)
    assert looked.told > 100
