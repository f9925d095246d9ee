"""Reading the exogenous series of an episode: `exogenous.parquet`, rows of (ts, name, value)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bellwether.errors import SchemaError
from bellwether.replay.episode.columns import Columns, read_parquet
from bellwether.replay.episode.metadata import Metadata

EXOGENOUS = "exogenous.parquet"


def read_exogenous(folder: Path, metadata: Metadata) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Name -> (ts int64, ns UTC, non-decreasing; value float64). Raises `SchemaError` naming row and value for whatever is wrong."""
    names = [series.name for series in metadata.exogenous]
    path = folder / EXOGENOUS
    if not path.is_file():
        if names:
            raise SchemaError(f"reading {folder.name}: {EXOGENOUS} is missing, yet metadata.json names the series {', '.join(names)}")
        return {}
    columns = Columns(read_parquet(path, dictionaries=("name",)), path.name)
    ts, code, value = columns.times("ts"), columns.codes("name", names), columns.floats("value")
    columns.in_order("ts", ts)
    return {name: (ts[code == position], value[code == position]) for position, name in enumerate(names)}
