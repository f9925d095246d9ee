"""Limits that all processes on a journal share: rates, and work that one process at a time may do.

A rate is the time until which its capacity is reserved (generic cell rate algorithm). A work is a lease that its process renews; the lease of a
process that died or froze ends by itself. The database's clock counts. A power failure, which ends all processes, may undo rates and leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import sqlalchemy as sa

from bellwether.concurrency import in_thread
from bellwether.database import Database, Transaction
from bellwether.errors import BellwetherError
from bellwether.journal.tables import LEASE, leases, rates

log = logging.getLogger(__name__)

#: A reservation that ends later comes from a clock that was set back; its rest is dropped.
_LONGEST = timedelta(minutes=10)
#: Seconds between attempts to take a lease: minimum and maximum.
_POLL = (0.1, 0.5)

_rate = sa.select(rates.c.reserved_until).where(rates.c.name == sa.bindparam("rate"))
_set_rate = rates.update().where(rates.c.name == sa.bindparam("rate")).values(reserved_until=sa.bindparam("until"))
_add_rate = rates.insert().values(name=sa.bindparam("rate"), reserved_until=sa.bindparam("until"))


class SharedLimits:
    """Rates and leases in the database of a journal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self._database.close()

    def limiter(self, name: str, max_rate: float, time_period: float) -> SharedBucket:
        """Return the bucket of this name, in which `max_rate` units fit, and drain in `time_period` seconds."""
        return SharedBucket(self, name, max_rate, time_period)

    @asynccontextmanager
    async def exclusively(self, name: str) -> AsyncIterator[None]:
        """Wait until no other process is in a block of this name, and hold the name until the block ends."""
        token = secrets.token_hex(16)
        try:
            while not await in_thread(self._take, name, token):
                await asyncio.sleep(random.uniform(*_POLL))
            async with renewing(lambda: self._take(name, token), f"the lease of {name}"):
                yield
        finally:
            await in_thread(self._free, name, token)

    def reserve(self, name: str, seconds: float, at_least: float = 0.0) -> float:
        """Reserve the next free `seconds` of a rate's capacity, and at least the next `at_least`. Return the seconds from now until all of it ends.

        A clock that was set back delays reservations by ten minutes at most.
        """

        def work(transaction: Transaction) -> float:
            transaction.lock("limits")
            now = transaction.now()
            row = transaction.row(_rate, {"rate": name})
            free_from = now if row is None else min(max(row.reserved_until, now), now + _LONGEST)
            until = max(free_from + timedelta(seconds=seconds), now + timedelta(seconds=at_least))
            transaction.change(_add_rate if row is None else _set_rate, {"rate": name, "until": until})
            return (until - now).total_seconds()

        return self._database.write("reserving a rate", work, durable=False)

    def _take(self, name: str, token: str) -> bool:
        """Take or renew the lease of a name. Return False if another process has it."""

        def work(transaction: Transaction) -> bool:
            transaction.lock("limits")
            now = transaction.now()
            row = transaction.row(sa.select(leases).where(leases.c.name == name))
            if row is not None and row.token != token and row.expires_at > now:
                return False
            change = leases.insert() if row is None else leases.update().where(leases.c.name == name)
            transaction.change(change.values(name=name, token=token, expires_at=now + LEASE))
            return True

        return self._database.write("taking a lease", work, durable=False)

    def _free(self, name: str, token: str) -> None:
        ended = leases.delete().where(leases.c.name == name, leases.c.token == token)
        self._database.write("ending a lease", lambda transaction: transaction.change(ended), durable=False)


class SharedBucket:
    """Leaky bucket that all processes share. Calls of one process reserve one after the other, so a killed process loses one reservation."""

    def __init__(self, limits: SharedLimits, name: str, max_rate: float, time_period: float) -> None:
        self.max_rate, self.time_period = max_rate, time_period
        self._limits, self._name = limits, name
        self._turn = asyncio.Lock()

    async def acquire(self, amount: float = 1) -> None:
        """Wait until the bucket has room for `amount` units, and add them. Raises `ValueError` if they never fit."""
        if amount > self.max_rate:
            raise ValueError(f"{self._name}: {amount:g} units exceed the bucket of {self.max_rate:g}")
        async with self._turn:
            lead = await in_thread(self._limits.reserve, self._name, amount * self.time_period / self.max_rate)
            await asyncio.sleep(max(0.0, lead - self.time_period))

    async def pause(self, seconds: float) -> None:
        """Admit nothing for `seconds`, in any process."""
        await in_thread(self._limits.reserve, self._name, 0.0, seconds + self.time_period)


@asynccontextmanager
async def renewing(renew: Callable[[], object], subject: str) -> AsyncIterator[None]:
    """Call `renew` in a thread three times per `LEASE` until the block ends. subject: what it renews, for the log."""
    ended = asyncio.Event()

    async def keep() -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEASE.total_seconds() / 3):
                    await ended.wait()
                return
            try:
                await in_thread(renew)
            except BellwetherError as error:
                log.warning("renewing %s: %s", subject, error)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        ended.set()
        await task
