"""Price grids of recordings: from messages and listings, from prices, and their changes."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from bellwether.recordings.capture_import import import_captures
from bellwether.replay.engine import ReplaySettings, Session
from bellwether.replay.engine.codes import O_COST, O_FEES, O_FILLED, O_PRICE, O_REASON, Reason
from bellwether.replay.episode import Episode, EpisodeDraft, build_draft, load, validate, write
from bellwether.replay.episode_builder import ListedMarket, Listings, Outcomes, build_recording
from bellwether.replay.rules import rule_set
from bellwether.replay.tape.build import load_tape
from bellwether.replay.tape.layout import unpack
from bellwether.replay.units import BUY, MICROS, YES
from tests.unit.replay.episode_builder.streams import NOON, SECOND, Json, at, built, frames, levels, lifecycle, nanoseconds_at, trade
from tests.venues.stream.peer import A, delta, snapshot

DECI, CENTI = ((0, 10_000, 10),), ((0, 100, 1), (100, 9900, 10), (9900, 10_000, 1))


def structure(second: float, *spans: tuple[str, str, str]) -> Json:
    """Return a message that changes the price grid of market A."""
    ranges = [dict(zip(("start", "end", "step"), span, strict=True)) for span in spans]
    return lifecycle("price_level_structure_updated", second, price_ranges=ranges)


def grids(draft: EpisodeDraft) -> list[tuple[float, object]]:
    """Return (seconds after noon, ranges) of each grid of market A. The first grid has no start time."""
    market = draft.metadata.markets[0]
    changes = [((change.at - NOON) / SECOND, change.price_ranges) for change in market.grid_changes]
    return [(0, market.price_ranges), *changes]


def test_a_stated_grid_holds_from_its_message_on(tmp_path: Path) -> None:
    told = structure(5, ("0.0000", "0.0100", "0.0001"), ("0.0100", "0.9900", "0.0010"), ("0.9900", "1.0000", "0.0001"))
    said = (snapshot(A, 1), delta(A, 2, **at(1)), told, delta(A, 3, price="0.0085", **at(6)), delta(A, 4, price="0.4140", **at(7)))
    draft = built(frames(*said))
    assert grids(draft) == [(0, ((0, 10_000, 100),)), (5, CENTI)]
    episode = write(tmp_path / "rec", draft)
    [(start, cents), (changed, fine)] = episode.metadata.markets[0].price_grids()
    assert (start, cents.tolist()) == (0, list(range(100, 10_000, 100)))
    assert (changed, fine.tolist()) == (nanoseconds_at(5), [*range(1, 100), *range(100, 9900, 10), *range(9900, 10_000)])
    assert load(tmp_path / "rec").metadata == episode.metadata == draft.metadata


def test_a_grid_stated_before_the_book_is_the_first_and_a_listing_does_not_count_for_the_time_before_a_change() -> None:
    tenths = structure(0, ("0.0000", "1.0000", "0.0010"))
    known = Listings({A: ListedMarket(A, price_ranges=CENTI)})
    book = (snapshot(A, 1), delta(A, 2, **at(1)))
    assert grids(built(frames(tenths, *book), known=known)) == [(0, DECI)]
    assert grids(built(frames(*book), known=known)) == [(0, CENTI)]
    assert grids(built(frames(*book, structure(5, ("0", "1", "0.001"))), known=known)) == [(0, ((0, 10_000, 100),)), (5, DECI)]
    assert grids(built(frames(tenths, *book, tenths))) == [(0, DECI)]


def test_a_price_off_the_stated_grid_shows_that_it_changed_and_loses_no_book() -> None:
    known = Listings({A: ListedMarket(A, price_ranges=((0, 10_000, 100),))})
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), delta(A, 3, price="0.0085", **at(6)), delta(A, 4, **at(7))), known=known)
    assert grids(draft) == [(0, ((0, 10_000, 100),)), (6, CENTI)]
    assert draft.metadata.markets[0].grid_changes[0].source == "prices"
    assert levels(draft)["yes", 8.5] == 100 and not draft.metadata.gaps


def test_a_combo_on_a_grid_of_hundredths_of_a_cent_is_built_and_read(tmp_path: Path) -> None:
    """A generated combo whose prices use every $0.0001."""
    draw = random.Random(27)
    whole = structure(0, ("0.0000", "1.0000", "0.0001"))
    prices = [draw.randint(1, 4_000) for _ in range(200)]
    changes = [delta(A, seq, price=f"{price / 10_000:.4f}", **at(seq)) for seq, price in enumerate(prices, 2)]
    trades = [trade(A, seq, price=f"{price / 10_000:.4f}", side="no", **at(seq)) for seq, price in enumerate(prices, 2)]
    draft = built(frames(whole, snapshot(A, 1, yes_dollars_fp=[], no_dollars_fp=[["0.5999", "3.00"]]), *changes, *trades))
    expected = Counter({("yes", price / 10): 100 * count for price, count in Counter(prices).items()}) + Counter({("no", 5999 / 10): 300})
    assert levels(draft) == expected
    episode = write(tmp_path / "combo", draft)
    assert json.loads((tmp_path / "combo" / "metadata.json").read_text())["format"] == "bellwether-episode/2"
    assert set(prices) | {5999} == set(unpack(episode.content.book.words)[3].tolist())
    assert sorted(episode.content.trades.price.tolist()) == sorted(prices)
    again = write(tmp_path / "again", build_draft(load(tmp_path / "combo")))
    assert again.digest == episode.digest and validate(tmp_path / "again").is_valid


def replayed(episode: Episode) -> Session:
    rules = rule_set("kalshi-2026-08-30")
    return Session(load_tape(episode, rules), rules, ReplaySettings(cadence=SECOND, bankroll=1000 * MICROS))


def test_orders_must_be_on_the_grid_of_their_time_and_trade_at_hundredths_of_a_cent(tmp_path: Path) -> None:
    told = structure(5, ("0.0000", "0.0100", "0.0001"), ("0.0100", "0.9900", "0.0010"), ("0.9900", "1.0000", "0.0001"))
    ask = delta(A, 3, side="no", price="0.9912", by="7.00", **at(6))
    said = (
        snapshot(A, 1, yes_dollars_fp=[], no_dollars_fp=[["0.9800", "5.00"]]),
        delta(A, 2, side="no", price="0.9800", **at(1)),
        told,
        ask,
    )
    end = (delta(A, 4, side="no", price="0.9800", **at(20)), lifecycle("determined", 30, result="yes", settlement_value="1.0000"))
    session = replayed(write(tmp_path / "rec", built(frames(*said, *end))))
    refused, found = {}, -1
    while session.step():
        if session.now in (nanoseconds_at(2), nanoseconds_at(7)):
            order = session.place(0, YES, BUY, 88, 100)
            refused[session.now] = session.orders[order, O_REASON] == Reason.BAD_PRICE
            found = order
    assert refused == {nanoseconds_at(2): True, nanoseconds_at(7): False}
    order = session.result().orders[found]
    fee = -(-7 * 100 * 88 * (10_000 - 88) // (100 * 10_000))
    assert (order[O_PRICE], order[O_FILLED], order[O_COST]) == (88, 100, 8_800)
    assert fee <= order[O_FEES] < fee + 100
    assert session.result().pnl[0] == 1_000_000 - 8_800 - order[O_FEES]


@pytest.mark.real
@pytest.mark.parametrize(("capture", "price"), [("centicent_capture", 83), ("e2_two_markets", 85), ("e3_grid_stated", 85)])
def test_captures_with_fine_grids_are_replayed(recordings: Path, tmp_path: Path, capture: str, price: int) -> None:
    folder = recordings.parent / "data_2026_11" / "cases" / "venues" / capture
    if not folder.is_dir():
        pytest.skip(f"no capture at {folder}")
    [draft] = build_recording(import_captures(tmp_path / "recordings", folder)[0])
    session = replayed(write(tmp_path / "episode", draft))
    assert session.step()
    order = session.place(0, YES, BUY, price, 200)
    while session.step():
        pass
    found = session.result().orders[order]
    assert (found[O_REASON], found[O_PRICE], found[O_FILLED]) == (Reason.CLOSED, price, 0)


def test_frames_behind_the_close_that_were_not_applied_are_counted_as_plain_integers(tmp_path: Path) -> None:
    late = delta(A, 4, price="1.5", **at(9))
    draft = built(
        frames(snapshot(A, 1), delta(A, 2, **at(1)), delta(A, 3, **at(2)), lifecycle("determined", 5), late), results=Outcomes(infer=True)
    )
    assert draft.metadata.source["unapplied"] == 1 and type(draft.metadata.source["uncovered"]) is int
    assert draft.metadata.source["uncovered"] == 0
    write(tmp_path / "rec", draft)


@pytest.mark.real
@pytest.mark.parametrize(
    ("capture", "ranges", "levels"),
    [
        ("centicent_capture", [CENTI], {80, 83, 85, 4000, 5500, 5900}),
        ("e2_two_markets", [CENTI, ((0, 10_000, 100),)], {85, 4000, 5500}),
        ("e3_grid_stated", [CENTI], {4000, 5500}),
    ],
)
def test_captures_with_fine_grids_lose_no_book(
    recordings: Path, tmp_path: Path, capture: str, ranges: list[object], levels: set[int]
) -> None:
    folder = recordings.parent / "data_2026_11" / "cases" / "venues" / capture
    if not folder.is_dir():
        pytest.skip(f"no capture at {folder}")
    [recording] = import_captures(tmp_path / "recordings", folder)
    [draft] = build_recording(recording)
    assert [market.price_ranges for market in draft.metadata.markets] == ranges
    assert not draft.metadata.gaps and not draft.metadata.source["unapplied"] and not draft.metadata.source["malformed"]
    episode = write(tmp_path / "episode", draft)
    _, _, _, price, lots = unpack(episode.content.book.words)
    assert set(price.tolist()) == levels and (lots > 0).all()
    books = sum(b'"orderbook_' in frame.data for frame in recording.frames())
    assert len(episode.content.book.ts) == books
