"""Alerts by log file and webhook: delivery, retries, and no secrets in any message."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.settings import Settings
from orchestration.alarms import Alarm, NotDelivered, notify
from tests.scripted_server import Answer, ScriptedServer, scripted_server

SECRET = "T0P-S3CRET"
ALARM = Alarm(
    "run/arena_week 2026-06-07", "arena_week 2026-06-07\nfailed", f"VenueError: Bearer {SECRET}", datetime(2026, 6, 7, tzinfo=UTC), "live"
)


def _settings(**given: object) -> Settings:
    return Settings.model_validate(given)


def _send(config: Settings, alarm: Alarm = ALARM) -> list[float]:
    """Send a notification and return the pauses between attempts."""
    waited: list[float] = []
    notify(alarm, config, sleep=waited.append)
    return waited


@pytest.fixture
def web() -> Iterator[ScriptedServer]:
    with scripted_server() as found:
        yield found


@pytest.fixture
def config(web: ScriptedServer, tmp_path: Path) -> Settings:
    return _settings(home=tmp_path, notify_webhook=f"{web.url}/hook/{SECRET}")


def test_a_webhook_is_posted_the_alarm_without_what_looks_like_a_credential(web: ScriptedServer, config: Settings) -> None:
    assert _send(config) == []
    (request,) = web.seen
    body = json.loads(request.body)
    assert (request.method, request.path) == ("POST", f"/hook/{SECRET}")
    assert body["text"] == "[bellwether live] arena_week 2026-06-07 failed\nVenueError: ***"
    assert (body["incident"], body["world"], body["at"]) == ("run/arena_week 2026-06-07", "live", "2026-06-07T00:00:00+00:00")
    assert SECRET not in json.dumps(body)


@pytest.mark.parametrize(("answers", "posted"), [([500, 429, 200], 3), ([503], 3), ([404], 1), ([302], 1), ([200], 1)])
def test_a_webhook_is_tried_again_where_that_helps(web: ScriptedServer, config: Settings, answers: list[int], posted: int) -> None:
    web.answers = [Answer(status, location="/elsewhere") for status in answers]
    if answers[-1] == 200:
        assert len(_send(config)) == posted - 1
    else:
        with pytest.raises(NotDelivered, match=f"webhook: answered {answers[-1]}") as refused:
            _send(config)
        assert SECRET not in str(refused.value)
    assert len(web.seen) == posted


def test_a_webhook_that_fails_does_not_keep_the_alarm_from_the_log(
    web: ScriptedServer, config: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    web.answers = [Answer(400)]
    with caplog.at_level(logging.DEBUG), pytest.raises(NotDelivered, match="webhook: answered 400"):
        _send(config)
    assert "[bellwether live] arena_week 2026-06-07 failed: VenueError: ***" in caplog.text
    assert SECRET not in caplog.text + config.alarms_path.read_text()


def test_the_log_is_a_file_as_well_which_keeps_every_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = _settings(home=tmp_path)
    _send(config)
    _send(config, replace(ALARM, title="days 2026-06-08 failed", text="ValueError: no\n\nRun 12", at=ALARM.at + timedelta(days=1)))
    assert config.alarms_path.read_text() == (
        "2026-06-07 00:00:00Z [bellwether live] arena_week 2026-06-07 failed: VenueError: ***\n"
        "2026-06-08 00:00:00Z [bellwether live] days 2026-06-08 failed: ValueError: no\n"
        "    Run 12\n"
    )
    assert SECRET not in caplog.text
    config.alarms_path.unlink()
    config.alarms_path.mkdir()
    with pytest.raises(NotDelivered, match=r"alarms\.log: Is a directory"):
        _send(config)


@pytest.mark.parametrize("url", ["", f"ftp://{SECRET}", f"http://[{SECRET}", f"http://{SECRET}:0"])
def test_an_invalid_webhook_is_refused_by_name_without_its_secrets(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BELLWETHER_NOTIFY_WEBHOOK must be an address") as refused:
        _send(_settings(home=tmp_path, notify_webhook=url))
    assert SECRET not in str(refused.value)


def test_settings_show_no_secret() -> None:
    config = _settings(notify_webhook=f"https://h/{SECRET}")
    assert SECRET not in f"{config!r}{config.model_dump_json()}{config.model_dump()}"
