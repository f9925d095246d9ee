"""Limits of rates and of concurrent calls that all processes share through the journal's Postgres database.

A rate is one row: the time until which its capacity is reserved (generic cell rate algorithm). The database's clock counts, and the row lock
orders the processes. A slot is an advisory lock of the session, so the server frees the slots of a killed process at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from bellwether.database import convert_driver_error, describe_url
from bellwether.errors import BellwetherError
from bellwether.journal.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg
    from sqlalchemy.engine import URL

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Number of the advisory lock under which the table is created.
_CREATION = 0x62656C6F
#: Unlogged: reservations need not be durable, and an empty table after a crash of the server is a full bucket.
_CREATE = (
    "SELECT pg_advisory_lock(%(lock)s)",
    "CREATE UNLOGGED TABLE IF NOT EXISTS shared_rates (name text PRIMARY KEY, reserved_until timestamptz NOT NULL)",
    "SELECT pg_advisory_unlock(%(lock)s)",
)
#: With these settings, the server detects a lost session within a minute.
_KEEPALIVE = {"tcp_keepalives_idle": "20", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}
_LEAD = "RETURNING extract(epoch FROM reserved_until - clock_timestamp())::float8"
_RESERVE = f"""
INSERT INTO shared_rates AS rate (name, reserved_until) VALUES (%(name)s, clock_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET reserved_until = greatest(rate.reserved_until, clock_timestamp()) + %(seconds)s * interval '1 second'
{_LEAD}
"""  # noqa: S608 (constants alone)
_PAUSE = f"""
INSERT INTO shared_rates AS rate (name, reserved_until) VALUES (%(name)s, clock_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET reserved_until = greatest(rate.reserved_until, clock_timestamp() + %(seconds)s * interval '1 second')
{_LEAD}
"""  # noqa: S608
_TAKE = "SELECT slot FROM unnest(%(slots)s::int[]) AS slot WHERE pg_try_advisory_lock(%(name)s, slot) LIMIT 1"
_FREE = "SELECT pg_advisory_unlock(%(name)s, %(slot)s)"
#: Seconds between attempts to take a slot: minimum and maximum.
_POLL = (0.02, 0.1)


class SharedLimits:
    """Rates and slots (permissions for one concurrent call) in Postgres. They use one connection in one thread, opened on first use.

    patience: maximum seconds to wait for a server that restarts. Waiting calls raise `LakeError` if it does not come back.
    """

    def __init__(self, address: URL, patience: float = 30.0) -> None:
        self._address, self._patience = address, patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shared-limits")
        self._connection: psycopg.Connection[Any] | None = None
        self._held: dict[str, set[int]] = {}
        self._ready = False

    def limiter(self, name: str, max_rate: float, time_period: float) -> SharedLimiter:
        """Return a leaky bucket like `aiolimiter.AsyncLimiter`. All processes share the bucket of this name."""
        return SharedLimiter(self, name, max_rate, time_period)

    def slots(self, name: str, most: int) -> SharedSlots:
        """Return the slots of this name, of which all processes together can take at most `most`."""
        return SharedSlots(self, name, most)

    def close(self) -> None:
        """Free all slots of this process and close the connection."""
        self._thread.submit(self._disconnect)
        self._thread.shutdown()

    # --- in the thread ---------------------------------------------------------------------------------------------

    def reserve(self, name: str, seconds: float) -> Future[float]:
        """Reserve the next free `seconds` of a rate's capacity. The future's result is the number of seconds from now until they end."""
        return self._thread.submit(lambda: self._execute(_RESERVE, name=name, seconds=seconds)[0])

    def pause(self, name: str, seconds: float) -> Future[float]:
        """Mark the capacity of a rate as reserved up to `seconds` from now."""
        return self._thread.submit(lambda: self._execute(_PAUSE, name=name, seconds=seconds)[0])

    def take(self, name: str, most: int) -> Future[int | None]:
        """Try to take one of the slots 0 to `most` - 1. The future's result is the slot's number; None if all are taken."""
        return self._thread.submit(self._take, name, most)

    def free(self, name: str, slot: int) -> Future[None]:
        """Free a slot that this process has taken."""
        return self._thread.submit(self._free, name, slot)

    def _take(self, name: str, most: int) -> int | None:
        own = self._held.setdefault(name, set())
        slots = [slot for slot in range(most) if slot not in own]  # a session may take its own advisory lock again
        random.shuffle(slots)
        row = self._execute(_TAKE, name=_number(name), slots=slots) if slots else None
        if row is None:
            return None
        own.add(row[0])
        return int(row[0])

    def _free(self, name: str, slot: int) -> None:
        self._held[name].discard(slot)
        try:
            self._execute(_FREE, name=_number(name), slot=slot)
        except BellwetherError as error:
            log.warning("freeing a slot of %s: %s", name, error)  # the server frees it when the connection ends

    def _execute(self, statement: str, **values: Any) -> Any:
        """Execute a statement and return its first row. Repeated on a new connection if the server closed the old one."""
        import psycopg

        until = time.monotonic() + self._patience
        while True:
            try:
                connection = self._connection or self._connect()
                return connection.execute(statement, values).fetchone()
            except psycopg.Error as error:
                self._disconnect()
                if not (self._ready and isinstance(error, psycopg.OperationalError)) or time.monotonic() >= until:
                    doing = f"sharing limits through the journal {describe_url(self._address)}"
                    raise convert_driver_error(doing, error, SCHEMA.setting, password=self._address.password) from None
            time.sleep(random.uniform(0.02, 0.2))

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        address = self._address.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = self._connection = psycopg.connect(address, autocommit=True)
        for name, value in _KEEPALIVE.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        if not self._ready:
            for statement in _CREATE:
                connection.execute(statement, {"lock": _CREATION})
            self._ready = True
        for name, slots in self._held.items():
            connection.execute("SELECT pg_try_advisory_lock(%s, slot) FROM unnest(%s::int[]) AS slot", (_number(name), list(slots)))
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


class SharedLimiter:
    """Leaky bucket shared by all processes: `max_rate` units fit, and drain in `time_period` seconds.

    Calls of one process queue and reserve one after the other, so a killed process loses one reservation.
    """

    def __init__(self, limits: SharedLimits, name: str, max_rate: float, time_period: float) -> None:
        self.max_rate, self.time_period = max_rate, time_period
        self._limits, self._name = limits, name
        self._turn = asyncio.Lock()

    async def acquire(self, amount: float = 1) -> None:
        """Wait until the bucket has room for `amount` units, and add them. Raises `ValueError` if they never fit."""
        if amount > self.max_rate:
            raise ValueError(f"{self._name}: {amount:g} units exceed the bucket of {self.max_rate:g}")
        async with self._turn:
            lead = await _result(self._limits.reserve(self._name, amount * self.time_period / self.max_rate))
            await asyncio.sleep(max(0.0, lead - self.time_period))

    async def pause(self, seconds: float) -> None:
        """Admit nothing for `seconds`, in any process."""
        await _result(self._limits.pause(self._name, seconds + self.time_period))


class SharedSlots:
    """Slots for concurrent work: all processes together can take at most `most` of one name."""

    def __init__(self, limits: SharedLimits, name: str, most: int) -> None:
        self._limits, self._name, self._most = limits, name, most
        self._turn = asyncio.Lock()

    async def take(self) -> int:
        """Wait until a slot is free, take it, and return its number."""
        async with self._turn:
            while True:
                taking = self._limits.take(self._name, self._most)
                try:
                    slot = await _result(taking)
                except asyncio.CancelledError:
                    taking.add_done_callback(self._return)
                    raise
                if slot is not None:
                    return slot
                await asyncio.sleep(random.uniform(*_POLL))

    def give_back(self, slot: int) -> None:
        """Free a slot."""
        with suppress(RuntimeError):  # closed meanwhile, and the slot freed with the connection
            self._limits.free(self._name, slot)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a slot until the block ends."""
        slot = await self.take()
        try:
            yield
        finally:
            self.give_back(slot)

    def _return(self, taking: Future[int | None]) -> None:
        """Free the slot that `taking` takes, after its caller was cancelled."""
        if not taking.exception() and (slot := taking.result()) is not None:
            self.give_back(slot)


async def _result(future: Future[T]) -> T:
    """Wait for the result of work in the database thread. The work completes even if the caller is cancelled."""
    return await asyncio.shield(asyncio.wrap_future(future))


def _number(name: str) -> int:
    """Return the number (signed 32 bits) of the Postgres advisory lock for a name."""
    return int.from_bytes(zlib.crc32(name.encode()).to_bytes(4), signed=True)
