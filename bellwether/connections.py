"""Tries every venue and every configured key once, with a call that changes and costs nothing. No key is shown, not even a part of one.

What a provider answers to a wrong key may repeat it, so of such answers only the status is told.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from bellwether.errors import BellwetherError, ConfigError, VenueError
from bellwether.models.providers import PROVIDERS, SANDBOX, Provider, is_well_formed, set_variable
from bellwether.settings import Settings, World
from bellwether.worlds import Addresses, addresses

if TYPE_CHECKING:
    import httpx

    from bellwether.venues.http.client import HttpClient
    from bellwether.venues.http.page import Call
    from bellwether.venues.kalshi.stream.signing import Credentials

Status = Literal["ok", "not set", "refused", "unreachable"]

#: Seconds for each phase of a call, and for a call as a whole with its one repetition.
PHASE_SECONDS, WHOLE_SECONDS = 5.0, 12.0
_ATTEMPTS = 2
#: The signed call that tries a key of Kalshi: the rate limits of its account.
KALSHI_KEY_PATH = "/account/limits"
_VENUE_REFUSALS = frozenset({"authentication", "out of credit", "moved", "not found", "refused"})


@dataclass(frozen=True, slots=True)
class Connection:
    """How one venue or key did: milliseconds are those of the call that was answered; None when none was."""

    name: str
    status: Status
    found: str
    advice: str = ""
    milliseconds: int | None = None

    @property
    def is_bad(self) -> bool:
        """Whether something that is configured does not work."""
        return self.status in ("refused", "unreachable")


def try_connections(config: Settings) -> list[Connection]:
    """Every venue of the world and every key of the environment, tried side by side; venues come first.

    In the sandbox and in playback the venues and one endpoint of models are those of the world, served for the purpose; keys of models are
    tried where they belong to, in every world. Raises `ConfigError` when the world cannot be started.
    """
    with addresses(config) as venues:
        return asyncio.run(_all(venues, live=config.world is World.LIVE))


async def _all(venues: Addresses, *, live: bool) -> list[Connection]:
    tries: list[Awaitable[Connection]] = [
        try_kalshi(venues.kalshi),
        try_gamma(venues.gamma),
        try_clob(venues.clob),
        *_try_kalshi_key(venues, live=live),
        *(try_provider(provider, os.environ) for provider in PROVIDERS),
    ]
    if venues.models is not None:
        tries.insert(
            3,
            try_provider(
                Provider(SANDBOX, "Models of this world", ("SANDBOX_API_KEY",), venues.models), {"SANDBOX_API_KEY": "sandbox-doctor"}
            ),
        )
    return await asyncio.gather(*tries)


# --- venues ------------------------------------------------------------------------------------------------------------


async def try_kalshi(url: str) -> Connection:
    """Kalshi's REST interface, by its status."""
    from bellwether.venues.http.page import Call
    from bellwether.venues.kalshi.client import KalshiClient

    return await _try_venue("Kalshi REST", KalshiClient, url, Call("/exchange/status"))


async def try_gamma(url: str) -> Connection:
    """Polymarket's Gamma interface, by one market."""
    from bellwether.venues.http.page import Call
    from bellwether.venues.polymarket.client import GammaClient
    from bellwether.venues.polymarket.routes import markets

    first = markets(closed=False, limit=1)
    return await _try_venue("Polymarket Gamma", GammaClient, url, Call(first.path, first.params))


async def try_clob(url: str) -> Connection:
    """Polymarket's CLOB interface, by its clock."""
    from bellwether.venues.polymarket import routes
    from bellwether.venues.polymarket.client import ClobClient

    return await _try_venue("Polymarket CLOB", ClobClient, url, routes.time())


async def _try_venue(name: str, kind: type[HttpClient], url: str, question: Call) -> Connection:
    from bellwether.venues.http.client import RateLimit
    from bellwether.venues.http.retry import Retry

    variable = f"BELLWETHER_{kind.setting.upper()}"

    async def call() -> str:
        retry = Retry(attempts=_ATTEMPTS, base=0.2, cap=0.2, seconds=WHOLE_SECONDS)
        async with kind(url, limits=RateLimit(timeout=PHASE_SECONDS), retry=retry) as client:
            page = await client.answer(question)
            return f"{_host(url)} answers ({page.fetched_at:%Y-%m-%d %H:%M:%S} UTC by its clock)"

    return await _timed(name, call, f"look at the network, a proxy, or {variable}; BELLWETHER_WORLD=sandbox needs neither")


def _try_kalshi_key(venues: Addresses, *, live: bool) -> list[Awaitable[Connection]]:
    """Kalshi's WebSocket and, in the live world, a signed call; neither where no key is set."""
    try:
        credentials = venues.credentials()
    except ConfigError as error:
        return [_settled(name, error) for name in ("Kalshi key", "Kalshi WebSocket")]
    key = [try_kalshi_key(venues.kalshi, credentials)] if live else []
    return [*key, try_kalshi_stream(venues.kalshi_stream, credentials)]


async def _settled(name: str, error: ConfigError) -> Connection:
    from bellwether.venues.kalshi.stream.signing import KEY_ID, KEY_PATH, KEY_TEXT

    if any(os.environ.get(variable, "").strip() for variable in (KEY_ID, KEY_PATH, KEY_TEXT)):
        return Connection(name, "refused", str(error), "mend the variable that the message names")
    return Connection(name, "not set", f"{KEY_ID} is not set", f"set {KEY_ID}, and {KEY_PATH} or {KEY_TEXT}, for streams")


async def try_kalshi_stream(url: str, credentials: Credentials) -> Connection:
    """Kalshi's WebSocket, by opening and closing it."""
    from bellwether.venues.http.retry import Transient
    from bellwether.venues.kalshi.stream.handshake import open_socket

    async def call() -> str:
        try:
            socket = await open_socket(url, credentials, timeout=PHASE_SECONDS)
        except Transient as failure:
            raise _Unreachable(f"{_host(url)}: {failure.kind}") from None
        except VenueError as error:
            raise _Refused(f"{_host(url)} refuses the handshake ({error.kind})") from None
        await socket.close()
        return f"{_host(url)} takes the handshake"

    return await _timed("Kalshi WebSocket", call, "look at the key and at this machine's clock, or at BELLWETHER_KALSHI_STREAM_URL")


async def try_kalshi_key(url: str, credentials: Credentials) -> Connection:
    """A key of Kalshi, by a signed call that reads the limits of its account."""
    from bellwether.venues.kalshi.stream.signing import headers

    path = urlsplit(url).path.rstrip("/") + KALSHI_KEY_PATH

    def signed() -> dict[str, str]:
        return headers(credentials, "GET", path, time.time_ns() // 1_000_000)

    advice = "look at KALSHI_API_KEY_ID and its private key: expired, of another account or of the demo; look at this machine's clock"
    return await _timed("Kalshi key", lambda: _ask(url.rstrip("/") + KALSHI_KEY_PATH, signed), advice)


# --- providers of models -----------------------------------------------------------------------------------------------


async def try_provider(provider: Provider, environment: Mapping[str, str]) -> Connection:
    """A provider's key, by a list of its models or, where that is open to all, by what the provider says of the key."""
    variable = set_variable(provider.variables, environment)
    if variable is None:
        return Connection(provider.name, "not set", f"{provider.variables[0]} is not set", f"set {provider.variables[0]} to use its models")
    key = environment[variable].strip()
    base = provider.other_base(environment) or provider.base
    if not is_well_formed(key):
        found = f"{variable} holds blanks, line breaks or characters that no key has"
        return Connection(provider.name, "refused", found, f"copy the key again into {variable}")
    headers = {provider.header: provider.scheme + key, **dict(provider.extra)}
    advice = f"look at {variable}, the account's credit, the network, or {provider.base_variables[0]}"
    return await _timed(provider.name, lambda: _ask(base.rstrip("/") + provider.path, lambda: headers), advice)


# --- calls -------------------------------------------------------------------------------------------------------------


class _Refused(Exception):
    """The other end understood the call and refuses it."""


class _Unreachable(Exception):
    """No useful answer came."""


async def _ask(url: str, headers: Callable[[], dict[str, str]]) -> str:
    """One GET with secret headers, repeated once where that may help; its words hold neither headers nor bodies."""
    import httpx

    failure = ""
    async with httpx.AsyncClient(timeout=PHASE_SECONDS) as client:
        for _ in range(_ATTEMPTS):
            try:
                response = await client.get(url, headers=headers())
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                failure = f"{_host(url)}: no answer ({type(error).__name__})"
                continue
            if response.status_code < 500:
                return _verdict(url, response)
            failure = f"{_host(url)} answers HTTP {response.status_code}"
    raise _Unreachable(failure)


def _verdict(url: str, response: httpx.Response) -> str:
    """What an answer says of the key. Raises `_Refused` or `_Unreachable`."""
    status, host = response.status_code, _host(url)
    words = {401: "the key is refused", 402: "there is no credit", 403: "the key may not do this", 429: "too many calls, or no quota left"}
    if status in (404, 405) or 300 <= status < 400:
        raise _Unreachable(f"{host} answers HTTP {status}: no such interface at this address")
    if status >= 400:
        raise _Refused(f"{host} answers HTTP {status}: {words.get(status, 'the key or the call is refused')}")
    try:
        response.json()
    except ValueError:
        raise _Unreachable(f"{host} answers something that is no JSON: a proxy or a login page may be in between") from None
    return f"{host} takes the key"


async def _timed(name: str, call: Callable[[], Awaitable[str]], advice: str) -> Connection:
    """How `call` did, given up after `WHOLE_SECONDS`."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(WHOLE_SECONDS):
            found = await call()
    except TimeoutError:
        return Connection(name, "unreachable", f"no answer within {WHOLE_SECONDS:g} seconds", advice)
    except _Refused as refused:
        return Connection(name, "refused", str(refused), advice, _since(started))
    except _Unreachable as failure:
        return Connection(name, "unreachable", str(failure), advice)
    except VenueError as error:
        status: Status = "refused" if error.kind in _VENUE_REFUSALS else "unreachable"
        return Connection(name, status, f"{error.call}: {error.cause}", advice, _since(started) if status == "refused" else None)
    except BellwetherError as error:
        return Connection(name, "unreachable", str(error), advice)
    return Connection(name, "ok", found, milliseconds=_since(started))


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _host(url: str) -> str:
    """Host and port of an address, without user, password, path and query."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the address"
    except ValueError:
        return "the address"
