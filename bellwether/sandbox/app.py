"""ASGI application of the sandbox, with the routes of each venue or service at its own path."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.control import Control
from bellwether.sandbox.kalshi import Kalshi
from bellwether.sandbox.models import ModelEndpoint, Truth
from bellwether.sandbox.polymarket import Clob, Gamma, GeneratedPolymarket
from bellwether.sandbox.replayer import Replayer
from bellwether.sandbox.services import CLOB_PATH, CONTROL_PATH, GAMMA_PATH, KALSHI_PATH, MODELS_PATH
from bellwether.sandbox.world import GeneratedWorld


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


def create_app(
    world: GeneratedWorld,
    *,
    polymarket: GeneratedPolymarket | None = None,
    replayer: Replayer | None = None,
    truth: Truth | None = None,
    clock: Clock | None = None,
) -> Starlette:
    """Create the application over a world. A service for which no argument supplies data is left out.

    Args:
        world: Kalshi's series, events, markets, candles, books and trades.
        polymarket: Polymarket's markets and books.
        replayer: Kalshi's stream, from captures.
        truth: knowledge of the models at the model endpoint.
        clock: the sandbox's clock; default: the real time.

    `state.clock` of the application is its clock.
    """
    clock = clock or Clock()
    captured = [] if replayer is None else replayer.rest_routes()
    routes: list[BaseRoute] = [
        Mount(KALSHI_PATH, routes=[*captured, *Kalshi(world, clock).routes()]),
        Mount(CONTROL_PATH, routes=Control(clock).routes()),
    ]
    if replayer is not None:
        routes.extend(replayer.stream_routes())
    if polymarket is not None:
        routes.append(Mount(GAMMA_PATH, routes=Gamma(polymarket, clock).routes()))
        routes.append(Mount(CLOB_PATH, routes=Clob(polymarket, clock).routes()))
    if truth is not None:
        routes.append(Mount(MODELS_PATH, routes=ModelEndpoint(truth, clock).routes()))
    app = Starlette(routes=routes, middleware=[Middleware(DateHeader, clock=clock)], exception_handlers={404: _unknown_path})
    app.state.clock = clock
    return app
