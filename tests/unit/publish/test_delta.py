"""Delta Lake copies of tables, read by other programs."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.publish.delta import DeltaCopy, update_copies
from bellwether.tables import Table, table
from cli.main import main
from tests.damage import forget_partition
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, forecasts, prices, series

DAYS = ("2025-09-01", "2025-09-02", "2025-09-03")
ODD = 'o\'neill/50 % "x"'
BUCKETS = itertools.count()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    for day in DAYS:
        lake.write(PRICES, (day,), prices(day), run_id="r1")
    return lake


def exported(lake: Lake, where: Path | str, *tables: Table) -> list[DeltaCopy]:
    return list(update_copies(lake, str(where), tables or (PRICES,)))


def counts(copies: list[DeltaCopy]) -> list[tuple[int, int, int]]:
    return [(copy.written, copy.removed, copy.unchanged) for copy in copies]


def stored(where: Path, declared: Table = PRICES) -> pl.DataFrame:
    return pl.scan_delta(str(where / declared.name)).sort(*declared.partitioned_by, *declared.key).select(declared.names).collect()


def files(where: Path) -> set[str]:
    return set(DeltaTable(str(where / PRICES.name)).file_uris())


def test_rows_and_types_are_those_of_the_lake(lake: Lake, tmp_path: Path) -> None:
    assert counts(exported(lake, tmp_path / "delta")) == [(3, 0, 0)]
    expected = lake.slice(PRICES).read().sort("day", *PRICES.key)
    assert stored(tmp_path / "delta").equals(expected)
    assert stored(tmp_path / "delta").schema == expected.schema
    copy = DeltaTable(str(tmp_path / "delta" / PRICES.name))
    assert copy.metadata().partition_columns == ["day"]
    assert copy.metadata().description == PRICES.row
    assert {field.name: field.metadata["comment"] for field in copy.schema().fields}["volume"] == PRICES.columns[8].description
    rows = copy.to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by name
    assert duckdb.sql("SELECT count(*), sum(volume) FROM rows").fetchall() == [(expected.height, expected["volume"].sum())]


def test_only_changed_partitions_are_rewritten_and_a_repetition_commits_nothing(lake: Lake, tmp_path: Path) -> None:
    where = tmp_path / "delta"
    exported(lake, where)
    before = files(where)
    assert counts(exported(lake, where)) == [(0, 0, 3)]
    assert DeltaTable(str(where / PRICES.name)).version() == 0
    lake.write(PRICES, (DAYS[1],), prices(DAYS[1], seed=5), run_id="r2")
    lake.write(PRICES, (DAYS[2],), prices(DAYS[2]), run_id="r2")
    lake.write(PRICES, ("2025-09-04",), prices("2025-09-04"), run_id="r2")
    assert counts(exported(lake, where)) == [(2, 0, 2)]
    assert DeltaTable(str(where / PRICES.name)).version() == 1
    assert {file for file in before if DAYS[1] not in file} <= files(where)
    assert stored(where).equals(lake.slice(PRICES).read().sort("day", *PRICES.key))


def test_removed_partitions_and_odd_names(lake: Lake, tmp_path: Path) -> None:
    where = tmp_path / "delta"
    for name in (ODD, "market-24h"):
        lake.write(FORECASTS, ("2025q3", name), forecasts(forecaster=name), run_id="r1")
    exported(lake, where, FORECASTS)
    lake.write(FORECASTS, ("2025q3", ODD), forecasts(forecaster=ODD, rows=2), run_id="r2")
    assert counts(exported(lake, where, FORECASTS)) == [(1, 0, 1)]
    assert stored(where, FORECASTS)["forecaster"].value_counts().sort("count").rows() == [(ODD, 2), ("market-24h", 4)]
    forget_partition(lake, FORECASTS, ("2025q3", ODD))
    assert counts(exported(lake, where, FORECASTS)) == [(0, 1, 1)]
    assert stored(where, FORECASTS)["forecaster"].unique().to_list() == ["market-24h"]


def test_an_unpartitioned_table_and_one_without_rows(lake: Lake, tmp_path: Path) -> None:
    lake.write(SERIES, (), series(), run_id="r1")
    assert counts(exported(lake, tmp_path / "delta", FORECASTS, SERIES)) == [(1, 0, 0)]
    assert counts(exported(lake, tmp_path / "delta", SERIES)) == [(0, 0, 1)]
    assert not (tmp_path / "delta" / FORECASTS.name).exists()


def test_nanoseconds_are_cut_and_long_decimals_kept(tmp_path: Path) -> None:
    lake, fills = Lake(str(tmp_path / "lake")), table("replay/fills")
    at = pl.Series([1_700_000_000_123_456_789], dtype=pl.Int64).cast(pl.Datetime("ns", "UTC"))
    texts = {name: "x" for name, dtype in fills.schema.items() if dtype == pl.String()}
    row = {name: 1 for name, dtype in fills.schema.items() if dtype != pl.String() and name not in {"filled_at", "known_at"}}
    frame = fills.frame([{**texts, **row, "price": Decimal("0.123457"), "filled_at": at[0], "known_at": datetime(2025, 1, 1, tzinfo=UTC)}])
    frame = frame.with_columns(filled_at=at)
    lake.write(fills, ("x", "x"), frame, run_id="r1")
    copy = exported(lake, tmp_path / "delta", fills)[0]
    assert copy.cut == ("filled_at",)
    found = pl.scan_delta(str(tmp_path / "delta" / fills.name)).filter(pl.col("price") == Decimal("0.123457")).collect()
    assert found["filled_at"].dt.epoch("us").to_list() == [1_700_000_000_123_456]
    assert found.schema["price"] == fills.schema["price"]


def test_compaction_by_another_program_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    where = tmp_path / "delta"
    exported(lake, where)
    DeltaTable(str(where / PRICES.name)).delete("day = '2025-09-01'")
    assert counts(exported(lake, where)) == [(0, 0, 3)]
    lake.write(PRICES, (DAYS[1],), prices(DAYS[1], seed=5), run_id="r2")
    assert counts(exported(lake, where)) == [(1, 0, 2)]


def test_a_damaged_partition_leaves_the_copy_unchanged(lake: Lake, tmp_path: Path) -> None:
    exported(lake, tmp_path / "delta")
    changed = lake.write(PRICES, (DAYS[1],), prices(DAYS[1], seed=5), run_id="r2")
    (tmp_path / "lake" / changed.file).write_bytes(b"PAR1")
    with pytest.raises(LakeError, match="r2"):
        exported(lake, tmp_path / "delta")
    assert DeltaTable(str(tmp_path / "delta" / PRICES.name)).version() == 0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 server in its own process, because deltalake keeps Python's lock while it waits for an answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.nightly
def test_a_copy_on_an_object_store(lake: Lake, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = f"delta-{next(BUCKETS)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT"))
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    assert counts(exported(lake, f"s3://{bucket}/copies/")) == [(3, 0, 0)]
    lake.write(PRICES, (DAYS[0],), prices(DAYS[0], seed=5), run_id="r2")
    assert counts(exported(lake, f"s3://{bucket}/copies")) == [(1, 0, 2)]
    options = {"aws_endpoint_url": endpoint, "aws_allow_http": "true", "aws_region": "us-east-1"}
    options |= {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    rows = pl.scan_delta(f"s3://{bucket}/copies/clean/prices", storage_options=options).collect()
    assert rows.select(PRICES.names).sort("day", *PRICES.key).equals(lake.slice(PRICES).read().sort("day", *PRICES.key))


def test_the_command(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_LAKE", lake.uri)
    done = CliRunner().invoke(main, ["export", "--format", "delta", "--to", str(tmp_path / "delta"), "--table", "clean/prices"])
    assert done.exit_code == 0, done.output
    assert "clean/prices: 3 partitions written, 0 removed, 0 unchanged" in done.output.replace("\n", "")
    for words in (
        ["--format", "delta", "--to", str(tmp_path / "d"), "--table", "clean/nothing"],
        ["--format", "delta", "--to", str(tmp_path / "d"), "--table", "replay/fills"],
        ["--format", "delta", "--to", str(tmp_path / "d"), "some-release"],
        ["made-up", "--to", str(tmp_path / "d"), "--table", "clean/prices"],
    ):
        assert CliRunner().invoke(main, ["export", *words]).exit_code != 0
