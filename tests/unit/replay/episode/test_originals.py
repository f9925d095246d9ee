"""Episodes of PredictionMarketBench in each variant, and the side of their prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.episode.folder import load, validate, write
from bellwether.replay.episode.import_pmb import read_pmb
from bellwether.replay.episode.model import Gap, Settlement
from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, unpack
from tests.unit.replay.episode.folders import at
from tests.unit.replay.episode.originals import small_integers, structs

YES, NO = 0, 1


def test_types_and_order_of_the_columns_do_not_matter(tmp_path: Path) -> None:
    for form in (structs, small_integers):
        form(tmp_path / form.__name__)
    assert read_pmb(tmp_path / "structs").digest() == read_pmb(tmp_path / "small_integers").digest()


def test_snapshots_become_what_changed(tmp_path: Path) -> None:
    structs(tmp_path)
    book = read_pmb(tmp_path).book
    kind, ticker, side, price, value = unpack(book.words)
    assert (kind == LEVEL).all()
    changes = list(zip(ticker.tolist(), side.tolist(), price.tolist(), value.tolist(), strict=True))
    rows = [changes[start:end] for start, end in zip([0, *book.end.tolist()], book.end.tolist(), strict=False)]
    assert rows == [
        [(0, YES, 4000, 20_000), (0, YES, 4500, 10_000), (0, NO, 5000, 15_000), (0, NO, 5200, 5_000)],
        [(1, NO, 9500, 10_000)],
        [(0, YES, 4500, 7_000)],
        [],
        [(0, YES, 4000, 0), (0, NO, 5200, 0)],
        [(1, NO, 9500, 0)],
    ]


def test_it_becomes_an_episode_with_the_same_content(tmp_path: Path) -> None:
    structs(tmp_path / "original")
    content = read_pmb(tmp_path / "original")
    assert content.settlements == (Settlement("KXT-A", "YES", 1_000_000, at(540)), Settlement("KXT-B"))  # type: ignore[arg-type]
    written = write(tmp_path / "episode", content)
    assert written.digest == load(tmp_path / "episode").digest == content.digest()
    assert len(load(tmp_path / "episode").content.book.ts) == 6


def _locked(folder: Path) -> Path:
    """Return the original with its YES bids of 45 cents at 48 from second 5 to 7, which locks the NO bids at 52."""
    structs(folder)
    table = pq.read_table(folder / "orderbook.parquet")
    bids = table["yes_bids"].to_pylist()
    for row in (2, 3):
        bids[row][1]["price_cents"] = 48
    pq.write_table(table.set_column(3, "yes_bids", pa.array(bids, table["yes_bids"].type)), folder / "orderbook.parquet")
    return folder


def test_a_full_book_that_is_locked_cannot_be_trusted(tmp_path: Path) -> None:
    content = read_pmb(_locked(tmp_path / "original"))
    assert content.metadata.gaps == (Gap("KXT-A", at(5), at(7), "locked book"),)
    kind, *_ = unpack(content.book.words)
    assert kind[content.book.end[1] : content.book.end[2]].tolist() == [INVALID, *[LEVEL] * 2]
    assert kind[content.book.end[3] : content.book.end[4]][-1] == VALID
    write(tmp_path / "episode", content)
    assert validate(tmp_path / "episode").is_valid


def _priced(folder: Path, prices: list[int]) -> Path:
    structs(folder)
    table = pq.read_table(folder / "trades.parquet")
    pq.write_table(table.set_column(5, "price_cents", pa.array(prices)), folder / "trades.parquet")
    return folder


@pytest.mark.parametrize(("prices", "convention"), [([55, 48, 5], "taker"), ([45, 48, 5], "yes")])
def test_the_side_of_the_prices_is_the_one_that_agrees_with_the_books(tmp_path: Path, prices: list[int], convention: str) -> None:
    content = read_pmb(_priced(tmp_path, prices))
    assert content.metadata.source["trade_price"] == convention
    assert content.trades.price.tolist() == [4500, 4800, 500]


def test_the_side_of_the_prices_can_be_said(tmp_path: Path) -> None:
    _priced(tmp_path, [45, 48, 5])
    assert read_pmb(tmp_path, "taker").trades.price.tolist() == [5500, 4800, 500]
    assert read_pmb(tmp_path, "yes").trades.price.tolist() == [4500, 4800, 500]
    with pytest.raises(ConfigError, match="trade_price"):
        read_pmb(tmp_path, "no")


def _levels(folder: Path, side: str, row: int, levels: Any) -> Path:
    """Write an episode with other levels of one side in one row."""
    folder.mkdir()
    structs(folder)
    table = pq.read_table(folder / "orderbook.parquet")
    index = table.schema.get_field_index(side)
    column = table.column(side).to_pylist()
    column[row] = levels
    pq.write_table(table.set_column(index, side, pa.array(column, table.schema.field(index).type)), folder / "orderbook.parquet")
    return folder


WRONG_LEVELS = [
    [{"price_cents": 45, "size": -1}],
    [{"price_cents": 100, "size": 1}],
    [{"price_cents": 45, "size": 1}, {"price_cents": 45, "size": 2}],
    [{"price_cents": None, "size": 1}],
    None,
]


def test_a_wrong_level_is_named(tmp_path: Path) -> None:
    for number, levels in enumerate(WRONG_LEVELS):
        folder = _levels(tmp_path / str(number), "yes_bids", 2, levels)
        with pytest.raises(SchemaError, match=r"orderbook\.parquet: row 2"):
            read_pmb(folder)


def test_a_file_without_a_column_or_with_one_of_another_type_is_named(tmp_path: Path) -> None:
    for name, change in (
        ("no_bids", lambda table: table.drop_columns(["no_bids"])),
        ("ticker", lambda table: table.set_column(2, "ticker", pa.array(range(6)))),
        ("ts", lambda table: table.set_column(0, "ts", table["ts"].cast(pa.int64()))),
    ):
        structs(tmp_path / name)
        file = tmp_path / name / "orderbook.parquet"
        pq.write_table(change(pq.read_table(file)), file)
        with pytest.raises(SchemaError, match=rf"orderbook\.parquet: .*{name}"):
            read_pmb(tmp_path / name)


def test_a_row_that_is_there_twice_is_named(tmp_path: Path) -> None:
    structs(tmp_path)
    table = pq.read_table(tmp_path / "orderbook.parquet").take([0, 1, 1, 2])
    pq.write_table(table, tmp_path / "orderbook.parquet")
    with pytest.raises(SchemaError, match="row 2"):
        read_pmb(tmp_path)


def test_levels_without_a_size_are_no_levels(tmp_path: Path) -> None:
    structs(tmp_path / "plain")
    structs(tmp_path / "padded")
    table = pq.read_table(tmp_path / "padded" / "orderbook.parquet")
    column = [[*levels, {"price_cents": 2, "size": 0}] for levels in table.column("yes_bids").to_pylist()]
    pq.write_table(table.set_column(3, "yes_bids", pa.array(column, table.schema.field(3).type)), tmp_path / "padded" / "orderbook.parquet")
    assert read_pmb(tmp_path / "padded").digest() == read_pmb(tmp_path / "plain").digest()


def test_unsorted_rows_are_named(tmp_path: Path) -> None:
    structs(tmp_path)
    table = pq.read_table(tmp_path / "orderbook.parquet").take([0, 1, 2, 4, 3, 5])
    pq.write_table(table, tmp_path / "orderbook.parquet")
    with pytest.raises(SchemaError, match="row 4"):
        read_pmb(tmp_path)
