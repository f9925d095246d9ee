"""Build of the site in a draft folder, which then replaces the previous site atomically.

A file whose bytes are those of the previous site becomes a hard link to it, so that copies of the site transfer only what changed.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from bellwether.errors import ConfigError
from bellwether.files import atomic_folder, upload, writing
from bellwether.pages.charts import Colours
from bellwether.pages.render import File, banner, chart_library, publication_file, static_files
from bellwether.places import is_stored, place
from bellwether.settings import settings
from bellwether.site import arena, benchmark, data_pages, home, method, trading
from bellwether.site.source import SiteSource, open_source
from bellwether.tables import TABLES

#: File that identifies the folder as a site, with its published state.
MANIFEST = "site.json"
_MARK = "bellwether-site"
#: First line of every page by world.
_BANNERS = {"sandbox": "Generated markets and mock models. Not real results."}
#: Front matter by which Hugging Face serves the folder as a static Space.
_SPACE = b"---\ntitle: Bellwether\nsdk: static\napp_file: index.html\npinned: false\n---\n\nLeaderboards of Bellwether.\n"


@dataclass(frozen=True, slots=True)
class SiteBuild:
    """Result of a build.

    written: number of new or changed files. pages: number of HTML pages by part, which is the first folder of their paths.
    """

    folder: Path
    files: int
    bytes: int
    written: int
    pages: dict[str, int]


def build(warehouse: Path | str, folder: Path | str) -> SiteBuild:
    """Build the site of a published warehouse in `folder`; equal warehouses give equal bytes.

    Raises `LakeError` if the warehouse cannot be read or has another version, `ConfigError` if the folder contains something else, and
    `BellwetherError` if the site cannot be written. A failed build leaves the previous site unchanged.
    """
    target = _resolve_folder(folder)
    if read_site_state(target) is None and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"building the site at {target}: the folder contains other files; choose another folder or empty it")
    if is_stored(target):
        return _build_and_upload(warehouse, target)
    with open_source(warehouse) as source, atomic_folder(target, MANIFEST) as draft:
        writer = _Writer(target, draft)
        with banner(" ".join(filter(None, (_BANNERS.get(source.world), source.delays)))):
            for path, data in _files(source):
                writer.write(path, data)
        writer.write(MANIFEST, orjson.dumps({"what": _MARK, "published": publication_state(source)}))
    pages = Counter(path.partition("/")[0] for path in sorted(writer.paths) if path.endswith(".html"))
    return SiteBuild(target, len(writer.paths), writer.bytes, writer.written, dict(pages.most_common()))


def _files(source: SiteSource) -> Iterator[File]:
    """Yield the path and the bytes of each file."""
    yield from static_files()
    yield "static/vega.js", chart_library()
    yield "README.md", _SPACE
    yield publication_file(source.published_at)
    colours = Colours(source.numbers)
    yield from home.pages(source)
    yield from method.pages(settings().docs_url, settings().code_url)
    yield from benchmark.pages(source, colours)
    yield from trading.pages(source, colours)
    yield from arena.pages(source, colours)
    yield from data_pages.pages(source)


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
    try:
        manifest: Any = orjson.loads((_resolve_folder(folder) / MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return str(manifest["published"]) if isinstance(manifest, dict) and manifest.get("what") == _MARK else None


def read_warehouse_state(warehouse: Path | str) -> str:
    """Return the `publication_state` of a warehouse, to compare with `read_site_state`. Raises `LakeError` if the warehouse cannot be read."""
    with open_source(warehouse) as source:
        return publication_state(source)


def publication_state(source: SiteSource) -> str:
    """Return a text that changes when the site must be rebuilt: the warehouse's time of publication and a digest of the site's code."""
    return f"{source.published_at.isoformat()} {_digest_code()[:16]}"


@cache
def _digest_code() -> str:
    """Return a digest of the code and the queries that build pages, of the versions of its libraries, and of the versions of the tables."""
    digest = hashlib.sha256()
    folders = [files("bellwether").joinpath(name) for name in ("figures", "pages", "site", "replay/results")]
    for folder in (*folders, files("sql").joinpath("site")):
        for name, data in sorted(_sources(folder)):
            digest.update(name.encode() + b"\0" + data)
    versions = [(package, version(package)) for package in ("altair", "jinja2", "polars", "vl-convert-python")]
    digest.update(repr(versions + sorted((table.name, table.version) for table in TABLES.values())).encode())
    return digest.hexdigest()


def _sources(folder: Any) -> Iterator[tuple[str, bytes]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _sources(one)
        elif one.name.endswith((".py", ".html", ".css", ".js", ".sql")):
            yield one.name, one.read_bytes()


class _Writer:
    """Writer of the draft folder, which links to unchanged files of the previous site (`old`)."""

    def __init__(self, old: Path, draft: Path) -> None:
        self._old, self._draft = old, draft
        self.paths: set[str] = set()
        self.bytes = self.written = 0

    def write(self, path: str, data: bytes) -> None:
        """Write a file, or link to the previous one with these bytes."""
        if path in self.paths:
            raise AssertionError(f"two parts of the site make {path}")
        self.paths.add(path)
        self.bytes += len(data)
        former, target = self._old / path, self._draft / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if _has_content(former, data):
            os.link(former, target)
        else:
            target.write_bytes(data)
            self.written += 1


def _has_content(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False
