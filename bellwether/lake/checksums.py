"""Verification of the lake's files against the checksums of the catalog, and advice on restoring a lost or damaged partition."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bellwether.errors import LakeError
from bellwether.lake.catalog import Manifest
from bellwether.lake.partitions import Partition
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE
from bellwether.tables.benchmark import QUESTIONS

#: Local files verified by this process, as path, size, modification time and checksum. Files of the lake are never changed in place.
_sound: set[tuple[str, int, int, str]] = set()
#: Tables that `bellwether pull` fetches before it pulls days, with the option that they need.
_REFERENCE = {
    "raw/kalshi_series": "",
    "raw/kalshi_series_rejects": "",
    "raw/kalshi_archive": " --archive",
    "raw/kalshi_archive_rejects": " --archive",
}


def find_damage(path: str | Path, sha256: str) -> str | None:
    """Compare a local file with its checksum. Returns what is wrong with the file, worded as the end of a sentence; None for an intact file.

    An intact file is read only once per process and modification.
    """
    try:
        with open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            identity = (str(path), stat.st_size, stat.st_mtime_ns, sha256)
            if identity in _sound:
                return None
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "is missing"
    if actual != sha256:
        return f"is damaged: its SHA-256 is {actual[:8]}…, the recorded one is {sha256[:8]}…"
    _sound.add(identity)
    return None


def require_intact(manifest: Manifest, path: str) -> None:
    """Raise `LakeError` with advice if the local file of a partition is missing or damaged. The file is read as by `find_damage`."""
    if damage := find_damage(path, manifest.sha256):
        raise LakeError(f"reading {manifest.table}: {path} {damage}; {describe_repair(manifest.table, manifest.partition)}")


def describe_repair(name: str, partition: Partition) -> str:
    """Return advice on restoring a partition, worded as the end of an error message. name: of its table, which this version may not know."""
    of = "/".join(partition)
    if name == QUESTIONS.name:
        return f"restore the file from a backup: the questions of {of} are not drawn again"
    command = _repair_command(TABLES[name], partition) if name in TABLES else None
    if command is None:
        return f"materialize {name}{f', partition {of},' if of else ''} again in the UI"
    if name.startswith("arena/") and partition:
        return f"{command} restores it where the week was reconstructed; otherwise restore the file from a backup"
    return f"{command} restores it"


def _repair_command(table: Table, partition: Partition) -> str | None:
    """Return the command that rebuilds a partition; None if there is no command for this table."""
    if table.name.startswith("arena/"):
        # The command would start a missing cohort: only tables written with the cohort name its week.
        week = f"{partition[0]}`" if table.partitioned_by == ("week",) and table is not EVIDENCE else "WEEK` of any week that was run"
        return f"`bellwether arena run --week {week}"
    if table.name in _REFERENCE:
        return f"`bellwether pull DAY{_REFERENCE[table.name]}` of any day"
    match table.partitioned_by:
        case ("day",):
            return f"`bellwether pull {partition[0]}`"
        case ("release", *_):
            return f"`bellwether release {' --forecaster '.join(partition)}`"
    return None
