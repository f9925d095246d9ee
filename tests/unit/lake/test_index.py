"""The lake on a store with conditional writes: one index per table is the commit, and a faulty store never gives a wrong row."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake, catalog, warehouse
from bellwether.lake.duckdb_connection import find_httpfs
from bellwether.lake.local_copies import Copies
from bellwether.lake.staleness import Staleness, TableInputs
from bellwether.lake.verification import verify
from bellwether.tables import TABLES
from bellwether.tables.schema import external_table
from tests.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series
from tests.lake.s3_server import SLOW_DOWN, Answer, S3Server, lose_answer, truncate_body
from tests.shared import start_together

ROOT = Path(__file__).resolve().parents[3]
INDEX = "_index/clean/prices.json.gz"
Serve = Callable[[], Answer]


@pytest.fixture
def uri(s3_server: S3Server) -> Iterator[str]:
    yield f"s3://{s3_server.bucket()}/lake"
    s3_server.fault = None


@pytest.fixture
def lake(s3_server: S3Server, uri: str, tmp_path: Path) -> Lake:
    return Lake(uri, s3_server.options, cache=tmp_path / "cache")


@pytest.fixture
def other(s3_server: S3Server, uri: str, tmp_path: Path) -> Lake:
    """The same lake on another machine, with an empty cache of files."""
    return Lake(uri, s3_server.options, cache=tmp_path / "other")


def days(count: int) -> list[tuple[str]]:
    return [(str(date(2025, 1, 1) + timedelta(days=number)),) for number in range(count)]


def fill(lake: Lake, count: int) -> None:
    for day in days(count):
        lake.write(PRICES, day, prices(day[0]), run_id="r1")


def is_index(environ: dict[str, Any], method: str) -> bool:
    return environ["REQUEST_METHOD"] == method and "/_index/" in environ["PATH_INFO"] and "list-type" not in environ["QUERY_STRING"]


def test_reading_costs_a_request_per_file_and_one_for_the_table(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    fill(lake, 12)
    with s3_server.counting() as slicing:
        rows = other.slice(PRICES)
    with s3_server.counting() as reading:
        assert rows.read().height == 12 * 6
    assert (slicing, reading) == ({"GET": 1}, {"GET": 12})
    with s3_server.counting() as again:
        assert other.slice(PRICES, days(3)).read().height == 18
    assert again == {"GET": 1}, "the copies are still there"
    with s3_server.counting() as nothing:
        assert other.slice(FORECASTS).read().is_empty()
    assert nothing.total() <= 3


def test_a_commit_costs_two_requests_however_many_partitions_there_are(lake: Lake, s3_server: S3Server) -> None:
    fill(lake, 8)
    with s3_server.counting() as requests:
        lake.write(PRICES, ("2025-06-01",), prices("2025-06-01"), run_id="r1")
    assert requests == {"PUT": 2}


@pytest.mark.skipif(find_httpfs() is None, reason="duckdb-extension-httpfs is not installed")
def test_a_publication_costs_what_has_changed(lake: Lake, s3_server: S3Server, tmp_path: Path) -> None:
    found = []
    for count in (6, 12):
        fill(lake, count)
        lake.write(SERIES, (), series(count), run_id="r1")
        warehouse.publish(lake, tmp_path / "warehouse.duckdb")
        changed = prices("2025-01-02", seed=count)
        lake.write(PRICES, ("2025-01-02",), changed, run_id="r2")
        lake.write(SERIES, (), series(count + 1), run_id="r2")
        with s3_server.counting() as requests:
            published = warehouse.publish(lake, tmp_path / "warehouse.duckdb", complete_every=timedelta(days=1))
        assert not published.complete
        assert (published.partitions, published.rows) == (count + 1, count * 6 + count + 1)
        found.append(requests.total())
    assert found[0] == found[1]
    assert found[0] <= 10 + 2 * 2


def test_one_listing_marks_all_tables(lake: Lake, s3_server: S3Server) -> None:
    before = lake.marks()
    lake.write(PRICES, days(1)[0], prices("2025-01-01"), run_id="r1")
    with s3_server.counting() as requests:
        after = lake.marks()
    assert (requests, set(after)) == ({"LIST": 1}, set(TABLES))
    assert {name for name in after if after[name] != before[name]} == {"clean/prices"}
    assert before["clean/prices"] == ""


WRITER = """
import sys
from bellwether.lake import Lake
from tests.lake.frames import PRICES, prices
uri, endpoint, *days = sys.argv[1:]
lake = Lake(uri, {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_endpoint_url": endpoint})
print("ready", flush=True)
sys.stdin.readline()
for day in days:
    lake.write(PRICES, (day,), prices(day), run_id="r" + day)
"""


def test_two_processes_commit_sixty_partitions_of_a_table(s3_server: S3Server, uri: str, lake: Lake) -> None:
    wanted = [day for (day,) in days(60)]
    commands = [[sys.executable, "-c", WRITER, uri, s3_server.endpoint, *wanted[share::2]] for share in range(2)]
    writers = [subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands]
    start = len(s3_server.requests)
    start_together(writers)
    for writer in writers:
        writer.communicate(timeout=240)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [day for (day,) in lake.manifests(PRICES)] == wanted
    commits = sum(method == "PUT" and "/_index/" in path for method, path in s3_server.requests[start:])
    assert commits > 62, "the writers never met"
    for (day,), manifest in lake.manifests(PRICES).items():
        assert manifest.run_id == f"r{day}"
        assert lake.slice(PRICES, [(day,)]).read().equals(prices(day))


def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_repeated(lake: Lake, s3_server: S3Server) -> None:
    fill(lake, 1)
    turns = iter([True, False] * 50)
    s3_server.fault = lambda environ, serve: lose_answer(serve) if is_index(environ, "PUT") and next(turns) else None
    fill(lake, 6)
    assert list(lake.manifests(PRICES)) == days(6)
    assert lake.slice(PRICES).read().height == 36


def test_a_lost_answer_does_not_undo_a_later_commit(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    day = days(1)[0]
    fill(lake, 1)

    def fault(environ: dict[str, Any], serve: Serve) -> Answer | None:
        if not is_index(environ, "PUT"):
            return None
        s3_server.fault = None
        answer = lose_answer(serve)
        other.write(PRICES, day, prices(day[0], seed=2), run_id="later")
        return answer

    s3_server.fault = fault
    lake.write(PRICES, day, prices(day[0], seed=1), run_id="sooner")
    assert lake.slice(PRICES).read().equals(prices(day[0], seed=2))
    assert other.manifests(PRICES)[day].run_id == "later"


def test_a_write_that_is_given_up_and_arrives_later_changes_nothing(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    fill(lake, 1)
    late: list[Serve] = []

    def fault(environ: dict[str, Any], serve: Serve) -> Answer | None:
        if not is_index(environ, "PUT"):
            return None
        s3_server.fault = None
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        late.append(serve)
        return "504 Gateway Timeout", [("Content-Type", "text/plain")], b"not served yet"

    s3_server.fault = fault
    lake.write(PRICES, ("2025-01-02",), prices("2025-01-02"), run_id="r1")
    other.write(PRICES, ("2025-01-03",), prices("2025-01-03"), run_id="r1")
    (serve,) = late
    assert serve()[0] == "412 PRECONDITION FAILED"
    assert list(lake.manifests(PRICES)) == days(3)


def test_writers_that_race_for_a_new_table_both_win(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    def fault(environ: dict[str, Any], serve: Serve) -> Answer | None:
        if is_index(environ, "PUT"):
            s3_server.fault = None
            other.write(PRICES, ("2025-01-02",), prices("2025-01-02"), run_id="other")
        return None

    s3_server.fault = fault
    lake.write(PRICES, ("2025-01-01",), prices("2025-01-01"), run_id="one")
    assert list(lake.manifests(PRICES)) == days(2)


@pytest.mark.parametrize("silently", [False, True])
def test_torn_bodies_are_read_again(lake: Lake, other: Lake, s3_server: S3Server, silently: bool) -> None:
    fill(lake, 3)
    turns = iter([True, False] * 200)
    s3_server.fault = lambda environ, serve: (
        truncate_body(serve(), silently=silently)
        if environ["REQUEST_METHOD"] == "GET" and "list-type" not in environ["QUERY_STRING"] and next(turns)
        else None
    )
    for number in range(3):
        catalog._cached_indexes.clear()
        assert other.slice(PRICES).read().equals(lake.slice(PRICES).read())
        other.write(PRICES, ("2025-06-01",), prices("2025-06-01", seed=number), run_id="r2")
        assert verify(other, [PRICES]).damaged == ()
    s3_server.fault = None
    assert list(lake.manifests(PRICES)) == [*days(3), ("2025-06-01",)]


def test_a_body_that_is_always_torn_is_an_error_and_no_rows(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    fill(lake, 1)
    s3_server.fault = lambda environ, serve: truncate_body(serve(), silently=True) if environ["PATH_INFO"].endswith(".parquet") else None
    with pytest.raises(LakeError, match=r"s3://.*r1.parquet is damaged"):
        other.slice(PRICES).read()
    s3_server.fault = lambda environ, serve: truncate_body(serve(), silently=True) if is_index(environ, "GET") else None
    catalog._cached_indexes.clear()
    with pytest.raises(LakeError, match=r"_index/clean/prices.json.gz: the index is damaged"):
        other.write(PRICES, ("2025-06-01",), prices("2025-06-01"), run_id="r2")
    s3_server.fault = None
    assert list(lake.manifests(PRICES)) == days(1)


def test_a_busy_store_is_asked_again(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    draw = random.Random(7)
    s3_server.fault = lambda environ, serve: SLOW_DOWN if draw.random() < 0.25 else None
    fill(lake, 3)
    lake.vacuum(timedelta(hours=1), tables=[PRICES])
    found = other.slice(PRICES).read()
    s3_server.fault = None
    assert found.equals(lake.slice(PRICES).read())
    assert list(lake.manifests(PRICES)) == days(3)


def test_stale_listings_delay_and_change_no_row(lake: Lake, other: Lake, s3_server: S3Server, tmp_path: Path) -> None:
    """Until the delay ends, a listing shows the store as it was at its first request."""
    fill(lake, 2)
    stale: dict[str, Answer] = {}

    def fault(environ: dict[str, Any], serve: Serve) -> Answer | None:
        if "list-type" not in environ["QUERY_STRING"]:
            return None
        key = environ["QUERY_STRING"]
        return stale.setdefault(key, serve())

    s3_server.fault = fault
    warehouse.publish(lake, tmp_path / "w.duckdb", tables=[SERIES, PRICES], self_contained=True)
    lake.write(PRICES, days(3)[2], prices("2025-01-03"), run_id="r1")
    lake.write(PRICES, days(3)[0], prices("2025-01-01", seed=1), run_id="r2")
    assert other.slice(PRICES).read().height == 18
    assert other.slice(PRICES, days(1)).read().equals(prices("2025-01-01", seed=1))
    later = Lake(lake.uri, s3_server.options, clock=lambda: datetime.now(UTC) + timedelta(minutes=30))
    later.vacuum(timedelta(hours=1), tables=[PRICES])
    complete = warehouse.publish(lake, tmp_path / "w.duckdb", tables=[SERIES, PRICES], self_contained=True)
    assert (complete.rows, complete.damaged) == (18, {})
    s3_server.fault = None
    assert [table.name for table in warehouse.tables_written_since(lake, tmp_path / "w.duckdb", [PRICES, SERIES])] == ["clean/prices"]
    assert lake.slice(PRICES).read().height == 18


def legacy(lake: Lake) -> Lake:
    """The lake in the format of version 0.3: a manifest next to each file."""
    lake._catalog = catalog.FileCatalog(lake.storage)
    return lake


def test_a_lake_of_an_earlier_version_is_read_and_given_an_index(lake: Lake, s3_server: S3Server) -> None:
    old, note = legacy(Lake(lake.uri, s3_server.options)), external_table("t/report", "day")
    fill(old, 3)
    old.record_inputs(note, ("1",), run_id="r1", inputs={"a": "b"})
    old.storage.put("clean/prices/2025-01-02/manifest.json", b'{"x')
    expected = old.slice(PRICES, [days(3)[0], days(3)[2]]).read()
    assert lake.slice(PRICES, [days(3)[0], days(3)[2]]).read().equals(expected)
    assert lake.storage.files("_index") == []
    lake.write(PRICES, ("2025-06-01",), prices("2025-06-01"), run_id="r2")
    lake.record_inputs(note, ("2",), run_id="r2", inputs={})
    assert sorted(lake.partitions(PRICES)) == [*days(3), ("2025-06-01",)]
    assert {partition: made.inputs for partition, made in lake.recorded_inputs(note).items()} == {("1",): {"a": "b"}, ("2",): {}}
    with pytest.raises(LakeError, match=r"2025-01-02/manifest.json: it is damaged"):
        lake.manifests(PRICES)
    assert [one.partition for one in verify(lake, [PRICES]).damaged] == ["2025-01-02"]
    assert lake.set_aside_damaged(PRICES) == [("2025-01-02",)]
    assert list(lake.manifests(PRICES)) == [days(3)[0], days(3)[2], ("2025-06-01",)]
    assert lake.slice(PRICES, [days(3)[0], days(3)[2]]).read().equals(expected)


def test_a_store_that_ignores_conditions_is_refused(lake: Lake, s3_server: S3Server) -> None:
    def fault(environ: dict[str, Any], serve: Serve) -> None:
        environ.pop("HTTP_IF_MATCH", None)

    s3_server.fault = fault
    with pytest.raises(LakeError, match="the store ignores If-Match"):
        fill(lake, 1)


def test_a_damaged_index_is_named_and_kept(lake: Lake, s3_server: S3Server) -> None:
    fill(lake, 1)
    for content in (b"no gzip", gzip.compress(b"{"), gzip.compress(b'{"version": 2, "commits": [], "texts": {}}')):
        lake.storage.put(INDEX, content)
        with pytest.raises(LakeError, match=r"index"):
            lake.manifests(PRICES)
        with pytest.raises(LakeError, match=r"index"):
            Lake(lake.uri, s3_server.options).write(PRICES, ("2025-06-01",), prices("2025-06-01"), run_id="r2")
        assert lake.storage.read([INDEX])[INDEX] == content


def test_out_of_date_partitions_are_found_on_a_store(lake: Lake) -> None:
    recipe = TableInputs(FORECASTS, (SERIES,))
    lake.write(SERIES, (), series(), run_id="r1")
    partition = ("2025q3", "a")
    inputs = Staleness(lake, date(2026, 1, 1)).versions(recipe, partition)
    lake.write(FORECASTS, partition, forecasts(forecaster="a"), run_id="r1", inputs=inputs)
    assert Staleness(lake, date(2026, 1, 1)).find_outdated(recipe, [partition], sound=True) == []
    lake.write(SERIES, (), series(4), run_id="r2")
    assert Staleness(lake, date(2026, 1, 1)).find_outdated(recipe, [partition], sound=True) == [partition]
    lake.storage.delete(lake.manifests(FORECASTS)[partition].file)
    assert lake.intact_manifests(FORECASTS) == {}


def test_staleness_without_a_commit_costs_one_request(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    def stored() -> dict[str, list[tuple[str, ...]]]:
        state = Staleness(lake, date(2026, 1, 1))
        return {table.name: list(state.stored_partitions(table)) for table in TABLES.values()}

    lake.write(PRICES, ("2025-01-01",), prices("2025-01-01"), run_id="a")
    first = stored()
    assert first["clean/prices"] == [("2025-01-01",)]
    with s3_server.counting() as quiet:
        assert stored() == first
    assert quiet == {"LIST": 1}
    other.write(PRICES, ("2025-01-02",), prices("2025-01-02"), run_id="b")
    with s3_server.counting() as one:
        assert stored()["clean/prices"] == [("2025-01-01",), ("2025-01-02",)]
    assert one == {"LIST": 2, "GET": 1}


def test_a_damaged_copy_is_fetched_again(lake: Lake, tmp_path: Path, s3_server: S3Server) -> None:
    fill(lake, 1)
    (manifest,) = lake.manifests(PRICES).values()
    copies = Copies(lake.storage, tmp_path / "copies")
    (path,) = map(Path, copies.local([manifest]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert copies.local([manifest]) == (str(path),)
    assert path.read_bytes() == whole
    assert [entry.name for entry in path.parent.iterdir()] == [f"{manifest.sha256}.parquet"]
