"""Accepted forecasts, a Parquet file per forecaster below the world's home."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from bellwether.files import atomic_file, locked
from bellwether.submissions.checking import SCHEMA


class Submissions:
    """The forecasts of every forecaster that was submitted, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """Forecasters that have submitted, in the order of their names."""
        return sorted(path.stem for path in self._folder.glob("*.parquet"))

    def path(self, name: str) -> Path:
        """The file of a forecaster."""
        return self._folder / f"{name}.parquet"

    def read(self, names: Sequence[str] | None = None) -> pl.DataFrame:
        """Accepted forecasts of these forecasters, of all if left out: columns of `SCHEMA`."""
        chosen = [name for name in self.names() if names is None or name in names]
        return pl.concat([pl.read_parquet(self.path(name)) for name in chosen]) if chosen else pl.DataFrame(schema=SCHEMA)

    def add(self, rows: pl.DataFrame) -> None:
        """Keep accepted rows with those of before; each forecaster's file is replaced as a whole."""
        for name in sorted(rows["forecaster"].unique()):
            merged = pl.concat([self.read([name]), rows.filter(forecaster=name).select(SCHEMA.names())], rechunk=False)
            with atomic_file(self.path(name)) as draft:
                merged.write_parquet(draft)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else submits meanwhile: what is stored now is what is compared with. Raises `BellwetherError` where the folder cannot be written."""
        with locked(self._folder / ".lock"):
            yield
