"""ASGI application of the sandbox: the routes of each venue and service at its own path, over one generated world and one clock."""

from __future__ import annotations

from email.utils import format_datetime
from functools import lru_cache

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bellwether.errors import ConfigError
from bellwether.sandbox.kalshi import Kalshi
from bellwether.sandbox.models import ModelEndpoint, Truth
from bellwether.sandbox.polymarket import Clob, Gamma, GeneratedPolymarket
from bellwether.sandbox.replayer import Replayer
from bellwether.sandbox.timestamps import Clock, start_clock
from bellwether.sandbox.world import GeneratedWorld
from bellwether.settings import Settings, World

#: Path of each service; Kalshi's is as on the venue.
KALSHI_PATH = "/trade-api/v2"
GAMMA_PATH = "/gamma"
CLOB_PATH = "/clob"
MODELS_PATH = "/v1"


class DateHeader:
    """ASGI middleware that sets the Date header of every response to the time of the sandbox's clock."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the Date header to the response."""

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"date", format_datetime(self._clock(), usegmt=True).encode())]
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
    """Create the application over the world of a seed. clock: returns the sandbox's time, aware, in UTC."""
    world, polymarket, truth = _world(seed)
    replayer = Replayer(clock)
    return Starlette(
        routes=[
            Mount(KALSHI_PATH, routes=[*replayer.rest_routes(), *Kalshi(world, clock).routes()]),
            *replayer.stream_routes(),
            Mount(GAMMA_PATH, routes=Gamma(polymarket, clock).routes()),
            Mount(CLOB_PATH, routes=Clob(polymarket, clock).routes()),
            Mount(MODELS_PATH, routes=ModelEndpoint(truth, clock).routes()),
        ],
        middleware=[Middleware(DateHeader, clock=clock)],
        exception_handlers={404: _unknown_path},
    )


def build_application(config: Settings, *, running: bool = False) -> Starlette:
    """Build the application of the world in the settings. running: the clock runs at `sandbox_speed`; otherwise it is fixed. Raises
    `ConfigError` for the live world.
    """
    if config.world is World.LIVE:
        raise ConfigError("starting a sandbox: the world is live, which needs none; set BELLWETHER_WORLD to sandbox")
    return create_app(config.sandbox_seed, start_clock(config.sandbox_now, config.sandbox_speed if running else 0.0))
