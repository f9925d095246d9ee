"""Alerts of failed runs and stuck weeks: once per incident, and repeated if delivery failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from bellwether.checks.rule import LakeCheck, Observation
from bellwether.lake import Lake
from bellwether.settings import Settings, settings
from bellwether.tables import table
from orchestration import alarms
from orchestration.alarms import Alarm, NotDelivered, alert_failures, alert_stuck_arena, evaluate_check, report_stuck, run_subject
from orchestration.runner import TAGS
from resources import LakeResource
from tests.unit.arena.world import row_of

FAILS: set[str] = set()
REFUSED: set[str] = set()


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
def rows(context) -> None:  # type: ignore[no-untyped-def]
    if context.partition_key in FAILS:
        raise RuntimeError("the venue is down: Bearer T0P-S3CRET")
    if context.partition_key in REFUSED:
        try:
            raise ValueError("Partition key is after the last")
        except ValueError as error:
            raise dg.Failure("no such day; there are two", allow_retries=False) from error


JOB = dg.define_asset_job("make_rows", [rows])
DEFS = dg.Definitions([rows], jobs=[JOB])
AT = datetime(2026, 6, 7, tzinfo=UTC)


class Operators:
    """Receiver of alerts. While `away`, delivery fails."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self.away = False

    def __call__(self, alarm: Alarm, config: Settings | None = None) -> None:
        if self.away:
            raise NotDelivered(f"alarming {alarm.subject!r}: nobody answers", again=False)
        self.alarms.append(alarm)


@pytest.fixture
def operators(monkeypatch: pytest.MonkeyPatch) -> Operators:
    found = Operators()
    monkeypatch.setattr(alarms, "notify", found)
    return found


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    FAILS.clear()
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def _run(instance: dg.DagsterInstance, partition: str, *, fails: bool, tags: dict[str, str] | None = None) -> None:
    """Run a partition, and pass a failure to the sensor."""
    FAILS.discard(partition)
    if fails:
        FAILS.add(partition)
    _launch(instance, partition, tags)


def _launch(instance: dg.DagsterInstance, partition: str, tags: dict[str, str] | None = None) -> None:
    done = DEFS.resolve_job_def("make_rows").execute_in_process(instance=instance, partition_key=partition, raise_on_error=False, tags=tags)
    if done.success:
        return
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    context = dg.build_run_status_sensor_context("alert_failures", done.get_run_failure_event(), instance, run).for_run_failure()
    alert_failures(context)


def test_a_failure_alarms_once_until_the_same_partition_has_succeeded(instance: dg.DagsterInstance, operators: Operators) -> None:
    _run(instance, "a", fails=True)
    _run(instance, "a", fails=True)
    assert [one.title for one in operators.alarms] == ["make_rows a failed"]
    (alarm,) = operators.alarms
    assert "RuntimeError: the venue is down: ***" in alarm.body and "Run " in alarm.body
    _run(instance, "b", fails=True)
    assert len(operators.alarms) == 2, "another partition is another incident"
    _run(instance, "b", fails=False)
    _run(instance, "a", fails=True)
    assert len(operators.alarms) == 2, "a success of another partition ends nothing"
    _run(instance, "a", fails=False)
    _run(instance, "a", fails=True)
    assert [one.incident for one in operators.alarms] == ["run/make_rows a", "run/make_rows b", "run/make_rows a"]


def test_an_alarm_says_what_the_step_said_and_not_what_it_met(
    instance: dg.DagsterInstance, operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.graph.test_alarms.REFUSED", {"a"})
    _launch(instance, "a")
    (alarm,) = operators.alarms
    assert alarm.body.splitlines()[0] == "rows: no such day; there are two"


def test_an_alarm_gives_advice_that_fits(instance: dg.DagsterInstance, operators: Operators) -> None:
    for retried, advice in (("true", "It is retried automatically."), ("false", "Fix the cause, then run it again.")):
        _run(instance, "b", fails=True, tags={"dagster/will_retry": retried})
        assert advice in operators.alarms.pop().body.splitlines()
        _run(instance, "b", fails=False)


def test_what_fails_in_a_command_is_reported_by_the_command(instance: dg.DagsterInstance, operators: Operators) -> None:
    _run(instance, "b", fails=True, tags=TAGS)
    assert operators.alarms == []


def test_a_failure_that_was_not_delivered_is_told_by_the_next_one(instance: dg.DagsterInstance, operators: Operators) -> None:
    operators.away = True
    with pytest.raises(NotDelivered, match=r"make_rows b failed.*nobody answers"):
        _run(instance, "b", fails=True)
    operators.away = False
    _run(instance, "b", fails=True)
    _run(instance, "b", fails=True)
    assert len(operators.alarms) == 1


def test_a_run_that_failed_and_its_repetition_are_one_alarm_of_one_tick(operators: Operators) -> None:
    FAILS.add("a")
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor: str | None) -> str | None:
            with dg.build_sensor_context(instance=instance, cursor=cursor, definitions=DEFS) as context:
                return alert_failures.evaluate_tick(context).cursor

        cursor = tick(None)
        for _ in range(2):
            DEFS.resolve_job_def("make_rows").execute_in_process(instance=instance, partition_key="a", raise_on_error=False)
        tick(cursor)
    assert len(operators.alarms) == 1


def test_ranges_and_selections_are_subjects_of_their_own() -> None:
    tags = {"dagster/asset_partition_range_start": "2026-06-07", "dagster/asset_partition_range_end": "2026-06-14"}
    assert run_subject(dg.DagsterRun("arena_week", tags=tags)) == "arena_week 2026-06-07..2026-06-14"
    chosen = frozenset({dg.AssetKey(["arena", "ledger"]), dg.AssetKey(["arena", "scores"])})
    assert run_subject(dg.DagsterRun("__ASSET_JOB", asset_selection=chosen)) == "arena/ledger,arena/scores"


LEFT = LakeCheck(
    "decisions_are_finished", "arena/decisions", "No decision is left past its deadline", lambda lake, now: Observation(True, "")
)


def _left(*weeks: str) -> dict[LakeCheck, Observation]:
    return {LEFT: Observation(not weeks, f"{len(weeks)} weeks", subjects=weeks)}


def test_each_stuck_week_alarms_once_and_again_after_it_was_well(operators: Operators) -> None:
    told: dict[str, list[str]] = {}
    for weeks in ((), ("w1",), ("w1",), ("w1", "w2", "w3"), ("w2",), ("w1", "w2"), ()):
        told, problems = report_stuck(_left(*weeks), told, operators, "live", AT)
        assert problems == []
    assert [one.body.splitlines()[-1] for one in operators.alarms] == ["New: w1", "New: w2, w3", "New: w1"]
    assert told == {"decisions_are_finished": []}


def test_a_stuck_week_that_was_not_delivered_is_told_at_the_next_tick(operators: Operators) -> None:
    operators.away = True
    told, problems = report_stuck(_left("w1"), {}, operators, "live", AT)
    assert (told, len(problems)) == ({"decisions_are_finished": []}, 1)
    operators.away = False
    assert report_stuck(_left("w1"), told, operators, "live", AT) == ({"decisions_are_finished": ["w1"]}, [])
    assert len(operators.alarms) == 1


def test_a_check_that_cannot_be_evaluated_is_an_incident_and_stops_no_other(operators: Operators) -> None:
    def fails(lake: Lake, now: datetime) -> Observation:
        raise ValueError("File out of\n specification")

    broken = LakeCheck("broken", "arena/agents", "It is whole", fails)
    told: dict[str, list[str]] = {"broken": ["w0"]}
    for _ in range(2):
        asked = {one: evaluate_check(one, Lake("/nowhere"), AT, told.get(one.name, ())) for one in (broken,)}
        told, _ = report_stuck({**asked, **_left("w1")}, told, operators, "live", AT)
    assert told == {"broken": ["broken cannot be evaluated", "w0"], "decisions_are_finished": ["w1"]}
    assert len(operators.alarms) == 2
    assert "This check cannot be evaluated: ValueError: File out of specification" in operators.alarms[0].body


def test_the_sensor_tells_of_a_missed_cohort_and_keeps_that_in_its_cursor(
    tmp_path: Path, operators: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELLWETHER_SANDBOX_NOW", "2026-06-24T00:00:00Z")
    settings.cache_clear()
    lake, declared = Lake(str(tmp_path)), table("arena/agents")
    for week in (date(2026, 5, 31), date(2026, 6, 7), date(2026, 6, 21)):
        row = row_of("arena/agents", week=week, agent_id=f"{week}/f", reconstructed=False)
        lake.write(declared, (week.isoformat(),), declared.frame([row]), run_id="r")
    with dg.DagsterInstance.ephemeral() as empty:
        said, cursor = [], None
        for _ in range(2):
            context = dg.build_sensor_context(instance=empty, cursor=cursor, resources={"lake": LakeResource(uri=str(tmp_path))})
            said.append(str(alert_stuck_arena(context).skip_message))  # type: ignore[union-attr]
            cursor = context.cursor
    assert said == ["1 stuck, reported"] * 2
    assert json.loads(cursor or "")["cohort_of_the_week"] == ["2026-06-14"]
    (alarm,) = operators.alarms
    assert alarm.incident == "arena/agents/cohort_of_the_week/2026-06-14"
    assert "no live cohort started on 2026-06-14" in alarm.body
