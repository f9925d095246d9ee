"""ASGI application of the sandbox: the routes of each venue and service at its own path, over one generated world and one clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bellwether.errors import ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.kalshi import Kalshi
from bellwether.sandbox.models import ModelEndpoint, Truth
from bellwether.sandbox.polymarket import Clob, Gamma, GeneratedPolymarket
from bellwether.sandbox.replayer import Replayer
from bellwether.sandbox.timestamps import format_time, to_instant
from bellwether.sandbox.world import GeneratedWorld
from bellwether.settings import Settings, World

#: Path of each service; Kalshi's is as on the venue.
KALSHI_PATH = "/trade-api/v2"
GAMMA_PATH = "/gamma"
CLOB_PATH = "/clob"
MODELS_PATH = "/v1"
CONTROL_PATH = "/sandbox"

_COMMANDS = '{"now": RFC 3339 time}, {"advance_seconds": number} or {"rate": number}'


def _move_clock(clock: Clock, body: bytes) -> None:
    """Move the clock according to a request body. Raises `ConfigError` for an invalid body."""
    try:
        match orjson.loads(body):
            case {"now": str(text), **others} if not others:
                clock.set(datetime.fromisoformat(text))
            case {"advance_seconds": int(seconds) | float(seconds), **others} if not others:
                clock.advance(timedelta(seconds=seconds))
            case {"rate": int(rate) | float(rate), **others} if not others:
                clock.run(rate)
            case _:
                raise ValueError("the body is none of them")
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"set the sandbox's clock: send one of {_COMMANDS} ({error})") from error


class Control:
    """Routes GET and POST /clock, which return the clock as {"now", "rate", "real"}.

    POST takes {"now": RFC 3339 time}, {"advance_seconds": number} or {"rate": number}. A move back, or any other body, returns 400 with
    {"error": {"code", "message"}}, and does not move the clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to /sandbox."""
        return [Route("/clock", self._show, methods=["GET"]), Route("/clock", self._change, methods=["POST"])]

    def _state(self) -> Response:
        now = format_time(to_instant(self._clock.now()))
        body = {"now": now, "rate": self._clock.rate, "real": self._clock.is_real}
        return Response(orjson.dumps(body), media_type="application/json")

    async def _show(self, request: Request) -> Response:
        return self._state()

    async def _change(self, request: Request) -> Response:
        if (origin := request.headers.get("origin")) and urlsplit(origin).netloc != request.url.netloc:
            return _refuse(403, "forbidden", f"set the sandbox's clock: a page of {origin} may not")
        try:
            _move_clock(self._clock, await request.body())
        except ConfigError as error:
            return _refuse(400, "bad_request", str(error))
        return self._state()


def _refuse(status: int, code: str, message: str) -> Response:
    return Response(orjson.dumps({"error": {"code": code, "message": message}}), status_code=status, media_type="application/json")


class DateHeader:
    """ASGI middleware that sets the Date header of every response to the time of the sandbox's clock."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the Date header to the response."""

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"date", self._clock.date_header().encode())]
            await send(message)

        await self._app(scope, receive, send_dated)


async def _unknown_path(request: Request, error: Exception) -> Response:
    return Response(b'{"error":{"code":"not_found","message":"not found"}}', status_code=404, media_type="application/json")


@lru_cache(maxsize=2)
def _world(seed: int) -> tuple[GeneratedWorld, GeneratedPolymarket, Truth]:
    """Build the world of a seed, its view as Polymarket, and what models know of it. Cached, because drawing its days is slow."""
    world = GeneratedWorld(seed)
    polymarket = GeneratedPolymarket(world)
    return world, polymarket, Truth(world, polymarket)


def create_app(seed: int, clock: Clock) -> Starlette:
    """Create the application over the world of a seed. Its attribute `state.clock` is the clock."""
    world, polymarket, truth = _world(seed)
    replayer = Replayer(clock)
    app = Starlette(
        routes=[
            Mount(KALSHI_PATH, routes=[*replayer.rest_routes(), *Kalshi(world, clock).routes()]),
            Mount(CONTROL_PATH, routes=Control(clock).routes()),
            *replayer.stream_routes(),
            Mount(GAMMA_PATH, routes=Gamma(polymarket, clock).routes()),
            Mount(CLOB_PATH, routes=Clob(polymarket, clock).routes()),
            Mount(MODELS_PATH, routes=ModelEndpoint(truth, clock).routes()),
        ],
        middleware=[Middleware(DateHeader, clock=clock)],
        exception_handlers={404: _unknown_path},
    )
    app.state.clock = clock
    return app


def build_application(config: Settings, *, running: bool = False) -> Starlette:
    """Build the application of the world in the settings. running: the clock runs at `sandbox_speed`; otherwise it is fixed. Raises
    `ConfigError` for the live world.
    """
    if config.world is World.LIVE:
        raise ConfigError("starting a sandbox: the world is live, which needs none; set BELLWETHER_WORLD to sandbox")
    return create_app(config.sandbox_seed, Clock(config.sandbox_now, rate=config.sandbox_speed if running else 0.0))
