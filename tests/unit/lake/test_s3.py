"""The lake on an object store: the layout and guarantees of a folder."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether import places
from bellwether.errors import ConfigError, LakeError
from bellwether.lake import Lake, warehouse
from bellwether.lake.sql import evaluate
from bellwether.lake.storage import open_storage
from tests.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

DAY = ("2025-09-01",)
BUCKETS = itertools.count()
HAS_HTTPFS = importlib.util.find_spec("duckdb_extension_httpfs") is not None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 server on loopback."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def options(endpoint: str) -> dict[str, str]:
    return {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_endpoint_url": endpoint}


@pytest.fixture
def lake(endpoint: str, options: dict[str, str]) -> Lake:
    bucket = f"lake-{next(BUCKETS)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT"))
    return Lake(f"s3://{bucket}/some/prefix", options)


def test_partitions_are_written_and_read_back(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    lake.write(SERIES, (), series(), run_id="r1")
    name = "a model/with % odd?#name"
    lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
    assert lake.slice(PRICES).read().equals(prices())
    assert lake.slice(SERIES, [()]).read().equals(series())
    assert lake.slice(FORECASTS).read().equals(forecasts(forecaster=name))
    assert [entry.name for entry in lake.storage.files("clean")] == ["clean/prices/2025-09-01/r1.parquet"]
    assert [entry.name for entry in lake.storage.files("_index/clean")] == ["_index/clean/prices.json.gz"]


def test_a_stream_is_put_as_one_object(lake: Lake) -> None:
    frame = prices(rows=300)
    lake.write(PRICES, DAY, (frame.slice(start, 30) for start in range(0, 300, 30)), run_id="r1")
    assert lake.slice(PRICES).scan().filter(pl.col("market_id") == "KXTEST-000003").collect().height == 3
    assert lake.slice(PRICES).read().equals(frame)


def test_an_object_is_never_replaced(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    reader = lake.slice(PRICES)
    assert lake.write(PRICES, DAY, prices(seed=1), run_id="r1").file.endswith("/r1-1.parquet")
    assert reader.read().equals(prices())
    assert lake.slice(PRICES).read().equals(prices(seed=1))


def test_another_process_sees_what_was_written_since(lake: Lake, options: dict[str, str]) -> None:
    other = Lake(lake.uri, options)
    assert other.manifests(PRICES) == {}
    lake.write(PRICES, DAY, prices(), run_id="r1")
    assert list(other.manifests(PRICES)) == [DAY]


def test_superseded_objects_are_vacuumed(lake: Lake, options: dict[str, str]) -> None:
    for run_id in ("r1", "r2"):
        lake.write(PRICES, DAY, prices(), run_id=run_id)
    tomorrow = Lake(lake.uri, options, clock=lambda: datetime.now(UTC) + timedelta(days=1))
    assert tomorrow.vacuum(timedelta(hours=1)).files == ("clean/prices/2025-09-01/r1.parquet",)
    assert lake.slice(PRICES).read().equals(prices())


def test_a_bucket_that_does_not_exist_is_one_clear_error(options: dict[str, str]) -> None:
    with pytest.raises(LakeError, match=r"writing s3://no-such-bucket/clean/prices/2025-09-01/r1.parquet"):
        Lake("s3://no-such-bucket", options).write(PRICES, DAY, prices(), run_id="r1")


def test_an_object_that_is_gone_is_named(lake: Lake) -> None:
    manifest = lake.write(PRICES, DAY, prices(seed=404), run_id="r1")
    rows = lake.slice(PRICES)
    lake.storage.delete(manifest.file)
    with pytest.raises(LakeError, match=r"reading s3://.*r1.parquet"):
        rows.read()
    with pytest.raises(LakeError, match="is missing"):
        lake.verify(manifest)
    lake.storage.delete(manifest.file)


@pytest.mark.skipif(not HAS_HTTPFS, reason="duckdb-extension-httpfs is not installed")
def test_sql_and_the_warehouse_read_the_store_with_the_extension(
    lake: Lake, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    name = "a model/with % odd name"
    lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
    assert evaluate(PRICES, "SELECT * FROM prices", {"prices": lake.slice(PRICES)}).equals(prices())
    warehouse.publish(lake, tmp_path / "warehouse.duckdb", tables=[PRICES, FORECASTS])
    for option, value in options.items():
        monkeypatch.setenv(option.upper(), value)
    assert warehouse.query(tmp_path / "warehouse.duckdb", "FROM clean.prices").equals(prices())
    assert warehouse.query(tmp_path / "warehouse.duckdb", "FROM benchmark.forecasts").equals(forecasts(forecaster=name))


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


def test_an_unknown_option_or_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="no option is called 'key'; there are aws_access_key_id"):
        open_storage("s3://bucket", {"key": "x"})
    with pytest.raises(ConfigError, match="opening nosuch://bucket"):
        open_storage("nosuch://bucket")


def test_secrets_are_not_shown(lake: Lake) -> None:
    lake.write(PRICES, DAY, prices(), run_id="r1")
    assert "secret" not in repr(lake.slice(PRICES))
