"""Probes of addresses, keys, folders and servers that work, fail or do not answer, without showing a secret."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import rsa

from bellwether.doctor import connections, deployment
from bellwether.doctor.connections import KALSHI_KEY_PATH, PROVIDERS, Provider, try_connections, try_kalshi_key, try_provider
from bellwether.doctor.deployment import Finding, missing_settings
from bellwether.settings import Fleet, Settings, World, settings
from bellwether.venues.kalshi.stream.signing import Credentials
from cli.main import main
from tests.scripted_server import Answer, Request, ScriptedServer, scripted_server

KEY = "sk-verysecret-0123456789abcdef"
DEAD = "http://127.0.0.1:9"
OPENAI = PROVIDERS[0]


def accept_key(request: Request) -> Answer:
    """Accept one key, and repeat a wrong key in the answer, as some providers do."""
    if any(value in (KEY, f"Bearer {KEY}") for value in request.headers.values()):
        return Answer()
    return Answer(401, json.dumps({"error": f"Incorrect API key provided: {request.headers}"}).encode())


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as found:
        found.respond = accept_key
        yield found


def tried(provider: Provider, **environment: str) -> Finding:
    return asyncio.run(try_provider(provider, environment))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS:
        for name in (*provider.variables, *provider.base_variables):
            monkeypatch.delenv(name, raising=False)
    for name in ("KALSHI_API_KEY_ID", "KALSHI_PRIVATE_KEY", "KALSHI_PRIVATE_KEY_PATH"):
        monkeypatch.delenv(name, raising=False)


def parts_of(text: str) -> set[str]:
    """Return all substrings of six characters."""
    return {text[first : first + 6] for first in range(len(text) - 5)}


def test_the_key_of_each_provider_is_tried_with_one_call_and_a_wrong_one_is_not_shown(server: ScriptedServer) -> None:
    wrong = "wrong-" + KEY[::-1]
    for provider in PROVIDERS:
        server.seen.clear()
        found = tried(provider, **{provider.variables[0]: KEY, provider.base_variables[0]: f"{server.url}/base/"})
        assert (found.status, found.advice) == ("ok", ""), provider.name
        (request,) = server.seen
        assert (request.method, request.path) == ("GET", f"/base{provider.path}")
        assert KEY not in request.path
        assert request.headers[provider.header.lower()] == provider.scheme + KEY
        found = tried(provider, **{provider.variables[0]: wrong, provider.base_variables[1]: server.url})
        assert (found.status, "HTTP 401" in found.found, provider.variables[0] in found.advice) == ("bad", True, True)
        assert not parts_of(wrong) & parts_of(str(asdict(found)))
    google = next(provider for provider in PROVIDERS if provider.name == "Google")
    assert tried(google, GOOGLE_API_KEY=KEY, GEMINI_API_BASE=server.url).status == "ok", "the second name of the key"


def test_keys_that_are_not_set_or_cannot_be_sent_are_named(server: ScriptedServer) -> None:
    for value in ({}, {"OPENAI_API_KEY": "  "}):
        found = tried(OPENAI, **value)
        assert found.status == "note"
    for key in ("sk-one two", "sk-line\nbreak", "sk-cyrillic-ключ"):
        found = tried(OPENAI, OPENAI_API_KEY=key, OPENAI_API_BASE=server.url)
        assert (found.status, server.seen) == ("bad", [])
        assert not parts_of(key[3:]) & parts_of(str(asdict(found)))


ANSWERS: dict[str, tuple[list[Answer], str, int]] = {
    "400": ([Answer(400)], "bad", 1),
    "402": ([Answer(402)], "bad", 1),
    "429": ([Answer(429)], "bad", 1),
    "302": ([Answer(302, location="https://elsewhere.example/")], "bad", 1),
    "404": ([Answer(404)], "bad", 1),
    "a web page": ([Answer(body=b"<html>log in</html>", media="text/html")], "bad", 1),
    "503 for ever": ([Answer(503)], "bad", 2),
    "503 once": ([Answer(503), Answer()], "ok", 2),
}


@pytest.mark.parametrize(("answers", "status", "calls"), ANSWERS.values(), ids=list(ANSWERS))
def test_an_answer_is_sorted_by_what_it_says_of_the_key(answers: list[Answer], status: str, calls: int, server: ScriptedServer) -> None:
    server.answers = list(answers)
    found = tried(OPENAI, OPENAI_API_KEY=KEY, OPENAI_API_BASE=server.url)
    assert (found.status, len(server.seen)) == (status, calls)


def test_an_address_that_does_not_answer_or_never_ends_is_unreachable(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (DEAD, "localhost/v1", "http://[", "https://user:hidden@127.0.0.1:9/v1"):
        found = tried(OPENAI, OPENAI_API_KEY=KEY, OPENAI_API_BASE=address)
        assert (found.status, "OPENAI_API_BASE" in found.advice) == ("bad", True)
        assert "hidden" not in str(asdict(found))
        assert not parts_of(KEY) & parts_of(str(asdict(found)))
    monkeypatch.setattr(connections, "WHOLE_SECONDS", 0.3)
    server.answers = [Answer(drips=True)]
    found = tried(OPENAI, OPENAI_API_KEY=KEY, OPENAI_API_BASE=server.url)
    assert (found.status, found.found) == ("bad", "no answer within 0.3 seconds")


def test_a_key_of_kalshi_is_tried_with_a_signed_call(server: ScriptedServer) -> None:
    credentials = Credentials("5f0c7d9e-id", rsa.generate_private_key(public_exponent=65537, key_size=2048))
    server.answers = [Answer(), Answer(401, b'{"error": {"code": "authentication_error", "details": "5f0c7d9e-id has expired"}}')]
    assert asyncio.run(try_kalshi_key(f"{server.url}/trade-api/v2", credentials)).status == "ok"
    refused = asyncio.run(try_kalshi_key(f"{server.url}/trade-api/v2/", credentials))
    assert refused.status == "bad"
    assert credentials.key_id not in str(asdict(refused))
    for request in server.seen:
        assert (request.method, request.path) == ("GET", f"/trade-api/v2{KALSHI_KEY_PATH}")
        assert {"kalshi-access-key", "kalshi-access-signature", "kalshi-access-timestamp"} <= set(request.headers)


def doctor_live(monkeypatch: pytest.MonkeyPatch, *arguments: str, **environment: str) -> Any:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    return CliRunner().invoke(main, ["doctor", "--live", *arguments])


def test_in_the_sandbox_everything_answers_and_a_failing_setting_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PHASE_SECONDS", 120.0)
    monkeypatch.setattr(connections, "WHOLE_SECONDS", 120.0)
    result = doctor_live(monkeypatch, BELLWETHER_WORLD="sandbox")
    statuses = {line[5:].partition(":")[0]: line[:4].strip() for line in result.output.splitlines()}
    assert result.exit_code == 0
    assert {statuses[name] for name in ("Kalshi REST", "Polymarket Gamma", "Polymarket CLOB")} == {"ok"}
    assert {name for name, status in statuses.items() if status == "note"} == {provider.name for provider in PROVIDERS}
    result = doctor_live(monkeypatch, BELLWETHER_WORLD="sandbox", OPENAI_API_KEY=KEY, OPENAI_API_BASE=DEAD)
    assert (result.exit_code, "bad " in result.output, "OPENAI_API_BASE" in result.output) == (1, True, True)
    assert not parts_of(KEY) & parts_of(result.output)


@pytest.mark.parametrize("pem", [None, "no key at all", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END PRIVATE KEY-----"])
def test_a_live_world_without_a_network_or_with_a_broken_key_is_reported(monkeypatch: pytest.MonkeyPatch, pem: str | None) -> None:
    nowhere = Settings(
        world=World.LIVE, kalshi_url=DEAD, kalshi_stream_url="ws://127.0.0.1:9", gamma_url=DEAD, clob_url=DEAD, _env_file=None
    )
    if pem is not None:
        monkeypatch.setenv("KALSHI_API_KEY_ID", "5f0c7d9e-id")
        monkeypatch.setenv("KALSHI_PRIVATE_KEY", pem)
    found = {one.check: one for one in try_connections(nowhere)}
    assert {found[name].status for name in ("Kalshi REST", "Polymarket Gamma", "Polymarket CLOB")} == {"bad"}
    assert {found[name].status for name in ("Kalshi WebSocket", "Kalshi key")} == {"note" if pem is None else "bad"}
    assert "c2VjcmV0" not in str(found) and "no key at all" not in str(found)


SECRET = "hunter2"
PLACES = ("store", "lake", "warehouse", "reports", "episodes", "recordings", "site", "submissions")


def probe(config: Settings) -> dict[str, Finding]:
    return {found.check: found for found in deployment.deployment(config)}


@contextmanager
def deaf() -> Iterator[int]:
    """Port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_fleet_on_folders_of_one_node_lacks_a_store_and_a_journal(tmp_path: Path) -> None:
    alone = probe(Settings(home=tmp_path, fleet=Fleet.KUBERNETES, ui="http://127.0.0.1:9"))
    assert {alone[name].status for name in (*PLACES, "journal", "ui")} == {"bad"}
    assert "BELLWETHER_STORE" in alone["lake"].advice and "Postgres" in alone["journal"].advice
    shared = probe(Settings(home=tmp_path / "home", store=str(tmp_path / "shared"), fleet=Fleet.KUBERNETES, ui="http://127.0.0.1:9"))
    assert [shared[name].status for name in PLACES] == ["note"] + ["ok"] * 7


def test_missing_settings_and_packages_of_a_fleet_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "find_spec", lambda name: None if name == "psycopg2" else name)
    lacking = missing_settings(Settings(home=tmp_path, fleet=Fleet.CELERY))
    assert [text.split()[0] for text in lacking] == ["psycopg2", "BELLWETHER_POSTGRES", "BELLWETHER_STORE", "BELLWETHER_BROKER"]
    assert missing_settings(Settings(home=tmp_path)) == []
    journal = missing_settings(
        Settings(home=tmp_path, fleet=Fleet.KUBERNETES, postgres="postgresql://host/db", journal="sqlite:////srv/journal.db")
    )
    assert [text for text in journal if "BELLWETHER_JOURNAL is a file of one node" in text]


@pytest.mark.parametrize(
    ("daemons", "status"),
    [
        (
            [{"daemonType": "SENSOR", "healthy": True, "required": True}, {"daemonType": "SCHEDULER", "healthy": None, "required": False}],
            "ok",
        ),
        ([{"daemonType": "SENSOR", "healthy": False, "required": True}], "bad"),
    ],
)
def test_a_ui_without_a_daemon_is_told_from_one_with_it(tmp_path: Path, daemons: list[dict[str, Any]], status: str) -> None:
    body = json.dumps({"data": {"instance": {"daemonHealth": {"allDaemonStatuses": daemons}}}}).encode()
    with scripted_server() as server:
        server.answers = [Answer(body=body)]
        url = server.url.replace("://", f"://user:{SECRET}@")
        found = probe(Settings(home=tmp_path, fleet=Fleet.KUBERNETES, ui=url))["ui"]
    assert found.status == status and SECRET not in str(found)
    assert ("sensor" in found.found) == (status == "bad")


def test_places_of_a_new_home_are_probed_and_none_is_created(tmp_path: Path) -> None:
    found = probe(Settings(home=tmp_path / "new"))
    assert list(found) == [*PLACES, "journal"]
    assert {one.status for one in found.values()} == {"ok"}
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lake").write_text("no folder")
    found = probe(Settings(home=tmp_path / "home", lake=str(tmp_path / "lake")))
    assert [name for name, one in found.items() if one.status == "bad"] == ["lake"]


def test_silent_servers_are_given_up_without_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "PROBE_SECONDS", 0.3)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with deaf() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        found = probe(
            Settings(
                home=tmp_path,
                fleet=Fleet.CELERY,
                postgres=f"postgresql://user:{SECRET}@127.0.0.1:{port}/fleet",
                broker=f"redis://:{SECRET}@127.0.0.1:{port}/0",
                store="s3://bucket/prefix",
                ui=f"http://user:{SECRET}@127.0.0.1:{port}",
            )
        )
    assert list(found) == [*PLACES, "journal", "postgres", "broker", "workers", "ui"]
    assert {one.status for one in found.values()} == {"bad"}
    assert SECRET not in str(found)
