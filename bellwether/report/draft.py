"""Files of a report, written to a temporary folder and then stored one by one, the metadata last.

The metadata list every file with its digest. A report is complete if its metadata exist and all digests match. Only then are the files in the
metadata of an older report removed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson

from bellwether.lake.storage import Storage
from bellwether.pages.markdown import Markdown
from bellwether.report.figures import Figure

_METADATA = re.compile(r"metadata_\d{8}_\d{6}\.json")


class Picture(NamedTuple):
    """Figure of the report."""

    file: str
    caption: str


def make_picture(one: Picture) -> Markdown:
    """Format a figure and its caption as Markdown."""
    return Markdown(f"![{one.caption}]({one.file})\n\n*{one.caption}*\n")


def sorted_files(files: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return names and descriptions of a report's files, pictures last."""
    return sorted(files.items(), key=lambda file: (file[0].endswith(".png"), file[0]))


class Draft:
    """Draft of a report. files: name -> size and digest. about: name -> description of the file."""

    def __init__(self, folder: Path, stamp: str) -> None:
        self._folder = folder
        self._stamp = stamp
        self.files: dict[str, dict[str, Any]] = {}
        self.about: dict[str, str] = {}

    def pictures(self, figures: Iterable[Figure]) -> dict[str, Picture]:
        """Write figures as PNG files and return the pictures by name."""
        found = {}
        for figure in figures:
            file = figure.file(self._stamp)
            self.write(file, figure.draw(), figure.about or figure.caption)
            found[figure.name] = Picture(file, figure.caption)
        return found

    def json(self, name: str, content: Mapping[str, Any], about: str) -> None:
        """Write a JSON file."""
        self.write(
            name, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE, default=str), about
        )

    def write(self, name: str, content: bytes, about: str) -> None:
        """Write a file."""
        (self._folder / name).write_bytes(content)
        self.files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.about[name] = about


def store_report(storage: Storage, folder: str, stamp: str, make: Callable[[Draft], None], *, benchmark: str) -> list[str]:
    """Make a report, store its files below `folder` in the order of their creation, and return their locations.

    An older report of the same `benchmark` (a field of its metadata) is removed when the new one is complete.
    """
    before = [entry.name for entry in storage.files(folder)]
    with TemporaryDirectory(prefix="bellwether-report-") as made:
        draft = Draft(Path(made), stamp)
        make(draft)
        names = list(draft.files)
        for name in names:
            storage.put(f"{folder}/{name}", (Path(made) / name).read_bytes())
    _remove_older(storage, folder, before, names, benchmark)
    return [storage.location(f"{folder}/{name}") for name in names]


def _remove_older(storage: Storage, folder: str, before: list[str], names: list[str], benchmark: str) -> None:
    """Remove older reports: their metadata and the files in them. Other files are kept."""
    there = {name.removeprefix(f"{folder}/") for name in before} - set(names)
    older = [f"{folder}/{name}" for name in sorted(there) if _METADATA.fullmatch(name)]
    for name, content in storage.read(older).items():
        files = _listed_files(content, benchmark)
        if files is None:
            continue
        for file in sorted(there & files):
            storage.delete(f"{folder}/{file}")
        storage.delete(name)


def _listed_files(content: bytes, benchmark: str) -> set[str] | None:
    """Return the files in a report's metadata; None if `content` is not metadata of a report of this `benchmark`."""
    try:
        known = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    ours = isinstance(known, dict) and known.get("benchmark") == benchmark and isinstance(known.get("files"), dict)
    return set(known["files"]) if ours else None
