"""Records: bytes that are computed once, by one process under a lease, and read by all, such as the inputs and outputs of an arena week."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bellwether.database import Transaction
from bellwether.errors import BellwetherError
from bellwether.journal.holders import is_gone, this_process
from bellwether.journal.journal import Journal
from bellwether.journal.request import Request
from bellwether.journal.schema import records
from bellwether.untrusted_text import redact

_LONGEST_REASON = 500

_by_key = records.c.key == sa.bindparam("k")
_is_held = sa.and_(_by_key, records.c.lease_token == sa.bindparam("token"), records.c.body.is_(None))
_find = sa.select(records.c.body, records.c.holder, records.c.lease_token, records.c.lease_expires_at).where(_by_key)
_lock = _find.with_for_update()
_insert = {
    "sqlite": sqlite.insert(records).on_conflict_do_nothing(index_elements=["key"]),
    "postgresql": postgresql.insert(records).on_conflict_do_nothing(index_elements=["key"]),
}
_LEASE = ("run", "holder", "lease_token", "lease_expires_at")
_take = records.update().where(_by_key).values({name: sa.bindparam(name) for name in _LEASE})
_store = records.update().where(_is_held).values(body=sa.bindparam("body"), stored_at=sa.bindparam("at"), reason=None)
_release = records.update().where(_is_held).values(lease_token=None, lease_expires_at=sa.bindparam("at"), reason=sa.bindparam("words"))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Record whose bytes are not stored yet: claimed under a lease until `lease_expires_at` (UTC), or open after a failure (`reason`)."""

    key: str
    kind: str
    subject: str
    number: int
    state: str
    holder: str
    lease_expires_at: datetime
    reason: str | None

    def __str__(self) -> str:
        why = f"held by {self.holder} until {self.lease_expires_at:%Y-%m-%d %H:%M:%S}" if self.state == "claimed" else self.reason
        return f"{self.kind} of {self.subject} is {self.state}: {why}"


def read_unfinished(journal: Journal) -> list[Unfinished]:
    """Return the records whose bytes are not stored yet, oldest first."""
    state = sa.case((records.c.lease_token.is_(None), "open"), else_="claimed").label("state")
    columns = [state if field.name == "state" else records.c[field.name] for field in fields(Unfinished)]
    wanted = sa.select(*columns).where(records.c.body.is_(None)).order_by(records.c.created_at, records.c.key)
    return [Unfinished(*row) for row in journal.database.read("reading records", lambda transaction: transaction.rows(wanted))]


def count_records(journal: Journal) -> dict[str, int]:
    """Count the stored records of each kind."""
    wanted = sa.select(records.c.kind, sa.func.count()).where(records.c.body.is_not(None)).group_by(records.c.kind)
    return dict(sorted(map(tuple, journal.database.read("counting records", lambda transaction: transaction.rows(wanted)))))


class InProgress(BellwetherError):
    """Another process is computing the record and has its lease."""

    def __init__(self, kind: str, subject: str, holder: str, until: datetime | None) -> None:
        self.holder, self.until = holder, until
        lease = f", with a lease until {until.isoformat()}" if until else ""
        super().__init__(f"{kind} of {subject}: {holder} is writing it{lease}; run again when it has finished")


@dataclass(frozen=True)
class Records:
    """Reading and computing of a journal's records. Each record is identified by kind, subject and number.

    lease: longer than computing any record takes. run: the run that writes them. holder: default this process.
    """

    journal: Journal
    lease: timedelta
    run: str | None = None
    holder: str | None = None

    def stored(self, kind: str, subject: str, number: int = 0) -> bytes | None:
        """Return the bytes of a record; None if they are not stored yet."""
        row = self.journal.database.read(
            "reading a record", lambda transaction: transaction.row(_find, {"k": _record_key(kind, subject, number)})
        )
        return None if row is None or row.body is None else bytes(row.body)

    def once(self, kind: str, subject: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        """Return the bytes of a record, computed with `make` and stored if they are missing.

        If `make` raises, the lease is released and the error propagates. A process that lost its lease stores nothing and returns the body
        that its successor stored. Raises `InProgress` while another process has the lease.
        """
        stored = self.stored(kind, subject, number)
        if stored is not None:
            return stored
        key, token = _record_key(kind, subject, number), secrets.token_hex(16)
        row = self._claim(kind, subject, number, token)
        if row is None:
            try:
                body = make()
            except BaseException as error:
                reason = redact(f"{type(error).__name__}: {error}"[:_LONGEST_REASON])
                self._change("releasing a record", _release, k=key, token=token, words=reason)
                raise
            row = self._change("storing a record", _store, k=key, token=token, body=body)
        if row.body is None:
            raise InProgress(kind, subject, row.holder, row.lease_expires_at)
        return bytes(row.body)

    def _claim(self, kind: str, subject: str, number: int, token: str) -> Any:
        identity = {"key": _record_key(kind, subject, number), "kind": kind, "subject": subject, "number": number}
        return self.journal.database.write("claiming a record", partial(self._take_lease, identity=identity, token=token))

    def _change(self, doing: str, statement: sa.Executable, **values: Any) -> Any:
        """Execute a statement that changes a record only under the lease, and return the record's row afterwards."""

        def work(transaction: Transaction) -> Any:
            transaction.change(statement, {**values, "at": transaction.now()})
            return transaction.row(_find, {"k": values["k"]})

        return self.journal.database.write(doing, work)

    def _take_lease(self, transaction: Transaction, identity: dict[str, Any], token: str) -> Any:
        """Take the lease of a record and return None. If its bytes are stored or another process has the lease, return its row instead."""
        now = transaction.now()
        lease = {"run": self.run, "holder": self.holder or this_process(), "lease_token": token, "lease_expires_at": now + self.lease}
        if transaction.change(_insert[transaction.connection.dialect.name], {**identity, **lease, "created_at": now}) == 1:
            return None
        row = transaction.row(_lock, {"k": identity["key"]})
        if row.lease_token == token:
            return None  # The commit of this claim was not confirmed.
        if row.body is not None or (row.lease_token and row.lease_expires_at > now and not is_gone(row.holder)):
            return row
        transaction.change(_take, {"k": identity["key"], **lease})
        return None


def _record_key(kind: str, subject: str, number: int) -> str:
    """Return the key of a record. It is that of a model call, because earlier versions stored records as model calls."""
    return Request(model="arena", messages=(), purpose=f"arena/{kind}", scope=subject, sample=number).key
