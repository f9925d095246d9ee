"""Rates, slots and budgets shared by processes through a Postgres journal, also when one is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from bellwether.errors import ConfigError
from bellwether.journal import Journal, Scope
from bellwether.journal.database import Database
from bellwether.journal.shared_limits import SharedLimits
from bellwether.models.attempt_outcomes import AttemptResult
from bellwether.models.client import Limits
from bellwether.models.transport import ModelCall
from bellwether.settings import settings
from deploy.loopback import Process
from resources.venues import KalshiVenue, WorldResource
from tests.journal.sharers import BURST, COST, MOST, RATE, Sharer, ask, hold, pace
from tests.unit.models.scripted_client import FakeWire, ask_all, client, make_result, model

WORKERS = 8


@contextmanager
def workers(work: Callable[..., Any], url: str, *more: Any) -> Iterator[list[Sharer]]:
    """Eight processes that start at the same time."""
    started = [Sharer(work, url, number, *more) for number in range(WORKERS)]
    try:
        for one in started:
            one.wait()
        for one in started:
            one.begin()
        yield started
    finally:
        for one in started:
            one.kill()


def admitted(times: list[float], since: float, until: float) -> int:
    return sum(since <= moment < until for moment in times)


@pytest.fixture
def limits(postgres_url: str) -> Iterator[SharedLimits]:
    opened = Database(postgres_url).shared_limits()
    assert opened is not None
    yield opened
    opened.close()


# --- rates -----------------------------------------------------------------------------------------------------------


def test_eight_processes_hold_one_rate_within_five_percent(postgres_url: str) -> None:
    with workers(pace, postgres_url, 6) as started:
        begun = time.time()
        found = [one.found() for one in started]
    times = sorted(moment for own in found for moment in own)
    assert admitted(times, begun + 1, begun + 5) == pytest.approx(4 * RATE, rel=0.05)
    late = 0.05  # maximum delay of a process after an admission, in seconds
    windows = [admitted(times, moment, moment + 1) for moment in times[::10]]
    assert max(windows) <= RATE * (1 + BURST + late) + 1
    assert all(found)


def test_the_death_of_a_process_costs_the_others_no_more_than_a_reservation(postgres_url: str) -> None:
    with workers(pace, postgres_url, 5) as started:
        begun = time.time()
        time.sleep(1.5)
        started[0].kill()
        times = [moment for one in started[1:] for moment in one.found()]
    assert admitted(times, begun + 2, begun + 4) == pytest.approx(2 * RATE, rel=0.05)


def test_the_rate_holds_again_after_the_server_was_killed_and_restarted(postgres_url: str, postgres_server: Process) -> None:
    with workers(pace, postgres_url, 12) as started:
        time.sleep(1)
        postgres_server.kill()
        postgres_server.start()
        back = time.time()
        times = [moment for one in started for moment in one.found()]
    assert admitted(times, back + 1, back + 4) == pytest.approx(3 * RATE, rel=0.05)


async def test_a_wait_that_a_venue_asks_for_holds_for_all(limits: SharedLimits) -> None:
    mine, others = limits.limiter("venue", 10, 1), limits.limiter("venue", 10, 1)
    await mine.acquire()
    await mine.pause(0.5)
    started = time.monotonic()
    await others.acquire()
    assert 0.4 < time.monotonic() - started < 5


async def test_rates_of_other_names_are_independent(limits: SharedLimits) -> None:
    await limits.limiter("kalshi", 1, 3600).acquire()
    async with asyncio.timeout(60):
        await limits.limiter("gamma", 1, 3600).acquire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await limits.limiter("kalshi", 1, 3600).acquire()


async def test_a_request_larger_than_the_bucket_is_refused(limits: SharedLimits) -> None:
    with pytest.raises(ValueError, match="11 units exceed the bucket of 10"):
        await limits.limiter("venue", 10, 1).acquire(11)


async def test_a_lost_connection_is_replaced_and_keeps_its_slots(limits: SharedLimits, postgres_url: str) -> None:
    slot = await limits.slots("model", 1).take()
    with sa.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%%advisory%%'"
        assert connection.exec_driver_sql(ended).all()
    await limits.limiter("venue", 10, 1).acquire()
    other = Database(postgres_url).shared_limits()
    assert other is not None
    assert await asyncio.wrap_future(other.take("model", 1)) is None
    limits.slots("model", 1).give_back(slot)
    async with asyncio.timeout(60):
        assert await other.slots("model", 1).take() == slot
    other.close()


async def test_a_server_that_does_not_answer_is_an_error_at_once(tmp_path: Path) -> None:
    opened = Database(f"postgresql://bellwether:s3cr3t@/postgres?host={tmp_path}").shared_limits()
    assert opened is not None
    with pytest.raises(ConfigError, match="check BELLWETHER_JOURNAL") as error:
        await opened.limiter("venue", 10, 1).acquire()
    assert "s3cr3t" not in str(error.value)
    opened.close()


def test_a_journal_on_sqlite_shares_no_limits(tmp_path: Path) -> None:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as journal:
        assert journal.shared_limits() is None


def test_limits_create_no_journal(limits: SharedLimits, postgres_url: str) -> None:
    limits.reserve("venue", 1).result()
    with Journal(postgres_url) as journal:
        assert not journal.exists()


# --- slots -----------------------------------------------------------------------------------------------------------


def test_eight_processes_never_take_more_slots_than_there_are(postgres_url: str) -> None:
    with workers(hold, postgres_url, 3, 10) as started:
        spans = [span for one in started for span in one.found()]
    assert len(spans) == WORKERS * 10
    assert max(sum(taken <= start < freed for taken, freed in spans) for start, _ in spans) == 3


def test_slots_of_a_killed_process_are_free_at_once(postgres_url: str) -> None:
    with workers(hold, postgres_url, 1, 5) as started:
        time.sleep(0.3)
        started[0].kill()
        started[1].kill()
        turns = [len(one.found()) for one in started[2:]]
    assert turns == [5] * (WORKERS - 2)


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


async def test_a_day_is_pulled_by_one_process_at_a_time(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_JOURNAL", postgres_url)
    settings.cache_clear()
    working: list[str] = []
    most: list[int] = []

    async def pull(day: str) -> None:
        working.append(day)
        most.append(working.count(day))
        await asyncio.sleep(0.1)
        working.remove(day)

    nodes = [KalshiVenue(world=WorldResource()) for _ in range(2)]
    async with asyncio.timeout(60):
        await asyncio.gather(
            *(node.run_exclusively(day, partial(pull, day)) for node in nodes for day in ("2026-06-01", "2026-06-01", "2026-06-02"))
        )
    assert max(most) == 1
    assert len(most) == 6
    for node in nodes:
        node.teardown_after_execution(dg.build_init_resource_context())


def test_venues_need_no_pool_where_processes_share_their_rate() -> None:
    found = {}
    for url in ("sqlite:////tmp/journal.db", "postgresql://user@host/journal"):
        program = "from assets.venues.raw import kalshi_day, polymarket_day; print(kalshi_day.op.pool, polymarket_day.op.pool)"
        environment = {**os.environ, "BELLWETHER_JOURNAL": url}
        found[url] = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True).split()
    assert list(found.values()) == [["kalshi_api", "polymarket_api"], ["None", "None"]]


# --- models ----------------------------------------------------------------------------------------------------------


async def test_limits_of_a_model_and_of_a_run_hold_over_clients(postgres_url: str) -> None:
    sent: list[float] = []

    async def shortly(call: ModelCall) -> AttemptResult:
        sent.append(time.monotonic())
        await asyncio.sleep(0.05)
        return make_result()

    wire = FakeWire(shortly)
    how: dict[str, Any] = {"limits": Limits(concurrency=3, requests_per_minute=1200), "sleep": asyncio.sleep, "now": time.monotonic}
    with Journal(postgres_url) as one, Journal(postgres_url) as two:
        async with client(one, wire, **how) as first, client(two, wire, **how) as second:
            entry = model(concurrency=2)
            await asyncio.gather(
                ask_all(first, range(10), entry), ask_all(second, range(10, 20), entry), ask_all(second, range(20, 25), model("b"))
            )
    assert wire.count == 25
    assert wire.most <= 3
    under_way = [sum(start <= at < start + 0.05 for start in sent) for at in sent]
    assert max(under_way) <= 3
    assert sorted(sent)[-1] - sorted(sent)[0] > 24 * 0.05 * 0.9


# --- budgets ---------------------------------------------------------------------------------------------------------


def test_eight_processes_spend_one_budget_to_its_end_and_no_more(postgres_url: str) -> None:
    limit = 3000
    with Journal(postgres_url) as journal:
        journal.database.open()
        with workers(ask, postgres_url, 40, limit) as started:
            found = [one.found()[0] for one in started]
        spending = journal.spent(Scope(run="run"))
    assert limit - MOST < spending.spent <= limit
    assert sum(sent for sent, _ in found) == spending.spent // COST
    assert all(stopped.startswith("budget: ") for _, stopped in found)
