"""SQLite files of Dagster's storage, opened once.

Not here: what is stored in them (event_log.py, run_storage.py).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as db
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SQLITE_BUSY_TIMEOUT_SECONDS
from sqlalchemy.pool import QueuePool

#: Most bytes of a write-ahead log that stay when it has been folded into its file.
_LOG_BYTES = 1_000_000


def engine(address: str) -> db.Engine:
    """An engine that keeps one connection open, and opens others for threads that come at the same time."""
    made = db.create_engine(
        address, poolclass=QueuePool, pool_size=1, max_overflow=-1, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
    )

    @db.event.listens_for(made, "connect")
    def _relax(connection: Any, record: Any) -> None:
        # In write-ahead mode a killed process loses nothing and a power cut at most the last transactions, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        # Rewriting the file leaves a log of its size, which SQLite would keep.
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")

    return made
