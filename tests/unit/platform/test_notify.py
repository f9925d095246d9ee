"""Alerts by webhook and mail: delivery, retries, and no secrets in any message."""

from __future__ import annotations

import base64
import json
import logging
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.notify import Alarm, NotDelivered, notifiers, notify
from bellwether.settings import Settings, settings

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


@dataclass
class Web:
    """Web server that records posts and answers with the given states. The last state repeats."""

    answers: list[int] = field(default_factory=lambda: [204])
    bodies: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    def settings(self) -> Settings:
        return _settings(notify="webhook", notify_webhook=f"http://127.0.0.1:{self.port}/hook/{SECRET}")


@pytest.fixture
def web() -> Iterator[Web]:
    found = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.paths.append(self.path)
            found.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status = found.answers.pop(0) if len(found.answers) > 1 else found.answers[0]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


def test_a_webhook_is_posted_the_alarm_without_what_looks_like_a_credential(web: Web) -> None:
    assert _send(web.settings()) == []
    (body,) = web.bodies
    assert web.paths == [f"/hook/{SECRET}"]
    assert body["text"] == "[bellwether live] arena_week 2026-06-07 failed\nVenueError: ***"
    assert (body["incident"], body["world"], body["at"]) == ("run/arena_week 2026-06-07", "live", "2026-06-07T00:00:00+00:00")
    assert SECRET not in json.dumps(body)


@pytest.mark.parametrize(("answers", "posted"), [([500, 429, 200], 3), ([503], 3), ([404], 1), ([302], 1), ([200], 1)])
def test_a_webhook_is_tried_again_where_that_helps(web: Web, answers: list[int], posted: int) -> None:
    web.answers = list(answers)
    if answers[-1] == 200:
        assert len(_send(web.settings())) == posted - 1
    else:
        with pytest.raises(NotDelivered, match=f"webhook: answered {answers[-1]}") as refused:
            _send(web.settings())
        assert SECRET not in str(refused.value)
    assert len(web.bodies) == posted


def test_an_unreachable_webhook_is_said_without_its_address(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(NotDelivered, match=r"no answer \(ClientConnectorError\)") as refused:
        _send(_settings(notify="webhook", notify_webhook=f"http://127.0.0.1:9/{SECRET}"))
    assert SECRET not in f"{refused.value!r}{refused.value.__cause__!r}{caplog.text}"


def test_one_channel_that_fails_does_not_keep_the_others_from_the_alarm(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    web.answers = [400]
    both = web.settings().model_copy(update={"notify": ("webhook", "log")})
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


@dataclass
class Mail:
    """Mail server that records mails and logins and answers senders with the given codes."""

    mails: list[bytes] = field(default_factory=list)
    receivers: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=lambda: [250])
    tls: ssl.SSLContext | None = None
    port: int = 0

    def settings(self, **more: object) -> Settings:
        scheme = "smtp" if self.tls is None else "smtps"
        told = {"notify_from": "bellwether@example.org", "notify_to": "ann@example.org, bob@example.org"}
        return Settings.model_validate({"notify": "email", "notify_smtp": f"{scheme}://127.0.0.1:{self.port}", **told, **more})


def _serve(found: Mail) -> socketserver.ThreadingTCPServer:
    class Handler(socketserver.StreamRequestHandler):
        def setup(self) -> None:
            if found.tls is not None:
                self.request = found.tls.wrap_socket(self.request, server_side=True)
            super().setup()

        def handle(self) -> None:
            self._say("220 here")
            while line := self.rfile.readline().decode().strip():
                word = line.split(":")[0].upper()
                if word.startswith("EHLO"):
                    self._say("250-here\r\n250 AUTH PLAIN")
                elif word.startswith("AUTH PLAIN"):
                    found.users.append(base64.b64decode(line.split()[2]).decode().replace("\0", " ").strip())
                    self._say("235 fine" if SECRET in found.users[-1] else f"535 {found.users[-1]} is not known")
                elif word == "MAIL FROM":
                    code = found.codes.pop(0) if len(found.codes) > 1 else found.codes[0]
                    self._say(f"{code} {'fine' if code == 250 else 'no'}")
                elif word == "RCPT TO":
                    found.receivers.append(line.split("<")[1].split(">")[0])
                    self._say("250 fine")
                elif word == "DATA":
                    self._say("354 go on")
                    lines = []
                    while (part := self.rfile.readline()) != b".\r\n":
                        lines.append(part)
                    found.mails.append(b"".join(lines))
                    self._say("250 taken")
                elif word == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 fine")

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def mail() -> Iterator[Mail]:
    found = Mail()
    with _serve(found) as server:
        yield found
        server.shutdown()


@pytest.fixture
def safe_mail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mail]:
    """A mail server with TLS and a certificate that this process trusts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    built = built.add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
    certificate = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "both.pem").write_bytes(private + certificate)
    found = Mail(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    assert found.tls is not None
    found.tls.load_cert_chain(tmp_path / "both.pem")
    (tmp_path / "trusted.pem").write_bytes(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    with _serve(found) as server:
        yield found
        server.shutdown()


def test_a_mail_reaches_its_receivers_without_what_looks_like_a_credential(mail: Mail) -> None:
    assert _send(mail.settings()) == []
    (raw,) = mail.mails
    found = message_from_bytes(raw, policy=policy.default)
    assert mail.receivers == ["ann@example.org", "bob@example.org"]
    assert found["Subject"] == "[bellwether live] arena_week 2026-06-07 failed"
    assert found["Auto-Submitted"] == "auto-generated"
    assert found.get_content().splitlines()[0] == "VenueError: ***"
    assert SECRET.encode() not in raw


@pytest.mark.parametrize(("codes", "paused"), [([451, 250], 1), ([550], None)])
def test_a_mail_is_tried_again_after_a_passing_refusal_alone(mail: Mail, codes: list[int], paused: int | None) -> None:
    mail.codes = list(codes)
    if paused is None:
        with pytest.raises(NotDelivered, match=r"127\.0\.0\.1 answered 550"):
            _send(mail.settings())
        assert mail.mails == []
    else:
        assert len(_send(mail.settings())) == paused
        assert len(mail.mails) == 1


def test_a_password_is_sent_over_tls(safe_mail: Mail) -> None:
    _send(safe_mail.settings(notify_smtp_user="bw", notify_smtp_password=SECRET))
    assert safe_mail.users == [f"bw {SECRET}"]
    assert len(safe_mail.mails) == 1


def test_a_refused_login_is_said_without_user_and_password(safe_mail: Mail) -> None:
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1 answered 535") as refused:
        _send(safe_mail.settings(notify_smtp_user="bw", notify_smtp_password="wr0ng"))
    assert "wr0ng" not in f"{refused.value!r}{refused.value.__cause__!r}"
    assert len(safe_mail.users) == 1, "a wrong password is not tried again"


def test_a_password_is_never_sent_without_tls(mail: Mail) -> None:
    with pytest.raises(NotDelivered, match="offers no TLS, and no password is sent without it"):
        _send(mail.settings(notify_smtp_user="bw", notify_smtp_password=SECRET))
    assert mail.users == []
    assert mail.mails == []


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
