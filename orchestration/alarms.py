"""Alarms about failed runs and a stuck arena. Operators get one alarm per incident, which lasts until the job or check succeeds again.

Alarms go to a log file and a webhook. Secrets of the settings appear in no message, log or error. Not here: checks (bellwether/<domain>/checks.py).
Concept: https://docs.dagster.io/guides/automate/run-status-sensors
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import dagster as dg
import httpx

from bellwether.arena.checks import LAKE_CHECKS
from bellwether.checks.rule import LakeCheck, Observation
from bellwether.errors import BellwetherError, ConfigError
from bellwether.formatting import redact
from bellwether.lake import Lake
from bellwether.settings import Settings, settings
from bellwether.venues.http.retry import compute_delay
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


LOG = logging.getLogger("bellwether.alarms")
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 10.0
_LONGEST_TITLE, _LONGEST_TEXT = 200, 4000

# httpx logs the address of each request, which is a secret of the webhook.
logging.getLogger("httpx").setLevel(logging.WARNING)


class NotDelivered(BellwetherError):
    """An alarm could not be delivered. again: whether another attempt may succeed."""

    def __init__(self, problem: str, *, again: bool) -> None:
        self.again = again
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Alarm:
    """Message to operators about an incident. incident: its name, equal in repeated alarms. at: time in UTC."""

    incident: str
    title: str
    text: str
    at: datetime
    world: str

    @property
    def subject(self) -> str:
        """World and title, on one line."""
        return f"[bellwether {self.world}] {' '.join(redact(self.title).split())[:_LONGEST_TITLE]}"

    @property
    def body(self) -> str:
        """Text of the alarm, without possible credentials."""
        return redact(self.text)[:_LONGEST_TEXT]


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


# --- delivery ------------------------------------------------------------------------------------------------------------


def notify(alarm: Alarm, config: Settings, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Append an alarm to the log file of alarms, and post it to the webhook of the settings, if any, with up to three attempts.

    Raises `ConfigError` for an invalid address, and `NotDelivered` if either failed.
    """
    webhook = _parse_webhook(config)
    problems = []
    try:
        _append(config.alarms_path, alarm)
    except OSError as error:
        problems.append(f"{config.alarms_path}: {error.strerror}")
    if webhook is not None:
        try:
            _post_with_retries(webhook, alarm, sleep)
        except NotDelivered as error:
            problems.append(f"webhook: {error}")
    if problems:
        raise NotDelivered(f"alarming {alarm.subject!r}: {'; '.join(problems)}", again=True)


def _append(path: Path, alarm: Alarm) -> None:
    """Log an alarm as an error, and append it to a file. Lines after the first are indented."""
    LOG.error("%s: %s", alarm.subject, alarm.body)
    lines = f"{alarm.subject}: {alarm.body}".splitlines()
    text = "\n    ".join([f"{alarm.at:%Y-%m-%d %H:%M:%S}Z {lines[0]}", *(line for line in lines[1:] if line.strip())])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(f"{text}\n")


def _parse_webhook(config: Settings) -> str | None:
    """Return the address of the webhook; None without one. Raises `ConfigError` for an invalid address."""
    if config.notify_webhook is None:
        return None
    url = config.notify_webhook.get_secret_value()
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(
            "alarms by webhook: BELLWETHER_NOTIFY_WEBHOOK must be an address such as https://host/path (its value is not shown)"
        )
    return url


def _post_with_retries(url: str, alarm: Alarm, sleep: Callable[[float], None]) -> None:
    """Post an alarm, with pauses between up to three attempts. Raises the last `NotDelivered`."""
    rng = Random(alarm.incident)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _post(url, alarm)
        except NotDelivered as error:
            if attempt == _ATTEMPTS or not error.again:
                raise
            sleep(compute_delay(attempt, rng, base=1.0, cap=4.0, least=0.5))
    return None


def _post(url: str, alarm: Alarm) -> None:
    """Post an alarm as JSON to a webhook. The field `text` is what Slack and Mattermost show."""
    body = {
        "text": f"{alarm.subject}\n{alarm.body}",
        "incident": alarm.incident,
        "title": alarm.subject,
        "detail": alarm.body,
        "world": alarm.world,
        "at": alarm.at.isoformat(),
    }
    try:
        # A redirect, which is not followed, could carry the alarm, and the secret in the address, elsewhere.
        status = httpx.post(url, json=body, timeout=_TIMEOUT_SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotDelivered(f"no answer ({type(error).__name__})", again=True) from None
    if not 200 <= status < 300:
        raise NotDelivered(f"answered {status}", again=status in (408, 429) or status >= 500)
