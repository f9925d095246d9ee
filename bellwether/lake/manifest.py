"""Manifest of a partition: which file contains its rows, and how that file was made.

A partition is defined by its manifest; files that no manifest names do not belong to the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import orjson

from bellwether.errors import LakeError

#: Name of the manifest in a partition's folder.
FILE_NAME = "manifest.json"
#: Name of the record of inputs of files outside the lake.
NOTE_NAME = "inputs.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of one written partition: its file, checksum and number of rows, and the run and inputs that produced them.

    Attributes:
        table: `group/name`.
        partition: values of the partition columns; () if unpartitioned.
        file: name of the Parquet file below the lake's root.
        rows, bytes: size of that file.
        sha256: of that file, in hex.
        version: of the table's rules when the rows were computed.
        run_id: the run that wrote it.
        written_at: time of writing, UTC.
        known_at: latest `known_at` of its rows, UTC; None without one.
        inputs: digest of the versions of each input table (`bellwether.lake.staleness`); None in older manifests, empty outside the graph.
        code_version: of the code that computed the rows; None in older manifests and for rows that no asset computed.
    """

    table: str
    partition: tuple[str, ...]
    file: str
    rows: int
    bytes: int
    sha256: str
    version: str
    run_id: str
    written_at: datetime
    known_at: datetime | None
    inputs: Mapping[str, str] | None = None
    code_version: str | None = None


def dump(manifest: Manifest) -> bytes:
    """Serialize a manifest."""
    stored = {field.name: getattr(manifest, field.name) for field in fields(manifest)}
    return orjson.dumps(stored, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def load(text: bytes, location: str, advice: str = "materialize that partition again") -> Manifest:
    """Parse the manifest stored at `location`. Raises `LakeError` for a damaged text. advice: end of the error message."""
    try:
        stored: dict[str, Any] = orjson.loads(text)
        times = {name: datetime.fromisoformat(stored[name]) if stored[name] else None for name in ("written_at", "known_at")}
        manifest = Manifest(**{**stored, **times, "partition": tuple(stored["partition"])})
        for name in ("rows", "bytes"):
            if type(stored[name]) is not int:
                raise TypeError(f"{name} is {stored[name]!r}")
        return manifest
    except (ValueError, TypeError, KeyError) as error:
        raise LakeError(f"reading the manifest {location}: it is damaged ({error}); {advice}") from error
