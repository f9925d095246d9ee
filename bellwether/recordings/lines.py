"""Lines of a captured file, plain or compressed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from bellwether.errors import LakeError


def open_file(path: Path) -> BinaryIO:
    """A file of bytes; one whose name ends in .gz is decompressed."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without blank ones. Raises `LakeError` for a file that is cut off or damaged."""
    try:
        with open_file(path) as file:
            for line in file:
                if text := line.strip():
                    yield text
    except (EOFError, gzip.BadGzipFile) as error:
        raise LakeError(f"importing {path}: the file is cut off or damaged ({error})") from None
