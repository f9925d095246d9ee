"""Restoration of a backup into an empty home."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bellwether.backup.backup import CATALOG, JOURNAL, LAKE, REGISTRY, folders, journal_path, lake_folder
from bellwether.backup.manifest import BackupManifest
from bellwether.errors import BellwetherError
from bellwether.files import atomic_file, writing
from bellwether.settings import Settings


def restore(config: Settings, folder: Path) -> BackupManifest:
    """Restore the backup in `folder`. No file is written before all checksums are verified. Returns the backup's manifest.

    Raises `BellwetherError` for a backup of another format or world, one that is damaged or contains symbolic links, and a home with data,
    also one from an interrupted restoration: nothing is overwritten.
    """
    manifest = BackupManifest.read(folder)
    if manifest.world != config.world.value:
        raise BellwetherError(
            f"restoring {folder}: it is of the world {manifest.world}, and BELLWETHER_WORLD is {config.world.value}; set the world of the backup"
        )
    places = {LAKE: Path(lake_folder(config)), REGISTRY: registry_path(config), **folders(config)}
    marker, files = config.restoring_path, {JOURNAL: journal_path(config), CATALOG: Path(config.catalog)}
    needed = {name: place for name, place in places.items() if name != REGISTRY or (folder / REGISTRY).is_dir()}
    _require_empty(needed, files, folder)
    manifest.verify(folder)
    with atomic_file(marker) as draft:
        draft.write_text(folder.name, encoding="utf-8")
    # The journal comes last: commands that find none next to stored answers refuse to call models.
    for name in sorted(manifest.files, key=lambda name: (name == JOURNAL, name)):
        part, _, rest = name.partition("/")
        _copy(folder / name, places[part] / rest if rest else files[name])
    marker.unlink()
    return manifest


def registry_path(config: Settings) -> Path:
    """Return the folder into which a registry is restored: BELLWETHER_REGISTRY, or by default `registry` in the world's home."""
    return config.registry or config.world_home / REGISTRY


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
    draft = target.with_name(f".{target.name}.restored")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600 if source.name == JOURNAL else 0o666)
        shutil.copyfile(source, draft)
        os.replace(draft, target)
