"""Control of a running sandbox over HTTP: what time it is, and moving its clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.errors import ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.instants import instant, wire_time


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"set the sandbox's clock: {name} is {value!r}; give a number")
    return value


def _set(clock: Clock, value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"set the sandbox's clock: now is {value!r}; give an RFC 3339 time such as 2025-06-15T12:00:00Z")
    try:
        wanted = datetime.fromisoformat(value)
    except ValueError as error:
        raise ConfigError(f"set the sandbox's clock: now is {value!r}; give an RFC 3339 time such as 2025-06-15T12:00:00Z") from error
    clock.set(wanted)


def _advance(clock: Clock, value: Any) -> None:
    seconds = _seconds("advance_seconds", value)
    try:
        duration = timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise ConfigError(f"advance the sandbox's clock: {seconds} seconds are out of range; take less") from error
    clock.advance(duration)


def _run(clock: Clock, value: Any) -> None:
    clock.run(_seconds("rate", value))


_ORDERS: dict[str, Callable[[Clock, Any], None]] = {"now": _set, "advance_seconds": _advance, "rate": _run}


def _order(body: bytes) -> tuple[str, Any]:
    """The one thing that a body asks for. Raises `ConfigError` for anything else."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"set the sandbox's clock: the body is not JSON ({error}); send one of {', '.join(_ORDERS)}") from error
    if not isinstance(asked, dict) or len(asked) != 1 or next(iter(asked)) not in _ORDERS:
        raise ConfigError(f"set the sandbox's clock: the body must be an object with exactly one of {', '.join(_ORDERS)}")
    name, value = next(iter(asked.items()))
    return name, value


class Control:
    """GET and POST /clock. The clock's present is answered as {"now", "rate", "real"}.

    POST takes {"now": RFC 3339 time}, {"advance_seconds": number} or {"rate": number}. Moving back, or anything else, is
    answered with 400 and {"error": {"code", "message"}}; the clock is then as it was.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def routes(self) -> list[Route]:
        """Routes relative to /sandbox."""
        return [Route("/clock", self._show, methods=["GET"]), Route("/clock", self._change, methods=["POST"])]

    def _state(self) -> Response:
        now = wire_time(instant(self._clock.now()))
        body = {"now": now, "rate": self._clock.rate, "real": self._clock.is_real}
        return Response(orjson.dumps(body), media_type="application/json")

    async def _show(self, request: Request) -> Response:
        return self._state()

    async def _change(self, request: Request) -> Response:
        if (origin := request.headers.get("origin")) and urlsplit(origin).netloc != request.url.netloc:
            return _refused(403, "forbidden", f"set the sandbox's clock: a page of {origin} may not")
        try:
            name, value = _order(await request.body())
            _ORDERS[name](self._clock, value)
        except ConfigError as error:
            return _refused(400, "bad_request", str(error))
        return self._state()


def _refused(status: int, code: str, message: str) -> Response:
    return Response(orjson.dumps({"error": {"code": code, "message": message}}), status_code=status, media_type="application/json")
