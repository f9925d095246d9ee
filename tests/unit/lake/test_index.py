"""The lake on a store with conditional writes: one index per table is the commit, and a faulty store never gives a wrong row."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from bellwether import places
from bellwether.errors import LakeError
from bellwether.lake import Lake, catalog, warehouse
from bellwether.lake.duckdb_connection import find_httpfs
from bellwether.lake.local_copies import Copies
from bellwether.lake.sql import evaluate
from bellwether.lake.staleness import Staleness
from bellwether.lake.verification import verify
from bellwether.tables import TABLES
from tests.s3_server import Answer, S3Server, lose_answer, retry_at_once, truncate_body
from tests.sizes import NIGHTLY
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

INDEX = "_index/clean/prices.json.gz"
Serve = Callable[[], Answer]


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


@pytest.mark.skipif(find_httpfs() is None, reason="duckdb-extension-httpfs is not installed")
def test_a_publication_costs_what_has_changed(lake: Lake, s3_server: S3Server, tmp_path: Path) -> None:
    found = []
    for count in (2, 4) if NIGHTLY else (4,):
        fill(lake, count)
        lake.write(SERIES, (), series(count), run_id="r1")
        warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[SERIES, PRICES])
        changed = prices("2025-01-02", seed=count)
        lake.write(PRICES, ("2025-01-02",), changed, run_id="r2")
        lake.write(SERIES, (), series(count + 1), run_id="r2")
        with s3_server.counting() as requests:
            published = warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[SERIES, PRICES], complete_every=timedelta(days=1))
        assert not published.complete
        assert (published.partitions, published.rows) == (count + 1, count * 6 + count + 1)
        found.append(requests.total())
    assert found[0] == found[-1]
    assert found[0] <= 10 + 2 * 2


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


def test_a_bucket_that_does_not_exist_is_one_clear_error(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    retry_at_once(monkeypatch)
    with pytest.raises(LakeError, match=r"writing s3://no-such-bucket/clean/prices/2025-09-01/r1.parquet"):
        Lake("s3://no-such-bucket", s3_server.options).write(PRICES, DAY, prices(), run_id="r1")


def test_options_are_completed_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in places.KEYS:
        monkeypatch.delenv(name.upper(), raising=False)
    assert places.resolve({}) == {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")
    resolved = places.resolve({"aws_secret_access_key": "given"})
    assert resolved == {
        "aws_access_key_id": "from-environment",
        "aws_secret_access_key": "given",
        "aws_endpoint_url": "http://127.0.0.1:9000/",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
    }
    assert places.for_duckdb(resolved) == {
        "key_id": "from-environment",
        "secret": "given",
        "region": "us-east-1",
        "endpoint": "127.0.0.1:9000",
        "url_style": "path",
        "use_ssl": "false",
    }


def test_secrets_are_not_shown(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    assert "secret" not in repr(lake.slice(PRICES))


DAY = ("2025-09-01",)


@pytest.fixture
def uri(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    retry_at_once(monkeypatch)
    yield f"s3://{s3_server.bucket()}/lake"
    s3_server.fault = None


@pytest.fixture
def lake(s3_server: S3Server, uri: str, tmp_path: Path) -> Lake:
    return Lake(uri, s3_server.options, cache=tmp_path / "cache")


@pytest.fixture
def other(s3_server: S3Server, uri: str, tmp_path: Path) -> Lake:
    """The same lake on another machine, with an empty cache of files."""
    return Lake(uri, s3_server.options, cache=tmp_path / "other")


def test_superseded_objects_are_kept_for_readers_and_vacuumed_later(lake: Lake, s3_server: S3Server) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    reader = lake.slice(PRICES)
    assert lake.write(PRICES, DAY, prices(seed=1), run_id="r1").file.endswith("/r1-1.parquet")
    assert reader.read().equals(prices())
    assert lake.slice(PRICES).read().equals(prices(seed=1))
    tomorrow = Lake(lake.uri, s3_server.options, clock=lambda: datetime.now(UTC) + timedelta(days=1))
    assert tomorrow.vacuum(timedelta(hours=1)).files == ("clean/prices/2025-09-01/r1.parquet",)
    assert lake.slice(PRICES).read().equals(prices(seed=1))


@pytest.mark.skipif(find_httpfs() is None, reason="duckdb-extension-httpfs is not installed")
def test_sql_and_the_warehouse_read_the_store(lake: Lake, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    name = "a model/with % odd name"
    lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
    assert evaluate(PRICES, "SELECT * FROM prices", {"prices": lake.slice(PRICES)}).equals(prices())
    warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[PRICES, FORECASTS])
    for option, value in s3_server.options.items():
        monkeypatch.setenv(option.upper(), value)
    assert warehouse.query(tmp_path / "warehouse.duckdb", "FROM clean.prices").equals(prices())
    assert warehouse.query(tmp_path / "warehouse.duckdb", "FROM benchmark.forecasts").equals(forecasts(forecaster=name))
