"""The server of the sandbox, and its clock."""

from __future__ import annotations

import socket
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest

from bellwether.errors import BellwetherError
from bellwether.sandbox import create_app, serve, start_clock

START = datetime(2025, 6, 15, 12, tzinfo=UTC)


def test_a_clock_stands_or_runs_at_its_rate_from_the_start_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    fixed, running = (start_clock(datetime(2025, 6, 15, 14, tzinfo=timezone(timedelta(hours=2))), rate) for rate in (0.0, 60.0))
    now += 1.5
    assert (fixed(), running()) == (START, START + timedelta(seconds=90))
    assert running().tzinfo is UTC


def test_the_server_answers_in_the_block_alone_and_only_to_its_own_host() -> None:
    with serve(create_app(1, start_clock(START))) as site:
        status = f"{site.kalshi}/exchange/status"
        port = site.root.rpartition(":")[2]
        for host, code in ((f"127.0.0.1:{port}", 200), (f"localhost:{port}", 200), ("attacker.example", 400), ("", 400)):
            assert httpx.get(status, headers={"Host": host}).status_code == code, host
        assert httpx.get(status).headers.get_list("date") == ["Sun, 15 Jun 2025 12:00:00 GMT"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(status)
    assert not [thread for thread in threading.enumerate() if thread.name == "bellwether-sandbox"]


def test_a_taken_port_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BellwetherError), serve(create_app(1, start_clock(START)), port=taken.getsockname()[1]):
            raise AssertionError("it must not start")
