"""Lines of a captured file, plain or compressed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from bellwether.errors import LakeError
from bellwether.files import open_bytes


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without blank ones. Raises `LakeError` for a file that is cut off or damaged."""
    try:
        with open_bytes(path) as file:
            for line in file:
                if text := line.strip():
                    yield text
    except (EOFError, gzip.BadGzipFile) as error:
        raise LakeError(f"importing {path}: the file is cut off or damaged ({error})") from None
