"""Writing a partition: stored contents and their order, refused rows, equal bytes for equal rows, and a whole partition at every step."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bellwether.database
import bellwether.lake
from bellwether.errors import LakeError, SchemaError
from bellwether.lake import Lake, partitions, warehouse
from bellwether.lake.parquet import require_unique, sort_rows
from bellwether.tables import TABLES, Column, Table, table
from tests.unit.lake.frames import FORECASTS, PRICES, break_frame, forecasts, prices

DAY = ("2025-09-01",)


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
    assert drafts == ({"r1.parquet"} if durable else set())
    # Names must be durable: the folder of the files is flushed, and each new folder above.
    folders = {str(one) for one in (folder, *folder.parents) if one.is_relative_to(tmp_path)}
    assert folders & set(synced) == (folders if durable else set())
    assert lake.slice(PRICES, [DAY]).read().equals(prices())


def test_the_catalog_and_the_footer_describe_the_file(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    lake = Lake(str(tmp_path / "lake"), clock=lambda: now)
    manifest = lake.write(PRICES, DAY, prices(), run_id="r1", inputs={"raw/markets": "abc"}, code_version="7")
    file = tmp_path / "lake" / manifest.file
    assert (manifest.rows, manifest.bytes, manifest.version, manifest.run_id, manifest.written_at) == (
        6,
        file.stat().st_size,
        "1",
        "r1",
        now,
    )
    assert manifest.known_at == prices()["known_at"].max()
    assert lake.manifest(PRICES, DAY) == manifest
    assert manifest.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    facts = json.loads(pq.read_metadata(file).metadata[b"bellwether"])
    assert facts == {
        "table": "clean/prices",
        "partition": ["2025-09-01"],
        "version": "1",
        "run_id": "r1",
        "written_at": "2026-01-02T03:04:05+00:00",
        "inputs": {"raw/markets": "abc"},
        "code_version": "7",
        "rows": 6,
        "known_at": manifest.known_at.isoformat(),
    }


def test_unranked_rows_come_last(lake: Lake) -> None:
    declared = table("benchmark/leaderboard")
    counts = {"n": 1, "n_questions": 1, "coverage": 1.0, "n_clusters": 1, "could_know": 0, "could_know_share": 0.0, "failed": 0}
    common = {"release": "q", "kind": "constant", "rules": "1", **counts}
    known = datetime(2025, 1, 1, tzinfo=UTC)
    ranked = [{**common, "rank": rank, "forecaster": name, "known_at": known} for rank, name in ((None, "a"), (2, "b"), (1, "c"))]
    lake.write(declared, ("q",), declared.frame(ranked), run_id="r1")
    assert lake.slice(declared).read()["forecaster"].to_list() == ["c", "b", "a"]


@pytest.mark.parametrize("seed", range(2))
def test_the_same_rows_in_any_order_and_chunking_have_the_same_digest(lake: Lake, seed: int) -> None:
    frame = prices(rows=300)
    expected = lake.write(PRICES, DAY, frame, run_id="plain").digest
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=seed)
    chunked = pl.concat([shuffled.slice(0, 7 * seed + 1), shuffled.slice(7 * seed + 1)], rechunk=False)
    assert lake.write(PRICES, DAY, chunked, run_id="other").digest == expected
    assert lake.write(PRICES, DAY, iter([frame]), run_id="stream").digest != lake.write(PRICES, DAY, frame.head(299), run_id="less").digest


def test_a_row_of_another_partition_is_refused(lake: Lake) -> None:
    with pytest.raises(SchemaError, match=r"partition 2025-09-02: 6 rows have another day; first .*KXTEST-000000"):
        lake.write(PRICES, ("2025-09-02",), prices("2025-09-01"), run_id="r1")


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


def test_two_first_writers_of_a_lake_do_not_take_each_other_for_another_version(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    list_files, other = lake.storage.files, Lake(lake.uri)

    def overtaken(folder: str) -> Any:
        monkeypatch.undo()
        other.write(PRICES, DAY, prices(seed=1), run_id="r1")
        return list_files(PRICES.name)

    monkeypatch.setattr(lake.storage, "files", overtaken)
    assert lake.write(PRICES, DAY, prices(seed=2), run_id="r2") == lake.manifest(PRICES, DAY)


def test_a_stream_holds_one_row_group_in_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bellwether.lake.parquet.BUFFER", 20_000)
    frame = prices(rows=3000)
    manifest = lake.write(PRICES, DAY, (frame.slice(start, 30) for start in range(0, 3000, 30)), run_id="r1")
    groups = pq.ParquetFile(lake.storage.location(manifest.file)).metadata
    assert max(groups.row_group(index).num_rows for index in range(groups.num_row_groups)) < 300
    assert lake.slice(PRICES, [DAY]).read().equals(frame)


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


@contextmanager
def at_every_line(check: Callable[[], None]) -> Iterator[list[int]]:
    """Call `check` before each executed line of the code of the lake and its catalog. Yields a list with the number of calls."""
    calls, checking = [0], [False]

    def trace(frame, event, arg):  # type: ignore[no-untyped-def]
        if not frame.f_code.co_filename.startswith(LAKE_CODE):
            return None
        if event == "line" and not checking[0]:
            checking[0] = True
            try:
                check()
            finally:
                checking[0] = False
            calls[0] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield calls
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("kind", ["frame", "stream"])
def test_at_every_line_of_a_write_the_partition_is_whole(lake: Lake, kind: str) -> None:
    old, new = prices(), prices(seed=1)
    lake.write(PRICES, DAY, old, run_id="r1")
    seen = []

    def check() -> None:
        manifest = lake.manifest(PRICES, DAY)
        assert manifest is not None
        lake.verify(manifest)
        if not seen or seen[-1] != manifest.run_id:
            assert lake.slice(PRICES).read().equals({"r1": old, "r2": new}[manifest.run_id])
            seen.append(manifest.run_id)

    with at_every_line(check) as lines:
        lake.write(PRICES, DAY, new if kind == "frame" else iter([new.head(3), new.slice(3)]), run_id="r2")
    assert lines[0] > 100
    assert seen == ["r1", "r2"]


def test_at_every_line_of_a_publication_the_warehouse_is_whole(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    lake.write(PRICES, DAY, prices(), run_id="r1")
    warehouse.publish(lake, path, tables=[PRICES])
    lake.write(PRICES, DAY, prices(seed=1), run_id="r2")
    seen: list[bytes] = []

    def check() -> None:
        content = path.read_bytes()
        if not seen or seen[-1] != content:
            assert warehouse.query(path, "FROM clean.prices").equals(prices(seed=len(seen)))
            seen.append(content)

    with at_every_line(check) as lines:
        warehouse.publish(lake, path, tables=[PRICES])
    assert lines[0] > 100
    assert len(seen) == 2


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files that this process writes. Python ignores the signal, so that larger writes fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("what", ["frame", "stream", "publish"])
def test_a_file_that_can_not_grow_any_more_is_one_clear_error(lake: Lake, tmp_path: Path, what: str) -> None:
    path = tmp_path / "warehouse.duckdb"
    lake.write(PRICES, DAY, prices(), run_id="r1")
    warehouse.publish(lake, path, tables=[PRICES])
    frame = prices(rows=6_000, seed=1)
    with files_of_at_most(20_000), pytest.raises(LakeError):
        if what == "publish":
            warehouse.publish(lake, path, tables=[PRICES])
        else:
            lake.write(PRICES, DAY, frame if what == "frame" else (frame.slice(start, 200) for start in range(0, 6_000, 200)), run_id="r2")
    assert lake.slice(PRICES).read().equals(prices())
    assert warehouse.query(path, "FROM clean.prices").equals(prices())
    assert list(tmp_path.rglob("*.tmp-*")) == []
    assert lake.write(PRICES, DAY, frame, run_id="r2").bytes > 20_000


def test_every_declared_table_can_be_stored_and_read(lake: Lake) -> None:
    for declared in TABLES.values():
        partition = tuple("2025-09-07" if column in ("day", "week") else "x" for column in declared.partitioned_by)
        lake.write(declared, partition, declared.empty(), run_id="frame")
        assert lake.slice(declared).read().equals(declared.empty())
        lake.write(declared, partition, [declared.empty()], run_id="stream")
        assert lake.slice(declared).read().schema == declared.schema


def test_names_and_data_that_do_not_fit_are_refused(lake: Lake) -> None:
    for partition in ((), ("2025-09-01", "x"), ("",), ("yesterday",)):
        with pytest.raises(LakeError, match="table clean/prices"):
            lake.write(PRICES, partition, prices(), run_id="r1")
    for run_id in ("", "../up", "a/b", ".hidden", "a b"):
        with pytest.raises(LakeError, match="is not a valid name of a file"):
            lake.write(PRICES, DAY, prices(), run_id=run_id)
    for data in (None, 3, "text", {"a": 1}, prices().lazy(), [prices().lazy()], [1]):
        with pytest.raises(SchemaError, match="table clean/prices"):
            lake.write(PRICES, DAY, data, run_id="r1")  # type: ignore[arg-type]
    assert lake.manifest(PRICES, DAY) is None


def test_any_name_can_be_a_partition_and_stays_inside_its_table(tmp_path: Path) -> None:
    names = ("gpt-5/mini", "..", ".", "a b", "naïve ✓", "100%", "a%2Fb", "x" * 80, "manifest.json", "q?*[1]", "'; drop table")
    for number, name in enumerate(names):
        root = tmp_path / str(number)
        lake = Lake(str(root))
        manifest = lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
        assert (root / manifest.file).resolve().parent.parent == (root / "benchmark" / "forecasts" / "2025q3").resolve()
        assert lake.slice(FORECASTS).read().equals(forecasts(forecaster=name))
        assert list(lake.manifests(FORECASTS)) == [("2025q3", name)]


@pytest.mark.parametrize("fault", ["extra column", "missing column", "null", "wrong dtype"])
def test_a_faulty_chunk_is_refused_and_the_partition_stays(lake: Lake, fault: str) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    before = stored(lake)
    with pytest.raises(SchemaError, match="table clean/prices"):
        lake.write(PRICES, DAY, [prices(rows=3), break_frame(prices(), fault)], run_id="r2")
    assert lake.slice(PRICES, [DAY]).read().equals(prices())
    assert stored(lake) == before


def test_a_disk_that_is_full_at_any_step_leaves_the_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for call, nth in itertools.product(("fsync", "link", "open"), range(3)):
        lake = Lake(str(tmp_path / f"{call}-{nth}"))
        lake.write(PRICES, DAY, prices(), run_id="r1")
        genuine, calls = getattr(os, call), [0]

        def full(*args: Any, genuine: Any = genuine, calls: list[int] = calls, nth: int = nth, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] == nth + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return genuine(*args, **kwargs)

        failed = False
        with monkeypatch.context() as patched:
            patched.setattr(os, call, full)
            try:
                lake.write(PRICES, DAY, prices(seed=1), run_id="r2")
            except LakeError as error:
                failed = True
                assert "No space left on device. Nothing was published" in str(error)
        assert failed == (calls[0] > nth)
        assert lake.slice(PRICES).read().equals(prices(seed=0 if failed else 1))
        assert [name for name in stored(lake) if ".tmp-" in name] == []
        assert lake.write(PRICES, DAY, prices(seed=1), run_id="r2").rows == 6
        assert lake.slice(PRICES).read().equals(prices(seed=1))


LAKE_CODE = (str(Path(bellwether.lake.__file__).parent), bellwether.database.__file__)


def test_rows_that_were_known_before_the_stored_ones_are_refused(lake: Lake) -> None:
    known = prices()["known_at"].max()
    assert isinstance(known, datetime)
    lake.require_newer(PRICES, DAY, known)
    lake.write(PRICES, DAY, prices(), run_id="r1")
    lake.require_newer(PRICES, DAY, known)
    lake.require_newer(PRICES, ("2025-09-02",), known - timedelta(days=9))
    with pytest.raises(LakeError, match="the stored rows are kept"):
        lake.require_newer(PRICES, DAY, known - timedelta(microseconds=1))


PLAIN = Table(
    name="test/plain",
    row="One row.",
    columns=(Column("a", pl.String(), "first"), Column("b", pl.Int64(), "second"), Column("c", pl.Int64(), "no key", nullable=True)),
    key=("a", "b"),
)
SORTED_BY_MORE = Table(name="test/more", row="One row.", columns=PLAIN.columns, key=("a", "b"), sort=("c",))
KEYED_ROWS = st.lists(
    st.tuples(st.sampled_from(["", "a", "aa", "b", "é", "a name longer than twelve bytes"]), st.integers(-2, 2), st.integers(0, 3)),
    max_size=12,
)


def frame_of(rows: list[tuple[str, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=PLAIN.schema, orient="row")


@pytest.mark.parametrize("declared", [PLAIN, SORTED_BY_MORE], ids=["by key", "by another column"])
@given(KEYED_ROWS)
def test_rows_are_sorted_or_refused_for_their_duplicate(declared: Table, rows: list[tuple[str, int, int]]) -> None:
    keys = [row[:2] for row in rows]
    if len(set(keys)) < len(keys):
        with pytest.raises(SchemaError, match="is not unique; first duplicate"):
            sort_rows(declared, frame_of(rows))
    else:
        by = (lambda row: (row[0].encode(), row[1])) if declared is PLAIN else (lambda row: (row[2], row[0].encode(), row[1]))
        assert sort_rows(declared, frame_of(rows)).rows() == sorted(rows, key=by)


@given(KEYED_ROWS)
def test_keys_of_a_stream_are_unique_or_refused(rows: list[tuple[str, int, int]]) -> None:
    frame = frame_of(rows)
    if frame.select("a", "b").is_duplicated().any():
        with pytest.raises(SchemaError, match="is not unique; first duplicate"):
            require_unique(PLAIN, frame.lazy())
    else:
        require_unique(PLAIN, frame.lazy())


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=2, max_size=2, unique=True))
def test_different_partitions_have_different_folders_inside_their_table(pairs: list[tuple[str, str]]) -> None:
    one, other = (PurePosixPath(partitions.partition_folder(FORECASTS, pair)) for pair in pairs)
    assert one != other
    for folder in (one, other):
        assert folder.parts[:2] == ("benchmark", "forecasts")
        assert len(folder.parts) == 4
        assert not any(part.startswith(".") or set(part) & set("/\\?*[]: \0") for part in folder.parts)
