"""Whatever the order in which inputs arrive and runs are requested, read, fail and end: the derived table is made from the newest inputs."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.data_version import DATA_VERSION_IS_USER_PROVIDED_TAG, DATA_VERSION_TAG
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._core.instance import InstanceType
from dagster._core.launcher.sync_in_memory_run_launcher import SyncInMemoryRunLauncher
from dagster._core.run_coordinator import DefaultRunCoordinator
from dagster._core.storage.event_log import InMemoryEventLogStorage
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.storage.root import TemporaryLocalArtifactStorage
from dagster._core.storage.runs import InMemoryRunStorage
from dagster._core.utils import make_new_run_id
from dagster._time import get_current_datetime

from orchestration import out_of_date
from orchestration.automation import FOLLOW_ANY
from orchestration.out_of_date import BACK_OFF, MOST_ATTEMPTS

PARTS = dg.StaticPartitionsDefinition(["a", "b", "c"])
#: Tables that one tick looks at: most of what it costs does not depend on how many they are.
TABLES = 25


def pair(number: int) -> list[dg.AssetsDefinition]:
    """What arrives, and what is made from all of it."""

    @dg.asset(name=f"rows_{number}", partitions_def=PARTS)
    def rows() -> None: ...

    @dg.asset(
        name=f"summary_{number}", deps=[dg.AssetDep(rows, partition_mapping=dg.AllPartitionMapping())], automation_condition=FOLLOW_ANY
    )
    def summary() -> None: ...

    return [rows, summary]


DEFS = dg.Definitions(
    [asset for number in range(TABLES) for asset in pair(number)],
    jobs=[dg.define_asset_job("make", [f"summary_{number}" for number in range(TABLES)])],
)


class Events(InMemoryEventLogStorage):
    """Dagster's own opens a connection for each statement, and looks up the columns of a table before most of them."""

    @contextmanager
    def _connect(self) -> Iterator[db.Connection]:
        with self._db_lock, self._held_conn.begin():
            yield self._held_conn

    def _has_asset_key_col_on_connection(self, conn: db.Connection, column_name: str) -> bool:
        return True

    def has_asset_key_col(self, column_name: str) -> bool:
        return True


class Runs(InMemoryRunStorage):
    """As `Events`."""

    @contextmanager
    def connect(self) -> Iterator[db.Connection]:
        with self._held_conn.begin():
            yield self._held_conn

    def has_run_stats_index_cols(self) -> bool:
        return True

    def has_backfill_id_column(self) -> bool:
        return True


@contextmanager
def in_memory() -> Iterator[dg.DagsterInstance]:
    """`DagsterInstance.ephemeral()`, but its storage keeps its connections."""
    with dg.DagsterInstance(
        instance_type=InstanceType.EPHEMERAL,
        local_artifact_storage=TemporaryLocalArtifactStorage(),
        run_storage=Runs(),
        event_storage=Events(),
        compute_log_manager=NoOpComputeLogManager(),
        run_coordinator=DefaultRunCoordinator(),
        run_launcher=SyncInMemoryRunLauncher(),
    ) as instance:
        yield instance


@dataclass
class Machine:
    """Updates, ticks and runs of one table, one step at a time, through Dagster's own storage and the condition itself."""

    instance: dg.DagsterInstance
    number: int = 0
    cursor: AssetDaemonCursor | None = None
    version: dict[str, int] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    read: dict[str, dict[str, int]] = field(default_factory=dict)
    queued: list[str] = field(default_factory=list)
    runs: int = 0
    changes: int = 0
    failures: int = 0

    @property
    def table(self) -> dg.AssetKey:
        return dg.AssetKey(f"summary_{self.number}")

    def arrive(self, part: str, version: int | None = None) -> None:
        """A version of a partition's rows, which may be the one that is there or was before; a new one when left out."""
        former = self.version.get(part, 0)
        self.version[part] = former + 1 if version is None else version
        self.changes += self.version[part] != former
        tags = {DATA_VERSION_TAG: str(self.version[part]), DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
        self.instance.report_runless_asset_event(dg.AssetMaterialization(f"rows_{self.number}", partition=part, tags=tags))

    def tick(self, now: datetime | None = None) -> bool:
        return tick([self], now) == [self]

    def queue(self) -> str:
        """What the daemon does with a request, but for the plan of the run, which no condition reads."""
        self.runs += 1
        run = dg.DagsterRun(
            job_name="make", run_id=make_new_run_id(), asset_selection=frozenset({self.table}), status=dg.DagsterRunStatus.STARTING
        )
        self.instance.add_run(run)
        planned = AssetMaterializationPlannedData(self.table, partition=None, partitions_subset=None)
        step = self.table.path[-1]
        self.instance.report_dagster_event(DagsterEvent.build_asset_materialization_planned_event("make", step, planned), run.run_id)
        self.queued.append(run.run_id)
        return run.run_id

    def begin(self, run_id: str) -> None:
        """The run reads its inputs."""
        self.instance.report_dagster_event(_status(DagsterEventType.RUN_START), run_id=run_id)
        self.read[run_id] = dict(self.version)

    def end(self, run_id: str, *, fails: bool = False) -> None:
        self.failures += fails
        if not fails:
            made = StepMaterializationData(dg.AssetMaterialization(self.table))
            event = DagsterEvent(DagsterEventType.ASSET_MATERIALIZATION.value, "make", event_specific_data=made)
            self.instance.report_dagster_event(event, run_id=run_id)
            self.shown = self.read[run_id]
        self.instance.report_dagster_event(_status(DagsterEventType.RUN_FAILURE if fails else DagsterEventType.RUN_SUCCESS), run_id=run_id)
        self.queued.remove(run_id)

    def restart(self) -> None:
        """The daemon forgets what it saw."""
        self.cursor = None

    def step(self, draw: random.Random) -> bool:
        """Something at random; whether it is that the daemon looks."""
        action = draw.choice(("arrive", "arrive", "tick", "tick", "tick", "begin", "begin", "end", "fail", "restart"))
        waiting = [run for run in self.queued if run not in self.read]
        reading = [run for run in self.queued if run in self.read]
        if action == "arrive":
            self.arrive(draw.choice(PARTS.get_partition_keys()), draw.choice((1, 2)))
        elif action == "begin" and waiting:
            self.begin(waiting[0])
        elif action in ("end", "fail") and reading:
            self.end(reading[0], fails=action == "fail")
        elif action == "restart":
            self.restart()
        return action == "tick"

    def settle(self) -> None:
        settle([self])


def tick(machines: Sequence[Machine], now: datetime | None = None) -> list[Machine]:
    """The daemon looks at some tables of one instance, and queues the runs of those that are to be made, which it returns."""
    cursors = [cursor for machine in machines if machine.cursor for cursor in machine.cursor.previous_condition_cursors or ()]
    found = dg.evaluate_automation_conditions(
        defs=DEFS,
        instance=machines[0].instance,
        asset_selection=dg.AssetSelection.assets(*(machine.table for machine in machines)),
        cursor=replace(AssetDaemonCursor.empty(), previous_condition_cursors=cursors),
        evaluation_time=now or get_current_datetime(),
    )
    seen = found.cursor.previous_condition_cursors_by_key
    requested = []
    for machine in machines:
        machine.cursor = replace(found.cursor, previous_condition_cursors=[seen[machine.table]])
        if found.get_num_requested(machine.table):
            machine.queue()
            requested.append(machine)
    return requested


def settle(machines: Sequence[Machine]) -> None:
    """What is under way ends; then two ticks, after all pauses, whose runs end."""
    for machine in machines:
        for run_id in [run for run in machine.queued if run in machine.read]:
            machine.end(run_id)
    for _ in range(2):
        tick(machines, get_current_datetime() + timedelta(days=1))
        for machine in machines:
            for run_id in list(machine.queued):
                if run_id not in machine.read:
                    machine.begin(run_id)
                machine.end(run_id)


def _status(kind: DagsterEventType) -> DagsterEvent:
    return DagsterEvent(kind.value, "make")


@pytest.fixture
def machine() -> Iterator[Machine]:
    with in_memory() as instance:
        yield Machine(instance)


def test_a_run_is_queued_as_dagster_queues_it(machine: Machine) -> None:
    of_dagster = machine.instance.create_run_for_job(
        DEFS.resolve_job_def("make"), asset_selection=frozenset({machine.table}), status=dg.DagsterRunStatus.STARTING
    )
    ours = machine.instance.get_run_by_id(machine.queue())
    assert ours is not None
    of_plan = {name: getattr(of_dagster, name) for name in ("job_snapshot_id", "execution_plan_snapshot_id", "step_keys_to_execute")}
    assert ours._replace(run_id=of_dagster.run_id, **of_plan) == of_dagster
    (theirs,), (own,) = ([entry.dagster_event for entry in machine.instance.all_logs(run.run_id)] for run in (of_dagster, ours))
    assert theirs == own


#: Interleavings of each run of the tests; `python -m tests.orchestration.test_out_of_date 5000` plays as many as it is told.
INTERLEAVINGS, BLOCKS = 1000, 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_update_is_lost_and_no_run_is_in_vain(block: int) -> None:
    interleave(range(block, INTERLEAVINGS, BLOCKS))


def interleave(seeds: Sequence[int]) -> None:
    """Play one random interleaving per seed, each on a table of its own, and settle after each."""
    with in_memory() as instance:
        machines = [Machine(instance, number) for number in range(TABLES)]
        for start in range(0, len(seeds), TABLES):
            players = dict(zip(seeds[start : start + TABLES], machines, strict=False))
            play(players, 12)
            settle(list(players.values()))
            for seed, machine in players.items():
                assert machine.shown == machine.version, seed
                assert machine.runs <= machine.changes + machine.failures, seed
                machine.runs = machine.changes = machine.failures = 0


def play(players: dict[int, Machine], steps: int) -> None:
    """Take random steps with each table; the daemon looks at the tables whose turn to be looked at comes together at once."""
    draws = {seed: random.Random(seed) for seed in players}
    for _ in range(steps):
        looked_at = [machine for seed, machine in players.items() if machine.step(draws[seed])]
        if looked_at:
            tick(looked_at)


def test_an_update_that_lands_while_a_run_is_under_way_is_made_up_for(machine: Machine) -> None:
    machine.arrive("a")
    machine.tick()
    (run,) = machine.queued
    machine.begin(run)
    machine.tick()
    machine.arrive("b")
    machine.end(run)
    assert machine.shown == {"a": 1}
    machine.settle()
    assert (machine.shown, machine.runs) == ({"a": 1, "b": 1}, 2)


def test_what_is_up_to_date_stays_as_it_is(machine: Machine) -> None:
    machine.tick()
    assert machine.runs == 0
    machine.arrive("a")
    machine.settle()
    for _ in range(3):
        machine.settle()
    assert machine.runs == 1


def test_the_same_rows_made_again_make_nothing_out_of_date(machine: Machine) -> None:
    machine.arrive("a")
    machine.arrive("b")
    machine.settle()
    machine.arrive("a", 1)
    machine.settle()
    assert machine.runs == 1
    machine.arrive("a", 2)
    machine.arrive("a", 1)
    machine.settle()
    assert machine.runs == 2, "the change may have been read before it was taken back"


def test_rows_of_which_nobody_says_that_they_are_the_same_count_as_changed(machine: Machine) -> None:
    machine.arrive("a")
    machine.settle()
    machine.instance.report_runless_asset_event(dg.AssetMaterialization("rows_0", partition="a"))
    machine.settle()
    machine.instance.report_runless_asset_event(dg.AssetMaterialization("rows_0", partition="a"))
    machine.settle()
    assert machine.runs == 3


def test_failures_are_tried_again_with_growing_pauses_and_not_for_ever(machine: Machine) -> None:
    start = get_current_datetime()
    machine.arrive("a")
    tried = []
    for minute in range(60):
        if machine.tick(start + timedelta(minutes=minute)):
            tried.append(minute)
            (run_id,) = machine.queued
            machine.begin(run_id)
            machine.end(run_id, fails=True)
    pause = BACK_OFF.total_seconds() / 60
    assert len(tried) == MOST_ATTEMPTS
    assert tried[0] == 0
    assert pause <= tried[1] - tried[0] <= pause + 1
    assert 2 * pause <= tried[2] <= 2 * pause + 2
    machine.arrive("b")
    machine.settle()
    assert machine.shown == {"a": 1, "b": 1}


def test_failures_of_other_tables_hide_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_date, "_PAGE", 20)
    start = get_current_datetime()
    machine.arrive("a")
    for hour in range(MOST_ATTEMPTS):
        assert machine.tick(start + timedelta(hours=hour))
        (run_id,) = machine.queued
        machine.begin(run_id)
        machine.end(run_id, fails=True)
    other = Machine(machine.instance, 1)
    for _ in range(30):
        run_id = other.queue()
        other.begin(run_id)
        other.end(run_id, fails=True)
    assert not machine.tick(start + timedelta(days=1))


def test_a_failed_run_of_a_whole_job_counts_for_what_it_was_to_make_alone(machine: Machine) -> None:
    def fail(table: str) -> None:
        run = dg.DagsterRun(job_name="other", run_id=make_new_run_id(), status=dg.DagsterRunStatus.STARTING)
        machine.instance.add_run(run)
        planned = AssetMaterializationPlannedData(dg.AssetKey(table), partition=None, partitions_subset=None)
        for event in (
            DagsterEvent.build_asset_materialization_planned_event("other", table, planned),
            _status(DagsterEventType.RUN_START),
            _status(DagsterEventType.RUN_FAILURE),
        ):
            machine.instance.report_dagster_event(event, run.run_id)

    later = get_current_datetime() + timedelta(hours=1)
    for table, asked in (("rows_1", True), ("summary_0", False)):
        machine.arrive("a")
        for _ in range(MOST_ATTEMPTS):
            fail(table)
        assert machine.tick(later) is asked
        for run_id in list(machine.queued):
            machine.begin(run_id)
            machine.end(run_id)


def test_updates_of_other_partitions_hide_none(monkeypatch: pytest.MonkeyPatch) -> None:
    @dg.asset(partitions_def=PARTS)
    def rows() -> None: ...

    @dg.asset(deps=[rows], partitions_def=PARTS, automation_condition=FOLLOW_ANY)
    def copy() -> None: ...

    monkeypatch.setattr(out_of_date, "_PAGE", 2)
    defs = dg.Definitions([rows, copy])
    with dg.DagsterInstance.ephemeral() as instance:
        for part in ("a", "b", "b", "b", "b"):
            instance.report_runless_asset_event(dg.AssetMaterialization("rows", partition=part))
        assert dg.evaluate_automation_conditions(defs=defs, instance=instance).get_requested_partitions(dg.AssetKey("copy")) == {"a", "b"}


if __name__ == "__main__":
    interleave(range(int(sys.argv[1])))
