"""A table that follows its inputs partition by partition: whatever the order of updates, ticks and runs, it is made from the newest, once per change."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.data_version import DATA_VERSION_IS_USER_PROVIDED_TAG, DATA_VERSION_TAG
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._core.storage.partition_status_cache import AssetStatusCacheValue
from dagster._core.utils import make_new_run_id
from dagster._time import get_current_datetime

from orchestration.automation import FOLLOW, FOLLOW_ONCE, follow_except
from orchestration.out_of_date import BACK_OFF, MOST_ATTEMPTS
from tests.orchestration.test_out_of_date import PARTS, in_memory

NAMES = PARTS.get_partition_keys()
#: Groups of tables that one tick looks at.
GROUPS = 20


def group(number: int) -> list[dg.AssetsDefinition]:
    """Rows that arrive by partition, a reference table, and what follows the rows alone: one table, and one made of it."""

    @dg.asset(key=["group", f"reference_{number}"])
    def reference() -> None: ...

    @dg.asset(name=f"raw_{number}", partitions_def=PARTS)
    def raw() -> None: ...

    @dg.asset(
        name=f"clean_{number}", deps=[raw, reference], partitions_def=PARTS, automation_condition=follow_except(f"group/reference_{number}")
    )
    def clean() -> None: ...

    @dg.asset(name=f"derived_{number}", deps=[clean], partitions_def=PARTS, automation_condition=FOLLOW)
    def derived() -> None: ...

    return [raw, clean, derived, reference]


DEFS = dg.Definitions([asset for number in range(GROUPS) for asset in group(number)])


@dataclass
class Run:
    """A run under way: the tables that it writes, in order, of a partition, the rows that it makes of `raw`, and what it has read of the table before."""

    run_id: str
    part: str
    tables: list[str]
    rows: int | None = None
    read: dict[str, int] = field(default_factory=dict)
    begun: bool = False


@dataclass
class Machine:
    """Updates, ticks and runs of one group, one step at a time, through Dagster's own storage and the conditions themselves.

    held: by table and partition its rows, which are 1 or 2: rows may be made again as they were, and change back.
    """

    instance: dg.DagsterInstance
    number: int = 0
    cursor: AssetDaemonCursor | None = None
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    under_way: list[Run] = field(default_factory=list)
    requested: int = 0
    changes: int = 0
    failures: int = 0

    def name(self, table: str) -> str:
        return f"{table}_{self.number}"

    def arrive(self, part: str, rows: int | None = None) -> None:
        """Rows of a partition of `raw`; others than it has when left out."""
        self.instance.report_runless_asset_event(self._made("raw", part, self._raw(part, rows)))

    def _raw(self, part: str, rows: int | None = None) -> int:
        former = self.held.get(("raw", part))
        found = rows or (1 if former == 2 else 2)
        self.held["raw", part] = found
        self.changes += found != former
        return found

    def _made(self, table: str, part: str, rows: int) -> dg.AssetMaterialization:
        version = {DATA_VERSION_TAG: str(rows), DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
        return dg.AssetMaterialization(self.name(table), partition=part, tags=version)

    def launch(self, part: str, tables: Sequence[str], rows: int | None = None) -> None:
        """A run as the daemon makes it of a request, or a person. rows: what it makes of `raw`."""
        keys = [dg.AssetKey(self.name(table)) for table in tables]
        run = dg.DagsterRun(
            job_name="make",
            run_id=make_new_run_id(),
            asset_selection=frozenset(keys) if tables[0] != "raw" else None,
            tags={"dagster/partition": part},
            status=dg.DagsterRunStatus.STARTING,
        )
        self.instance.add_run(run)
        for key in keys:
            planned = AssetMaterializationPlannedData(key, partition=part, partitions_subset=None)
            event = DagsterEvent.build_asset_materialization_planned_event("make", key.path[-1], planned)
            self.instance.report_dagster_event(event, run.run_id)
        self.under_way.append(Run(run.run_id, part, list(tables), rows))

    def advance(self, run: Run) -> None:
        """The run begins, or ends its next step and reads the inputs of the one after."""
        if not run.begun:
            run.begun = True
            self._report(run, DagsterEventType.RUN_START)
            if run.tables[0] != "raw":
                before = {"clean": "raw", "derived": "clean"}[run.tables[0]]
                run.read[run.tables[0]] = self.held.get((before, run.part), 0)
            return
        table = run.tables.pop(0)
        if table == "raw":
            self._raw(run.part, run.rows)
        else:
            self.held[table, run.part] = run.read[table]
        made = StepMaterializationData(self._made(table, run.part, self.held[table, run.part]))
        event = DagsterEvent(DagsterEventType.ASSET_MATERIALIZATION.value, "make", event_specific_data=made)
        self.instance.report_dagster_event(event, run_id=run.run_id)
        if run.tables:
            run.read[run.tables[0]] = self.held.get((table, run.part), 0)
        else:
            self._report(run, DagsterEventType.RUN_SUCCESS)
            self.under_way.remove(run)

    def fail(self, run: Run) -> None:
        self.failures += 1
        self._report(run, DagsterEventType.RUN_FAILURE)
        self.under_way.remove(run)

    def _report(self, run: Run, kind: DagsterEventType) -> None:
        self.instance.report_dagster_event(DagsterEvent(kind.value, "make"), run_id=run.run_id)

    def step(self, draw: random.Random) -> bool:
        """Something at random; whether it is that the daemon looks."""
        action = draw.choice(("arrive", "arrive", "tick", "tick", "tick", "advance", "advance", "advance", "fail", "together"))
        begun = [run for run in self.under_way if run.begun]
        part = draw.choice(NAMES)
        if action == "arrive":
            self.arrive(part, draw.choice((1, 2)))
        elif action == "together" and not any(run.part == part for run in self.under_way):
            self.launch(part, ["raw", "clean", "derived"], draw.choice((1, 2)))
        elif action == "advance" and self.under_way:
            self.advance(draw.choice(self.under_way))
        elif action == "fail" and begun:
            self.fail(draw.choice(begun))
        return action == "tick"

    def stale(self) -> list[tuple[str, str]]:
        return [
            (table, part)
            for table in ("clean", "derived")
            for part in NAMES
            if self.held.get((table, part), 0) != self.held.get(("raw", part), 0)
        ]


def tick(machines: Sequence[Machine], now: datetime | None = None) -> int:
    """The daemon looks at some groups of one instance, and launches a run for each partition of which tables are to be made; returns how many."""
    cursors = [cursor for machine in machines if machine.cursor for cursor in machine.cursor.previous_condition_cursors or ()]
    keys = {machine.number: [dg.AssetKey(machine.name(table)) for table in ("clean", "derived")] for machine in machines}
    # Dagster takes what landed before the last tick for seen: it looks at all groups, as one daemon does.
    last = next((machine.cursor for machine in machines if machine.cursor), None) or AssetDaemonCursor.empty()
    found = dg.evaluate_automation_conditions(
        defs=DEFS,
        instance=machines[0].instance,
        asset_selection=dg.AssetSelection.assets(*(key for names in keys.values() for key in names)),
        cursor=replace(last, previous_condition_cursors=cursors),
        evaluation_time=now or get_current_datetime(),
    )
    seen = found.cursor.previous_condition_cursors_by_key
    launched = 0
    for machine in machines:
        names = keys[machine.number]
        machine.cursor = replace(found.cursor, previous_condition_cursors=[seen[key] for key in names if key in seen])
        wanted: dict[str, list[str]] = {}
        for table, key in zip(("clean", "derived"), names, strict=True):
            for part in found.get_requested_partitions(key):
                wanted.setdefault(str(part), []).append(table)
        for part, tables in sorted(wanted.items()):
            machine.launch(part, tables)
        machine.requested += len(wanted)
        launched += len(wanted)
    return launched


def settle(machines: Sequence[Machine]) -> None:
    """What is under way ends; then ticks, after all pauses, whose runs end: two for each of the two tables."""
    for number in range(5):
        for machine in machines:
            while machine.under_way:
                machine.advance(machine.under_way[0])
        if number < 4:
            tick(machines, get_current_datetime() + timedelta(days=1))


@pytest.fixture
def machine() -> Iterator[Machine]:
    with in_memory() as instance:
        machine = Machine(instance)
        tick([machine])
        yield machine


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_no_update_is_lost_and_no_run_is_in_vain(block: int) -> None:
    seeds = range(block, 80, 2)
    with in_memory() as instance:
        machines = [Machine(instance, number) for number in range(GROUPS)]
        tick(machines)
        for start in range(0, len(seeds), GROUPS):
            players = dict(zip(seeds[start : start + GROUPS], machines, strict=True))
            draws = {seed: random.Random(seed) for seed in players}
            for _ in range(16):
                if looked_at := [machine for seed, machine in players.items() if machine.step(draws[seed])]:
                    tick(looked_at)
            settle(machines)
            for seed, machine in players.items():
                assert machine.stale() == [], seed
                assert machine.requested <= 2 * machine.changes + machine.failures, seed
                machine.requested = machine.changes = machine.failures = 0
            assert tick(machines, get_current_datetime() + timedelta(days=1)) == 0


def test_a_run_of_a_person_that_makes_all_is_followed_by_none(machine: Machine) -> None:
    machine.launch("a", ["raw", "clean", "derived"])
    while machine.under_way:
        machine.advance(machine.under_way[0])
        tick([machine])
    assert (machine.requested, machine.stale()) == (0, [])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_run_that_ends_while_the_daemon_looks_is_not_repeated(steps: int, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.launch("a", ["raw", "clean", "derived"])
    for _ in range(steps):
        machine.advance(machine.under_way[0])
    look = AssetStatusCacheValue._blocking_batch_load

    def ended(*args: Any, **named: Any) -> Any:
        """What has happened when the daemon, which has seen what was materialized, looks for the runs under way."""
        while machine.under_way:
            machine.advance(machine.under_way[0])
        return look(*args, **named)

    monkeypatch.setattr(AssetStatusCacheValue, "_blocking_batch_load", ended)
    for _ in range(3):
        tick([machine])
    assert (machine.requested, machine.stale()) == (0, [])


def test_an_update_that_lands_while_a_run_is_under_way_is_made_up_for(machine: Machine) -> None:
    machine.arrive("a")
    tick([machine])
    (run,) = machine.under_way
    machine.advance(run)
    machine.arrive("a")
    tick([machine])
    settle([machine])
    assert machine.stale() == []


def test_the_same_rows_made_again_are_followed_by_nothing(machine: Machine) -> None:
    machine.arrive("a")
    settle([machine])
    before = machine.requested
    for rows in (2, 2):
        machine.arrive("a", rows)
        settle([machine])
    machine.launch("a", ["raw"], 2)
    settle([machine])
    assert machine.requested == before
    machine.arrive("a", 1)
    settle([machine])
    assert (machine.requested, machine.stale()) == (2 * before, [])


def test_rows_that_change_and_change_back_while_a_run_reads_them_are_made_up_for(machine: Machine) -> None:
    machine.arrive("a", 1)
    settle([machine])
    machine.launch("a", ["clean"])
    (run,) = machine.under_way
    machine.arrive("a", 2)
    run.begun, run.read["clean"] = True, 2
    machine.arrive("a", 1)
    settle([machine])
    assert machine.stale() == []


def test_failures_are_tried_again_with_growing_pauses_and_not_for_ever(machine: Machine) -> None:
    start = get_current_datetime()
    machine.arrive("a")
    tried = []
    for minute in range(40):
        if tick([machine], start + timedelta(minutes=minute)):
            tried.append(minute)
            (run,) = machine.under_way
            machine.advance(run)
            machine.fail(run)
    pause = BACK_OFF.total_seconds() / 60
    assert len(tried) == MOST_ATTEMPTS
    assert tried[0] == 0
    assert pause <= tried[1] <= pause + 1
    assert 2 * pause <= tried[2] <= 2 * pause + 2
    machine.arrive("a")
    settle([machine])
    assert machine.stale() == []


def test_a_reference_that_is_left_out_makes_nothing_out_of_date(machine: Machine) -> None:
    machine.arrive("a")
    settle([machine])
    before = machine.requested
    machine.instance.report_runless_asset_event(dg.AssetMaterialization(["group", machine.name("reference")]))
    for _ in range(3):
        settle([machine])
    assert machine.requested == before


def test_where_a_run_may_cost_money_a_failure_waits_for_newer_inputs() -> None:
    @dg.asset(partitions_def=PARTS)
    def questions() -> None: ...

    @dg.asset(deps=[questions], partitions_def=PARTS, automation_condition=FOLLOW_ONCE)
    def forecasts() -> None: ...

    defs, now = dg.Definitions([questions, forecasts]), get_current_datetime()
    with dg.DagsterInstance.ephemeral() as instance:

        def looked(cursor: AssetDaemonCursor | None, hours: int) -> Any:
            return dg.evaluate_automation_conditions(
                defs=defs, instance=instance, cursor=cursor, evaluation_time=now + timedelta(hours=hours)
            )

        cursor = looked(None, 0).cursor
        for arrival in range(2):
            instance.report_runless_asset_event(dg.AssetMaterialization("questions", partition="a"))
            found = looked(cursor, 1 + arrival)
            assert found.get_requested_partitions(forecasts.key) == {"a"}
            run = dg.DagsterRun(
                job_name="make", run_id=make_new_run_id(), asset_selection=frozenset([forecasts.key]), tags={"dagster/partition": "a"}
            )
            instance.add_run(run)
            for kind in (DagsterEventType.RUN_START, DagsterEventType.RUN_FAILURE):
                instance.report_dagster_event(DagsterEvent(kind.value, "make"), run_id=run.run_id)
            later = looked(found.cursor, 48 + arrival)
            assert later.total_requested == 0
            cursor = later.cursor
