"""Tapes kept as Arrow IPC files, which are mapped into memory instead of read. A file appears whole or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from bellwether.files import atomic_file
from bellwether.replay.arrow import array_of, values_of
from bellwether.replay.tape.layout import LAYOUT_VERSION, PRICES, Tape

_COLUMNS = ("ts", "event", "rows_ts", "rows_end", "grid")


def path_of(cache: Path, digest: str, tie: str) -> Path:
    """Return the path of the tape of an episode's content."""
    return cache / f"{digest}-{tie}-{LAYOUT_VERSION}.arrow"


def keep(path: Path, tape: Tape) -> None:
    """Write a tape, without its fees; the same bytes for the same tape."""
    about = {"tickers": tape.tickers, "start": tape.start, "end": tape.end, "digest": tape.digest}
    arrays = [array_of(getattr(tape, name).reshape(-1)) for name in _COLUMNS]
    # One row of lists: the columns differ in length.
    lists = [pa.LargeListArray.from_arrays(array_of(np.array([0, len(array)])), array) for array in arrays]
    batch = pa.record_batch(lists, names=list(_COLUMNS)).replace_schema_metadata({"tape": orjson.dumps(about)})
    with atomic_file(path) as draft, pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)


def read(path: Path, digest: str) -> Tape | None:
    """The tape in `path`, its arrays mapped; None if it is missing or of another digest."""
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batch, about = reader.get_batch(0), orjson.loads(reader.schema.metadata[b"tape"])
    except (OSError, pa.ArrowException, orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if about.get("digest") != digest:
        return None
    columns: dict[str, np.ndarray] = {name: values_of(batch.column(name).values) for name in _COLUMNS}
    columns["grid"] = columns["grid"].reshape(-1, PRICES)
    return Tape(tickers=tuple(about["tickers"]), start=about["start"], end=about["end"], digest=digest, **columns)
