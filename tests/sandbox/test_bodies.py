"""Bodies of requests are bounded, however they are sent, and arrive whole behind every middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox import Clock, GeneratedWorld, Limits, create_app
from bellwether.sandbox.bodies import MOST_BYTES, Bounded
from bellwether.sandbox.faults import Faults, Faulty
from bellwether.sandbox.limits import RateLimited
from tests.sandbox.conftest import NOW


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def chunks(size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, 1000):
        yield b"x" * min(1000, size - start)


@pytest.fixture
def app() -> Starlette:
    """An echo of the model endpoint's bodies behind every middleware that reads them."""
    reading = [Middleware(Bounded, most=5000), Middleware(RateLimited, limits=Limits())]
    reading.append(Middleware(Faulty, faults=Faults(), clock=Clock(NOW)))
    return Starlette(routes=[Route("/v1/chat/completions", echo, methods=["POST"])], middleware=reading)


def post(app: Starlette, path: str, content: bytes | AsyncIterator[bytes], runner: asyncio.Runner) -> httpx.Response:
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sandbox")
    return runner.run(client.post(path, content=content))


@pytest.mark.parametrize(("size", "status"), [(0, 200), (4999, 200), (5000, 200), (5001, 413), (50_000, 413)])
def test_a_longer_body_is_refused_at_once_or_in_parts(app: Starlette, runner: asyncio.Runner, size: int, status: int) -> None:
    for content in (b"x" * size, chunks(size)):
        answer = post(app, "/v1/chat/completions", content, runner)
        assert answer.status_code == status
        assert status == 413 or answer.content == b"x" * size


def test_the_sandbox_takes_no_body_of_any_length(world: GeneratedWorld, runner: asyncio.Runner) -> None:
    app = create_app(world, clock=Clock(NOW))
    assert post(app, "/sandbox/clock", b" " * MOST_BYTES, runner).status_code == 400
    assert post(app, "/sandbox/clock", b" " * (MOST_BYTES + 1), runner).status_code == 413
