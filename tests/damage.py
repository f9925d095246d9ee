"""Damage to files and catalogs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import orjson

from bellwether.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.tables import Table


def flip_bit(path: Path) -> None:
    """Change one bit in the middle of a file. Other links to the file keep the content."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace(path, bytes(content))


def replace(path: Path, content: bytes) -> None:
    """Replace a file by one with this content. Other links to the file keep theirs."""
    path.unlink()
    path.write_bytes(content)


def forget_partition(lake: Lake, table: Table, partition: Partition) -> None:
    """Remove a partition from a lake's catalog, as if it had never been written."""
    assert lake.catalog.path is not None
    with closing(sqlite3.connect(lake.catalog.path)) as connection, connection:
        key = orjson.dumps(partition).decode()
        connection.execute('DELETE FROM partitions WHERE "table" = ? AND partition = ?', (table.name, key))
