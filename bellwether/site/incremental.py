"""Incremental build of the site.

The site is built in a draft folder, which then replaces the previous site atomically. A unit is a group of files that are built together. If the
digest of a unit's inputs is the same as in the previous site, the unit is not rebuilt: its files become hard links to the previous ones.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import ConfigError
from bellwether.files import atomic_folder, upload, writing
from bellwether.pages.render import banner, page_date
from bellwether.places import is_stored, place
from bellwether.settings import settings
from bellwether.site.contents import units
from bellwether.site.source import SiteSource, open_source
from bellwether.site.unit import Unit, code

#: File that identifies the folder as a site, with its published state and the files of each unit.
MANIFEST = "site.json"
_MARK = "bellwether-site"
#: First line of every page by world.
_BANNERS = {"sandbox": "Generated markets and mock models. Not real results."}


@dataclass(frozen=True, slots=True)
class SiteBuild:
    """Result of a build.

    written: number of new or changed files. pages: number of HTML pages by part, which is the first folder of their paths. published:
    `publication_state` of the warehouse that was read.
    """

    folder: Path
    files: int
    bytes: int
    written: int
    pages: dict[str, int]
    published: str


def build(warehouse: Path | str, folder: Path | str) -> SiteBuild:
    """Build the site of a published warehouse in `folder`; equal warehouses give equal bytes.

    Raises `LakeError` if the warehouse cannot be read or has another version, `ConfigError` if the folder contains something else, and
    `BellwetherError` if the site cannot be written. A failed build leaves the previous site unchanged.
    """
    target = _resolve_folder(folder)
    old = _read_manifest(target)
    if old is None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"building the site at {target}: the folder contains other files; choose another folder or empty it")
    if is_stored(target):
        return _build_and_upload(warehouse, target)
    with open_source(warehouse) as source, atomic_folder(target, MANIFEST) as draft:
        shown = " ".join(filter(None, (_BANNERS.get(source.world), source.delays)))
        writer = _Writer(target, draft, old if old and old.get("banner") == shown else {})
        with banner(shown):
            for unit in units(source):
                writer.add(unit)
        published = publication_state(source)
        manifest = {"what": _MARK, "published": published, "banner": shown, "units": writer.units, "files": writer.files}
        data = orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)
        (draft / MANIFEST).write_bytes(data)
    pages = Counter(path.partition("/")[0] for path in sorted(writer.files) if path.endswith(".html"))
    return SiteBuild(target, len(writer.files) + 1, writer.bytes + len(data), writer.written, dict(pages.most_common()), published)


def _resolve_folder(folder: Path | str) -> Path:
    resolved = place(folder)
    return resolved if is_stored(resolved) else resolved.expanduser().absolute()


def local_folder(target: Path) -> Path:
    """Return the local folder in which a site is built: `target` itself, or a cache folder if `target` is on an object store."""
    return settings().cache_path / f"site-{hashlib.sha256(str(target).encode()).hexdigest()[:16]}" if is_stored(target) else target


def _build_and_upload(warehouse: Path | str, target: Path) -> SiteBuild:
    """Build the site in a local cache folder, and upload the changed files to `target` on an object store."""
    built = build(warehouse, local_folder(target))
    with writing(target):
        upload(built.folder, target, MANIFEST)
    return replace(built, folder=target)


def read_site_state(folder: Path | str) -> str | None:
    """Return the `publication_state` from which the site in a folder was built; None if the folder has no site."""
    manifest = _read_manifest(_resolve_folder(folder))
    return str(manifest["published"]) if manifest else None


def read_warehouse_state(warehouse: Path | str) -> str:
    """Return the `publication_state` of a warehouse, to compare with `read_site_state`. Raises `LakeError` if the warehouse cannot be read."""
    with open_source(warehouse) as source:
        return publication_state(source)


def publication_state(source: SiteSource) -> str:
    """Return a text that changes when the site must be rebuilt: the warehouse's time of publication and a digest of the site's code."""
    return f"{source.published_at.isoformat()} {code()[:16]}"


class _Writer:
    """Writer of the draft folder. Files that did not change since the previous site become hard links to that site's files."""

    def __init__(self, old: Path, draft: Path, known: dict[str, Any]) -> None:
        self._old, self._draft = old, draft
        self._units, self._files = known.get("units", {}), known.get("files", {})
        self.units: dict[str, Any] = {}
        self.files: dict[str, tuple[str, int]] = {}
        self.bytes = self.written = 0
        self._folders: set[Path] = set()

    def add(self, unit: Unit) -> None:
        """Add the files of a unit to the draft: links to the previous files if the unit's key is unchanged, else newly built files."""
        previous, digest = self._units.get(unit.name), f"{unit.key} {unit.date}"
        if previous and previous["key"] == digest and all(self._is_unchanged(path) for path in previous["files"]):
            names = previous["files"]
            for path in names:
                self._link(path)
        else:
            with page_date(unit.date):
                names = [self._write(path, data) for path, data in unit.make()]
        self.units[unit.name] = {"key": digest, "files": names}

    def _write(self, path: str, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        if path in self.files:
            raise AssertionError(f"two parts of the site make {path}")
        if self._files.get(path) == [digest, len(data)] and self._is_unchanged(path):
            self._link(path)
        else:
            self._create_parent(path).write_bytes(data)
            self.files[path] = (digest, len(data))
            self.bytes += len(data)
            self.written += 1
        return path

    def _link(self, path: str) -> None:
        digest, size = self._files[path]
        os.link(self._old / path, self._create_parent(path))
        self.files[path] = (digest, size)
        self.bytes += size

    def _create_parent(self, path: str) -> Path:
        place = self._draft / path
        if place.parent not in self._folders:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(place.parent)
        return place

    def _is_unchanged(self, path: str) -> bool:
        try:
            return path in self._files and os.stat(self._old / path).st_size == self._files[path][1]
        except OSError:
            return False


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest (site.json) of the site in a folder; None if the file is missing or invalid."""
    try:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.get("what") == _MARK else None
