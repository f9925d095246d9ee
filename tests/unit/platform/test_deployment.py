"""Health probes of folders and servers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bellwether import deployment
from bellwether.deployment import Finding, missing_settings
from bellwether.settings import Fleet, Settings
from deploy import fleet

SECRET = "hunter2"
PLACES = ("store", "lake", "warehouse", "reports", "episodes", "recordings", "site", "submissions")


def probe(config: Settings) -> dict[str, Finding]:
    return {found.check: found for found in deployment.deployment(config)}


@contextmanager
def deaf() -> Iterator[int]:
    """Port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def graphql(daemons: list[dict[str, Any]]) -> Iterator[str]:
    """A UI that reports the health of these daemons."""
    body = json.dumps({"data": {"instance": {"daemonHealth": {"allDaemonStatuses": daemons}}}}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://user:{SECRET}@127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_every_place_of_a_new_home_is_writable_and_none_is_created(tmp_path: Path) -> None:
    found = probe(Settings(home=tmp_path / "new"))
    assert list(found) == [*PLACES, "journal"]
    assert {one.status for one in found.values()} == {"ok"}
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("no folder")
    found = probe(Settings(home=tmp_path / "home", lake=str(tmp_path / "lake")))
    assert [name for name, one in found.items() if one.status == "bad"] == ["lake"]
    assert "Not a directory" in found["lake"].found


def test_a_fleet_on_folders_of_one_node_lacks_a_store_and_a_journal(tmp_path: Path) -> None:
    alone = probe(Settings(home=tmp_path, fleet=Fleet.KUBERNETES, ui="http://127.0.0.1:9"))
    assert {alone[name].status for name in (*PLACES, "journal", "ui")} == {"bad"}
    assert "BELLWETHER_STORE" in alone["lake"].advice and "Postgres" in alone["journal"].advice
    shared = probe(Settings(home=tmp_path / "home", store=str(tmp_path / "shared"), fleet=Fleet.KUBERNETES, ui="http://127.0.0.1:9"))
    assert [shared[name].status for name in PLACES] == ["note"] + ["ok"] * 7


def test_silent_servers_are_given_up_after_seconds_without_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with deaf() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        begun = time.monotonic()
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
        assert time.monotonic() - begun < deployment.PROBE_SECONDS + 4
    assert list(found) == [*PLACES, "journal", "postgres", "broker", "workers", "ui"]
    assert {one.status for one in found.values()} == {"bad"}
    assert SECRET not in str(found)


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
    with graphql(daemons) as url:
        found = probe(Settings(home=tmp_path, fleet=Fleet.KUBERNETES, ui=url))["ui"]
    assert found.status == status and SECRET not in str(found)
    assert ("sensor" in found.found) == (status == "bad")


def test_the_help_of_a_fleet_starts_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "Fleet", lambda: pytest.fail("a fleet was started"))
    with pytest.raises(SystemExit, match="0"):
        fleet.main(["--help"])
    assert "Options are those of `bellwether demo`" in capsys.readouterr().out
