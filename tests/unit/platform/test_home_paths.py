"""A home works at any path: characters of URLs, patterns and SQL in names of folders are plain characters."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from bellwether.backup import backup, restore
from bellwether.deployment import deployment
from bellwether.doctor import _journal_file, _paths, _warehouse
from bellwether.journal import Journal
from bellwether.lake import Lake, duckdb_connection
from bellwether.lake.verification import verify
from bellwether.lake.warehouse import publish, query
from bellwether.settings import Settings
from bellwether.tables import table
from orchestration.home import prepare
from tests.site.world import rows

AT = datetime(2026, 3, 1, tzinfo=UTC)
#: Names of folders, and another name that each matches if it is read as a URL or a pattern.
NAMES = [
    ("a b", "a%20b"),
    ("a%20b", "a b"),
    ("100%", "100"),
    ("a%", "a"),
    ("a?b=c", "axb=c"),
    ("a#b", "a"),
    ("a*b", "axb"),
    ("c[d]", "cd"),
    ("it's", "its"),
    ('say "ü"', "say"),
]


def fill(home: Path, forecaster: str) -> Settings:
    config = Settings(home=home)
    with Journal.of(config) as journal:
        journal.create()
    board = rows("benchmark/leaderboard", 1, release="r", forecaster=forecaster, rank=1, brier=0.1)
    series = rows("raw/kalshi_series", 1, series_ticker=forecaster)
    lake = Lake(config.lake_uri)
    lake.write(table("benchmark/leaderboard"), ("r",), board, run_id="r")
    lake.write(table("raw/kalshi_series"), (), series, run_id="r")
    return config


def read_back(config: Settings) -> list[str]:
    """Return the forecasters of a mart, of a view, and of the lake read by Polars and by DuckDB."""
    lake = Lake(config.lake_uri)
    publish(lake, config.warehouse_uri)
    slice_ = lake.slice(table("raw/kalshi_series"))
    with duckdb_connection.connect() as connection:
        duckdb_connection.add_input(connection, "series", slice_)
        own = connection.sql("SELECT series_ticker FROM series").fetchall()
    return [
        *query(config.warehouse_uri, "SELECT forecaster FROM benchmark.leaderboard")["forecaster"],
        *query(config.warehouse_uri, "SELECT series_ticker FROM raw.kalshi_series")["series_ticker"],
        *slice_.read()["series_ticker"],
        *(name for (name,) in own),
    ]


@pytest.mark.parametrize(("name", "other"), NAMES)
def test_a_home_works_at_any_path(tmp_path: Path, name: str, other: str) -> None:
    fill(tmp_path / other, "theirs")
    config, restored = fill(tmp_path / name, "mine"), Settings(home=tmp_path / "restored" / name)
    assert read_back(config) == ["mine"] * 4
    assert (tmp_path / name / "sandbox" / "journal.db").is_file()
    assert verify(Lake(config.lake_uri)).damaged == ()
    restore(restored, backup(config, tmp_path / "backups" / name, at=AT))
    assert read_back(restored) == ["mine"] * 4
    findings = [finding for look in (_paths, deployment, _journal_file, _warehouse) for finding in look(restored)]
    assert {finding.status for finding in findings} == {"ok"}, findings
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({name, other, "restored", "backups"})


@pytest.mark.parametrize("name", [name for name, _ in NAMES])
def test_dagster_stores_runs_at_any_path(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (tmp_path / "links").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "links"))
    home = prepare(Settings(home=tmp_path / name))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.create_run_for_job(dg.GraphDefinition("nothing", node_defs=[]).to_job())
    databases = list((tmp_path / name).rglob("runs.db"))
    assert len(databases) == 1
    with closing(sqlite3.connect(databases[0])) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)
