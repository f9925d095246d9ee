"""Captures of markets with prices of hundredths of a cent: no book is lost, and orders at such prices rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.recordings.captures import import_captures
from bellwether.replay.engine.codes import Reason
from bellwether.replay.engine.session import Session
from bellwether.replay.episode.folder import write
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.rules import rule_set
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.build import load_tape
from bellwether.replay.tape.layout import unpack
from bellwether.replay.units import BUY, MICROS, SECOND, YES
from tests.unit.replay.episode_builder.test_build import CENTI

pytestmark = pytest.mark.real

CENTS = ((0, 10_000, 100),)


@pytest.mark.parametrize(
    ("capture", "ranges", "levels", "price"),
    [
        ("centicent_capture", [CENTI], {80, 83, 85, 4000, 5500, 5900}, 83),
        ("e2_two_markets", [CENTI, CENTS], {85, 4000, 5500}, 85),
        ("e3_grid_stated", [CENTI], {4000, 5500}, 85),
    ],
)
def test_captures_with_fine_grids_are_built_and_replayed(
    recordings: Path, tmp_path: Path, capture: str, ranges: list[object], levels: set[int], price: int
) -> None:
    folder = recordings.parent / "data_2026_11" / "cases" / "venues" / capture
    if not folder.is_dir():
        pytest.skip(f"no capture at {folder}")
    [recording] = import_captures(tmp_path / "recordings", folder)
    [draft] = build_recording(recording)
    assert [market.price_ranges for market in draft.metadata.markets] == ranges
    assert not draft.metadata.gaps and not draft.metadata.source["unapplied"] and not draft.metadata.source["malformed"]
    episode = write(tmp_path / "episode", draft)
    _, _, _, prices, lots = unpack(episode.content.book.words)
    assert set(prices.tolist()) == levels and (lots > 0).all()
    assert len(episode.content.book.ts) == sum(b'"orderbook_' in frame.data for frame in recording.frames())
    rules = rule_set("kalshi-2026-08-30")
    session = Session(load_tape(episode, rules), rules, BacktestSettings(cadence=SECOND, bankroll=1000 * MICROS))
    assert session.step()
    order = session.place(0, YES, BUY, price, 200)
    while session.step():
        pass
    found = session.result().orders[order]
    assert (found["reason"], found["price"], found["filled"]) == (Reason.CLOSED, price, 0)
