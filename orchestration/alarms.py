"""Alarms about failed runs and a stuck arena. Operators get one alarm per incident, which lasts until the job or check succeeds again.

Not here: delivery (bellwether/notify.py) and checks (bellwether/<domain>/checks.py).
Concept: https://docs.dagster.io/guides/automate/run-status-sensors
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

import dagster as dg

from bellwether.arena.checks import LAKE_CHECKS
from bellwether.checks.rule import LakeCheck, Observation
from bellwether.lake import Lake
from bellwether.notify import Alarm, NotDelivered, notify
from bellwether.settings import settings
from orchestration.partitions import PARTITION, RANGE_END, RANGE_START
from orchestration.run_priority import COMMAND, LAUNCHED_BY
from orchestration.steps import failure_reason
from resources import LakeResource

#: Tag of a failed run that was reported.
REPORTED = "bellwether/alarmed"
#: Tag that Dagster gives to a failed run that its daemon retries.
_WILL_RETRY = "dagster/will_retry"
_FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
#: Finished runs of a job that are searched for earlier ones of an incident.
_LOOKED_AT = 200
_NAMED = 5


def run_subject(run: dg.DagsterRun) -> str:
    """Return a text that identifies what a run makes: job or selected assets, and partitions. Consecutive failures with equal texts are one
    incident.
    """
    tags = run.tags
    span = f"{tags[RANGE_START]}..{tags.get(RANGE_END)}" if RANGE_START in tags else tags.get(PARTITION, "")
    job = "" if run.job_name.startswith("__") else run.job_name
    assets = ",".join(sorted(key.to_user_string() for key in run.asset_selection or ()))
    return " ".join(part for part in (job or assets, span) if part)


def is_reported(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return True if this failed run needs no alarm: the run itself, or an earlier failure of the same subject since the last success, was
    reported.
    """
    records = instance.get_run_records(dg.RunsFilter(job_name=run.job_name, statuses=_FINISHED), limit=_LOOKED_AT)
    number = next((record.storage_id for record in records if record.dagster_run.run_id == run.run_id), None)
    subject = run_subject(run)
    for record in records:
        other = record.dagster_run
        if (number is not None and record.storage_id > number) or run_subject(other) != subject:
            continue
        if other.status is dg.DagsterRunStatus.SUCCESS:
            return False
        if REPORTED in other.tags:
            return True
    return False


@dg.run_failure_sensor(
    name="alert_failures",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Alarms once when a run fails, until a run of the same job and partition succeeds.",
)
def alert_failures(context: dg.RunFailureSensorContext) -> None:
    """Send one alarm per incident. If an alarm cannot be delivered, the tick fails, and the next failure of the same subject sends the alarm."""
    run = context.dagster_run
    if run.tags.get(LAUNCHED_BY) == COMMAND:
        context.log.info(f"reported by its command: {run_subject(run)}")
        return
    if is_reported(context.instance, run):
        # Without a SkipReason: Dagster fails a tick in which one failed run is reported and another skipped.
        context.log.info(f"reported before: {run_subject(run)}")
        return
    at, config = datetime.now(UTC), settings()
    why = (
        "\n".join(f"{event.step_key}: {failure_reason(event) or event.message}" for event in context.get_step_failure_events())
        or context.failure_event.message
        or ""
    )
    advice = "It is retried automatically." if run.tags.get(_WILL_RETRY) == "true" else "Fix the cause, then run it again."
    alarm = Alarm(f"run/{run_subject(run)}", f"{run_subject(run)} failed", f"{why}\n{advice}\n\nRun {run.run_id}", at, str(config.world))
    notify(alarm, config)
    context.instance.add_run_tags(run.run_id, {REPORTED: at.isoformat()})


def report_stuck(
    observations: Mapping[LakeCheck, Observation],
    reported: Mapping[str, list[str]],
    send: Callable[[Alarm], None],
    world: str,
    at: datetime,
) -> tuple[dict[str, list[str]], list[str]]:
    """Send an alarm for each failed check that names subjects, such as weeks or markets, that were not reported before.

    reported: reported subjects by check. send: delivers an alarm, or raises `NotDelivered`. Returns their new state, and the reasons of undelivered alarms, which are sent again next time. A subject
    that recovers is removed, so that it is reported when it fails again.
    """
    stuck_subjects: dict[str, list[str]] = {}
    problems: list[str] = []
    for check, observation in observations.items():
        subjects = set() if observation.passed else set(observation.subjects) or {check.name}
        new = sorted(subjects - set(reported.get(check.name, ())))
        if new:
            more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
            text = f"{observation.found}\n\nNew: {', '.join(new[:_NAMED])}{more}"
            alarm = Alarm(f"{check.table}/{check.name}/{new[0]}", f"{check.table}: check failed: {check.description}", text, at, world)
            try:
                send(alarm)
            except NotDelivered as error:
                problems.append(str(error))
                subjects -= set(new)
        stuck_subjects[check.name] = sorted(subjects)
    return stuck_subjects, problems


def evaluate_check(check: LakeCheck, lake: Lake, now: datetime, reported: Iterable[str] = ()) -> Observation:
    """Evaluate a check. An exception becomes a failed observation, which names the exception and the already reported subjects."""
    try:
        return check.evaluate(lake, now)
    except Exception as error:
        why = f"This check cannot be evaluated: {type(error).__name__}: {' '.join(str(error).split())}"
        return Observation(False, why, subjects=(*reported, f"{check.name} cannot be evaluated"))


@dg.sensor(
    minimum_interval_seconds=1800,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Alarms when the arena is stuck: missing cohorts, decisions past their deadline, markets closed for long. Once per week and market.",
)
def alert_stuck_arena(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SkipReason:
    """Evaluate the checks of the whole lake, and send alarms about new failures. Alarms that cannot be delivered are sent again at the next tick."""
    config = settings()
    reported = json.loads(context.cursor) if context.cursor else {}
    observations = {check: evaluate_check(check, lake.lake, config.now(), reported.get(check.name, ())) for check in LAKE_CHECKS}
    subjects, problems = report_stuck(observations, reported, partial(notify, config=config), str(config.world), datetime.now(UTC))
    context.update_cursor(json.dumps(subjects))
    # A failed tick would lose the cursor and repeat alarms.
    if problems:
        return dg.SkipReason("; ".join(problems))
    count = sum(map(len, subjects.values()))
    return dg.SkipReason(f"{count} stuck, reported" if count else "nothing is stuck")


SENSORS = (alert_failures, alert_stuck_arena)
