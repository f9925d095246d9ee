"""Verification of the lake's files against the checksums of the catalog, and advice on restoring a lost or damaged partition."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO

from bellwether.errors import LakeError
from bellwether.lake.catalog import Manifest
from bellwether.lake.partitions import Partition
from bellwether.tables import TABLES, Table
from bellwether.tables.arena import EVIDENCE
from bellwether.tables.benchmark import QUESTIONS
from bellwether.tables.history import HISTORY

#: Local files verified by this process, as path, size, modification time and checksum. Files of the lake are never changed in place.
_sound: set[tuple[str, int, int, str]] = set()
#: Tables that `bellwether pull` fetches before it pulls days, with the option that they need.
_REFERENCE = {
    "raw/kalshi_series": "",
    "raw/kalshi_series_rejects": "",
    "raw/kalshi_archive": " --archive",
    "raw/kalshi_archive_rejects": " --archive",
}


def verify_checksum(manifest: Manifest, location: str, file: BinaryIO) -> None:
    """Raise `LakeError` if the SHA-256 of `file` differs from the manifest's."""
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    if sha256 != manifest.sha256:
        raise LakeError(
            f"verifying {manifest.table}: {location} is damaged: its SHA-256 is {sha256[:8]}…, the catalog's {manifest.sha256[:8]}…; "
            f"{describe_repair_by_name(manifest.table, manifest.partition)}"
        )


def missing_file_error(manifest: Manifest, location: str) -> LakeError:
    """Build the error for a missing file that a manifest names."""
    return LakeError(f"verifying {manifest.table}: {location} is missing; {describe_repair_by_name(manifest.table, manifest.partition)}")


def verify_checksum_once(manifest: Manifest, location: str) -> None:
    """Verify a local file unless this process has done so since the file's last modification. Raises `LakeError` for a missing or damaged file.

    Files in an object store are skipped: the store has checksums of its own.
    """
    if "://" in location:
        return
    try:
        with open(location, "rb") as file:
            stat = os.fstat(file.fileno())
            identity = (location, stat.st_size, stat.st_mtime_ns, manifest.sha256)
            if identity not in _sound:
                verify_checksum(manifest, location, file)
                _sound.add(identity)
    except FileNotFoundError:
        raise missing_file_error(manifest, location) from None


def is_sound(manifest: Manifest, location: str) -> bool:
    """Return True if the file exists and has the manifest's checksum. The file is read only once per process and modification."""
    try:
        verify_checksum_once(manifest, location)
    except LakeError:
        return False
    return True


def describe_repair(table: Table, partition: Partition) -> str:
    """Return advice on restoring a partition, worded as the end of an error message."""
    of = "/".join(partition)
    if table in HISTORY:
        return f"restore the file from a backup, or delete the lake's folder {table.name}: the next publication starts without it"
    if table is QUESTIONS:
        return f"restore the file from a backup: the questions of {of} are not drawn again"
    command = _repair_command(table, partition)
    if command is None:
        return f"materialize {table.name}{f', partition {of},' if of else ''} again in the UI"
    if table.name.startswith("arena/") and partition:
        return f"{command} restores it where the week was reconstructed; otherwise restore the file from a backup"
    return f"{command} restores it"


def describe_repair_by_name(name: str, partition: Partition) -> str:
    """Return advice on restoring a partition. name: of a table that this version of the code may not know."""
    declared = next((table for table in HISTORY if table.name == name), TABLES.get(name))
    return describe_repair(declared, partition) if declared else "materialize that partition again"


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
