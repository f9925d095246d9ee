"""An invalid episode is refused with an error that names file, row and value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellwether.errors import SchemaError
from bellwether.replay.episode import load, validate
from tests.unit.replay.episode.folders import BOOK, SETTLEMENT, TRADES, Native, change_value

Change = Callable[[Native], None]


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


def cast(file: str, name: str, kind: pa.DataType) -> Change:
    def reshape(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        return table.set_column(index, name, table.column(name).cast(kind))

    return lambda native: native.reshape.update({file: reshape})


def without(file: str, name: str) -> Change:
    return lambda native: native.reshape.update({file: lambda table: table.drop_columns([name])})


def twice(file: str, name: str) -> Change:
    return lambda native: native.reshape.update({file: lambda table: table.append_column(name, table.column(name))})


def series(rows: list[tuple[object, ...]]) -> Change:
    def change(native: Native) -> None:
        native.series = rows
        native.metadata["exogenous"] = [{"name": "spx", "unit": "points"}]

    return change


WRONG: dict[str, tuple[Change, list[str]]] = {
    "unsorted book": (book(8, 0, 5.5), ["orderbook.parquet: row 8", "ts is '2026-01-20T00:00:05.500000+00:00'"]),
    "level set twice": (book(2, 5, 450), ["orderbook.parquet: row 2", "level of KXTEST-A is set twice"]),
    "snapshot behind levels": (book(0, 3, "level"), ["orderbook.parquet: row 0", "side is None"]),
    "snapshot twice": (book(1, 3, "snapshot_start"), ["orderbook.parquet: row 1", "snapshot_start of KXTEST-A follows levels"]),
    "level too large": (book(6, 6, 2**31), ["orderbook.parquet: row 6", "lots is 2147483648"]),
    "price of a dollar": (book(6, 5, 1000), ["orderbook.parquet: row 6", "price_mills is 1000"]),
    "price off the grid": (book(6, 5, 455), ["orderbook.parquet: row 6", "price_mills is 455", "price_ranges"]),
    "locked book": (book(6, 5, 480), ["orderbook.parquet: row 6", "KXTEST-A is locked", "add up to a dollar"]),
    "unknown ticker": (book(4, 2, "KXELSE"), ["orderbook.parquet: row 4", "ticker is 'KXELSE'", "KXTEST-A, KXTEST-B"]),
    "float sizes": (cast("orderbook", "lots", pa.float64()), ["orderbook.parquet", "lots has the type double", "integer"]),
    "times without zone": (cast("orderbook", "ts", pa.timestamp("ns")), ["orderbook.parquet", "ts has the type timestamp[ns]", "UTC"]),
    "column twice": (twice("trades", "lots"), ["trades.parquet", "column lots appears twice"]),
    "column missing": (without("orderbook", "side"), ["orderbook.parquet", "column side is missing"]),
    "unsorted trades": (trade(1, 0, 1), ["trades.parquet: row 1", "ts is '2026-01-20T00:00:01.000000+00:00'"]),
    "duplicate trade": (trade(1, 1, "t1"), ["trades.parquet: row 1", "trade_id is 't1'", "row 0"]),
    "trade of nothing": (trade(0, 5, 0), ["trades.parquet: row 0", "lots is 0"]),
    "settlement of an unknown ticker": (settled("KXELSE"), ["settlement.json", "KXELSE.ticker is 'KXELSE'"]),
    "two winners": (settled("KXTEST-B"), ["settlement.json", "KXTEST-A, KXTEST-B are all YES"]),
    "unknown result": (settled("KXTEST-A", result="MAYBE"), ["settlement.json", "KXTEST-A.result is 'MAYBE'"]),
    "scalar without value": (settled("KXTEST-A", result="SCALAR", value=None), ["settlement.json", "KXTEST-A.value is None"]),
    "value of another result": (settled("KXTEST-A", value="0.5"), ["settlement.json", "KXTEST-A.value is '0.5'"]),
    "settled at no time": (settled("KXTEST-A", settled_ts="soon"), ["settlement.json", "KXTEST-A.settled_ts is 'soon'"]),
    "unknown format": (metadata(format="bellwether-episode/3"), ["metadata.json", "format is 'bellwether-episode/3'"]),
    "unknown rules": (metadata(rules="kalshi-1999"), ["metadata.json", "'kalshi-1999'"]),
    "unknown fee model": (metadata(fee_model_version="free"), ["metadata.json", "fee_model_version is 'free'"]),
    "ends before it starts": (metadata(end_ts="2026-01-19T00:00:00Z"), ["metadata.json", "end_ts is '2026-01-19T00:00:00Z'"]),
    "all the money there is": (metadata(initial_bankroll_cents=2**62), ["metadata.json", "initial_bankroll_cents is 4611686018427387904"]),
    "ticker twice": (metadata(tickers=["KXTEST-A", "KXTEST-A"]), ["metadata.json", "tickers is ['KXTEST-A', 'KXTEST-A']"]),
    "other content than its digest": (metadata(digest="0" * 64), ["metadata.json", "digest is '000"]),
    "unknown fee type": (market(fee={"type": "cubic"}), ["metadata.json", "KXTEST-A", "'cubic'"]),
    "market without ticker": (market(ticker=None), ["metadata.json", "markets[0].ticker is None"]),
    "grid finer than a hundredth of a cent": (market(price_ranges=[["0", "1", "0.00005"]]), ["metadata.json", "markets[0].price_ranges"]),
    "lifecycle behind its close": (
        market(lifecycle=[{"at": f"2026-01-20T00:0{n}:00Z", "event": event} for n, event in ((1, "close"), (2, "halt"))]),
        ["metadata.json", "lifecycle is '2026-01-20T00:02:00.000000+00:00'"],
    ),
    "series that is NaN": (series([(0, "spx", 1.0), (1, "spx", math.nan)]), ["exogenous.parquet: row 1", "value is nan"]),
    "series of no name": (series([(0, "gold", 1.0)]), ["exogenous.parquet: row 0", "name is 'gold'"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, case: str) -> None:
    native = Native()
    change, said = WRONG[case]
    change(native)
    folder = native.write(tmp_path / "episode")
    with pytest.raises(SchemaError) as refusal:
        load(folder)
    assert all(text in str(refusal.value) for text in said), str(refusal.value)
    report = validate(folder)
    assert not report.is_valid and report.digest is None
    assert any(all(text in error.message for text in said) for error in report.errors)


def test_the_row_at_fault_is_a_number_too(tmp_path: Path) -> None:
    (error,) = validate(Native(book=change_value(BOOK, 6, 6, -1)).write(tmp_path)).errors
    assert (error.file, error.row) == ("orderbook.parquet", 6)


@pytest.mark.parametrize("name", ["metadata.json", "settlement.json", "orderbook.parquet", "trades.parquet"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (Native().write(tmp_path) / name).unlink()
    with pytest.raises(SchemaError, match=f"{name} is missing"):
        load(tmp_path)
    assert not validate(tmp_path).is_valid


def test_a_missing_series_is_named(tmp_path: Path) -> None:
    native = Native()
    native.metadata["exogenous"] = [{"name": "spx", "unit": None}]
    with pytest.raises(SchemaError, match=r"exogenous.parquet is missing.* spx"):
        load(native.write(tmp_path))


@pytest.mark.parametrize("name", ["settlement.json", "trades.parquet"])
def test_a_torn_file_is_named(tmp_path: Path, name: str) -> None:
    path = Native().write(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SchemaError, match=f"reading {name}: not a readable"):
        load(tmp_path)
    assert not validate(tmp_path).is_valid


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    native = Native(book=change_value(BOOK, 6, 6, -1), trades=change_value(TRADES, 0, 5, 0))
    native.settlement["KXTEST-B"]["result"] = "MAYBE"
    assert {error.check for error in validate(native.write(tmp_path)).errors} == {"book", "trades", "settlement"}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_nothing_in_the_json_files_makes_validation_raise(tmp_path: Path, data: st.DataObject) -> None:
    native = Native()
    whole = {"metadata": native.metadata, "settlement": native.settlement}
    place = data.draw(st.sampled_from(sorted(whole)))
    target = whole[place]
    while isinstance(target, dict | list) and target:
        key = data.draw(st.sampled_from(sorted(target)) if isinstance(target, dict) else st.integers(0, len(target) - 1))
        if not isinstance(target[key], dict | list) or data.draw(st.booleans()):
            target[key] = data.draw(JUNK)
            break
        target = target[key]
    folder = native.write(tmp_path)
    (folder / f"{place}.json").write_text(json.dumps(whole[place]))
    report = validate(folder)
    if report.is_valid:
        assert load(folder).digest == report.digest
    else:
        with pytest.raises(SchemaError):
            load(folder)
