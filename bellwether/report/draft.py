"""Files of a report: they are written to a temporary folder and then stored, the metadata last.

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
    """Stored figure of a report: file name and caption."""

    file: str
    caption: str


def make_picture(picture: Picture) -> Markdown:
    """Format a figure and its caption as Markdown."""
    return Markdown(f"![{picture.caption}]({picture.file})\n\n*{picture.caption}*\n")


def sorted_files(files: Mapping[str, str]) -> list[tuple[str, str]]:
    """Sort the files of a report as (name, description): by name, with pictures last. files: description by name."""
    return sorted(files.items(), key=lambda file: (file[0].endswith(".png"), file[0]))


class Draft:
    """Report while it is written to a temporary folder. files: size and digest by file name. about: description by file name."""

    def __init__(self, folder: Path, stamp: str) -> None:
        self._folder = folder
        self._stamp = stamp
        self.files: dict[str, dict[str, Any]] = {}
        self.about: dict[str, str] = {}

    def pictures(self, figures: Iterable[Figure]) -> dict[str, Picture]:
        """Draw figures to PNG files; return their file names and captions by name of the figure."""
        pictures = {}
        for figure in figures:
            file = figure.file(self._stamp)
            self.write(file, figure.draw(), figure.about or figure.caption)
            pictures[figure.name] = Picture(file, figure.caption)
        return pictures

    def json(self, name: str, content: Mapping[str, Any], about: str) -> None:
        """Write a JSON file. about: the file's description."""
        self.write(
            name, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE, default=str), about
        )

    def write(self, name: str, content: bytes, about: str) -> None:
        """Write a file. about: the file's description."""
        (self._folder / name).write_bytes(content)
        self.files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.about[name] = about


def store_report(storage: Storage, folder: str, stamp: str, write_files: Callable[[Draft], None], *, benchmark: str) -> list[str]:
    """Write a report, store its files below `folder` in the order of writing, and return their locations.

    An older report of the same `benchmark` (a field of its metadata) is removed when the new one is complete.
    """
    earlier = [entry.name for entry in storage.files(folder)]
    with TemporaryDirectory(prefix="bellwether-report-") as temporary:
        draft = Draft(Path(temporary), stamp)
        write_files(draft)
        names = list(draft.files)
        for name in names:
            storage.put(f"{folder}/{name}", (Path(temporary) / name).read_bytes())
    _remove_older(storage, folder, earlier, names, benchmark)
    return [storage.location(f"{folder}/{name}") for name in names]


def _remove_older(storage: Storage, folder: str, earlier: list[str], names: list[str], benchmark: str) -> None:
    """Remove the files of older reports: metadata files, and what they list. Other files are kept. earlier: files before writing. names:
    files of the new report.
    """
    candidates = {name.removeprefix(f"{folder}/") for name in earlier} - set(names)
    older = [f"{folder}/{name}" for name in sorted(candidates) if _METADATA.fullmatch(name)]
    for name, content in storage.read(older).items():
        files = _listed_files(content, benchmark)
        if files is None:
            continue
        for file in sorted(candidates & files):
            storage.delete(f"{folder}/{file}")
        storage.delete(name)


def _listed_files(content: bytes, benchmark: str) -> set[str] | None:
    """Parse the metadata of a report and return the file names in it; None if `content` is not metadata of this `benchmark`."""
    try:
        metadata = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    is_ours = isinstance(metadata, dict) and metadata.get("benchmark") == benchmark and isinstance(metadata.get("files"), dict)
    return set(metadata["files"]) if is_ours else None
