"""Records: bytes that are stored once and read by all, such as the inputs and outputs of an arena week."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bellwether.database import Transaction
from bellwether.journal.journal import Journal
from bellwether.journal.tables import records
from bellwether.journal.values import Request

_find = sa.select(records.c.body).where(records.c.key == sa.bindparam("k"))
_insert = {
    "sqlite": sqlite.insert(records).on_conflict_do_nothing(index_elements=["key"]),
    "postgresql": postgresql.insert(records).on_conflict_do_nothing(index_elements=["key"]),
}


def count_records(journal: Journal) -> dict[str, int]:
    """Count the stored records of each kind."""
    wanted = sa.select(records.c.kind, sa.func.count()).group_by(records.c.kind)
    return dict(sorted(map(tuple, journal.database.read("counting records", lambda transaction: transaction.rows(wanted)))))


@dataclass(frozen=True)
class Records:
    """Reading and storing of a journal's records. Each record is identified by kind, subject and number. run: the run that stores them."""

    journal: Journal
    run: str | None = None

    def stored(self, kind: str, subject: str, number: int = 0) -> bytes | None:
        """Return the bytes of a record; None if they are not stored yet."""
        key = {"k": _record_key(kind, subject, number)}
        row = self.journal.database.read("reading a record", lambda transaction: transaction.row(_find, key))
        return None if row is None else bytes(row.body)

    def once(self, kind: str, subject: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        """Return the bytes of a record, computed with `make` and stored if they are missing. Of several processes that compute it, the first counts."""
        stored = self.stored(kind, subject, number)
        if stored is not None:
            return stored
        key = _record_key(kind, subject, number)
        values = {"key": key, "kind": kind, "subject": subject, "number": number, "body": make(), "run": self.run}

        def work(transaction: Transaction) -> Any:
            transaction.change(_insert[transaction.connection.dialect.name], {**values, "stored_at": transaction.now()})
            return transaction.row(_find, {"k": key})

        return bytes(self.journal.database.write("storing a record", work).body)


def _record_key(kind: str, subject: str, number: int) -> str:
    """Return the key of a record, a hash of kind, subject and number."""
    return Request(model="arena", messages=(), purpose=f"arena/{kind}", scope=subject, sample=number).key
