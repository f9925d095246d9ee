"""Checks of the installation, and test connections to venues and model providers with the user's keys.

Keys are never shown. A provider may repeat a wrong key in its answer, so only the status of errors is reported.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import httpx

from bellwether.arena.lineup import require_registered
from bellwether.backup.backup import journal_path
from bellwether.database import verify_file
from bellwether.doctor.deployment import Finding, deployment
from bellwether.errors import BellwetherError, ConfigError, VenueError
from bellwether.files import is_other_home
from bellwether.forecasting import forecasters
from bellwether.journal.journal import Journal
from bellwether.journal.tables import SCHEMA as JOURNAL
from bellwether.lake.catalog import SCHEMA as CATALOG
from bellwether.lake.warehouse import publication_time, query
from bellwether.models.providers import PROVIDERS, SANDBOX, Provider, is_well_formed, set_variable
from bellwether.questions import releases
from bellwether.settings import Settings, Venue, World
from bellwether.venues.http.client import HttpClient, RateLimit
from bellwether.venues.http.page import VenueCall
from bellwether.venues.http.retry import RetryPolicy, TransientFailure
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.stream.client import open_socket
from bellwether.venues.kalshi.stream.signing import KEY_ID, KEY_PATH, KEY_TEXT, Credentials, build_headers
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.worlds import Addresses, addresses

PACKAGES = ("dagster", "dagster-webserver", "duckdb", "polars", "pyarrow", "numpy", "great-expectations", "httpx")
LEAST_FREE_BYTES = 2 * 1024**3


def examine(config: Settings) -> list[Finding]:
    """Run all checks of the installation and return what they found."""
    return [finding for look in LOOKS for finding in _guarded(look, config)]


def _guarded(look: Callable[[Settings], Iterator[Finding]], config: Settings) -> Iterator[Finding]:
    """Yield the findings of a check; an exception becomes a bad finding."""
    try:
        yield from look(config)
    except (BellwetherError, OSError) as error:
        yield Finding(look.__name__.strip("_"), "bad", str(error), "the message says what to do; `bellwether doctor` again afterwards")


def _versions(config: Settings) -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if good else "bad", python, "" if good else "install CPython 3.11 or newer and run make again")
    for name in PACKAGES:
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            yield Finding(name, "bad", "not installed", "run `make setup`")


def _paths(config: Settings) -> Iterator[Finding]:
    home = config.world_home
    yield Finding("world", "ok", config.world.value, "")
    place = next(path for path in (home, *home.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Finding("home", "bad", f"cannot write to {home}: {error.strerror}", "set BELLWETHER_HOME to a folder that you can write to")
        return
    free = shutil.disk_usage(place).free
    status: Literal["ok", "bad"] = "ok" if free >= LEAST_FREE_BYTES else "bad"
    yield Finding(
        "home", status, f"{home}, {free / 1024**3:.1f} GiB free", "" if status == "ok" else "free some disk space, or set BELLWETHER_HOME"
    )


def _dagster_home(config: Settings) -> Iterator[Finding]:
    stated = os.environ.get("DAGSTER_HOME")
    home = Path(stated or config.dagster_home)
    described = f"{home} (yours)" if stated else f"{home} (set by every command)"
    if not home.is_absolute():
        yield Finding("DAGSTER_HOME", "bad", f"{stated} is not absolute", "unset it, or set an absolute path")
    elif is_other_home(home):
        yield Finding("DAGSTER_HOME", "bad", described, "another version of Bellwether made it; set BELLWETHER_HOME to a new folder")
    elif stated:
        yield Finding("DAGSTER_HOME", "note", described, f"unset it to use {config.dagster_home}")
    else:
        yield Finding("DAGSTER_HOME", "ok", described)


def _database_files(config: Settings) -> Iterator[Finding]:
    """Check the contents of journal and catalog in SQLite. Postgres verifies its own files."""
    if config.shares_limits:
        return
    for schema, path in ((JOURNAL, journal_path(config)), (CATALOG, Path(config.catalog))):
        if path.is_file():
            verify_file(path, schema, f"reading the {schema.name} {path}", immutable=not os.access(path.parent, os.W_OK))
            yield Finding(f"{schema.name} file", "ok", f"{path} is intact")


def _responses(config: Settings) -> Iterator[Finding]:
    """Compare the responses in the journal with their checksums."""
    with Journal.of(config) as journal:
        if journal.exists():
            yield Finding("responses", "ok", f"{journal.verify():,} of models are intact")


def _registry(config: Settings) -> Iterator[Finding]:
    yield Finding("registry", "ok", f"{len(releases())} releases, {len(forecasters())} forecasters")


def _arena(config: Settings) -> Iterator[Finding]:
    """Check that the lineup and the methodology for new cohorts of the arena are registered."""
    require_registered(config.arena_lineup, config.methodology, config.registry)
    yield Finding("arena", "ok", f"lineup {config.arena_lineup}" + (f", methodology {config.methodology}" if config.methodology else ""))


def _venue(config: Settings) -> Iterator[Finding]:
    yield from ask_venues(config)


def ask_venues(config: Settings) -> Iterator[Finding]:
    """Send one request to each enabled venue, and yield whether the venue answered."""
    with addresses(config) as venues:
        tries = {Venue.KALSHI: (try_kalshi, venues.kalshi), Venue.POLYMARKET: (try_gamma, venues.gamma)}
        for venue in config.venues:
            ask, url = tries[venue]
            answer = asyncio.run(ask(url))
            advice = f"{answer.advice}, or leave {venue} out of BELLWETHER_VENUES"
            yield Finding(answer.name, "ok", answer.found) if answer.status == "ok" else Finding(answer.name, "bad", answer.found, advice)


def _warehouse(config: Settings) -> Iterator[Finding]:
    if not publication_time(config.warehouse_uri):
        yield Finding("published warehouse", "note", "not published yet", "run `make demo`")
        return
    tables = query(config.warehouse_uri, "SELECT count(*) AS n FROM meta.tables")["n"][0]
    yield Finding("published warehouse", "ok", f"{config.warehouse_uri}, {tables} tables")


LOOKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _versions,
    _paths,
    _dagster_home,
    _registry,
    _arena,
    _venue,
    deployment,
    _database_files,
    _responses,
    _warehouse,
)


# --- connections --------------------------------------------------------------------------------------------------------

Status = Literal["ok", "not set", "refused", "unreachable"]

#: Seconds for each phase of a call, and for a call as a whole with its one repetition.
PHASE_SECONDS, WHOLE_SECONDS = 5.0, 12.0
_ATTEMPTS = 2
#: The signed call that tries a key of Kalshi: the rate limits of its account.
KALSHI_KEY_PATH = "/account/limits"
_VENUE_REFUSALS = frozenset({"authentication", "out of credit", "moved", "not found", "refused"})


@dataclass(frozen=True, slots=True)
class Connection:
    """Result of testing a venue or a key. milliseconds: how long the answer took; None without an answer."""

    name: str
    status: Status
    found: str
    advice: str = ""
    milliseconds: int | None = None

    @property
    def is_bad(self) -> bool:
        """True if a venue or key that is configured does not work."""
        return self.status in ("refused", "unreachable")


def try_connections(config: Settings) -> list[Connection]:
    """Test all venues of the world and all keys in the environment, all at once. The results for venues come first.

    The sandbox serves its own venues and models; keys of providers are tested in both worlds.
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
    """Test Kalshi's REST API by requesting the status of the exchange."""
    return await _try_venue("Kalshi REST", KalshiClient, url, VenueCall("/exchange/status"))


async def try_gamma(url: str) -> Connection:
    """Test Polymarket's Gamma API by requesting one market."""
    first = routes.markets(closed=False)
    return await _try_venue("Polymarket Gamma", GammaClient, url, VenueCall(first.path, first.params))


async def try_clob(url: str) -> Connection:
    """Test Polymarket's CLOB API by requesting its time."""
    return await _try_venue("Polymarket CLOB", ClobClient, url, routes.time())


async def _try_venue(name: str, kind: type[HttpClient], url: str, question: VenueCall) -> Connection:
    """Test a venue's API with one request. kind: client for the API; question: the request."""
    variable = f"BELLWETHER_{kind.setting.upper()}"

    async def call() -> str:
        retry = RetryPolicy(attempts=_ATTEMPTS, base=0.2, cap=0.2, seconds=WHOLE_SECONDS)
        async with kind(url, limits=RateLimit(timeout=PHASE_SECONDS), retry=retry) as client:
            page = await client.fetch(question)
            return f"{_host(url)} answers ({page.fetched_at:%Y-%m-%d %H:%M:%S} UTC by its clock)"

    return await _timed(name, call, f"look at the network, a proxy, or {variable}; BELLWETHER_WORLD=sandbox needs neither")


def _try_kalshi_key(venues: Addresses, *, live: bool) -> list[Awaitable[Connection]]:
    """Return the tests that need a Kalshi key: of the WebSocket, and in the live world (`live`) of a signed request."""
    try:
        credentials = venues.credentials()
    except ConfigError as error:
        return [_settled(name, error) for name in ("Kalshi key", "Kalshi WebSocket")]
    key = [try_kalshi_key(venues.kalshi, credentials)] if live else []
    return [*key, try_kalshi_stream(venues.kalshi_stream, credentials)]


async def _settled(name: str, error: ConfigError) -> Connection:
    """Return the result for a key that is missing or invalid, without a test."""
    if any(os.environ.get(variable, "").strip() for variable in (KEY_ID, KEY_PATH, KEY_TEXT)):
        return Connection(name, "refused", str(error), "mend the variable that the message names")
    return Connection(name, "not set", f"{KEY_ID} is not set", f"set {KEY_ID}, and {KEY_PATH} or {KEY_TEXT}, for streams")


async def try_kalshi_stream(url: str, credentials: Credentials) -> Connection:
    """Test Kalshi's WebSocket by opening and closing a connection."""

    async def call() -> str:
        try:
            socket = await open_socket(url, credentials, timeout=PHASE_SECONDS)
        except TransientFailure as failure:
            raise _Unreachable(f"{_host(url)}: {failure.kind}") from None
        except VenueError as error:
            raise _Refused(f"{_host(url)} refuses the handshake ({error.kind})") from None
        await socket.close()
        return f"{_host(url)} takes the handshake"

    return await _timed("Kalshi WebSocket", call, "look at the key and at this machine's clock, or at BELLWETHER_KALSHI_STREAM_URL")


async def try_kalshi_key(url: str, credentials: Credentials) -> Connection:
    """Test a Kalshi key by requesting the rate limits of its account."""
    path = urlsplit(url).path.rstrip("/") + KALSHI_KEY_PATH

    def signed() -> dict[str, str]:
        return build_headers(credentials, "GET", path, time.time_ns() // 1_000_000)

    advice = "look at KALSHI_API_KEY_ID and its private key: expired, of another account or of the demo; look at this machine's clock"
    return await _timed("Kalshi key", lambda: _ask(url.rstrip("/") + KALSHI_KEY_PATH, signed), advice)


# --- providers of models -----------------------------------------------------------------------------------------------


async def try_provider(provider: Provider, environment: Mapping[str, str]) -> Connection:
    """Test a provider's key by requesting the list of models, or if that list is public, information on the key."""
    variable = set_variable(provider.variables, environment)
    if variable is None:
        return Connection(provider.name, "not set", f"{provider.variables[0]} is not set", f"set {provider.variables[0]} to use its models")
    key = environment[variable].strip()
    base = provider.other_base(environment) or provider.base
    if not is_well_formed(key):
        problem = f"{variable} holds blanks, line breaks or characters that no key has"
        return Connection(provider.name, "refused", problem, f"copy the key again into {variable}")
    build_headers = {provider.header: provider.scheme + key, **dict(provider.extra)}
    advice = f"look at {variable}, the account's credit, the network, or {provider.base_variables[0]}"
    return await _timed(provider.name, lambda: _ask(base.rstrip("/") + provider.path, lambda: build_headers), advice)


# --- calls -------------------------------------------------------------------------------------------------------------


class _Refused(Exception):
    """The server answered and refused the request."""


class _Unreachable(Exception):
    """The server gave no usable answer."""


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
    raise _Unreachable(failure)


def _verdict(url: str, response: httpx.Response) -> str:
    """Describe the response to a request that was accepted. Raises `_Refused` if the key was refused, `_Unreachable` for an unusable response."""
    status, host = response.status_code, _host(url)
    meanings = {
        401: "the key is refused",
        402: "there is no credit",
        403: "the key may not do this",
        429: "too many calls, or no quota left",
    }
    if status in (404, 405) or 300 <= status < 400:
        raise _Unreachable(f"{host} answers HTTP {status}: no such interface at this address")
    if status >= 400:
        raise _Refused(f"{host} answers HTTP {status}: {meanings.get(status, 'the key or the call is refused')}")
    try:
        response.json()
    except ValueError:
        raise _Unreachable(f"{host} answers something that is no JSON: a proxy or a login page may be in between") from None
    return f"{host} takes the key"


async def _timed(name: str, call: Callable[[], Awaitable[str]], advice: str) -> Connection:
    """Return the result of the test `call` as a connection. A test without a result after `WHOLE_SECONDS` counts as unreachable."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(WHOLE_SECONDS):
            result = await call()
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
    return Connection(name, "ok", result, milliseconds=_since(started))


def _since(started: float) -> int:
    """Return the milliseconds since `started`."""
    return round((time.monotonic() - started) * 1000)


def _host(url: str) -> str:
    """Return host and port of an address."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "the address"
    except ValueError:
        return "the address"
