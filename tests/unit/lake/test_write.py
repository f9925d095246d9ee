"""Writing a partition: stored contents, refused rows, and equal bytes for equal rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from bellwether.errors import LakeError, SchemaError
from bellwether.lake import Lake
from bellwether.tables import TABLES, table
from tests.lake.frames import FORECASTS, PRICES, break_frame, forecasts, prices

DAY = ("2025-09-01",)
FAULTS = ("extra column", "missing column", "null", "wrong dtype")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def stored(lake: Lake) -> list[str]:
    return [entry.name for entry in lake.storage.files("")]


@pytest.mark.parametrize("durable", [True, False])
def test_a_partition_is_forced_to_the_disk_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool) -> None:
    lake, synced = Lake(str(tmp_path / "lake"), durable=durable), []
    genuine = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or genuine(handle))
    manifest = lake.write(PRICES, DAY, prices(), run_id="r1")
    folder = (tmp_path / "lake" / manifest.file).parent
    drafts = {Path(name).name.partition(".tmp-")[0] for name in synced if ".tmp-" in name}
    assert drafts == ({"r1.parquet", "manifest.json"} if durable else set())
    # Names must be durable: the folder of the files is flushed, and each new folder above.
    folders = {str(one) for one in (folder, *folder.parents) if one.is_relative_to(tmp_path)}
    assert folders & set(synced) == (folders if durable else set())
    assert lake.slice(PRICES, [DAY]).read().equals(prices())


def test_a_written_partition_is_read_back_as_it_was(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    assert lake.slice(PRICES, [DAY]).read().equals(prices())


@pytest.mark.parametrize("name", TABLES)
def test_every_declared_table_can_be_stored_and_read(lake: Lake, name: str) -> None:
    declared = table(name)
    partition = tuple("2025-09-07" if column in ("day", "week") else "x" for column in declared.partitioned_by)
    lake.write(declared, partition, declared.empty(), run_id="frame")
    assert lake.slice(declared).read().equals(declared.empty())
    lake.write(declared, partition, [declared.empty()], run_id="stream")
    assert lake.slice(declared).read().schema == declared.schema


def test_a_file_is_named_after_its_table_partition_and_run(lake: Lake) -> None:
    manifest = lake.write(PRICES, DAY, prices(), run_id="r1")
    assert manifest.file == "clean/prices/2025-09-01/r1.parquet"
    assert stored(lake) == ["clean/prices/2025-09-01/manifest.json", "clean/prices/2025-09-01/r1.parquet"]


def test_the_manifest_says_what_the_file_holds(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    lake = Lake(str(tmp_path), clock=lambda: now)
    manifest = lake.write(PRICES, DAY, prices(), run_id="r1")
    file = tmp_path / manifest.file
    assert (manifest.rows, manifest.bytes, manifest.version, manifest.run_id, manifest.written_at) == (
        6,
        file.stat().st_size,
        "1",
        "r1",
        now,
    )
    assert manifest.known_at == prices()["known_at"].max()
    assert lake.manifest(PRICES, DAY) == manifest
    assert json.loads((file.parent / "manifest.json").read_bytes())["sha256"] == manifest.sha256


def test_unranked_rows_come_last(lake: Lake) -> None:
    declared = table("benchmark/leaderboard")
    counts = {"n": 1, "n_questions": 1, "coverage": 1.0, "n_clusters": 1, "could_know": 0, "could_know_share": 0.0, "failed": 0}
    common = {"release": "q", "kind": "constant", "rules": "1", **counts}
    known = datetime(2025, 1, 1, tzinfo=UTC)
    ranked = [{**common, "rank": rank, "forecaster": name, "known_at": known} for rank, name in ((None, "a"), (2, "b"), (1, "c"))]
    lake.write(declared, ("q",), declared.frame(ranked), run_id="r1")
    assert lake.slice(declared).read()["forecaster"].to_list() == ["c", "b", "a"]


@pytest.mark.parametrize("seed", range(2))
def test_the_same_rows_in_any_order_and_chunking_are_the_same_bytes(lake: Lake, seed: int) -> None:
    frame = prices(rows=300)
    expected = lake.write(PRICES, DAY, frame, run_id="plain").sha256
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=seed)
    chunked = pl.concat([shuffled.slice(0, 7 * seed + 1), shuffled.slice(7 * seed + 1)], rechunk=False)
    assert lake.write(PRICES, DAY, chunked, run_id="other").sha256 == expected


def test_bytes_do_not_depend_on_the_number_of_threads(lake: Lake, tmp_path: Path) -> None:
    code = (
        "import sys; from bellwether.lake import Lake; from tests.lake.frames import *\n"
        "print(Lake(sys.argv[1]).write(PRICES, ('2025-09-01',), prices(rows=2000), run_id='r').sha256)"
    )
    expected = lake.write(PRICES, DAY, prices(rows=2000), run_id="here").sha256
    for threads in ("1", "3"):
        environment = {**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONHASHSEED": threads}
        found = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / threads)], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == expected


def test_a_file_is_zstd_with_statistics_and_describes_its_columns(lake: Lake) -> None:
    for run_id, data in (("frame", prices()), ("stream", iter([prices()]))):
        manifest = lake.write(PRICES, DAY, data, run_id=run_id)
        file = pq.ParquetFile(lake.storage.location(manifest.file))
        bid = PRICES.names.index("bid")
        column = file.metadata.row_group(0).column(bid)
        assert (column.compression, column.statistics.has_min_max) == ("ZSTD", True)
        assert file.schema_arrow.field("bid").metadata == {
            b"description": b"best YES bid; null if missing",
            b"unit": b"dollars per contract",
        }


def test_a_row_of_another_partition_is_refused(lake: Lake) -> None:
    with pytest.raises(SchemaError, match=r"partition 2025-09-02: 6 rows have another day; first .*KXTEST-000000"):
        lake.write(PRICES, ("2025-09-02",), prices("2025-09-01"), run_id="r1")


@pytest.mark.parametrize("partition", [(), ("2025-09-01", "x"), ("",), ("yesterday",)])
def test_a_partition_that_does_not_fit_the_table_is_refused(lake: Lake, partition: tuple[str, ...]) -> None:
    with pytest.raises(LakeError, match="table clean/prices"):
        lake.write(PRICES, partition, prices(), run_id="r1")


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", ".hidden", "a b"])
def test_a_run_id_that_cannot_name_a_file_is_refused(lake: Lake, run_id: str) -> None:
    with pytest.raises(LakeError, match="is not a valid name of a file"):
        lake.write(PRICES, DAY, prices(), run_id=run_id)


@pytest.mark.parametrize("data", [None, 3, "text", {"a": 1}, prices().lazy(), [prices().lazy()], [1]])
def test_what_holds_no_frames_is_refused(lake: Lake, data: object) -> None:
    with pytest.raises(SchemaError, match="table clean/prices"):
        lake.write(PRICES, DAY, data, run_id="r1")  # type: ignore[arg-type]
    assert lake.manifest(PRICES, DAY) is None


@pytest.mark.parametrize(
    "name", ["gpt-5/mini", "..", ".", "a b", "naïve ✓", "100%", "a%2Fb", "x" * 80, "manifest.json", "q?*[1]", "'; drop table"]
)
def test_any_name_can_be_a_partition_and_stays_inside_its_table(lake: Lake, tmp_path: Path, name: str) -> None:
    manifest = lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
    folder = (tmp_path / "lake" / manifest.file).resolve().parent
    assert folder.parent == (tmp_path / "lake" / "benchmark" / "forecasts" / "2025q3").resolve()
    assert lake.slice(FORECASTS).read().equals(forecasts(forecaster=name))
    assert list(lake.manifests(FORECASTS)) == [("2025q3", name)]


def test_writing_again_under_one_run_id_makes_another_file(lake: Lake) -> None:
    first = lake.write(PRICES, DAY, prices(), run_id="r1")
    reader = lake.slice(PRICES, [DAY])
    second = lake.write(PRICES, DAY, prices(seed=1), run_id="r1")
    third = lake.write(PRICES, DAY, prices(seed=2), run_id="r1")
    assert [first.file[-12:], second.file[-12:], third.file[-12:]] == ["1/r1.parquet", "r1-1.parquet", "r1-2.parquet"]
    assert reader.read().equals(prices())
    assert lake.slice(PRICES, [DAY]).read().equals(prices(seed=2))


def test_writers_under_one_run_id_never_replace_each_others_file(lake: Lake) -> None:
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(lambda seed: lake.write(PRICES, DAY, prices(seed=seed), run_id="r1"), range(12)))
    assert len({manifest.file for manifest in written}) == 12
    for manifest in written:
        lake.verify(manifest)
    assert lake.manifest(PRICES, DAY) in written


def test_a_stream_is_stored_as_it_comes_in_row_groups_of_useful_size(lake: Lake) -> None:
    frame = prices(rows=3000)
    manifest = lake.write(PRICES, DAY, (frame.slice(start, 10) for start in range(0, 3000, 10)), run_id="r1")
    assert (manifest.rows, manifest.known_at) == (3000, frame["known_at"].max())
    assert pq.ParquetFile(lake.storage.location(manifest.file)).num_row_groups == 1
    assert lake.slice(PRICES, [DAY]).read().equals(frame)


def test_a_stream_holds_one_row_group_in_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether.lake.parquet.BUFFER", 20_000)
    frame = prices(rows=3000)
    manifest = lake.write(PRICES, DAY, (frame.slice(start, 30) for start in range(0, 3000, 30)), run_id="r1")
    groups = pq.ParquetFile(lake.storage.location(manifest.file)).metadata
    assert max(groups.row_group(index).num_rows for index in range(groups.num_row_groups)) < 300
    assert lake.slice(PRICES, [DAY]).read().equals(frame)


def test_an_empty_stream_is_a_partition_without_rows(lake: Lake) -> None:
    manifest = lake.write(PRICES, DAY, iter(()), run_id="r1")
    assert (manifest.rows, manifest.known_at) == (0, None)
    assert lake.slice(PRICES, [DAY]).read().equals(PRICES.empty())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_chunk_is_refused_and_the_partition_stays(lake: Lake, fault: str) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    before = stored(lake)
    with pytest.raises(SchemaError, match="table clean/prices"):
        lake.write(PRICES, DAY, [prices(rows=3), break_frame(prices(), fault)], run_id="r2")
    assert lake.slice(PRICES, [DAY]).read().equals(prices())
    assert stored(lake) == before


def test_a_key_that_comes_in_two_chunks_is_refused(lake: Lake) -> None:
    with pytest.raises(SchemaError, match=r"key day, venue, market_id, at is not unique; first duplicate .*KXTEST-000001"):
        lake.write(PRICES, DAY, [prices(rows=4), prices(rows=6).slice(3)], run_id="r1")
    assert stored(lake) == []


def test_equal_hashes_of_different_keys_are_no_duplicate(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Expr, "hash", lambda self: pl.lit(1, dtype=pl.UInt64))
    lake.write(PRICES, DAY, [prices(rows=3), prices(rows=6).slice(3)], run_id="r1")
    assert lake.slice(PRICES, [DAY]).read().equals(prices(rows=6))


def test_a_stream_that_fails_leaves_the_partition_and_raises_its_own_error(lake: Lake) -> None:
    def broken():
        yield prices(seed=1)
        raise ConnectionResetError("the venue hung up")

    lake.write(PRICES, DAY, prices(), run_id="r1")
    before = stored(lake)
    with pytest.raises(ConnectionResetError, match="the venue hung up"):
        lake.write(PRICES, DAY, broken(), run_id="r2")
    assert stored(lake) == before
    assert lake.slice(PRICES, [DAY]).read().equals(prices())
