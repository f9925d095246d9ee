"""The lake on an object store: numbers of requests, local copies, and a faulty store that never gives a wrong row."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import cycle
from pathlib import Path

import pytest

from bellwether import places
from bellwether.errors import LakeError
from bellwether.lake import Lake, warehouse
from bellwether.lake.checksums import Copies
from bellwether.lake.duckdb_connection import find_httpfs
from bellwether.lake.recovery import verify
from bellwether.lake.sql import evaluate
from tests.s3_server import SLOW_DOWN, Answer, S3Server, lose_answer, truncate_body
from tests.sizes import NIGHTLY
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices

#: Partitions whose requests are counted.
COUNT = 300 if NIGHTLY else 12
Serve = Callable[[], Answer]


def days(count: int) -> list[tuple[str]]:
    return [(str(date(2025, 1, 1) + timedelta(days=number)),) for number in range(count)]


def fill(lake: Lake, count: int) -> None:
    for day in days(count):
        lake.write(PRICES, day, prices(day[0]), run_id="r1")


@pytest.mark.skipif(find_httpfs() is None, reason="duckdb-extension-httpfs is not installed")
def test_requests_are_one_per_file(lake: Lake, other: Lake, s3_server: S3Server, tmp_path: Path) -> None:
    with s3_server.counting() as writing:
        fill(lake, COUNT)
    with s3_server.counting() as reading:
        assert other.slice(PRICES).read().height == COUNT * 6
    with s3_server.counting() as again:
        assert other.slice(PRICES, days(3)).read().height == 18
    with s3_server.counting() as first:
        warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[SERIES, PRICES])
    lake.write(PRICES, days(1)[0], prices("2025-01-01", seed=1), run_id="r2")
    with s3_server.counting() as second:
        warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[SERIES, PRICES])
    assert (writing, reading, again) == ({"PUT": COUNT}, {"GET": COUNT}, {})
    # DuckDB reads the footer of a file for each view.
    assert first.total() <= COUNT + 2
    assert second.total() <= 1 + 2


@pytest.mark.parametrize("silently", [False, True])
def test_torn_bodies_are_read_again(lake: Lake, other: Lake, s3_server: S3Server, silently: bool) -> None:
    fill(lake, 3)
    turns: dict[str, Iterator[bool]] = defaultdict(lambda: cycle([True, False]))  # of each object, as threads read several at once
    s3_server.fault = lambda environ, serve: (
        truncate_body(serve(), silently=silently)
        if environ["REQUEST_METHOD"] == "GET" and "list-type" not in environ["QUERY_STRING"] and next(turns[environ["PATH_INFO"]])
        else None
    )
    for number in range(3):
        assert other.slice(PRICES).read().equals(lake.slice(PRICES).read())
        other.write(PRICES, ("2025-06-01",), prices("2025-06-01", seed=number), run_id="r2")
        assert verify(other, [PRICES]).damaged == ()
    s3_server.fault = None
    assert list(lake.manifests(PRICES)) == [*days(3), ("2025-06-01",)]


def test_a_body_that_is_always_torn_is_an_error_and_no_rows(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    fill(lake, 1)
    s3_server.fault = lambda environ, serve: truncate_body(serve(), silently=True) if environ["PATH_INFO"].endswith(".parquet") else None
    with pytest.raises(LakeError, match=r"reading s3://.*r1.parquet: the file is damaged"):
        other.slice(PRICES).read()
    s3_server.fault = None
    assert list(lake.manifests(PRICES)) == days(1)


def test_writes_that_are_slowed_down_or_whose_answers_are_lost_are_whole(lake: Lake, other: Lake, s3_server: S3Server) -> None:
    rng = random.Random(1)
    faults: list[Callable[[Serve], Answer | None]] = [lose_answer, lambda serve: SLOW_DOWN, *[lambda serve: None] * 3]
    s3_server.fault = lambda environ, serve: rng.choice(faults)(serve) if environ["REQUEST_METHOD"] == "PUT" else None
    fill(lake, 4)
    s3_server.fault = None
    assert len(other.manifests(PRICES)) == 4
    for day in days(4):
        assert other.slice(PRICES, [day]).read().equals(prices(day[0]))


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


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"writing s3://no-such-bucket/clean/prices/2025-09-01/r1.parquet"):
        Lake("s3://no-such-bucket", catalog=tmp_path / "catalog.db").write(PRICES, DAY, prices(), run_id="r1")


def test_options_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in places.KEYS:
        monkeypatch.delenv(name.upper(), raising=False)
    assert places.s3_options() == {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "given")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")
    resolved = places.s3_options()
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
def lake(bucket: str, tmp_path: Path) -> Lake:
    return Lake(f"{bucket}/lake", cache=tmp_path / "cache", catalog=tmp_path / "catalog.db")


@pytest.fixture
def other(bucket: str, tmp_path: Path) -> Lake:
    """The same lake on another machine, with an empty cache of files."""
    return Lake(f"{bucket}/lake", cache=tmp_path / "other", catalog=tmp_path / "catalog.db")


def test_superseded_objects_are_kept_for_readers_and_vacuumed_later(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    reader = lake.slice(PRICES)
    assert lake.write(PRICES, DAY, prices(seed=1), run_id="r1").file.endswith("/r1-1.parquet")
    assert reader.read().equals(prices())
    assert lake.slice(PRICES).read().equals(prices(seed=1))
    tomorrow = Lake(lake.uri, clock=lambda: datetime.now(UTC) + timedelta(days=1), catalog=lake.catalog.path)
    assert tomorrow.vacuum(timedelta(hours=1)).files == ("clean/prices/2025-09-01/r1.parquet",)
    assert lake.slice(PRICES).read().equals(prices(seed=1))


@pytest.mark.skipif(find_httpfs() is None, reason="duckdb-extension-httpfs is not installed")
def test_sql_and_the_warehouse_read_the_store(lake: Lake, tmp_path: Path) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    name = "a model/with % odd name"
    lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
    assert evaluate(PRICES, "SELECT * FROM prices", {"prices": lake.slice(PRICES)}).equals(prices())
    warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[PRICES, FORECASTS])
    assert warehouse.query(tmp_path / "warehouse.duckdb", "FROM clean.prices").equals(prices())
    assert warehouse.query(tmp_path / "warehouse.duckdb", "FROM benchmark.forecasts").equals(forecasts(forecaster=name))
