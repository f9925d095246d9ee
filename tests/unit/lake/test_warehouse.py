"""The published warehouse: contents, comments, and replacement during reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from bellwether.errors import ConfigError, LakeError
from bellwether.lake import Lake, build, meta, warehouse
from bellwether.lake.recovery import verify
from bellwether.lake.warehouse import Publication, publish, query, tables_written_since
from bellwether.tables import TABLES, table
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

DAY = ("2025-09-01",)
SCORES = table("benchmark/scores")
#: A sufficient choice of tables: views with and without partitions, and a mart.
CHOSEN = (SERIES, PRICES, FORECASTS, SCORES)
#: DuckDB has no zoned time in nanoseconds and truncates such a column to microseconds.
NANOSECONDS, MICROSECONDS = pl.Datetime("ns", "UTC"), pl.Datetime("us", "UTC")


def _filled(folder: Path) -> Lake:
    lake = Lake(str(folder / "la'ke"))
    for day in ("2025-09-01", "2025-09-02"):
        lake.write(PRICES, (day,), prices(day), run_id="r1")
    lake.write(SERIES, (), series(), run_id="r1")
    lake.write(FORECASTS, ("2025q3", "a/b"), forecasts(forecaster="a/b"), run_id="r1")
    return lake


def _path(folder: Path) -> Path:
    return folder / "ware'house" / "warehouse[1].duckdb"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return _filled(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return _path(tmp_path)


@pytest.fixture
def published(lake: Lake, path: Path) -> Path:
    publish(lake, path, tables=CHOSEN)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the lake and warehouse for tests that change neither."""
    return tmp_path_factory.mktemp("read")


@pytest.fixture(scope="module")
def done(folder: Path) -> Publication:
    return publish(_filled(folder), _path(folder))


@pytest.fixture(scope="module")
def unchanged(done: Publication) -> Path:
    return Path(done.path)


@pytest.fixture(scope="module")
def reader(unchanged: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with warehouse.connect(unchanged) as reader:
        yield reader


def test_marts_hold_their_rows_and_the_rest_are_views(unchanged: Path) -> None:
    kinds = dict(query(unchanged, "SELECT table_schema || '/' || table_name, table_type FROM information_schema.tables").rows())
    assert {name: kind for name, kind in kinds.items() if name in TABLES} == {
        name: "BASE TABLE" if declared.mart else "VIEW" for name, declared in TABLES.items()
    }


def test_meta_names_every_partition_with_its_file(lake: Lake, published: Path) -> None:
    found = query(published, "FROM meta.partitions")
    assert found.select("table_name", "partition", "rows").rows() == [
        ("raw.kalshi_series", "", 3),
        ("clean.prices", "2025-09-01", 6),
        ("clean.prices", "2025-09-02", 6),
        ("benchmark.forecasts", "2025q3/a/b", 4),
    ]
    manifest = lake.manifest(PRICES, DAY)
    assert manifest is not None
    assert found.row(1, named=True) == {
        **{name: getattr(manifest, name) for name in meta._SHARED},
        "inputs": None,
        "table_name": "clean.prices",
        "partition": "2025-09-01",
        "file": lake.storage.location(manifest.file),
        "published": True,
    }


def test_rows_of_other_rules_are_left_out_and_named(lake: Lake, path: Path) -> None:
    lake.write(replace(PRICES, version="0"), ("2025-09-03",), prices("2025-09-03"), run_id="r0")
    done = publish(lake, path, tables=CHOSEN)
    assert done.outdated == ("clean/prices 2025-09-03",)
    assert query(path, "SELECT DISTINCT day::VARCHAR FROM clean.prices ORDER BY 1").to_series().to_list() == ["2025-09-01", "2025-09-02"]
    assert query(path, "SELECT partition, version FROM meta.partitions WHERE NOT published").rows() == [("2025-09-03", "0")]


def test_what_dead_publishers_and_other_tools_left_is_removed(lake: Lake, published: Path) -> None:
    for name in ("warehouse[1].duckdb.tmp-dead", "warehouse[1].duckdb.tmp-dead.wal", "warehouse[1].duckdb.wal"):
        (published.parent / name).write_bytes(b"left over")
    publish(lake, published, tables=CHOSEN)
    assert sorted(file.name for file in published.parent.iterdir()) == ["warehouse[1].duckdb", "warehouse[1].duckdb.lock"]
    assert query(published, "SELECT count(*) AS n FROM clean.prices")["n"].to_list() == [12]


def test_a_reader_keeps_what_it_opened_and_the_next_one_sees_the_new_rows(lake: Lake, published: Path) -> None:
    count = "SELECT count(*) FROM clean.prices"
    with warehouse.connect(published) as reader:
        assert reader.execute(count).fetchall() == [(12,)]
        lake.write(PRICES, DAY, prices(rows=30, seed=1), run_id="r2")
        publish(lake, published, tables=CHOSEN)
        assert reader.execute(count).fetchall() == [(12,)]
        assert query(published, count).item() == 36


def test_a_self_contained_file_needs_no_lake(lake: Lake, tmp_path: Path) -> None:
    rows = lake.slice(PRICES).rows
    publish(lake, tmp_path / "all.duckdb", tables=CHOSEN, self_contained=True)
    shutil.rmtree(lake.uri)
    moved = (tmp_path / "all.duckdb").rename(tmp_path / "moved.duckdb")
    assert query(moved, "SELECT count(*) FROM clean.prices").item() == rows > 0
    assert query(moved, "SELECT DISTINCT stored_as FROM meta.tables").to_series().to_list() == ["table"]


def test_a_warehouse_that_was_copied_with_its_lake_does_not_show_the_original(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "elsewhere" / "copy"
    lake = Lake(str(home / "lake"))
    lake.write(PRICES, DAY, prices(), run_id="r1")
    publish(lake, home / "warehouse.duckdb", tables=CHOSEN)
    rows = query(home / "warehouse.duckdb", "SELECT count(*) FROM clean.prices").item()
    shutil.copytree(home, copy)
    with pytest.raises(LakeError, match=rf"it is a copy, and shows the lake {home}/lake .*publish it again: `bellwether warehouse`"):
        query(copy / "warehouse.duckdb", "SELECT 1")
    publish(Lake(str(copy / "lake")), copy / "warehouse.duckdb", tables=CHOSEN)
    shutil.rmtree(home)
    assert query(copy / "warehouse.duckdb", "SELECT count(*) FROM clean.prices").item() == rows > 0


def test_a_damaged_partition_is_left_out_by_name_and_the_rest_is_published(lake: Lake, published: Path) -> None:
    before = query(published, "SELECT count(*) FROM clean.prices").item()
    manifest = lake.write(PRICES, DAY, prices(seed=1), run_id="r2")
    Path(lake.storage.location(manifest.file)).write_bytes(b"PAR1")
    done = publish(lake, published, tables=CHOSEN)
    assert set(done.damaged) == {f"clean/prices {DAY[0]}"}
    assert "r2.parquet" in done.damaged[f"clean/prices {DAY[0]}"]
    left = query(published, "SELECT count(*) FROM clean.prices").item()
    assert 0 < left < before
    row = query(published, "SELECT published, damage FROM meta.partitions WHERE damage IS NOT NULL").row(0)
    assert (row[0], "r2.parquet" in row[1]) == (False, True)
    assert tables_written_since(lake, published, CHOSEN) == [], "nothing is left to publish"


def test_a_file_of_another_day_is_found_by_its_checksum(lake: Lake, path: Path) -> None:
    (first, other), *_ = [list(lake.manifests(PRICES).values())[:2]]
    shutil.copy(lake.storage.location(other.file), lake.storage.location(first.file))
    assert set(publish(lake, path, tables=CHOSEN).damaged) == {f"clean/prices {first.partition[0]}"}
    found = verify(lake)
    assert [(one.table, one.partition) for one in found.damaged] == [("clean/prices", first.partition[0])]
    assert f"`bellwether pull {first.partition[0]}` restores it" in found.damaged[0].reason
    assert found.files == sum(len(lake.manifests(declared)) for declared in TABLES.values())


def test_a_publication_compares_no_file_with_its_checksum_again(lake: Lake, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("bellwether.lake.slices.require_intact", lambda manifest, path: seen.append(path))
    monkeypatch.setattr("bellwether.lake.lake._CLOCK_TOLERANCE", timedelta(seconds=-10))  # makes the files appear older
    publish(lake, path, tables=CHOSEN)
    assert len(seen) == len(set(seen)) > 0
    seen.clear()
    publish(lake, path, tables=CHOSEN)
    assert seen == []


def test_a_mart_without_partitions_is_replaced(lake: Lake, path: Path) -> None:
    summary = table("replay/summary")
    first = summary.empty()
    lake.write(summary, (), first, run_id="r1")
    publish(lake, path, tables=[summary])
    lake.write(summary, (), first, run_id="r2")
    publish(lake, path, tables=[summary])
    assert query(path, "SELECT run_id FROM meta.partitions WHERE partition = '' AND file LIKE '%replay%'").to_series().to_list() == ["r2"]


def test_a_write_that_lands_while_the_warehouse_is_built_is_seen_by_the_next_look(
    lake: Lake, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, path, tables=CHOSEN)
    genuine = build.check_files

    def late(*given: Any) -> Any:
        rows = genuine(*given)
        lake.write(PRICES, DAY, prices(rows=30, seed=1), run_id="late")
        return rows

    monkeypatch.setattr(build, "check_files", late)
    publish(lake, path, tables=CHOSEN)
    monkeypatch.undo()
    assert tables_written_since(lake, path, CHOSEN) == [PRICES]
    publish(lake, path, tables=CHOSEN)
    assert query(path, "SELECT count(*) FROM clean.prices").item() == 36


def test_every_table_is_there_with_its_columns_even_without_rows(reader: duckdb.DuckDBPyConnection) -> None:
    for declared in (*TABLES.values(), meta.PARTITIONS, meta.TABLES, meta.COLUMNS):
        shown = {column: MICROSECONDS if dtype == NANOSECONDS else dtype for column, dtype in declared.schema.items()}
        assert reader.execute(f"FROM {declared.group}.{declared.short_name}").pl().schema == pl.Schema(shown), declared.name


def test_tables_and_columns_are_described(unchanged: Path) -> None:
    row = query(unchanged, "FROM meta.tables WHERE table_name = 'clean.prices'").row(0, named=True)
    assert (row["stored_as"], row["partitions"], row["rows"], row["partitioned_by"]) == ("view", 2, 12, ["day"])
    row = query(unchanged, "FROM meta.columns WHERE table_name = 'clean.prices' AND column_name = 'bid'").row(0, named=True)
    assert (row["type"], row["unit"], row["nullable"], row["ordinal"]) == (
        "DECIMAL(10,6)",
        "dollars per contract",
        True,
        PRICES.names.index("bid"),
    )
    comments = query(unchanged, "SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = 'clean' AND table_name = 'prices'")
    assert dict(comments.rows())["bid"] == "best YES bid; null if missing [dollars per contract]"
    views = query(unchanged, "SELECT view_name, comment FROM duckdb_views() WHERE schema_name = 'clean'")
    assert dict(views.rows())["prices"] == PRICES.row


def test_a_query_reads_the_lake_and_nothing_else_and_writes_nothing(folder: Path, unchanged: Path) -> None:
    secret = folder / "secret.txt"
    secret.write_text("secret\n")
    before = sorted(folder.rglob("*"))
    content_before = unchanged.read_bytes()
    for statement in (
        "CREATE TABLE clean.mine AS SELECT 1",
        "DROP VIEW clean.prices",
        "DELETE FROM benchmark.scores",
        "FROM read_text('{secret}')",
        "FROM read_csv('{secret}')",
        "FROM glob('{folder}/*')",
        "FROM read_text('{lake}/../secret.txt')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{lake}/out.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{lake}/out.csv'",
        "EXPLAIN (ANALYZE, FORMAT JSON) COPY (SELECT 1) TO '{lake}/out.csv'",
        "SELECT 1; COPY (SELECT 1) TO '{lake}/out.csv'",
        "ATTACH '{folder}/other.db' AS other",
        "ATTACH '{lake}/other.db' AS other",
        "EXPORT DATABASE '{folder}/all'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "CALL pragma_version()",
    ):
        with pytest.raises(ConfigError) as refused:
            query(unchanged, statement.format(secret=secret, folder=folder, lake=folder / "la'ke"))
        assert "secret\n" not in str(refused.value), statement
        assert sorted(folder.rglob("*")) == before, statement
    assert unchanged.read_bytes() == content_before


def test_every_way_of_reading_is_open_to_a_query(unchanged: Path) -> None:
    for statement, rows in {
        "SHOW TABLES": None,
        "DESCRIBE SELECT 1 AS one": 1,
        "PIVOT (SELECT 'a' AS k, 1 AS n UNION ALL SELECT 'b', 2) ON k USING sum(n)": 1,
        "EXPLAIN SELECT 1": 1,
        "EXPLAIN (FORMAT JSON) SELECT 1": 1,
        "explain (analyze, format json) SELECT 1": 1,
        "EXPLAIN (SELECT 1)": 1,
        "WITH numbers AS (FROM range(3)) FROM numbers": 3,
    }.items():
        found = query(unchanged, statement).height
        assert rows is None or found == rows, statement


def test_a_file_that_is_no_warehouse_is_refused(unchanged: Path, tmp_path: Path) -> None:
    path, sound = tmp_path / "damaged.duckdb", unchanged.read_bytes()
    for content in (b"hello", b"", sound[: len(sound) // 2], sound[:4096] + b"damage" + sound[4102:]):
        path.write_bytes(content)
        with pytest.raises(LakeError, match=r"opening the warehouse .*damaged.duckdb: .*; publish it again: `bellwether warehouse`"):
            query(path, "SELECT 1")
    path.unlink()
    with pytest.raises(LakeError, match=r"there is no file .*damaged.duckdb"):
        query(path, "SELECT 1")
