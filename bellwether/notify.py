"""Sending of alarms to operators by log file and webhook. Secrets of the settings appear in no message, log or error.

Incidents are defined and their state is stored in orchestration/alarms.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx

from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import Settings
from bellwether.untrusted_text import redact
from bellwether.venues.http.retry import compute_delay

LOG = logging.getLogger("bellwether.alarms")
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 10.0
_LONGEST_TITLE, _LONGEST_TEXT = 200, 4000

# It logs the address of each request, which is a secret of the webhook.
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
