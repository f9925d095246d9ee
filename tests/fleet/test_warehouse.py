"""The warehouse on a real object store: publishers killed at every stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bellwether.lake import Lake
from bellwether.lake.warehouse import publish, query
from deploy.loopback import Process, credentials
from tests.unit.lake.frames import FORECASTS, PRICES, SERIES, prices, series

pytestmark = [pytest.mark.fleet, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parents[2]
CHOSEN = (SERIES, PRICES, FORECASTS)

#: Publish, and kill the process at the stage of argument 3.
KILLED = """
import os, signal, sys
from pathlib import Path
import s3fs
from bellwether.lake import Lake, build, publications
from bellwether.lake.warehouse import publish
from tests.unit.lake.frames import *
stage = sys.argv[3]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if stage == "build":
    build._describe = die
elif stage == "upload":
    call = s3fs.S3FileSystem._call_s3
    async def torn(self, method, *given, **more):
        if method == "put_object" and more["Key"].endswith(".duckdb"):
            die()
        return await call(self, method, *given, **more)
    s3fs.S3FileSystem._call_s3 = torn
elif stage == "switch":
    publications.StorePlace._switch_pointer = die
elif stage == "after":
    publications.StorePlace._vacuum = die
publish(Lake(sys.argv[1], catalog=Path(sys.argv[4])), sys.argv[2], tables=(SERIES, PRICES, FORECASTS))
"""


@pytest.fixture
def place(object_store: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty prefix for the lake and the warehouse of a test."""
    for name, value in credentials(object_store.url).items():
        monkeypatch.setenv(name, value)
    yield f"s3://bellwether/{tmp_path.name}"


@pytest.fixture
def lake(place: str, tmp_path: Path) -> Lake:
    lake = Lake(f"{place}/lake", catalog=tmp_path / "catalog.db")
    lake.write(PRICES, ("2025-09-01",), prices(), run_id="r1")
    lake.write(SERIES, (), series(), run_id="r1")
    return lake


def started(code: str, home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a process of another machine, with its own home."""
    environment = {**os.environ, "BELLWETHER_HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE)


def pointer(warehouse: str) -> dict[str, Any]:
    import s3fs

    return json.loads(s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True).cat_file(f"{warehouse}/pointer.json"))


@pytest.mark.parametrize("stage", ["build", "upload", "switch", "after"])
def test_a_killed_publisher_leaves_the_previous_publication_or_its_own(lake: Lake, place: str, tmp_path: Path, stage: str) -> None:
    warehouse = f"{place}/warehouse"
    publish(lake, warehouse, tables=CHOSEN)
    before = pointer(warehouse)
    lake.write(SERIES, (), series(rows=9), run_id="r2")
    assert started(KILLED, tmp_path / "other", lake.uri, warehouse, stage, lake.catalog.where).wait(timeout=120) == -9
    assert (pointer(warehouse) == before) == (stage != "after")
    assert query(warehouse, "SELECT rows FROM meta.tables WHERE table_name = 'raw.kalshi_series'").item() == (9 if stage == "after" else 3)
    publish(lake, warehouse, tables=CHOSEN)
    assert query(warehouse, "SELECT count(*) FROM raw.kalshi_series").item() == 9
