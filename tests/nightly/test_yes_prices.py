"""Captures with NO levels at prices of YES give the same episodes as those at prices of NO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bellwether.recordings.books import has_yes_prices
from bellwether.recordings.captures import import_captures
from bellwether.recordings.recording import Recording
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.tape.layout import unpack
from bellwether.replay.units import NO
from tests.captures import Captures
from tests.unit.recordings.book_replay import check_books

pytestmark = pytest.mark.real


@pytest.fixture
def newer(recordings: Path) -> Path:
    folder = recordings.parent / "data_2026_11"
    if not folder.is_dir():
        pytest.skip(f"no recordings of November 2026 at {folder}")
    return folder


def best(recording: Recording) -> dict[str, tuple[int, int]]:
    return {market: (book.yes.best, book.no.best) for market, book in check_books(recording)[0].books.items()}


@pytest.mark.parametrize(("name", "flag"), [("yes", True), ("noleg", False)])
def test_the_two_forms_of_one_market_quote_alike(newer: Path, tmp_path: Path, name: str, flag: bool) -> None:
    [recording] = import_captures(tmp_path, newer / "kalshi" / "demo_2026_06" / f"ws__orderbook_trade_{name}.jsonl")
    assert recording.about.use_yes_price is flag
    assert best(recording) == {"KXWTACHALLENGERMATCH-26JUN11JIMLEP-LEP": (470_000, 480_000)}


def test_a_thin_book_without_a_flag_is_read_by_its_trade(newer: Path, tmp_path: Path) -> None:
    [recording] = import_captures(tmp_path, newer / "cases" / "venues" / "e5_yes_price_capture")
    assert best(recording) == {"KXATP-26NOV20CD-A": (400_000, 580_000)}
    [draft] = build_recording(recording)
    _, _, side, price, _ = unpack(draft.book.words)
    assert set(price[side == NO].tolist()) == {5500, 5800}
    assert draft.metadata.source["no_levels"] == "converted from prices of YES"


def test_a_capture_of_many_markets_converted_to_prices_of_yes_gives_the_same_books(captures: Captures, tmp_path: Path) -> None:
    [recorded] = captures.recordings("ws_2026_08")
    file = tmp_path / "in" / f"{recorded.name}.jsonl"
    file.parent.mkdir()
    file.write_text("".join(f"{json.dumps(in_yes_prices(json.loads(frame.data)))}\n" for frame in recorded.frames()))
    [recording] = import_captures(tmp_path / "out", file)
    assert has_yes_prices(recording.frames())
    expected, found = ([draft.book.words.tolist() for draft in build_recording(one)] for one in (recorded, recording))
    assert found == expected


def in_yes_prices(line: dict[str, Any]) -> dict[str, Any]:
    body = line.get("msg", {})
    for level in body.get("no_dollars_fp", []):
        level[0] = mirrored(level[0])
    if body.get("side") == "no" and "price_dollars" in body:
        body["price_dollars"] = mirrored(body["price_dollars"])
    return line


def mirrored(price: str) -> str:
    return f"{10_000 - round(float(price) * 10_000):05d}"[-5:-4] + "." + f"{10_000 - round(float(price) * 10_000):04d}"[-4:]
