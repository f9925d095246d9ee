"""Sending of alarms to operators by log file, webhook and e-mail. Secrets of the settings appear in no message, log or error.

Incidents are defined and their state is stored in orchestration/alarms.py.
"""

from __future__ import annotations

import asyncio
import logging
import smtplib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from functools import partial
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import Channel, Settings
from bellwether.untrusted_text import redact
from bellwether.venues.http.retry import compute_delay

LOG = logging.getLogger("bellwether.alarms")
_ATTEMPTS = 3
_TIMEOUT_SECONDS = 10.0
_LONGEST_TITLE, _LONGEST_TEXT = 200, 4000


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


#: Takes an alarm, or raises `NotDelivered`.
Notifier = Callable[[Alarm], None]


def notifiers(config: Settings) -> dict[Channel, Notifier]:
    """Return for each configured channel the function that sends an alarm. Raises `ConfigError` for a channel whose settings are incomplete."""
    factories: dict[Channel, Callable[[Settings], Notifier]] = {
        Channel.LOG: lambda config: partial(to_log, config.alarms_path),
        Channel.WEBHOOK: _webhook,
        Channel.EMAIL: _email,
    }
    return {channel: factories[channel](config) for channel in dict.fromkeys(config.notify)}


def notify(alarm: Alarm, channels: Mapping[Channel, Notifier], *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Send an alarm to each channel, with up to three attempts. Raises `NotDelivered` with the names of the channels that failed."""
    rng = Random(alarm.incident)
    problems = [f"{channel}: {problem}" for channel, notifier in channels.items() if (problem := _deliver(alarm, notifier, rng, sleep))]
    if problems:
        raise NotDelivered(f"alarming {alarm.subject!r}: {'; '.join(problems)}", again=True)


def _deliver(alarm: Alarm, notifier: Notifier, rng: Random, sleep: Callable[[float], None]) -> str | None:
    """Send an alarm to one channel, with retries. Return the error of the last attempt, or None if the alarm was delivered."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            notifier(alarm)
        except NotDelivered as error:
            if attempt == _ATTEMPTS or not error.again:
                return str(error)
            sleep(compute_delay(attempt, rng, base=1.0, cap=4.0, least=0.5))
        else:
            return None
    return None


def to_log(path: Path, alarm: Alarm) -> None:
    """Log an alarm as an error, and append it to the file `path`. Lines after the first are indented.

    Raises `NotDelivered` when the file cannot be written.
    """
    LOG.error("%s: %s", alarm.subject, alarm.body)
    lines = f"{alarm.subject}: {alarm.body}".splitlines()
    text = "\n    ".join([f"{alarm.at:%Y-%m-%d %H:%M:%S}Z {lines[0]}", *(line for line in lines[1:] if line.strip())])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise NotDelivered(f"{path}: {error.strerror}", again=False) from error


# --- webhook ----------------------------------------------------------------------------------------------------------


def _webhook(config: Settings) -> Notifier:
    url = config.notify_webhook.get_secret_value() if config.notify_webhook else ""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ConfigError(
            "alarms by webhook: BELLWETHER_NOTIFY_WEBHOOK must be an address such as https://host/path (its value is not shown)"
        )
    return lambda alarm: asyncio.run(_post(url, alarm))


async def _post(url: str, alarm: Alarm) -> None:
    """Post an alarm as JSON to a webhook. The field `text` is what Slack and Mattermost show."""
    import aiohttp

    body = {
        "text": f"{alarm.subject}\n{alarm.body}",
        "incident": alarm.incident,
        "title": alarm.subject,
        "detail": alarm.body,
        "world": alarm.world,
        "at": alarm.at.isoformat(),
    }
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    try:
        # A redirect could carry the alarm, and the secret in the address, elsewhere.
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.post(url, json=body, allow_redirects=False) as answer,
        ):
            status = answer.status
    except (aiohttp.ClientError, OSError) as error:
        raise NotDelivered(f"no answer ({type(error).__name__})", again=True) from None
    if not 200 <= status < 300:
        raise NotDelivered(f"answered {status}", again=status in (408, 429) or status >= 500)


# --- e-mail -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Server:
    """Address of a mail server. tls: encrypted from the start; otherwise STARTTLS is used if the server offers it."""

    host: str
    port: int
    tls: bool


def _email(config: Settings) -> Notifier:
    server = _server(config.notify_smtp)
    for name, value in (("FROM", config.notify_from), ("TO", config.notify_to)):
        addresses = [value] if isinstance(value, str) else value or ()
        if not addresses or any("@" not in address or not address.isprintable() for address in addresses):
            raise ConfigError(f"alarms by e-mail: BELLWETHER_NOTIFY_{name} = {value!r}; give e-mail addresses")
    password = config.notify_smtp_password.get_secret_value() if config.notify_smtp_password else None
    if (config.notify_smtp_user is None) != (password is None):
        raise ConfigError("alarms by e-mail: give BELLWETHER_NOTIFY_SMTP_USER and BELLWETHER_NOTIFY_SMTP_PASSWORD, or neither")
    login = None if config.notify_smtp_user is None or password is None else (config.notify_smtp_user, password)
    return lambda alarm: _send(server, login, message(alarm, config.notify_from or "", config.notify_to))


def _server(address: str | None) -> _Server:
    try:
        parts = urlsplit(address or "")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.username or parts.password or parts.path.strip("/"):
        raise ConfigError("alarms by e-mail: BELLWETHER_NOTIFY_SMTP must be smtp://host:port or smtps://host:port (its value is not shown)")
    tls = parts.scheme == "smtps"
    return _Server(parts.hostname, port or (465 if tls else 587), tls)


def message(alarm: Alarm, sender: str, receivers: tuple[str, ...]) -> EmailMessage:
    """Build the e-mail for an alarm."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = alarm.subject, sender, ", ".join(receivers)
    mail["Date"], mail["Message-ID"] = format_datetime(alarm.at), make_msgid(domain=sender.rpartition("@")[2] or None)
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{alarm.body}\n\nIncident: {alarm.incident}\n")
    return mail


def _send(server: _Server, login: tuple[str, str] | None, mail: EmailMessage) -> None:
    try:
        with _connected(server) as smtp:
            if login is not None:
                if not isinstance(smtp.sock, ssl.SSLSocket):
                    raise NotDelivered(f"{server.host} offers no TLS, and no password is sent without it", again=False)
                smtp.login(*login)
            smtp.send_message(mail)
    except smtplib.SMTPResponseException as error:
        raise NotDelivered(f"{server.host} answered {error.smtp_code}", again=400 <= error.smtp_code < 500) from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        raise NotDelivered(f"{server.host} refused the receivers ({', '.join(map(str, codes))})", again=min(codes) < 500) from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"no answer of {server.host} ({type(error).__name__})", again=True) from None


@contextmanager
def _connected(server: _Server) -> Iterator[smtplib.SMTP]:
    """Yield a connection to a mail server until the block ends, encrypted if the server supports that."""
    context = ssl.create_default_context()
    if server.tls:
        with smtplib.SMTP_SSL(server.host, server.port, timeout=_TIMEOUT_SECONDS, context=context) as smtp:
            yield smtp
        return
    with smtplib.SMTP(server.host, server.port, timeout=_TIMEOUT_SECONDS) as smtp:
        smtp.ehlo()
        if smtp.has_extn("starttls"):
            smtp.starttls(context=context)
        yield smtp
