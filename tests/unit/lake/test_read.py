"""Reading of slices: selected partitions, and messages about missing, damaged or outdated files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake, duckdb_connection
from bellwether.tables import Column, Table
from tests.damage import flip_bit
from tests.lake.frames import FORECASTS, PRICES, prices

DAYS = [("2025-09-01",), ("2025-09-02",), ("2025-09-03",)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    for (day,) in DAYS:
        lake.write(PRICES, (day,), prices(day), run_id="r1")
    return lake


def file_of(lake: Lake, day: str) -> Path:
    manifest = lake.manifest(PRICES, (day,))
    assert manifest is not None
    return Path(lake.storage.location(manifest.file))


def test_a_slice_without_partitions_named_has_all_in_order(lake: Lake) -> None:
    found = lake.slice(PRICES)
    assert [manifest.partition for manifest in found.manifests] == DAYS
    assert found.rows == 18
    assert found.read().equals(pl.concat([prices(day) for (day,) in DAYS]))


def test_a_slice_has_the_named_partitions_once_in_order(lake: Lake) -> None:
    found = lake.slice(PRICES, [DAYS[2], DAYS[0], DAYS[2]])
    assert found.read().equals(pl.concat([prices("2025-09-01"), prices("2025-09-03")]))


def test_a_missing_partition_is_an_error_that_names_it(lake: Lake) -> None:
    with pytest.raises(
        LakeError, match=r"reading clean/prices: partition 2025-10-01 \(and 1 more\) was never written; materialize it first"
    ):
        lake.slice(PRICES, [*DAYS, ("2025-10-01",), ("2025-10-02",)])


def test_a_table_that_was_never_written_is_an_error_that_names_it(lake: Lake) -> None:
    from tests.lake.frames import SERIES

    with pytest.raises(LakeError, match="reading raw/kalshi_series: the table was never written"):
        lake.slice(SERIES, [()])


def test_missing_partitions_are_skipped_where_that_is_asked(lake: Lake) -> None:
    found = lake.slice(PRICES, [("2025-08-31",), *DAYS[:1]], missing="skip")
    assert [manifest.partition for manifest in found.manifests] == DAYS[:1]


def test_a_slice_without_files_has_the_declared_columns(lake: Lake) -> None:
    nothing = lake.slice(FORECASTS)
    assert nothing.files == ()
    assert nothing.scan().collect_schema() == FORECASTS.schema
    assert nothing.read().equals(FORECASTS.empty())


def test_a_file_that_is_gone_is_named(lake: Lake) -> None:
    file = file_of(lake, "2025-09-02")
    file.unlink()
    with pytest.raises(
        LakeError, match=f"reading {file}: the file is missing although a manifest names it; `bellwether pull 2025-09-02` restores it$"
    ):
        lake.slice(PRICES).scan()


def test_a_file_that_is_damaged_inside_is_named(lake: Lake) -> None:
    file = file_of(lake, "2025-09-02")
    content = bytearray(file.read_bytes())
    content[4:600] = bytes(596)
    file.write_bytes(content)
    with pytest.raises(LakeError, match=rf"{file} is damaged: .*; `bellwether pull 2025-09-02` restores it$"):
        lake.slice(PRICES).read()
    with pytest.raises(LakeError, match=f"{file} is damaged"):
        lake.slice(PRICES).query(lambda rows: rows.reverse())


def test_one_changed_byte_is_found_when_the_rows_are_read(lake: Lake) -> None:
    rows = lake.slice(PRICES)
    assert rows.read().height == 18
    file = file_of(lake, "2025-09-02")
    flip_bit(file)
    with pytest.raises(LakeError, match=rf"{file} is damaged: .*; `bellwether pull 2025-09-02` restores it$"):
        rows.scan()
    with pytest.raises(LakeError, match=rf"{file} is damaged"), duckdb_connection.connect() as connection:
        duckdb_connection.add_input(connection, "prices", rows)
    assert lake.slice(PRICES, [("2025-09-01",)]).read().height == 6


def redeclared(**changes: object) -> Table:
    return replace(PRICES, **changes)


DECLARATIONS = {
    "a new column": (redeclared(columns=(*PRICES.columns, Column("note", pl.String(), "a note"))), "note is missing, declared String"),
    "a column less": (redeclared(columns=tuple(c for c in PRICES.columns if c.name != "volume")), "volume is not declared"),
    "another dtype": (
        redeclared(columns=tuple(replace(c, dtype=pl.Int64()) if c.name == "period_minutes" else c for c in PRICES.columns)),
        "period_minutes is Int32, declared Int64",
    ),
    "another order": (redeclared(columns=(*PRICES.columns[:-2], PRICES.columns[-1], PRICES.columns[-2])), "they are in another order"),
}


@pytest.mark.parametrize("change", DECLARATIONS)
def test_a_file_of_another_declaration_is_named_with_the_difference(lake: Lake, change: str) -> None:
    declared, difference = DECLARATIONS[change]
    with pytest.raises(
        LakeError,
        match=rf"2025-09-01/r1.parquet: its columns differ from the declaration: {difference}; `bellwether pull 2025-09-01` restores it$",
    ):
        lake.slice(declared).scan()


def test_rows_of_other_rules_are_an_error_that_says_what_to_do(lake: Lake) -> None:
    with pytest.raises(
        LakeError,
        match=r"partition 2025-09-01 \(and 2 more\) was written by version 1 of the table's rules, this code has version 2; `bellwether pull 2025-09-01` restores it$",
    ):
        lake.slice(redeclared(version="2"))


@pytest.mark.parametrize("text", ["", "[]", '{"table": "clean/prices"}'])
def test_a_damaged_manifest_is_named(lake: Lake, text: str) -> None:
    manifest = file_of(lake, "2025-09-01").parent / "manifest.json"
    manifest.write_text(text)
    with pytest.raises(
        LakeError, match=rf"reading the manifest {manifest}: it is damaged \(.*\); `bellwether pull 2025-09-01` restores it$"
    ):
        lake.manifests(PRICES)


def test_a_copied_partition_is_not_taken_for_another(lake: Lake) -> None:
    folder = file_of(lake, "2025-09-01").parent
    copy = folder.with_name("2025-09-09")
    copy.mkdir()
    (copy / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    with pytest.raises(LakeError, match=r"it belongs to clean/prices .*remove this copy"):
        lake.manifests(PRICES)


def test_a_lake_at_a_file_url_is_the_folder(lake: Lake) -> None:
    assert Lake(f"file://{lake.uri}").slice(PRICES).rows == 18
