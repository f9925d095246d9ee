"""Rates and slots shared by clients through a Postgres journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from bellwether.errors import ConfigError
from bellwether.journal import Journal
from bellwether.journal.database import JournalDatabase
from bellwether.journal.shared_limits import SharedLimits


@pytest.fixture
def limits(postgres_url: str) -> Iterator[SharedLimits]:
    opened = JournalDatabase(postgres_url).shared_limits()
    assert opened is not None
    yield opened
    opened.close()


def test_processes_reserve_one_after_the_other_and_wait_as_long_as_a_venue_asks(limits: SharedLimits, postgres_url: str) -> None:
    """A lead is the time from now until the end of the reservation."""
    other = JournalDatabase(postgres_url).shared_limits()
    assert other is not None
    leads = [one.reserve("kalshi", 100.0).result() for one in (limits, other, limits)]
    assert leads == pytest.approx([100, 200, 300], abs=5)
    assert other.reserve("gamma", 100.0).result() == pytest.approx(100, abs=5), "rates of other names are independent"
    other.pause("kalshi", 1000.0).result()
    assert limits.reserve("kalshi", 100.0).result() == pytest.approx(1100, abs=5)
    limits.pause("kalshi", 10.0).result()
    assert other.reserve("kalshi", 100.0).result() == pytest.approx(1200, abs=5), "a shorter wait shortens none"
    other.close()


async def test_a_request_larger_than_the_bucket_is_refused(limits: SharedLimits) -> None:
    with pytest.raises(ValueError, match="11 units exceed the bucket of 10"):
        await limits.limiter("venue", 10, 1).acquire(11)


async def test_a_lost_connection_is_replaced_and_keeps_its_slots(limits: SharedLimits, postgres_url: str) -> None:
    slot = await limits.slots("model", 1).take()
    with sa.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%%advisory%%'"
        assert connection.exec_driver_sql(ended).all()
    await limits.limiter("venue", 10, 1).acquire()
    other = JournalDatabase(postgres_url).shared_limits()
    assert other is not None
    assert await asyncio.wrap_future(other.take("model", 1)) is None
    limits.slots("model", 1).give_back(slot)
    async with asyncio.timeout(60):
        assert await other.slots("model", 1).take() == slot
    other.close()


async def test_a_server_that_does_not_answer_is_an_error_at_once(tmp_path: Path) -> None:
    opened = JournalDatabase(f"postgresql://bellwether:s3cr3t@/postgres?host={tmp_path}").shared_limits()
    assert opened is not None
    with pytest.raises(ConfigError, match="check BELLWETHER_JOURNAL") as error:
        await opened.limiter("venue", 10, 1).acquire()
    assert "s3cr3t" not in str(error.value)
    opened.close()


async def test_a_cancelled_caller_leaves_no_slot_taken(limits: SharedLimits) -> None:
    slots = limits.slots("model", 1)
    for _ in range(20):
        taking = asyncio.create_task(slots.take())
        await asyncio.sleep(0)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
    async with asyncio.timeout(60):
        await slots.take()


async def test_a_slot_of_one_holder_is_refused_to_others_until_it_is_free(limits: SharedLimits, postgres_url: str) -> None:
    other = JournalDatabase(postgres_url).shared_limits()
    assert other is not None
    slots = [await limits.slots("model", 2).take() for _ in range(2)]
    assert await asyncio.wrap_future(other.take("model", 2)) is None
    limits.slots("model", 2).give_back(slots[0])
    async with asyncio.timeout(60):
        assert await other.slots("model", 2).take() == slots[0]
    other.close()


def test_limits_create_no_journal_and_sqlite_shares_none(limits: SharedLimits, postgres_url: str, tmp_path: Path) -> None:
    limits.reserve("venue", 1).result()
    with Journal(postgres_url) as journal, Journal(f"sqlite:///{tmp_path}/journal.db") as own:
        assert not journal.exists()
        assert own.shared_limits() is None
