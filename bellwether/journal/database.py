"""Database of the journal, in which several works can share one transaction of SQLite."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from bellwether.database import Database, Transaction
from bellwether.journal.schema import SCHEMA

if TYPE_CHECKING:
    from bellwether.journal.shared_limits import SharedLimits

T = TypeVar("T")


class JournalDatabase(Database):
    """Database of a journal. url, clock, patience: see `Database`."""

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        super().__init__(url, SCHEMA, clock=clock, patience=patience)
        self._shared = threading.local()

    @property
    def has_one_writer(self) -> bool:
        """True on SQLite, where writers wait for one another and it is faster to share a transaction."""
        return self.path is not None

    def shared_limits(self) -> SharedLimits | None:
        """Return rate and concurrency limits that all processes on this database share; None on SQLite."""
        if self.has_one_writer:
            return None
        from bellwether.journal.shared_limits import SharedLimits

        return SharedLimits(self._url, self._patience)

    def read(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` as `Database.read` does, or in the transaction of `together` if this thread is inside it."""
        if (shared := self._shared_transaction) is None:
            return super().read(doing, work)
        with self._convert_errors(doing):
            return work(shared)

    def write(self, doing: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` as `Database.write` does, or as a part of the transaction of `together` if this thread is inside it."""
        if (shared := self._shared_transaction) is None:
            return super().write(doing, work)
        with self._convert_errors(doing), _savepoint(shared):
            return work(shared)

    def together(self, doing: str, works: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run functions that read and write this database, and return the result or error of each. On SQLite they share one transaction.

        Each write is atomic. Raises what `write` raises if nothing of any work was stored.
        """
        if not self.has_one_writer or self._shared_transaction is not None:
            return [_try_work(work) for work in works]

        def share(transaction: Transaction) -> list[T | Exception]:
            self._shared.transaction = transaction
            try:
                return [_try_in_transaction(transaction, work) for work in works]
            finally:
                self._shared.transaction = None

        return self.write(doing, share)

    @property
    def _shared_transaction(self) -> Transaction | None:
        return getattr(self._shared, "transaction", None)


@contextmanager
def _savepoint(transaction: Transaction) -> Iterator[None]:
    """Make a part of a SQLite transaction atomic: an error undoes this part only, and propagates."""
    raw: Any = transaction.connection.connection.driver_connection
    raw.execute("SAVEPOINT part").close()
    try:
        yield
    except BaseException:
        transaction.totals.clear()
        if raw.in_transaction:
            raw.execute("ROLLBACK TO part").close()
            raw.execute("RELEASE part").close()
        raise
    raw.execute("RELEASE part").close()


def _try_work(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error


def _try_in_transaction(transaction: Transaction, work: Callable[[], T]) -> T | Exception:
    """Return the result or error of `work`. Raises the error if it ended the whole transaction, such as a full disk."""
    raw: Any = transaction.connection.connection.driver_connection
    try:
        return work()
    except Exception as error:
        if not raw.in_transaction:
            raise
        return error
