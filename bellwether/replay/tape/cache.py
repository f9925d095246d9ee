"""Cache of tapes: Arrow streams with a checksum, written atomically and memory-mapped on read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from bellwether.files import atomic_file, checked, with_checksum
from bellwether.replay.arrow import array_of, values_of
from bellwether.replay.tape.layout import LAYOUT_VERSION, Tape

_COLUMNS = ("ts", "event", "grids", "prices")


def cache_path(cache: Path, digest: str) -> Path:
    """Return the path of a tape's file in the folder `cache`. digest: of the episode's content."""
    return cache / f"{digest}-{LAYOUT_VERSION}.arrow"


def write_tape(path: Path, tape: Tape) -> None:
    """Write a tape, without its fees, to a file. Equal tapes give equal bytes."""
    about = {
        "tickers": tape.tickers,
        "start": tape.start,
        "end": tape.end,
        "digest": tape.digest,
        "levels": [len(levels) for levels in tape.levels],
    }
    arrays = [array_of(getattr(tape, name).reshape(-1)) for name in _COLUMNS]
    # One row of lists, because the columns differ in length.
    lists = [pa.LargeListArray.from_arrays(array_of(np.array([0, len(array)])), array) for array in arrays]
    batch = pa.record_batch(lists, names=list(_COLUMNS)).replace_schema_metadata({"tape": orjson.dumps(about)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with atomic_file(path) as draft:
        draft.write_bytes(with_checksum(memoryview(sink.getvalue())))


def read_tape(path: Path, digest: str) -> Tape | None:
    """Map a tape's file into memory. None if the file is missing or damaged, or the tape has another digest than `digest`."""
    try:
        # Arrow and the engine trust lengths and offsets, so nothing is parsed before its checksum is verified.
        content = checked(memoryview(pa.memory_map(str(path)).read_buffer()))
        if content is None:
            return None
        reader = pa.ipc.open_stream(pa.py_buffer(content))
        batch, about = reader.read_next_batch(), orjson.loads(reader.schema.metadata[b"tape"])
        if about["digest"] != digest:
            return None
        columns: dict[str, np.ndarray] = {name: values_of(batch.column(name).values) for name in _COLUMNS}
        longest = max(about["levels"], default=0)
        columns["grids"] = columns["grids"].reshape(-1, longest) if longest else columns["grids"].reshape(0, 0)
        levels = tuple(np.split(columns.pop("prices"), np.cumsum(about["levels"])[:-1]))
        return Tape(tickers=tuple(about["tickers"]), start=about["start"], end=about["end"], digest=digest, levels=levels, **columns)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError):
        return None
