"""The sandbox's clock over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.control import Control

START = datetime(2025, 6, 15, 12, tzinfo=UTC)


class Remote:
    """A clock and what its control answers."""

    def __init__(self, clock: Clock, runner: asyncio.Runner) -> None:
        self.clock = clock
        self._runner = runner
        app = Starlette(routes=[Mount("/sandbox", routes=Control(clock).routes())])
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sandbox")

    def get(self) -> dict[str, Any]:
        return self._runner.run(self._http.get("/sandbox/clock")).json()

    def post(self, **kwargs: Any) -> httpx.Response:
        return self._runner.run(self._http.post("/sandbox/clock", **kwargs))


@pytest.fixture
def remote(runner: asyncio.Runner) -> Remote:
    return Remote(Clock(START), runner)


def test_it_sets_advances_and_runs_the_clock(remote: Remote) -> None:
    assert remote.post(json={"now": "2025-06-15T15:00:00+02:00"}).json()["now"] == "2025-06-15T13:00:00Z"
    assert remote.post(json={"advance_seconds": 90.5}).json()["now"] == "2025-06-15T13:01:30.5Z"
    assert remote.clock.now() == datetime(2025, 6, 15, 13, 1, 30, 500_000, tzinfo=UTC)
    assert remote.post(json={"rate": 60}).json()["rate"] == 60.0


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"content": b"{"}, "send one of"),
        ({"json": []}, "send one of"),
        ({"json": {"now": "2025-06-15T13:00:00Z", "rate": 1}}, "send one of"),
        ({"json": {"later": 1}}, "send one of"),
        ({"json": {"now": 5}}, "send one of"),
        ({"json": {"now": "tomorrow"}}, "tomorrow"),
        ({"json": {"now": "2025-06-16"}}, "time zone"),
        ({"json": {"now": "2025-06-15T11:59:59Z"}}, "only moves forward"),
        ({"json": {"advance_seconds": -1}}, "only moves forward"),
        ({"json": {"advance_seconds": "5"}}, "send one of"),
        ({"json": {"advance_seconds": 1e300}}, "send one of"),
        ({"json": {"advance_seconds": 1e12}}, "9999"),
        ({"json": {"rate": -2}}, "rate"),
    ],
)
def test_what_it_cannot_do_is_a_400_that_says_why(remote: Remote, sent: dict[str, Any], says: str) -> None:
    answer = remote.post(**sent)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert remote.get() == {"now": "2025-06-15T12:00:00Z", "rate": 0.0, "real": False}
