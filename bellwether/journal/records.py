"""Records: bytes written once by the holder of a lease and read by every other process. The arena stores a week's fixed inputs and outputs in them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bellwether.errors import BellwetherError
from bellwether.journal.database import Transaction
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
    """Record that is not stored yet: held under a lease until a time (UTC), or open, with the reason why it failed."""

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
    """Return records that are not stored yet, oldest first."""
    state = sa.case((records.c.lease_token.is_(None), "open"), else_="claimed").label("state")
    columns = [state if one.name == "state" else records.c[one.name] for one in fields(Unfinished)]
    wanted = sa.select(*columns).where(records.c.body.is_(None)).order_by(records.c.created_at, records.c.key)
    return [Unfinished(*row) for row in journal.database.read("reading records", lambda transaction: transaction.rows(wanted))]


def count_records(journal: Journal) -> dict[str, int]:
    """Return the count of stored records of each kind."""
    wanted = sa.select(records.c.kind, sa.func.count()).where(records.c.body.is_not(None)).group_by(records.c.kind)
    return dict(sorted(map(tuple, journal.database.read("counting records", lambda transaction: transaction.rows(wanted)))))


class InProgress(BellwetherError):
    """Another process holds the lease of a record."""

    def __init__(self, kind: str, subject: str, holder: str, until: datetime | None) -> None:
        self.holder, self.until = holder, until
        found = f"{holder} is writing it{f', with a lease until {until.isoformat()}' if until else ''}"
        super().__init__(f"{kind} of {subject}: {found}; run again when it has finished")


@dataclass(frozen=True)
class Records:
    """Records in a journal, by kind, subject and number.

    lease: longer than computing any record takes. run: the run that writes them. holder: default this process.
    """

    journal: Journal
    lease: timedelta
    run: str | None = None
    holder: str | None = None

    def stored(self, kind: str, subject: str, number: int = 0) -> bytes | None:
        """Return a stored record; None if it is missing."""
        row = self.journal.database.read(
            "reading a record", lambda transaction: transaction.row(_find, {"k": _record_key(kind, subject, number)})
        )
        return None if row is None or row.body is None else bytes(row.body)

    def once(self, kind: str, subject: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        """Return the stored record; compute and store a missing one.

        If `make` raises, the lease is released and the error propagates. A process that lost its lease stores nothing and returns what its
        successor stored. Raises `InProgress` while another process holds the lease.
        """
        stored = self.stored(kind, subject, number)
        if stored is not None:
            return stored
        key, token = _record_key(kind, subject, number), secrets.token_hex(16)
        found = self._claimed(kind, subject, number, token)
        if found is None:
            try:
                body = make()
            except BaseException as error:
                self._change("releasing a record", _release, k=key, token=token, words=_describe_error(error))
                raise
            found = self._change("storing a record", _store, k=key, token=token, body=body)
        if found.body is None:
            raise InProgress(kind, subject, found.holder, found.lease_expires_at)
        return bytes(found.body)

    def _claimed(self, kind: str, subject: str, number: int, token: str) -> Any:
        named = {"key": _record_key(kind, subject, number), "kind": kind, "subject": subject, "number": number}
        return self.journal.database.write("claiming a record", partial(self._claim, named=named, token=token))

    def _change(self, doing: str, statement: sa.Executable, **values: Any) -> Any:
        """Return the row after a change that only the holder of the lease can make."""

        def work(transaction: Transaction) -> Any:
            transaction.change(statement, {**values, "at": transaction.now()})
            return transaction.row(_find, {"k": values["k"]})

        return self.journal.database.write(doing, work)

    def _claim(self, transaction: Transaction, named: dict[str, Any], token: str) -> Any:
        """Take the lease and return None; return the row if it is stored or held by another process."""
        now = transaction.now()
        lease = {"run": self.run, "holder": self.holder or this_process(), "lease_token": token, "lease_expires_at": now + self.lease}
        if transaction.change(_insert[transaction.connection.dialect.name], {**named, **lease, "created_at": now}) == 1:
            return None
        row = transaction.row(_lock, {"k": named["key"]})
        if row.lease_token == token:
            return None  # The commit of this claim was not confirmed.
        if row.body is not None or (row.lease_token and row.lease_expires_at > now and not is_gone(row.holder)):
            return row
        transaction.change(_take, {"k": named["key"], **lease})
        return None


def _describe_error(error: BaseException) -> str:
    return redact(f"{type(error).__name__}: {error}"[:_LONGEST_REASON])


def _record_key(kind: str, subject: str, number: int) -> str:
    """Return the key of a record: the key of the model call as which earlier versions stored it."""
    return Request(model="arena", messages=(), purpose=f"arena/{kind}", scope=subject, sample=number).key
