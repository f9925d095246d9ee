"""Limits that all processes share through the journal's Postgres database: rates, and numbers of concurrent calls.

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

from bellwether.errors import BellwetherError
from bellwether.journal.database_url import convert_driver_error, describe_url

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
    """Rates and slots in the database, over one connection, which is opened on first use and used by one thread.

    patience: maximum seconds to wait for a server that restarts. Waiting calls raise `LakeError` if it does not come back.
    """

    def __init__(self, address: URL, patience: float = 30.0) -> None:
        self._address, self._patience = address, patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shared-limits")
        self._connection: psycopg.Connection[Any] | None = None
        self._held: dict[str, set[int]] = {}
        self._ready = False

    def limiter(self, name: str, max_rate: float, time_period: float) -> SharedLimiter:
        """Return a leaky bucket like `aiolimiter.AsyncLimiter` that all processes share under its name."""
        return SharedLimiter(self, name, max_rate, time_period)

    def slots(self, name: str, most: int) -> SharedSlots:
        """Return `most` slots that all processes share under their name."""
        return SharedSlots(self, name, most)

    def close(self) -> None:
        """Free all slots and close the connection."""
        self._thread.submit(self._disconnect)
        self._thread.shutdown()

    # --- in the thread ---------------------------------------------------------------------------------------------

    def reserve(self, name: str, seconds: float) -> Future[float]:
        """Reserve `seconds` of a rate's capacity. The future's result is the number of seconds until the reservation ends."""
        return self._thread.submit(lambda: self._execute(_RESERVE, name=name, seconds=seconds)[0])

    def pause(self, name: str, seconds: float) -> Future[float]:
        """Block a rate for `seconds` from now."""
        return self._thread.submit(lambda: self._execute(_PAUSE, name=name, seconds=seconds)[0])

    def take(self, name: str, most: int) -> Future[int | None]:
        """Take one of the slots 0 to `most` - 1. The future's result is its number, or None if all are taken."""
        return self._thread.submit(self._take, name, most)

    def free(self, name: str, slot: int) -> Future[None]:
        """Free a slot of this process."""
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
        """Return the first row of one statement, retried on a new connection if the server went away."""
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
                    raise convert_driver_error(doing, error, self._address.password) from None
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
    """Leaky bucket of `max_rate` units that drains in `time_period` seconds, shared by all processes.

    Calls of one process queue and reserve one after the other, so a killed process loses one reservation.
    """

    def __init__(self, limits: SharedLimits, name: str, max_rate: float, time_period: float) -> None:
        self.max_rate, self.time_period = max_rate, time_period
        self._limits, self._name = limits, name
        self._turn = asyncio.Lock()

    async def acquire(self, amount: float = 1) -> None:
        """Wait until the bucket has room for `amount` units. Raises `ValueError` for more units than its size."""
        if amount > self.max_rate:
            raise ValueError(f"{self._name}: {amount:g} units exceed the bucket of {self.max_rate:g}")
        async with self._turn:
            lead = await _result(self._limits.reserve(self._name, amount * self.time_period / self.max_rate))
            await asyncio.sleep(max(0.0, lead - self.time_period))

    async def pause(self, seconds: float) -> None:
        """Admit nothing for `seconds`, in all processes."""
        await _result(self._limits.pause(self._name, seconds + self.time_period))


class SharedSlots:
    """Slots shared by all processes: at most `most` are taken at any time."""

    def __init__(self, limits: SharedLimits, name: str, most: int) -> None:
        self._limits, self._name, self._most = limits, name, most
        self._turn = asyncio.Lock()

    async def take(self) -> int:
        """Wait for a slot and return its number."""
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
        """Take a slot until the block ends."""
        slot = await self.take()
        try:
            yield
        finally:
            self.give_back(slot)

    def _return(self, taking: Future[int | None]) -> None:
        if not taking.exception() and (slot := taking.result()) is not None:
            self.give_back(slot)


async def _result(future: Future[T]) -> T:
    """Wait for the result of work in the thread. The work completes even if the caller is cancelled."""
    return await asyncio.shield(asyncio.wrap_future(future))


def _number(name: str) -> int:
    """Return the number of an advisory lock, a signed 32-bit integer, for a name."""
    return int.from_bytes(zlib.crc32(name.encode()).to_bytes(4), signed=True)
