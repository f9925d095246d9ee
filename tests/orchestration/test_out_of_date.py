"""Whatever the order in which inputs arrive and runs are requested, read, fail and end: the derived table is made from the newest inputs."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._time import get_current_datetime

from orchestration.automation import FOLLOW_ANY
from orchestration.out_of_date import BACK_OFF, MOST_ATTEMPTS

PARTS = dg.StaticPartitionsDefinition(["a", "b", "c"])


@dg.asset(partitions_def=PARTS)
def rows() -> None:
    """What arrives."""


@dg.asset(deps=[dg.AssetDep(rows, partition_mapping=dg.AllPartitionMapping())], automation_condition=FOLLOW_ANY)
def summary() -> None:
    """What is made from all of it."""


DEFS = dg.Definitions([rows, summary], jobs=[dg.define_asset_job("make", [summary])])


@dataclass
class Machine:
    """Updates, ticks and runs, one step at a time, through Dagster's own storage and the condition itself."""

    instance: dg.DagsterInstance
    cursor: object = None
    version: dict[str, int] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    read: dict[str, dict[str, int]] = field(default_factory=dict)
    queued: list[str] = field(default_factory=list)
    runs: int = 0
    changes: int = 0
    failures: int = 0

    def arrive(self, part: str) -> None:
        self.version[part] = self.version.get(part, 0) + 1
        self.changes += 1
        self.instance.report_runless_asset_event(dg.AssetMaterialization("rows", partition=part))

    def tick(self, later: timedelta = timedelta()) -> None:
        now = get_current_datetime() + later
        found = dg.evaluate_automation_conditions(defs=DEFS, instance=self.instance, cursor=self.cursor, evaluation_time=now)  # type: ignore[arg-type]
        self.cursor = found.cursor
        if found.total_requested:
            self.runs += 1
            self.queue()

    def queue(self) -> str:
        """What the daemon does with a request."""
        job, selection = DEFS.resolve_job_def("make"), frozenset({dg.AssetKey("summary")})
        run = self.instance.create_run_for_job(job, asset_selection=selection, status=dg.DagsterRunStatus.STARTING)
        self.queued.append(run.run_id)
        return run.run_id

    def begin(self, run_id: str) -> None:
        """The run reads its inputs."""
        self.instance.report_dagster_event(_status(DagsterEventType.RUN_START), run_id=run_id)
        self.read[run_id] = dict(self.version)

    def end(self, run_id: str, *, fails: bool = False) -> None:
        self.failures += fails
        if not fails:
            made = StepMaterializationData(dg.AssetMaterialization("summary"))
            event = DagsterEvent(DagsterEventType.ASSET_MATERIALIZATION.value, "make", event_specific_data=made)
            self.instance.report_dagster_event(event, run_id=run_id)
            self.shown = self.read[run_id]
        self.instance.report_dagster_event(_status(DagsterEventType.RUN_FAILURE if fails else DagsterEventType.RUN_SUCCESS), run_id=run_id)
        self.queued.remove(run_id)

    def restart(self) -> None:
        """The daemon forgets what it saw."""
        self.cursor = None

    def settle(self) -> None:
        """What is under way ends; then two ticks, after all pauses, whose runs end."""
        for run_id in [run for run in self.queued if run in self.read]:
            self.end(run_id)
        for _ in range(2):
            self.tick(timedelta(days=1))
            for run_id in list(self.queued):
                if run_id not in self.read:
                    self.begin(run_id)
                self.end(run_id)


def _status(kind: DagsterEventType) -> DagsterEvent:
    return DagsterEvent(kind.value, "make")


@pytest.fixture
def machine() -> Iterator[Machine]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Machine(instance)


def play(machine: Machine, seed: int, steps: int) -> None:
    """A random interleaving."""
    draw = random.Random(seed)
    for _ in range(steps):
        action = draw.choice(("arrive", "arrive", "tick", "tick", "tick", "begin", "begin", "end", "fail", "restart"))
        waiting = [run for run in machine.queued if run not in machine.read]
        reading = [run for run in machine.queued if run in machine.read]
        if action == "arrive":
            machine.arrive(draw.choice(PARTS.get_partition_keys()))
        elif action == "tick":
            machine.tick()
        elif action == "begin" and waiting:
            machine.begin(waiting[0])
        elif action in ("end", "fail") and reading:
            machine.end(reading[0], fails=action == "fail")
        elif action == "restart":
            machine.restart()


#: In each run of the tests; `python -m tests.orchestration.test_out_of_date 1000` plays as many as it is told.
INTERLEAVINGS, BLOCKS = 100, 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_update_is_lost_and_no_run_is_in_vain(block: int) -> None:
    interleave(range(block, INTERLEAVINGS, BLOCKS))


def interleave(seeds: Iterable[int]) -> None:
    """Play one random interleaving per seed, and settle after each."""
    with dg.DagsterInstance.ephemeral() as instance:
        machine = Machine(instance)
        for seed in seeds:
            play(machine, seed, 12)
            machine.settle()
            assert machine.shown == machine.version, seed
            assert machine.runs <= machine.changes + machine.failures, seed


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


def test_failures_are_tried_again_with_growing_pauses_and_not_for_ever(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    start = get_current_datetime()
    now = start
    machine.arrive("a")
    tried = []
    for minute in range(60):
        now = start + timedelta(minutes=minute)
        found = dg.evaluate_automation_conditions(defs=DEFS, instance=machine.instance, cursor=machine.cursor, evaluation_time=now)  # type: ignore[arg-type]
        machine.cursor = found.cursor
        if found.total_requested:
            tried.append(minute)
            run_id = machine.queue()
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


if __name__ == "__main__":
    interleave(range(int(sys.argv[1])))
