"""The sandbox as a service: its clock and its server."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from bellwether.errors import BellwetherError
from bellwether.sandbox import Clock, GeneratedWorld, create_app, serve
from bellwether.sandbox.timestamps import format_time, parse_time, to_datetime, to_instant

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2025, 2, 1, 3, 4, 5, tzinfo=UTC)


# --- clock ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("2026-06-14T07:33:32.558680+00:00", "2026-06-14T07:33:32.55868Z"),
        ("2026-08-08T22:54:42Z", "2026-08-08T22:54:42Z"),
        ("2026-08-08T22:54:42.000001Z", "2026-08-08T22:54:42.000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("2026-08-08T22:54:42.123456789Z", "2026-08-08T22:54:42.123456Z"),
    ],
)
def test_wire_times_have_their_trailing_zeros_trimmed(text: str, wire: str) -> None:
    assert format_time(parse_time(text)) == wire
    assert to_datetime(to_instant(to_datetime(parse_time(text)))) == to_datetime(parse_time(text))


# --- server --------------------------------------------------------------------------------------------------------


def test_the_server_answers_in_the_block_and_not_after_it(world: GeneratedWorld) -> None:
    with serve(create_app(world, clock=Clock(NOW))) as site:
        url = site.kalshi
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/trade-api/v2")
        response = httpx.get(f"{url}/exchange/status")
        assert response.json()["exchange_active"] is True
        assert response.headers.get_list("date") == ["Sat, 01 Feb 2025 03:04:05 GMT"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/exchange/status")
    assert not [thread for thread in threading.enumerate() if thread.name == "bellwether-sandbox"]


def test_the_server_stops_while_a_client_keeps_its_connection(world: GeneratedWorld) -> None:
    with httpx.Client() as http:
        with serve(create_app(world)) as site:
            url = site.kalshi
            http.get(f"{url}/exchange/status")
        with pytest.raises(httpx.TransportError):
            http.get(f"{url}/exchange/status")


def test_a_taken_port_is_an_error_that_names_it(world: GeneratedWorld) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BellwetherError, match=f"port {port}"), serve(create_app(world), port=port):
            raise AssertionError("it must not start")


def test_many_threads_each_serve_their_own(world: GeneratedWorld) -> None:
    def use(seed: int) -> tuple[str, list[str]]:
        with serve(create_app(GeneratedWorld(seed), clock=Clock(NOW))) as site:
            url = site.kalshi
            markets = httpx.get(f"{url}/markets", params={"limit": 5}).json()["markets"]
            return url, [market["ticker"] for market in markets]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(use, [1, 2, 1, 3]))
    assert len({url for url, _ in answers}) == 4
    assert answers[0][1] == answers[2][1] != answers[1][1]


def test_importing_the_sandbox_loads_nothing_heavy() -> None:
    code = "import sys, bellwether.sandbox; print([name for name in ('scipy', 'sklearn', 'altair', 'pandas', 'dagster') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_requests_for_another_host_are_refused(world: GeneratedWorld) -> None:
    with serve(create_app(world)) as site:
        port = site.root.rpartition(":")[2]
        for host, status in ((f"127.0.0.1:{port}", 200), (f"localhost:{port}", 200), ("attacker.example", 400), ("", 400)):
            assert httpx.get(f"{site.kalshi}/exchange/status", headers={"Host": host}).status_code == status, host


def test_a_page_of_another_origin_cannot_move_the_clock(world: GeneratedWorld) -> None:
    with serve(create_app(world, clock=Clock(NOW))) as site:
        order = {"advance_seconds": 60}
        refused = httpx.post(f"{site.control}/clock", json=order, headers={"Origin": "http://evil.example"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert httpx.post(f"{site.control}/clock", json=order, headers={"Origin": site.root}).status_code == 200
