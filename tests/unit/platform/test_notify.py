"""Alerts by webhook and mail: delivery, retries, and no secrets in any message."""

from __future__ import annotations

import json
import logging
import smtplib
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.notify import Alarm, NotDelivered, notifiers, notify
from bellwether.settings import Settings, settings
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
    notify(alarm, notifiers(config), sleep=waited.append)
    return waited


@pytest.fixture
def web() -> Iterator[ScriptedServer]:
    with scripted_server() as found:
        yield found


def _to(web: ScriptedServer) -> Settings:
    return _settings(notify="webhook", notify_webhook=f"{web.url}/hook/{SECRET}")


def test_a_webhook_is_posted_the_alarm_without_what_looks_like_a_credential(web: ScriptedServer) -> None:
    assert _send(_to(web)) == []
    (request,) = web.seen
    body = json.loads(request.body)
    assert (request.method, request.path) == ("POST", f"/hook/{SECRET}")
    assert body["text"] == "[bellwether live] arena_week 2026-06-07 failed\nVenueError: ***"
    assert (body["incident"], body["world"], body["at"]) == ("run/arena_week 2026-06-07", "live", "2026-06-07T00:00:00+00:00")
    assert SECRET not in json.dumps(body)


@pytest.mark.parametrize(("answers", "posted"), [([500, 429, 200], 3), ([503], 3), ([404], 1), ([302], 1), ([200], 1)])
def test_a_webhook_is_tried_again_where_that_helps(web: ScriptedServer, answers: list[int], posted: int) -> None:
    web.answers = [Answer(status, location="/elsewhere") for status in answers]
    if answers[-1] == 200:
        assert len(_send(_to(web))) == posted - 1
    else:
        with pytest.raises(NotDelivered, match=f"webhook: answered {answers[-1]}") as refused:
            _send(_to(web))
        assert SECRET not in str(refused.value)
    assert len(web.seen) == posted


def test_one_channel_that_fails_does_not_keep_the_others_from_the_alarm(web: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    web.answers = [Answer(400)]
    both = _to(web).model_copy(update={"notify": ("webhook", "log")})
    with caplog.at_level(logging.DEBUG), pytest.raises(NotDelivered, match="webhook: answered 400"):
        _send(both)
    assert "[bellwether live] arena_week 2026-06-07 failed: VenueError: ***" in caplog.text
    assert SECRET not in caplog.text


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


class Mail:
    """Mail server in place of smtplib's clients. Records mails and logins, and answers senders with the given codes; the last repeats."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.logins: list[tuple[str, str]] = []
        self.codes = [250]

    def settings(self, scheme: str = "smtp", **more: object) -> Settings:
        people = {"notify_from": "bellwether@example.org", "notify_to": "ann@example.org, bob@example.org"}
        return _settings(notify="email", notify_smtp=f"{scheme}://mail.example:25", **people, **more)

    def client(self, *, tls: bool) -> type:
        mail = self

        class Client:
            def __init__(self, host: str, port: int, **options: object) -> None:
                self.sock = ssl.SSLSocket.__new__(ssl.SSLSocket) if tls else None

            def __enter__(self) -> Client:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def ehlo(self) -> None:
                pass

            def has_extn(self, name: str) -> bool:
                return False

            def login(self, user: str, password: str) -> None:
                mail.logins.append((user, password))
                if password != SECRET:
                    raise smtplib.SMTPAuthenticationError(535, f"{user} {password} is not known".encode())

            def send_message(self, message: EmailMessage) -> None:
                code = mail.codes.pop(0) if len(mail.codes) > 1 else mail.codes[0]
                if code != 250:
                    raise smtplib.SMTPSenderRefused(code, b"no", "bellwether@example.org")
                mail.mails.append(message)

        return Client


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Mail:
    found = Mail()
    monkeypatch.setattr(smtplib, "SMTP", found.client(tls=False))
    monkeypatch.setattr(smtplib, "SMTP_SSL", found.client(tls=True))
    return found


def test_a_mail_reaches_its_receivers_without_what_looks_like_a_credential(mail: Mail) -> None:
    assert _send(mail.settings()) == []
    (found,) = mail.mails
    assert found["To"] == "ann@example.org, bob@example.org"
    assert found["Subject"] == "[bellwether live] arena_week 2026-06-07 failed"
    assert found["Auto-Submitted"] == "auto-generated"
    assert found.get_content().splitlines()[0] == "VenueError: ***"
    assert SECRET not in found.as_string()


@pytest.mark.parametrize(("codes", "paused"), [([451, 250], 1), ([550], None)])
def test_a_mail_is_tried_again_after_a_passing_refusal_alone(mail: Mail, codes: list[int], paused: int | None) -> None:
    mail.codes = list(codes)
    if paused is None:
        with pytest.raises(NotDelivered, match=r"mail\.example answered 550"):
            _send(mail.settings())
        assert mail.mails == []
    else:
        assert len(_send(mail.settings())) == paused
        assert len(mail.mails) == 1


def test_a_password_is_sent_over_tls_alone_and_a_wrong_one_once(mail: Mail) -> None:
    login = {"notify_smtp_user": "bw", "notify_smtp_password": SECRET}
    _send(mail.settings("smtps", **login))
    assert (mail.logins, len(mail.mails)) == ([("bw", SECRET)], 1)
    with pytest.raises(NotDelivered, match="offers no TLS, and no password is sent without it"):
        _send(mail.settings(**login))
    assert (len(mail.logins), len(mail.mails)) == (1, 1)
    with pytest.raises(NotDelivered, match=r"mail\.example answered 535") as refused:
        _send(mail.settings("smtps", notify_smtp_user="bw", notify_smtp_password="wr0ng"))
    assert "wr0ng" not in f"{refused.value!r}{refused.value.__cause__!r}"
    assert len(mail.logins) == 2, "a wrong password is not tried again"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"notify": "webhook"}, "BELLWETHER_NOTIFY_WEBHOOK must be an address"),
        ({"notify": "webhook", "notify_webhook": f"ftp://{SECRET}"}, "BELLWETHER_NOTIFY_WEBHOOK must be an address"),
        ({"notify": "webhook", "notify_webhook": f"http://[{SECRET}"}, "BELLWETHER_NOTIFY_WEBHOOK must be an address"),
        ({"notify": "email", "notify_from": "a@b", "notify_to": "a@b"}, "BELLWETHER_NOTIFY_SMTP must be smtp://"),
        ({"notify": "email", "notify_smtp": f"smtp://u:{SECRET}@h:25"}, "BELLWETHER_NOTIFY_SMTP must be smtp://"),
        ({"notify": "email", "notify_smtp": "smtp://h"}, "BELLWETHER_NOTIFY_FROM = None"),
        ({"notify": "email", "notify_smtp": "smtp://h", "notify_from": "a@b", "notify_to": "ann"}, r"BELLWETHER_NOTIFY_TO = \('ann',\)"),
        (
            {"notify": "email", "notify_smtp": "smtp://h", "notify_from": "a@b", "notify_to": "a@b", "notify_smtp_password": SECRET},
            "NOTIFY_SMTP_USER and BELLWETHER_NOTIFY_SMTP_PASSWORD, or neither",
        ),
    ],
)
def test_a_channel_that_is_not_described_is_refused_by_name_without_its_secrets(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        notifiers(Settings.model_validate(given))
    assert SECRET not in str(refused.value)


def test_settings_show_no_secret_and_an_unknown_channel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _settings(notify_webhook=f"https://h/{SECRET}", notify_smtp_password=SECRET)
    assert SECRET not in f"{config!r}{config.model_dump_json()}{config.model_dump()}"
    assert notifiers(_settings(notify="")) == {}
    monkeypatch.setenv("BELLWETHER_NOTIFY", "pigeon")
    settings.cache_clear()
    with pytest.raises(ConfigError, match="BELLWETHER_NOTIFY"):
        settings()
