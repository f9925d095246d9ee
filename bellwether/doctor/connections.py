"""Test connections to venues and model providers with the user's keys.

Keys are never shown. A provider may repeat a wrong key in its answer, so only the status of errors is reported.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import httpx

from bellwether.doctor.deployment import Finding
from bellwether.errors import BellwetherError, ConfigError, VenueError
from bellwether.models.providers import PROVIDERS, SANDBOX, Provider, is_well_formed, set_variable
from bellwether.settings import Settings, World
from bellwether.venues.http.client import ClobClient, GammaClient, HttpClient, KalshiClient, RateLimit
from bellwether.venues.http.page import VenueCall
from bellwether.venues.http.retry import RetryPolicy, TransientFailure
from bellwether.venues.kalshi.stream.client import open_socket
from bellwether.venues.kalshi.stream.signing import KEY_ID, KEY_PATH, KEY_TEXT, Credentials, build_headers
from bellwether.venues.polymarket import routes
from bellwether.worlds import Addresses, addresses

#: Seconds for each phase of a call, and for a call as a whole with its one repetition.
PHASE_SECONDS, WHOLE_SECONDS = 5.0, 12.0
_ATTEMPTS = 2
#: The signed call that tries a key of Kalshi: the rate limits of its account.
KALSHI_KEY_PATH = "/account/limits"


def try_connections(config: Settings) -> list[Finding]:
    """Test all venues of the world and all keys in the environment, all at once. The results for venues come first.

    The sandbox serves its own venues and models; keys of providers are tested in both worlds.
    """
    with addresses(config) as venues:
        return asyncio.run(_all(venues, live=config.world is World.LIVE))


async def _all(venues: Addresses, *, live: bool) -> list[Finding]:
    tries: list[Awaitable[Finding]] = [
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


async def try_kalshi(url: str) -> Finding:
    """Test Kalshi's REST API by requesting the status of the exchange."""
    return await _try_venue("Kalshi REST", KalshiClient, url, VenueCall("/exchange/status"))


async def try_gamma(url: str) -> Finding:
    """Test Polymarket's Gamma API by requesting one market."""
    first = routes.markets(closed=False)
    return await _try_venue("Polymarket Gamma", GammaClient, url, VenueCall(first.path, first.params))


async def try_clob(url: str) -> Finding:
    """Test Polymarket's CLOB API by requesting its time."""
    return await _try_venue("Polymarket CLOB", ClobClient, url, routes.time())


async def _try_venue(name: str, kind: type[HttpClient], url: str, question: VenueCall) -> Finding:
    """Test a venue's API with one request. kind: client for the API; question: the request."""
    variable = f"BELLWETHER_{kind.setting.upper()}"

    async def call() -> str:
        retry = RetryPolicy(attempts=_ATTEMPTS, base=0.2, cap=0.2, seconds=WHOLE_SECONDS)
        async with kind(url, limits=RateLimit(timeout=PHASE_SECONDS), retry=retry) as client:
            page = await client.fetch(question)
            return f"{_host(url)} answers ({page.fetched_at:%Y-%m-%d %H:%M:%S} UTC by its clock)"

    return await _try(name, call, f"look at the network, a proxy, or {variable}; BELLWETHER_WORLD=sandbox needs neither")


def _try_kalshi_key(venues: Addresses, *, live: bool) -> list[Awaitable[Finding]]:
    """Return the tests that need a Kalshi key: of the WebSocket, and in the live world (`live`) of a signed request."""
    try:
        credentials = venues.credentials()
    except ConfigError as error:
        return [_settled(name, error) for name in ("Kalshi key", "Kalshi WebSocket")]
    key = [try_kalshi_key(venues.kalshi, credentials)] if live else []
    return [*key, try_kalshi_stream(venues.kalshi_stream, credentials)]


async def _settled(name: str, error: ConfigError) -> Finding:
    """Return the result for a key that is missing or invalid, without a test."""
    if any(os.environ.get(variable, "").strip() for variable in (KEY_ID, KEY_PATH, KEY_TEXT)):
        return Finding(name, "bad", str(error), "mend the variable that the message names")
    return Finding(name, "note", f"{KEY_ID} is not set", f"set {KEY_ID}, and {KEY_PATH} or {KEY_TEXT}, for streams")


async def try_kalshi_stream(url: str, credentials: Credentials) -> Finding:
    """Test Kalshi's WebSocket by opening and closing a connection."""

    async def call() -> str:
        try:
            socket = await open_socket(url, credentials, timeout=PHASE_SECONDS)
        except TransientFailure as failure:
            raise _NoConnection(f"{_host(url)}: {failure.kind}") from None
        except VenueError as error:
            raise _NoConnection(f"{_host(url)} refuses the handshake ({error.kind})") from None
        await socket.close()
        return f"{_host(url)} takes the handshake"

    return await _try("Kalshi WebSocket", call, "look at the key and at this machine's clock, or at BELLWETHER_KALSHI_STREAM_URL")


async def try_kalshi_key(url: str, credentials: Credentials) -> Finding:
    """Test a Kalshi key by requesting the rate limits of its account."""
    path = urlsplit(url).path.rstrip("/") + KALSHI_KEY_PATH

    def signed() -> dict[str, str]:
        return build_headers(credentials, "GET", path, time.time_ns() // 1_000_000)

    advice = "look at KALSHI_API_KEY_ID and its private key: expired, of another account or of the demo; look at this machine's clock"
    return await _try("Kalshi key", lambda: _ask(url.rstrip("/") + KALSHI_KEY_PATH, signed), advice)


# --- providers of models -----------------------------------------------------------------------------------------------


async def try_provider(provider: Provider, environment: Mapping[str, str]) -> Finding:
    """Test a provider's key by requesting the list of models, or if that list is public, information on the key."""
    variable = set_variable(provider.variables, environment)
    if variable is None:
        return Finding(provider.name, "note", f"{provider.variables[0]} is not set", f"set {provider.variables[0]} to use its models")
    key = environment[variable].strip()
    base = provider.other_base(environment) or provider.base
    if not is_well_formed(key):
        problem = f"{variable} contains blanks, line breaks or characters that no key has"
        return Finding(provider.name, "bad", problem, f"copy the key again into {variable}")
    build_headers = {provider.header: provider.scheme + key, **dict(provider.extra)}
    advice = f"look at {variable}, the account's credit, the network, or {provider.base_variables[0]}"
    return await _try(provider.name, lambda: _ask(base.rstrip("/") + provider.path, lambda: build_headers), advice)


# --- calls -------------------------------------------------------------------------------------------------------------


class _NoConnection(Exception):
    """The server refused the request, or gave no usable answer."""


async def _ask(url: str, build_headers: Callable[[], dict[str, str]]) -> str:
    """Send a GET request with secret headers, once again after a failure. Returns a description that contains neither headers nor bodies."""
    failure = ""
    async with httpx.AsyncClient(timeout=PHASE_SECONDS) as client:
        for _ in range(_ATTEMPTS):
            try:
                response = await client.get(url, headers=build_headers())
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                failure = f"{_host(url)}: no answer ({type(error).__name__})"
                continue
            if response.status_code < 500:
                return _verdict(url, response)
            failure = f"{_host(url)} answers HTTP {response.status_code}"
    raise _NoConnection(failure)


def _verdict(url: str, response: httpx.Response) -> str:
    """Describe the response to a request that was accepted. Raises `_NoConnection` for others."""
    status, host = response.status_code, _host(url)
    meanings = {
        401: "the key is refused",
        402: "there is no credit",
        403: "the key may not do this",
        429: "too many calls, or no quota left",
    }
    if status in (404, 405) or 300 <= status < 400:
        raise _NoConnection(f"{host} answers HTTP {status}: no such interface at this address")
    if status >= 400:
        raise _NoConnection(f"{host} answers HTTP {status}: {meanings.get(status, 'the key or the call is refused')}")
    try:
        response.json()
    except ValueError:
        raise _NoConnection(f"{host} answers something that is no JSON: a proxy or a login page may be in between") from None
    return f"{host} takes the key"


async def _try(name: str, call: Callable[[], Awaitable[str]], advice: str) -> Finding:
    """Return the result of a test. A test without a result after `WHOLE_SECONDS` has failed. call: sends the request and describes the answer."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(WHOLE_SECONDS):
            found = await call()
    except TimeoutError:
        return Finding(name, "bad", f"no answer within {WHOLE_SECONDS:g} seconds", advice)
    except VenueError as error:
        return Finding(name, "bad", f"{error.call}: {error.cause}", advice)
    except (BellwetherError, _NoConnection) as error:
        return Finding(name, "bad", str(error), advice)
    return Finding(name, "ok", f"{found}, in {round((time.monotonic() - started) * 1000)} ms")


def _host(url: str) -> str:
    """Return host and port of an address."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the address"
    except ValueError:
        return "the address"
