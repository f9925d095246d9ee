"""The clock: real, fixed, running, or moved over HTTP, and never backwards; and the server."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.errors import BellwetherError, ConfigError
from bellwether.sandbox import create_app, serve
from bellwether.sandbox.app import Control
from bellwether.sandbox.clock import Clock

START = datetime(2025, 6, 15, 12, tzinfo=UTC)


class Seconds:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def test_a_running_clock_runs_at_its_rate(seconds: Seconds) -> None:
    clock = Clock(START, rate=60, monotonic=seconds)
    seconds.now += 1.5
    assert clock.now() == START + timedelta(seconds=90)


def test_setting_moves_on_from_there_at_the_same_rate(seconds: Seconds) -> None:
    clock = Clock(START, rate=2, monotonic=seconds)
    clock.set(datetime(2025, 6, 15, 15, tzinfo=timezone(timedelta(hours=2))))
    seconds.now += 5
    assert clock.now() == START + timedelta(hours=1, seconds=10)
    assert clock.now().tzinfo is UTC


def test_advancing_adds_to_what_has_passed(seconds: Seconds) -> None:
    clock = Clock(START, rate=1, monotonic=seconds)
    seconds.now += 5
    clock.advance(timedelta(days=1))
    seconds.now += 5
    assert clock.now() == START + timedelta(days=1, seconds=10)


def test_a_new_rate_counts_from_the_present(seconds: Seconds) -> None:
    clock = Clock(START, monotonic=seconds)
    seconds.now += 50
    clock.run(10)
    seconds.now += 3
    clock.run(0)
    seconds.now += 50
    assert clock.now() == START + timedelta(seconds=30)


def test_the_real_clock_goes_on_from_where_it_was_put(seconds: Seconds) -> None:
    clock = Clock(monotonic=seconds)
    assert (clock.rate, clock.is_real) == (1.0, True)
    clock.set(datetime(2100, 1, 1, tzinfo=UTC))
    seconds.now += 3
    assert clock.now() == datetime(2100, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert not clock.is_real


@pytest.mark.parametrize(
    "move", [lambda clock: clock.set(START - timedelta(microseconds=1)), lambda clock: clock.advance(-timedelta(seconds=1))]
)
def test_it_never_goes_back(move: object) -> None:
    clock = Clock(START)
    with pytest.raises(ConfigError, match="forward"):
        move(clock)  # type: ignore[operator]
    assert clock.now() == START


@pytest.mark.parametrize("rate", [-1, math.nan, math.inf])
def test_rates_without_a_meaning_are_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="rate"):
        Clock(START, rate=rate)
    with pytest.raises(ConfigError, match="rate"):
        Clock(START).run(rate)


def test_times_without_a_zone_and_out_of_range_are_refused() -> None:
    clock = Clock(START)
    with pytest.raises(ConfigError, match="time zone"):
        clock.set(datetime(2026, 1, 1))
    with pytest.raises(ConfigError, match="9999"):
        clock.advance(timedelta(days=3_000_000))
    with pytest.raises(ConfigError, match="range"):
        clock.set(datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=12))))
    assert clock.now() == START


def test_threads_that_advance_it_together_lose_nothing() -> None:
    clock = Clock(START)
    threads = [threading.Thread(target=lambda: [clock.advance(timedelta(seconds=1)) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert clock.now() == START + timedelta(seconds=1600)


# --- over HTTP ---------------------------------------------------------------------------------------------------------


class Remote:
    """A clock and its HTTP control."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._app = Starlette(routes=[Mount("/sandbox", routes=Control(clock).routes())])

    async def _request(self, method: str, **kwargs: Any) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://sandbox") as http:
            return await http.request(method, "/sandbox/clock", **kwargs)

    def get(self) -> dict[str, Any]:
        return asyncio.run(self._request("GET")).json()

    def post(self, **kwargs: Any) -> httpx.Response:
        return asyncio.run(self._request("POST", **kwargs))


def test_it_sets_advances_and_runs_the_clock() -> None:
    remote = Remote(Clock(START))
    assert remote.post(json={"now": "2025-06-15T15:00:00+02:00"}).json()["now"] == "2025-06-15T13:00:00Z"
    assert remote.post(json={"advance_seconds": 90.5}).json()["now"] == "2025-06-15T13:01:30.5Z"
    assert remote.clock.now() == datetime(2025, 6, 15, 13, 1, 30, 500_000, tzinfo=UTC)
    assert remote.post(json={"rate": 60}).json()["rate"] == 60.0


INVALID = (
    {"content": b"{"},
    {"json": []},
    {"json": {"now": "2025-06-15T13:00:00Z", "rate": 1}},
    {"json": {"later": 1}},
    {"json": {"now": 5}},
    {"json": {"now": "tomorrow"}},
    {"json": {"now": "2025-06-16"}},
    {"json": {"now": "2025-06-15T11:59:59Z"}},
    {"json": {"advance_seconds": -1}},
    {"json": {"advance_seconds": "5"}},
    {"json": {"advance_seconds": 1e300}},
    {"json": {"advance_seconds": 1e12}},
    {"json": {"rate": -2}},
)


def test_an_invalid_request_is_a_400_and_does_not_move_the_clock() -> None:
    remote = Remote(Clock(START))
    for sent in INVALID:
        answer = remote.post(**sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request"), sent
        assert remote.get() == {"now": "2025-06-15T12:00:00Z", "rate": 0.0, "real": False}


def test_a_page_of_another_origin_cannot_move_the_clock() -> None:
    remote, order = Remote(Clock(START)), {"advance_seconds": 60}
    refused = remote.post(json=order, headers={"Origin": "http://evil.example"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert remote.clock.now() == START
    assert remote.post(json=order, headers={"Origin": "http://sandbox"}).status_code == 200


# --- the server --------------------------------------------------------------------------------------------------------


def test_the_server_answers_in_the_block_alone_and_only_to_its_own_host() -> None:
    with serve(create_app(1, Clock(START))) as site:
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
        with pytest.raises(BellwetherError), serve(create_app(1, Clock()), port=taken.getsockname()[1]):
            raise AssertionError("it must not start")
