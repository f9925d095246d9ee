"""An invalid episode is refused with file, row and field; an episode that can be replayed has findings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellwether.errors import SchemaError
from bellwether.replay.episode.content import BookColumns
from bellwether.replay.episode.folder import load, validate
from bellwether.replay.tape.layout import VALID
from tests.unit.replay.episode.folders import BOOK, SETTLEMENT, TRADES, Native, change_value

Change = Callable[[Native], object]


def book(row: int, index: int, value: object) -> Change:
    return lambda native: setattr(native, "book", change_value(BOOK, row, index, value))


def trade(row: int, index: int, value: object) -> Change:
    return lambda native: setattr(native, "trades", change_value(TRADES, row, index, value))


def settled(ticker: str, **values: object) -> Change:
    return lambda native: native.settlement.update({ticker: {**SETTLEMENT["KXTEST-A"], **values}})


def metadata(**values: object) -> Change:
    return lambda native: native.metadata.update(values)


def market(**values: object) -> Change:
    return lambda native: native.metadata["markets"][0].update(values)


def reshaped(file: str, reshape: Callable[[pa.Table], pa.Table]) -> Change:
    return lambda native: native.reshape.update({file: reshape})


def words(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Change the words of the book, of which each row has as many as before."""

    def reshape(table: pa.Table) -> pa.Table:
        column = BookColumns.of(table)
        changed = BookColumns(column.ts, column.sequence, column.ticker, column.end, change(column.words.copy()))
        return changed.table()

    return reshaped("orderbook", reshape)


def cast(name: str, kind: pa.DataType) -> Change:
    return reshaped("orderbook", lambda table: table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(kind)))


def series(rows: list[tuple[object, ...]]) -> Change:
    def change(native: Native) -> None:
        native.series = rows
        native.metadata["exogenous"] = [{"name": "spx", "unit": "points"}]

    return change


def gap(ticker: str, start: int, end: int | None) -> dict[str, Any]:
    times = (None if second is None else f"2026-01-20T00:00:0{second}Z" for second in (start, end))
    return {"ticker": ticker, **dict(zip(("start", "end"), times, strict=True)), "cause": "lost"}


PHASES = [{"at": f"2026-01-20T00:0{minute}:00Z", "event": event} for minute, event in ((1, "close"), (2, "halt"))]
#: File -> wrong parts: name -> (change, row or None, word of the message).
WRONG: dict[str, dict[str, tuple[Change, int | None, str]]] = {
    "orderbook.parquet": {
        "unsorted": (book(8, 0, 5.5), 4, "ts"),
        "level set twice": (words(lambda words: words[[0, 0, 2, 3, 4, 5, 6]]), 0, "KXTEST-A"),
        "levels out of order": (words(lambda words: words[[1, 0, 2, 3, 4, 5, 6]]), 0, "order"),
        "a word that changes nothing": (words(lambda words: words[[0, 1, 2, 3, 1, 5, 6]]), 2, "changes nothing"),
        "a word of another market": (words(lambda words: words[[3, 1, 2, 3, 4, 5, 6]]), 0, "another market"),
        "a word of another kind": (words(lambda words: words | [0, 0, 0, 0, 5, 0, 0]), 2, "level"),
        "valid before it was invalid": (words(lambda words: words | [0, 0, 0, 0, 0, VALID, 0]), 3, "changes nothing"),
        "level below zero": (book(6, 6, -1), 2, "size"),
        "price of a dollar": (book(6, 5, 1000), 2, "grid"),
        "price off the grid": (book(6, 5, 455), 2, "KXTEST-A, YES at 45.5 cents"),
        "locked book": (book(6, 5, 480), 2, "locked"),
        "unknown market": (words(lambda words: words + (1 << 20)), 0, "market"),
        "row of an unknown market": (
            reshaped("orderbook", lambda table: table.set_column(2, "ticker", pa.array([9] * 5, pa.int32()))),
            0,
            "ticker",
        ),
        "float numbers": (cast("sequence", pa.float64()), None, "sequence"),
        "times without zone": (cast("ts", pa.timestamp("ns")), None, "ts"),
        "column missing": (reshaped("orderbook", lambda table: table.drop_columns(["words"])), None, "words"),
    },
    "trades.parquet": {
        "unsorted": (trade(1, 0, 1), 1, "ts"),
        "duplicate": (trade(1, 1, "t1"), 1, "trade_id"),
        "trade of nothing": (trade(0, 5, 0), 0, "lots"),
        "trade at a dollar": (trade(0, 4, 1000), 0, "price"),
        "column twice": (reshaped("trades", lambda table: table.append_column("lots", table.column("lots"))), None, "lots"),
    },
    "settlement.json": {
        "unknown ticker": (settled("KXELSE"), None, "KXELSE"),
        "two winners": (settled("KXTEST-B"), None, "KXTEST-B"),
        "unknown result": (settled("KXTEST-A", result="MAYBE"), None, "KXTEST-A: result"),
        "scalar without value": (settled("KXTEST-A", result="SCALAR", value=None), None, "value of KXTEST-A"),
        "value of another result": (settled("KXTEST-A", value=500_000), None, "value of KXTEST-A"),
        "settled at no time": (settled("KXTEST-A", at="soon"), None, "KXTEST-A: at"),
    },
    "metadata.json": {
        "episode of an earlier version": (metadata(format="bellwether-episode/2"), None, "rebuild the episode from its recording"),
        "unknown rules": (metadata(rules="kalshi-1999"), None, "kalshi-1999"),
        "unknown mode": (metadata(execution_mode="maker"), None, "execution_mode"),
        "ends before it starts": (metadata(end="2026-01-19T00:00:00Z"), None, "end"),
        "all the money there is": (metadata(bankroll=2**62), None, "bankroll"),
        "market twice": (market(ticker="KXTEST-B"), None, "KXTEST-B"),
        "gap of another market": (metadata(gaps=[gap("KXELSE", 5, 7)]), None, "KXELSE"),
        "other content than its digest": (metadata(digest="0" * 64), None, "digest"),
        "unknown fee type": (market(fee={"type": "cubic"}), None, "cubic"),
        "market without ticker": (market(ticker=None), None, "markets.0.ticker"),
        "grid outside a dollar": (market(price_ranges=[[0, 10_001, 1]]), None, "price range"),
        "lifecycle behind its close": (market(lifecycle=PHASES), None, "lifecycle"),
        "grid changes at one time": (market(grid_changes=[{"at": PHASES[0]["at"], "price_ranges": [[0, 10_000, 100]]}] * 2), None, "order"),
        "grid change without prices": (market(grid_changes=[{"at": PHASES[0]["at"], "price_ranges": []}]), None, "no price"),
    },
    "exogenous.parquet": {
        "value that is NaN": (series([(0, "spx", 1.0), (1, "spx", math.nan)]), 1, "value"),
        "no such name": (series([(0, "gold", 1.0)]), 0, "name"),
    },
}


@pytest.mark.parametrize("file", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, file: str) -> None:
    for name, (change, row, word) in WRONG[file].items():
        native = Native()
        change(native)
        folder = native.write(tmp_path / name)
        with pytest.raises(SchemaError, match=word):
            load(folder)
        report = validate(folder)
        assert not report.is_valid and report.digest is None, name
        assert any((error.file, error.row) == (file, row) and word in error.message for error in report.errors), (name, report.errors)


def test_missing_and_torn_files_are_named(tmp_path: Path) -> None:
    for name in ("metadata.json", "settlement.json", "orderbook.parquet", "trades.parquet", "exogenous.parquet"):
        for torn in (False, True):
            native = Native()
            series([(0, "spx", 1.0)])(native)
            path = native.write(tmp_path / f"{name} {torn}") / name
            if torn:
                path.write_bytes(path.read_bytes()[:-9])
            else:
                path.unlink()
            with pytest.raises(SchemaError, match=name):
                load(path.parent)
            assert not validate(path.parent).is_valid


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    native = Native(book=change_value(BOOK, 6, 6, -1), trades=change_value(TRADES, 0, 5, 0))
    native.settlement["KXTEST-B"]["result"] = "MAYBE"
    assert {error.check for error in validate(native.write(tmp_path)).errors} == {"book", "trades", "settlement"}


TEXT = st.text("aZ0-:. /\u0661é", max_size=5)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_nothing_in_the_json_files_makes_validation_raise(tmp_path: Path, data: st.DataObject) -> None:
    native = Native()
    folder = native.write(tmp_path)
    whole = {"metadata": native.metadata, "settlement": native.settlement}
    place = data.draw(st.sampled_from(sorted(whole)))
    target: Any = whole[place]
    while isinstance(target, dict | list) and target:
        key = data.draw(st.sampled_from(sorted(target)) if isinstance(target, dict) else st.integers(0, len(target) - 1))
        if not isinstance(target[key], dict | list) or data.draw(st.booleans()):
            target[key] = data.draw(JUNK)
            break
        target = target[key]
    (folder / f"{place}.json").write_text(json.dumps(whole[place]))
    report = validate(folder)
    if report.is_valid:
        assert load(folder).digest == report.digest
    else:
        with pytest.raises(SchemaError):
            load(folder)


# Findings about episodes that can be replayed


INVALID_B = (61, 6, "KXTEST-B", "invalid", None, None, None)
ONLY_A = [row for row in BOOK if row[2] == "KXTEST-A"]
NOBODY_WINS = {"KXTEST-A": {**SETTLEMENT["KXTEST-A"], "result": "NO", "value": 0}}


def lost(**source: object) -> Change:
    return lambda native: native.metadata.update(source=source)


def trades(*rows: tuple[Any, ...]) -> Change:
    return lambda native: setattr(native, "trades", list(rows))


def rows(*given: tuple[Any, ...]) -> Change:
    return lambda native: setattr(native, "book", list(given))


def nobody_must_win(native: Native) -> None:
    native.metadata["mutually_exclusive"] = None
    native.settlement.update(NOBODY_WINS)


EARLY = (5, "t1", "KXTEST-A", "no", 450, 3_000)
#: Change -> check that warns (None: no warning), and a word of its message.
FINDINGS: dict[str, tuple[Change, str | None, str]] = {
    "nothing": (lambda native: None, None, ""),
    "a trade that hits no level": (trade(1, 4, 470), "trades", "1 of 2 trades (50.0%)"),
    "a level that the trade emptied": (trades(EARLY, (7.9, "t2", "KXTEST-A", "yes", 480, 5_000)), None, ""),
    "a level emptied long ago": (trades(EARLY, (8.1, "t2", "KXTEST-A", "yes", 480, 5_000)), "trades", "1 of 2 trades"),
    "prices of the other side": (trade(0, 4, 550), "trades", "fit at the other side's price"),
    "a trade off the grid": (trade(1, 4, 475), "trades", "price grid"),
    "an unsettled market": (lambda native: native.settlement.pop("KXTEST-B"), "settlement", "KXTEST-B"),
    "nobody wins": (lambda native: native.settlement.update(NOBODY_WINS), "winners", ""),
    "nobody wins where nobody must": (nobody_must_win, None, ""),
    "lost trades": (lost(trades_lost=7), "trades", "7 messages"),
    "an unmarked gap": (metadata(gaps=[gap("KXTEST-B", 5, 7)]), "gaps", "KXTEST-B"),
    "an unstated gap": (rows(*BOOK, INVALID_B), "gaps", "KXTEST-B"),
    "rows outside the window": (rows(*BOOK, (601, 6, "KXTEST-A", "level", "yes", 400, 1)), "coverage", "1 book rows"),
    "a market without rows": (rows(*ONLY_A), "coverage", "KXTEST-B"),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_findings(tmp_path: Path, case: str) -> None:
    change, check, word = FINDINGS[case]
    native = Native()
    change(native)
    report = validate(native.write(tmp_path))
    assert report.is_valid, report.text()
    assert report.digest is not None
    warnings = [(finding.check, finding.message) for finding in report.warnings]
    assert any(found == check and word in message for found, message in warnings) if check else warnings == []


def test_a_good_episode_is_counted(tmp_path: Path) -> None:
    report = validate(Native().write(tmp_path))
    assert report.counts == {"markets": 2, "book rows": 5, "level changes": 7, "gaps": 0, "trades": 2}


def test_frames_that_were_received_and_not_applied_lie_in_gaps(tmp_path: Path) -> None:
    for number, (source, valid) in enumerate([({"unapplied": 25471, "uncovered": 3}, False), ({"unapplied": 25471, "uncovered": 0}, True)]):
        native = Native()
        native.metadata["source"] = source
        assert validate(native.write(tmp_path / str(number))).is_valid == valid


def test_a_book_may_be_locked_in_a_gap_and_crossed_within_an_instant(tmp_path: Path) -> None:
    lost_a = (5, 3, "KXTEST-A", "invalid", None, None, None)
    locked = Native(book=[*BOOK[:6], lost_a, (6, 4, "KXTEST-A", "level", "yes", 480, 100), BOOK[8]])
    locked.metadata["gaps"] = [gap("KXTEST-A", 5, None)]
    crossed = [*BOOK[:6], (5, 3, "KXTEST-A", "level", "yes", 500, 100), (5, 4, "KXTEST-A", "level", "no", 520, 0), BOOK[8]]
    for name, native in (("gap", locked), ("instant", Native(book=crossed, trades=TRADES[:1]))):
        assert validate(native.write(tmp_path / name)).is_valid


def test_a_market_with_a_gap_and_no_book_is_an_error(tmp_path: Path) -> None:
    native = Native(book=[*ONLY_A, INVALID_B])
    native.metadata["gaps"] = [{"ticker": "KXTEST-B", "start": "2026-01-20T00:01:01Z", "end": None, "cause": "frame 0 has yes 0.4"}]
    assert any("KXTEST-B" in error.message for error in validate(native.write(tmp_path)).errors)
