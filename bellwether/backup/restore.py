"""Restoration of a backup into an empty home."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bellwether.backup.backup import CATALOG, JOURNAL, LAKE, REGISTRY, folders, journal_path, lake_folder
from bellwether.backup.manifest import FILE, BackupManifest
from bellwether.errors import BellwetherError
from bellwether.files import atomic_file, checksum, writing
from bellwether.settings import Settings


def restore(config: Settings, folder: Path) -> BackupManifest:
    """Restore the backup in `folder`. No file is written before all checksums are verified. Returns the backup's manifest.

    An interrupted restoration is continued by restoring the same backup again. Raises `BellwetherError` for a backup of another
    format or world, one that is damaged or contains symbolic links, and a home with data: nothing is overwritten.
    """
    manifest = BackupManifest.read(folder)
    if manifest.world != config.world.value:
        raise BellwetherError(
            f"restoring {folder}: it is of the world {manifest.world}, and BELLWETHER_WORLD is {config.world.value}; set the world of the backup"
        )
    places = {LAKE: Path(lake_folder(config)), REGISTRY: registry_path(config), **folders(config)}
    marker, journal = config.restoring_path, journal_path(config)
    files = {JOURNAL: journal, CATALOG: Path(config.catalog)}
    if not _is_resumed(marker, folder):
        _require_empty({name: place for name, place in places.items() if name != REGISTRY or (folder / REGISTRY).is_dir()}, files, folder)
    elif journal.exists() and checksum(journal) != manifest.files.get(JOURNAL):
        raise BellwetherError(f"restoring {folder}: the journal {journal} was created meanwhile; move it away, then restore again")
    manifest.verify(folder)
    with atomic_file(marker) as draft:
        draft.write_text(f"{folder.name}\n{checksum(folder / FILE)}\n", encoding="utf-8")
    # The journal comes last: commands that find none next to stored answers refuse to call models.
    for name in sorted(manifest.files, key=lambda name: (name == JOURNAL, name)):
        part, _, rest = name.partition("/")
        _copy(folder / name, places[part] / rest if rest else files[name])
    marker.unlink()
    return manifest


def registry_path(config: Settings) -> Path:
    """Return the folder into which a registry is restored: BELLWETHER_REGISTRY, or by default `registry` in the world's home."""
    return config.registry or config.world_home / REGISTRY


def _is_resumed(marker: Path, folder: Path) -> bool:
    """Return True if a restoration of this backup was interrupted before.
    Raises `BellwetherError` if it was of another backup. marker: file that it left.
    """
    if not marker.exists():
        return False
    name, _, digest = marker.read_text(encoding="utf-8").strip().partition("\n")
    if digest != checksum(folder / FILE):
        raise BellwetherError(
            f"restoring {folder}: the restoration of {name} into {marker.parent} was interrupted; restore {name} again to finish it, or remove "
            f"{marker.parent} first"
        )
    return True


def _require_empty(places: dict[str, Path], files: dict[str, Path], folder: Path) -> None:
    """Raise `BellwetherError` if one of the places or files already exists."""
    present = [
        f"{name} in {place}" for name, place in places.items() if place.is_dir() and any(path.is_file() for path in place.rglob("*"))
    ]
    present += [f"{name} at {file}" for name, file in files.items() if file.exists()]
    if present:
        raise BellwetherError(f"restoring {folder}: there is already {present[0]}; restore into an empty BELLWETHER_HOME")


def _copy(source: Path, target: Path) -> None:
    """Copy one file atomically. A journal can be read by its owner only."""
    # The same name in every attempt, so that a repetition leaves no draft of a killed one.
    draft = target.with_name(f".{target.name}.restored")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600 if source.name == JOURNAL else 0o666)
        shutil.copyfile(source, draft)
        os.replace(draft, target)
