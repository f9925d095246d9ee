"""Publishing the warehouse after one new partition against a complete publication, and the publisher's look at a lake that is published.

The partitions have no rows: what grows with the age of a lake is their number. CPU time of this process.
"""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from bellwether.lake import Lake, parquet, partitions
from bellwether.lake.manifest import FILE_NAME, Manifest, dump
from bellwether.lake.partitions import Partition
from bellwether.lake.warehouse import publish, written_since
from bellwether.tables import TABLES, Table, table

FIRST, DAY = date(2024, 1, 1), timedelta(days=1)
RELEASES, FORECASTERS = 4, 16
ROUNDS = 5
#: Of a complete publication, at 5,000 partitions.
UPDATE = 0.1
#: Seconds, at 15,000 partitions.
LOOK = 0.02


def fill(folder: Path, least: int) -> Lake:
    """A lake of at least so many partitions: days of all tables that have days, and some releases."""
    folder.mkdir(parents=True)
    lake, now = Lake(str(folder)), datetime.now(UTC)
    daily = sum(declared.partitioned_by == ("day",) for declared in TABLES.values())
    for declared in TABLES.values():
        keys = _partitions(declared, -(-least // daily))
        if not keys:
            continue
        draft = folder / "draft.parquet"
        parquet.write(declared, keys[0], declared.empty(), draft)
        content = draft.read_bytes()
        draft.unlink()
        sha256 = hashlib.sha256(content).hexdigest()
        for key in keys:
            name = partitions.folder(declared, key)
            (folder / name).mkdir(parents=True)
            (folder / name / "run.parquet").write_bytes(content)
            manifest = Manifest(declared.name, key, f"{name}/run.parquet", 0, len(content), sha256, declared.version, "run", now, None)
            (folder / name / FILE_NAME).write_bytes(dump(manifest))
    return lake


def _partitions(declared: Table, days: int) -> list[Partition]:
    if declared.partitioned_by == ("day",):
        return [((FIRST + number * DAY).isoformat(),) for number in range(days)]
    if declared.partitioned_by == ("release",):
        return [(f"release-{number}",) for number in range(RELEASES)]
    if declared.partitioned_by == ("release", "forecaster"):
        return [(f"release-{one}", f"forecaster-{other}") for one in range(RELEASES) for other in range(FORECASTERS)]
    return []


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def run() -> list[dict[str, Any]]:
    """Two lines: an update at 5,000 partitions, a look at 15,000."""
    with tempfile.TemporaryDirectory() as folder:
        lake, path = fill(Path(folder) / "5", 5_000), Path(folder) / "5.duckdb"
        complete = min(_seconds(lambda: publish(lake, path)) for _ in range(2))
        updates = []
        for number in range(ROUNDS):
            prices = table("clean/prices")
            lake.write(prices, ((FIRST - (number + 1) * DAY).isoformat(),), prices.empty(), run_id="new")
            updates.append(_seconds(lambda: publish(lake, path, complete_every=DAY)))
        lake, path = fill(Path(folder) / "15", 15_000), Path(folder) / "15.duckdb"
        partitions = publish(lake, path).partitions
        looks = [_seconds(lambda: written_since(lake, path)) for _ in range(ROUNDS)]
    # The first look after a publication opens its file; the periodic ones do not.
    update, first, look = statistics.median(updates), looks[0], max(looks[1:])
    return [
        {
            "name": "publication after one new partition, of a complete one",
            "ratio": update / complete,
            "target": UPDATE,
            "detail": f"5,000 partitions: {update:.3f} s, complete {complete:.2f} s",
        },
        {
            "name": "seconds of the publisher's look",
            "ratio": look,
            "target": LOOK,
            "detail": f"{partitions:,} partitions: {1000 * look:.1f} ms; the first look after a publication {1000 * first:.0f} ms",
        },
    ]
