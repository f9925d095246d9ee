"""Numbers of names, and standings, which each publication continues from those in the lake."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bellwether.backup import backup, restore
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish, query
from bellwether.settings import Settings
from bellwether.tables import table
from bellwether.tables.history import HISTORY
from tests.unit.site.world import NOW, Size, rows, write

SIZE = Size(questions=3, prices=0, models=2, episodes=1, agents=1, cohorts=1, families=1, markets=5)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = Lake(str(tmp_path / "lake"), clock=lambda: NOW)
    write(found, SIZE)
    return found


def board(lake: Lake, *names: str) -> None:
    """Write a leaderboard of forecasters, the best first."""
    count = len(names)
    ranked = rows("benchmark/leaderboard", count, release="release-0", forecaster=list(names), rank=list(range(1, count + 1)), brier=[place / 10 for place in range(count)], kind="language_model", n_questions=3)  # fmt: skip
    lake.write(table("benchmark/leaderboard"), ("release-0",), ranked, run_id="r")


def numbers(path: Path) -> dict[str, int]:
    return dict(query(path, "FROM meta.names").iter_rows())


def test_history_survives_a_new_file_and_a_restored_backup(lake: Lake, tmp_path: Path) -> None:
    config, other = Settings(home=tmp_path / "home", lake=lake.uri), Settings(home=tmp_path / "other")
    Journal(config.journal_url).database.open()
    path = Path(config.warehouse_uri)
    for names in (("y", "z"), ("z", "w")):
        board(lake, *names)
        publish(lake, path)
    published = {name: query(path, f"FROM {name} ORDER BY ALL") for name in ("meta.names", "meta.standings")}
    assert published["meta.standings"].filter(~pl.col("current"), area="benchmark")["name"].to_list() == ["y", "z"]
    restore(other, backup(config, tmp_path / "backups", at=NOW))
    publish(Lake(other.lake_uri), other.warehouse_uri)
    for name, before in published.items():
        assert query(other.warehouse_uri, f"FROM {name} ORDER BY ALL").rows() == before.rows()


def test_a_warehouse_of_some_tables_changes_no_history(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path / "w.duckdb")
    stored = [lake.manifests(one) for one in HISTORY]
    publish(lake, tmp_path / "part.duckdb", tables=[table("benchmark/leaderboard")], self_contained=True)
    assert [lake.manifests(one) for one in HISTORY] == stored
    assert numbers(tmp_path / "part.duckdb") == numbers(tmp_path / "w.duckdb")
