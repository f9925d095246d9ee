"""Verification of the SQLite files of journal and catalog, and of stored responses, before a backup accepts them and on demand."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bellwether.errors import LakeError
from bellwether.journal.database_url import convert_driver_error


@contextmanager
def open_read_only(path: Path, *, immutable: bool = False) -> Iterator[sqlite3.Connection]:
    """Open an SQLite file for reading until the end of the block. immutable: no process writes to it; no files are created next to it."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable={immutable:d}", uri=True)) as connection:
        yield connection


def verify_file(path: Path, doing: str, marker: str, *, immutable: bool) -> None:
    """Check the pages, indexes, constraints and references of an SQLite file.

    doing: the operation and the file, for the message. marker: table with the version of the file's tables. immutable: as in `open_read_only`.
    Raises `LakeError` if the file is damaged or has no such table.
    """
    try:
        with open_read_only(path, immutable=immutable) as connection:
            faults = [text for (text,) in connection.execute("PRAGMA integrity_check(3)") if text != "ok"]
            faults += [f"{table} has a row without its {parent}" for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check")]
            if not faults:
                connection.execute(f"SELECT version FROM {marker}")  # noqa: S608 - a constant
    except sqlite3.Error as error:
        raise convert_driver_error(doing, error, None) from None
    if faults:
        raise LakeError(f"{doing}: the file is damaged ({' '.join(faults[0].split())}); it was left as it is. Restore a backup")


def hash_response(body: bytes, *texts: str | None) -> str:
    """Return the SHA-256 of a response, in hex. texts: content, reasoning and reason of the end, which were parsed from the body."""
    digest = hashlib.sha256(body)
    for text in texts:
        digest.update(b"\x00" if text is None else b"\x01" + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
