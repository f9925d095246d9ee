"""Verification of the lake's files against the checksums of the catalog."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO

from bellwether.errors import LakeError
from bellwether.lake.catalog import Manifest
from bellwether.lake.repair import describe_repair_by_name

#: Local files verified by this process, as path, size, modification time and checksum. Files of the lake are never changed in place.
_sound: set[tuple[str, int, int, str]] = set()


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
