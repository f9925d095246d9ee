"""HTTP routes that read and move the clock of a running sandbox."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.errors import ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.timestamps import format_time, to_instant

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
