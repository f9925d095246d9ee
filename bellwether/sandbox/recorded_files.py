"""Files of recordings: which there are under a folder, what they contain, and whose they are."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from bellwether.errors import BellwetherError, ConfigError

_JSON = (".json", ".json.gz", ".jsonl", ".jsonl.gz")

#: Names that only Polymarket's objects have: a file with one of them that is not JSON is read by its playback alone.
_POLYMARKET = re.compile(rb'"(condition_?id|clobTokenIds|asset_id)"', re.IGNORECASE)


def files(folder: Path, *further: str) -> Iterator[Path]:
    """JSON and JSON lines under a folder, either gzipped, and files with `further` endings, in the order of their names.

    Raises `ConfigError` when there is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"read the recordings: there is no folder {folder}; set BELLWETHER_PLAYBACK to a folder of recorded bodies")
    return (path for path in sorted(folder.rglob("*")) if path.name.endswith(_JSON + further) and path.is_file())


def broken(path: Path, error: Exception | str) -> BellwetherError:
    """The error of a file that cannot be read."""
    return BellwetherError(f"read the recordings: {path} is broken: {error}; mend the file, or take it out of the folder")


def content_of(path: Path) -> bytes:
    """What a file holds, unzipped. Raises `BellwetherError` naming a file that cannot be read."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, error) from error


def has_lines(path: Path) -> bool:
    """Whether each line of a file is a body of its own."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def is_polymarket(content: bytes) -> bool:
    """Whether a file holds objects of Polymarket, judged by names that occur in it."""
    return _POLYMARKET.search(content) is not None
