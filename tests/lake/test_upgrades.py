"""Homes of older versions: missing data is added once, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.frames import evidence_frame, universe_frame
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.resolution import build_evidence_row
from bellwether.arena.universe import select_universe
from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.lake.upgrades import upgrade_partitions
from bellwether.lake.warehouse import publish, query
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE, UNIVERSE
from tests.arena.test_queries import _row as row_of
from tests.arena.world import binary

NOW = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
WEEK = (date(2026, 3, 1).isoformat(),)


def _universe(week: date) -> pl.DataFrame:
    return universe_frame(week, FrozenUniverse(select_universe([binary()], 5, NOW), NOW, False, "test"))


def test_rows_of_an_older_version_are_read_again(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    look = build_evidence_row({"market_id": "m", "outcomes": ["Yes", "No"], "closed": False}, fetched_at=NOW)
    made = {EVIDENCE: evidence_frame([look]), UNIVERSE: _universe(date(2026, 3, 1))}
    for table, rows in made.items():
        lacking = {"results", "settled_at", "venue"}
        older = replace(table, version="1", sort=(), columns=tuple(one for one in table.columns if one.name not in lacking))
        lake.write(older, WEEK, rows.select(older.names), run_id="old")
        with pytest.raises(LakeError, match="written by version 1"):
            lake.slice(table).read()
    assert upgrade_partitions(lake) == 2
    for table, rows in made.items():
        assert lake.slice(table).read().equals(rows), table.name
    assert upgrade_partitions(lake) == 0
    assert {manifest.run_id for table in made for manifest in lake.manifests(table).values()} == {"renewed"}


@pytest.mark.parametrize(("table", "version"), [(table, version) for table in TABLES.values() for version in table.added])
def test_a_publication_has_the_rows_of_an_older_version(table: Table, version: str, tmp_path: Path) -> None:
    lacking = table.added[version]
    older = replace(table, version=version, added={}, sort=(), columns=tuple(one for one in table.columns if one.name not in lacking))
    values = {"week": date(2026, 3, 1), "day": date(2026, 3, 1), "release": "r", "forecaster": "f", "episode": "e", "agent": "a"}
    rows = table.frame([row_of(table.name, **{name: value for name, value in values.items() if name in table.names}, **lacking)])
    partition = tuple(str(values[name]) for name in table.partitioned_by)
    lake = Lake(str(tmp_path / "lake"))
    lake.write(older, partition, rows.select(older.names), run_id="old")
    publish(lake, tmp_path / "warehouse.duckdb", tables=[table])
    assert query(tmp_path / "warehouse.duckdb", f"FROM {table.sql_name}", {}).equals(rows)
    assert lake.slice(table).read().equals(rows)


@pytest.mark.parametrize("damaged", ["manifest.json", "rows"])
def test_a_damaged_partition_is_left_out_and_the_others_are_renewed_and_published(damaged: str, tmp_path: Path) -> None:
    lake, older = (
        Lake(str(tmp_path / "lake")),
        replace(UNIVERSE, version="1", added={}, sort=(), columns=tuple(c for c in UNIVERSE.columns if c.name != "venue")),
    )
    for week in (date(2026, 3, 1), date(2026, 3, 8)):
        rows = _universe(week)
        lake.write(older, (week.isoformat(),), rows.select(older.names), run_id="old")
    broken = lake.manifests(older)[WEEK]
    place = Path(lake.storage.location(broken.file))
    (place.parent / damaged if damaged == "manifest.json" else place).write_bytes(b"{")
    publish(lake, tmp_path / "warehouse.duckdb", tables=[UNIVERSE])
    assert query(tmp_path / "warehouse.duckdb", "SELECT DISTINCT week, venue FROM arena.universe", {}).rows() == [
        (date(2026, 3, 8), "polymarket")
    ]
