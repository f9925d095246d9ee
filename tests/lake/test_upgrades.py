"""Homes of older versions: missing data is added once, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bellwether.arena.frames import evidence_frame
from bellwether.arena.resolution import build_evidence_row
from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.lake.upgrades import upgrade_partitions
from bellwether.lake.warehouse import publish, query
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE
from tests.unit.arena.world import row_of

NOW = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
WEEK = (date(2026, 3, 1).isoformat(),)


LOOKS, LATER = (
    evidence_frame([build_evidence_row({"market_id": "m", "outcomes": ["Yes", "No"], "closed": False}, fetched_at=at)])
    for at in (NOW, NOW + timedelta(weeks=1))
)
OLDER = replace(
    EVIDENCE,
    version="1",
    added={},
    sort=(),
    columns=tuple(column for column in EVIDENCE.columns if column.name not in {"results", "settled_at", "missing"}),
)


def test_rows_of_an_older_version_are_read_again(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.write(OLDER, WEEK, LOOKS.select(OLDER.names), run_id="old")
    with pytest.raises(LakeError, match="written by version 1"):
        lake.slice(EVIDENCE).read()
    assert upgrade_partitions(lake) == 1
    assert lake.slice(EVIDENCE).read().equals(LOOKS)
    assert upgrade_partitions(lake) == 0
    assert {manifest.run_id for manifest in lake.manifests(EVIDENCE).values()} == {"renewed"}


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
    lake = Lake(str(tmp_path / "lake"))
    for week, looks in ((WEEK, LOOKS), (("2026-03-08",), LATER)):
        lake.write(OLDER, week, looks.select(OLDER.names), run_id="old")
    broken = lake.manifests(OLDER)[WEEK]
    place = Path(lake.storage.location(broken.file))
    (place.parent / damaged if damaged == "manifest.json" else place).write_bytes(b"{")
    publish(lake, tmp_path / "warehouse.duckdb", tables=[EVIDENCE])
    assert query(tmp_path / "warehouse.duckdb", "FROM arena.evidence", {}).equals(LATER)
