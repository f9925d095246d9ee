"""Compares files of the lake with the checksums of their manifests."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO

from bellwether.errors import LakeError
from bellwether.lake.manifest import Manifest
from bellwether.lake.repair import remedy_of

#: Local files that this process found sound, as path, size, time of modification and checksum: a file of the lake is never changed in place.
_sound: set[tuple[str, int, int, str]] = set()


def compare(manifest: Manifest, location: str, file: BinaryIO) -> None:
    """Raise `LakeError` when the bytes of `file` are not those that `manifest` was written for."""
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    if sha256 != manifest.sha256:
        raise LakeError(
            f"verifying {manifest.table}: {location} is damaged: its SHA-256 is {sha256[:8]}…, the manifest's {manifest.sha256[:8]}…; "
            f"{remedy_of(manifest.table, manifest.partition)}"
        )


def missing(manifest: Manifest, location: str) -> LakeError:
    """The error about a file that is not there."""
    return LakeError(f"verifying {manifest.table}: {location} is missing; {remedy_of(manifest.table, manifest.partition)}")


def compare_once(manifest: Manifest, location: str) -> None:
    """As `compare`, of a local file, unless this process has done so since the file was last modified. Raises `LakeError` also when it is missing.

    Nothing is done for a file in an object store, which has checksums of its own.
    """
    if "://" in location:
        return
    try:
        with open(location, "rb") as file:
            found = os.fstat(file.fileno())
            seen = (location, found.st_size, found.st_mtime_ns, manifest.sha256)
            if seen not in _sound:
                compare(manifest, location, file)
                _sound.add(seen)
    except FileNotFoundError:
        raise missing(manifest, location) from None


def is_sound(manifest: Manifest, location: str) -> bool:
    """Whether `compare_once` finds nothing wrong."""
    try:
        compare_once(manifest, location)
    except LakeError:
        return False
    return True
