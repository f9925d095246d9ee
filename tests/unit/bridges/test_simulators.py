"""Episodes as market data of hftbacktest and nautilus_trader, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bellwether.bridges import hftbacktest, nautilus
from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import load
from bellwether.replay.tape.layout import LEVEL, unpack
from bellwether.replay.units import DOLLAR
from cli.main import main
from tests.unit.replay.episode.folders import Native

BRIDGES = [hftbacktest, nautilus]


@pytest.fixture
def episode(tmp_path: Path) -> Any:
    return load(Native().write(tmp_path / "E"))


def quotes(content: Content, code: int) -> list[tuple[int, int, int]]:
    """Return time, best bid and best ask (a dollar without one) after each instant of a market, with an empty book while it is invalid."""
    book, levels, valid, found = content.book, {}, True, {}
    start = 0
    for row, end in enumerate(book.end.tolist()):
        for word in book.words[start:end].tolist():
            kind, ticker, side, price, lots = unpack(word)
            if ticker == code and kind == LEVEL:
                levels[side, price] = lots
            elif ticker == code:
                valid = kind > 3
        start = end
        if book.ticker[row] == code:
            shown = [level for level, lots in levels.items() if lots and valid]
            best = [max((price for side, price in shown if side == half), default=0) for half in (0, 1)]
            found[int(book.ts[row])] = (best[0], DOLLAR - best[1])
    return [(at, *prices) for at, prices in found.items()]


def changes(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the quotes that differ from those before."""
    return [quote for before, quote in zip([(0, 0, DOLLAR), *found], found, strict=False) if quote[1:] != before[1:]]


@pytest.mark.parametrize("bridge", BRIDGES)
def test_an_episode_comes_back_with_its_quotes_trades_and_terms(episode: Any, tmp_path: Path, bridge: Any) -> None:
    for _ in range(2):  # an earlier export is replaced
        bridge.write_episode(tmp_path / "out", episode)
    back = bridge.read_episode(tmp_path / "out")
    for code in range(2):
        assert changes(quotes(back, code)) == changes(quotes(episode.content, code)) != []
    for name in ("ts", "ticker", "taker", "price", "lots"):
        assert np.array_equal(getattr(back.trades, name), getattr(episode.content.trades, name)), name
    assert back.metadata == replace(episode.metadata, gaps=(), exogenous=())
    assert back.settlements == episode.content.settlements
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something other than"):
        bridge.write_episode(tmp_path / "out", episode)


@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_book_is_empty_in_a_gap(tmp_path: Path, bridge: Any) -> None:
    gap = Native()
    gap.metadata["gaps"] = [
        {"ticker": "KXTEST-B", "start": "2026-01-20T00:01:10Z", "end": "2026-01-20T00:01:30Z", "cause": "lost messages"}
    ]
    gap.book += [(70, 6, "KXTEST-B", "invalid", None, None, None), (80, 7, "KXTEST-B", "level", "yes", 30, 100)]
    gap.book += [(90, 8, "KXTEST-B", "snapshot_start", None, None, None), (90, 8, "KXTEST-B", "level", "yes", 20, 500)]
    episode = load(gap.write(tmp_path / "E"))
    bridge.write_episode(tmp_path / "out", episode)
    found = changes(quotes(bridge.read_episode(tmp_path / "out"), 1))
    assert [(at - episode.metadata.start) // 10**9 for at, *_ in found] == [0, 60, 70, 90]
    assert [prices for _, *prices in found[1:]] == [[400, 450], [0, DOLLAR], [200, DOLLAR]]


@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_market_without_data_comes_back(tmp_path: Path, bridge: Any) -> None:
    silent = Native()
    silent.metadata["markets"].append({"ticker": "KXTEST-C"})
    bridge.write_episode(tmp_path / "out", load(silent.write(tmp_path / "E")))
    assert bridge.read_episode(tmp_path / "out").metadata.tickers == ("KXTEST-A", "KXTEST-B", "KXTEST-C")


@pytest.mark.parametrize("bridge", BRIDGES)
def test_an_export_has_the_same_bytes_again(episode: Any, tmp_path: Path, bridge: Any) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        bridge.write_episode(folder, episode)
    first, second = (
        [(path.relative_to(folder), path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()] for folder in folders
    )
    assert first == second


@pytest.mark.parametrize("form", ["hftbacktest", "nautilus"])
def test_market_data_without_terms_needs_results(episode: Any, tmp_path: Path, form: str) -> None:
    done = CliRunner().invoke(main, ["episode", "export", str(tmp_path / "E"), "--format", form, "--to", str(tmp_path / "out")])
    assert "2 markets in" in done.output, done.output
    (tmp_path / "out" / "episode.json").unlink()
    words = ["episode", "import", str(tmp_path / "out"), "--name", "again"]
    assert "2 markets" in CliRunner().invoke(main, words).output
    assert "it has no market X" in CliRunner().invoke(main, [*words, "--result", "X=yes"]).output
    done = CliRunner().invoke(main, [*words, "--result", "KXTEST-A=yes"])
    assert "1 settled" in done.output, done.output


def hft(change: Callable[[np.ndarray], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = folder / "KXTEST-A.npz"
        records = np.load(file)["data"].copy()
        change(records)
        np.savez(file, data=records)

    return damage


def setting(name: str, row: int, value: Any) -> Callable[[np.ndarray], None]:
    def change(records: np.ndarray) -> None:
        records[name][row] = value

    return change


def drop_array(folder: Path) -> None:
    np.savez(folder / "KXTEST-A.npz", other=np.zeros(3))


def drop_field(folder: Path) -> None:
    np.savez(folder / "KXTEST-A.npz", data=np.zeros(3, [("ev", "u8")]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (hft(setting("px", 1, 0.45005)), r"KXTEST-A.npz, row 1, px = 0.45005: it must be a price in whole hundredths of a cent"),
        (hft(setting("px", 0, 1.2)), r"row 0, px = 1.2: it must be a price above 0 and below 1"),
        (hft(setting("px", 0, np.nan)), "row 0, px = nan"),
        (hft(setting("qty", 2, -1.0)), r"row 2, qty = -1.0: it must be a size up to"),
        (hft(setting("ev", 0, 10 | 1 << 31 | 1 << 29)), "row 0, ev = 2684354570: only depth, snapshots, trades"),
        (hft(setting("ev", 0, 1 | 1 << 31)), "row 0, ev = .*: it must have the flag of one side"),
        (hft(setting("exch_ts", 1, 5)), "row 1, time = 5: it must not be before the previous row"),
        (drop_array, "it is no market data of hftbacktest"),
        (drop_field, "data has no field exch_ts"),
        (lambda folder: (folder / "KXTEST-A.npz").write_bytes(b"PK"), "it is no market data of hftbacktest"),
        (lambda folder: (folder / "KXTEST-A.npz").unlink(), "episode.json has the markets KXTEST-A, KXTEST-B, the data KXTEST-B"),
        (lambda folder: (folder / "episode.json").write_text("[]"), "must be an object"),
        (lambda folder: (folder / "episode.json").write_text("{}"), "it must have the objects metadata and settlements"),
    ],
)
def test_invalid_market_data_of_hftbacktest_is_refused(episode: Any, tmp_path: Path, damage: Any, message: str) -> None:
    hftbacktest.write_episode(tmp_path / "out", episode)
    damage(tmp_path / "out")
    with pytest.raises((ConfigError, SchemaError), match=message):
        hftbacktest.read_episode(tmp_path / "out")


def test_cleared_levels_and_events_of_the_trader_alone_are_read(episode: Any, tmp_path: Path) -> None:
    """A snapshot of hftbacktest's converters first clears each side to a price."""
    exchange, bid, ask = 1 << 31, 1 << 29, 1 << 28
    rows = [
        (1 | exchange | bid, 10, 0.4, 5.0),
        (1 | exchange | bid, 10, 0.3, 6.0),
        (1 | exchange | ask, 10, 0.6, 7.0),
        (1 | 1 << 30 | ask, 11, 0.5, 7.0),
        (3 | exchange | bid, 20, 0.35, 0.0),
        (4 | exchange | bid, 20, 0.38, 2.0),
        (3 | exchange | ask, 25, 100.0, 0.0),
        (3 | exchange, 30, 0.0, 0.0),
    ]
    records = np.zeros(len(rows), hftbacktest.DTYPE)
    for name, column in zip(("ev", "exch_ts", "px", "qty"), zip(*rows, strict=True), strict=True):
        records[name] = column
    (tmp_path / "one").mkdir()
    np.savez(tmp_path / "one" / "A%2FB.npz", data=records)
    content = hftbacktest.read_episode(tmp_path / "one")
    assert content.metadata.tickers == ("A/B",)
    assert quotes(content, 0) == [(10, 4_000, 6_000), (20, 3_800, 6_000), (25, 3_800, DOLLAR), (30, 0, DOLLAR)]


def catalog(kind: str, change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (file,) = (folder / "data" / kind / "KXTEST-A.KALSHI").glob("*.parquet")
        pq.write_table(change(pq.read_table(file)), file)

    return damage


def with_value(name: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(values, table.schema.field(name).type))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (catalog("order_book_deltas", with_value("action", 1, 9)), "row 1, action = 9: it must be 1 to 4"),
        (catalog("order_book_deltas", with_value("side", 0, 0)), "row 0, side = 0: it must be 1 for buy"),
        (catalog("order_book_deltas", with_value("order_id", 2, 7)), "row 2, order_id = 7: an episode has no single orders"),
        (
            catalog("order_book_deltas", with_value("price", 0, (5 * 10**11).to_bytes(16, "little"))),
            "row 0, price = 5e-05: it must be a whole",
        ),
        (
            catalog("order_book_deltas", with_value("price", 0, (2 * 10**16).to_bytes(16, "little"))),
            "row 0, price = 2.0: it must be a price",
        ),
        (catalog("order_book_deltas", with_value("ts_event", 1, 3)), "row 1, time = 3: it must not be before"),
        (catalog("order_book_deltas", lambda table: table.drop_columns(["sequence"])), "column sequence is missing"),
        (catalog("order_book_deltas", with_value("ts_event", 1, None)), "ts_event: it has 1 nulls"),
        (catalog("order_book_deltas", lambda table: table.set_column(2, "price", table["side"])), "price: it is no column of numbers"),
        (catalog("trade_tick", with_value("aggressor_side", 0, 0)), "row 0, aggressor_side = 0: it must be 1 for a buyer"),
        (lambda folder: next((folder / "data").rglob("*.parquet")).write_bytes(b"PAR1"), "not a readable Parquet file"),
    ],
)
def test_an_invalid_catalog_is_refused(episode: Any, tmp_path: Path, damage: Any, message: str) -> None:
    nautilus.write_episode(tmp_path / "out", episode)
    damage(tmp_path / "out")
    with pytest.raises((ConfigError, SchemaError), match=message):
        nautilus.read_episode(tmp_path / "out")


def test_numbers_of_eight_bytes_are_read(episode: Any, tmp_path: Path) -> None:
    """Packages for Windows, and builds without high precision, write them."""
    nautilus.write_episode(tmp_path / "out", episode)
    for file in (tmp_path / "out" / "data").rglob("*.parquet"):
        table = pq.read_table(file)
        for name in ("price", "size"):
            if name in table.schema.names:
                narrow = [(int.from_bytes(value, "little") // 10**7).to_bytes(8, "little") for value in table[name].to_pylist()]
                table = table.set_column(table.schema.get_field_index(name), name, pa.array(narrow, pa.binary(8)))
        pq.write_table(table, file)
    back = nautilus.read_episode(tmp_path / "out")
    assert changes(quotes(back, 0)) == changes(quotes(episode.content, 0))
    assert json.loads((tmp_path / "out" / "episode.json").read_text())["metadata"]["digest"] == episode.digest
