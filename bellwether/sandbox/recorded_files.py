"""Reader of recordings in JSON, JSON lines and Parquet files."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from bellwether.errors import BellwetherError, ConfigError
from bellwether.sandbox.recorded_objects import RecordedObjects, collect_objects
from bellwether.sandbox.recorded_tables import collect_table

_FILES = (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".parquet")
_VALUE = re.compile(r"^[\[{]", re.MULTILINE)
_DECODER = json.JSONDecoder(parse_constant=lambda name: float(f"no {name} in JSON"))


def read_recordings(folder: str | Path) -> RecordedObjects:
    """Read the recorded objects of both venues from all files under a folder, in order of file names.

    Raises `ConfigError` for a missing folder, and `BellwetherError`, which names the file, for a broken one.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise ConfigError(f"read the recordings: there is no folder {root}; set BELLWETHER_PLAYBACK to a folder of recorded bodies")
    findings = RecordedObjects()
    for path in sorted(root.rglob("*")):
        if not (path.name.endswith(_FILES) and path.is_file()):
            continue
        try:
            if path.suffix == ".parquet":
                collect_table(path, findings)
            else:
                for body in _bodies(path):
                    collect_objects(body, findings)
        except (OSError, EOFError, zlib.error, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
            raise BellwetherError(f"read the recordings: {path} is broken: {error}; mend the file, or take it out of the folder") from error
    return findings


def _bodies(path: Path) -> Iterator[Any]:
    """Yield the JSON values of a file. Raises `ValueError` for a broken file."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        for number, line in enumerate(content.splitlines(), 1):
            try:
                if line.strip():
                    yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error}") from error
        return
    try:
        yield orjson.loads(content)
    except orjson.JSONDecodeError:
        yield from _between_text(content.decode("utf-8", "replace"))


def _between_text(text: str) -> Iterator[Any]:
    """Yield the JSON values that begin a line, and skip other text. Raises `ValueError` for a broken value, or if there is no value."""
    match = _VALUE.search(text)
    if match is None:
        raise ValueError("there is no JSON in it")
    while match is not None:
        value, end = _DECODER.raw_decode(text, match.start())
        yield value
        match = _VALUE.search(text, end)
