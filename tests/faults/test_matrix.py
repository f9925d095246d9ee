"""Every call of every client under every fault over HTTP ends as the tables declare.

A cell is one of:

- `N`: complete, that is, the answer equals the one without faults, after N attempts in all (`N+`: at least N);
- `KIND@N`: a `VenueError` of that kind, after N attempts of the call that it names;
- `empty`: no records: a single page is returned unchanged.

Faults of listings strike pages with a cursor, so that lists by offset are not hit.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import pkgutil
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest

import bellwether.venues
from bellwether.errors import PagingError, VenueError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.faults import HTTP_FAULTS, Faults
from bellwether.sandbox.server import serve
from bellwether.sandbox.worlds import generated
from bellwether.venues.http.client import HttpClient, RateLimit
from bellwether.venues.http.page import Call, Page
from bellwether.venues.kalshi import routes as kalshi
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.polymarket import routes as polymarket
from bellwether.venues.polymarket.client import GammaClient
from tests.faults.cells import ATTEMPTS, SECRET, Served, at_once, served, table

#: Early enough that Polymarket lists little, late enough that Kalshi has an archive.
NOW = datetime(2025, 4, 10, 17, 20, 3, tzinfo=UTC)
HOUR = timedelta(hours=1)
#: Seconds for which a client waits for the next byte: of answers that stall, and of all others.
STALLED, PATIENT = 0.5, 60.0

#: Each fault clears after it was met once (a storm after four times).
PASSING = """
way         storm  status  stall  cut  html  duplicate  drop   cursor  expired           credit
page        5      2       2+     2    2     1          empty  1       authentication@1  out of credit@1
answer      5      2       2+     2    2     1          1      1       authentication@1  out of credit@1
answers     15     6       6+     6    6     3          3      3       authentication@1  out of credit@1
listing     15     6       6+     6    6     5          5      5       authentication@1  out of credit@1
by keyset   20     8       8+     8    8     6          6      5       authentication@1  out of credit@1
known form  10     4       4+     4    4     2          2      2       authentication@1  out of credit@1
by offset   30     12      12+    12   12    6          6      6       authentication@1  out of credit@1
"""
#: No fault ever clears.
LASTING = """
way         storm         status    stall      cut           html         duplicate  drop      cursor    expired           credit
page        rate limit@4  server@4  timeout@4  connection@4  malformed@4  1          empty     1         authentication@1  out of credit@1
answer      rate limit@4  server@4  timeout@4  connection@4  malformed@4  1          1         1         authentication@1  out of credit@1
answers     rate limit@4  server@4  timeout@4  connection@4  malformed@4  3          3         3         authentication@1  out of credit@1
listing     rate limit@4  server@4  timeout@4  connection@4  malformed@4  paging@3   paging@3  paging@3  authentication@1  out of credit@1
by keyset   rate limit@4  server@4  timeout@4  connection@4  malformed@4  paging@3   paging@3  paging@3  authentication@1  out of credit@1
known form  rate limit@4  server@4  timeout@4  connection@4  malformed@4  2          2         2         authentication@1  out of credit@1
by offset   rate limit@4  server@4  timeout@4  connection@4  malformed@4  6          6         6         authentication@1  out of credit@1
"""
#: The row of each call in these tables; all others request a single answer.
WAYS = {
    "HttpClient.page": "page",
    "HttpClient.answers": "answers",
    **dict.fromkeys(("HttpClient.follow", "KalshiClient.pages", "KalshiClient.events", "KalshiClient.markets"), "listing"),
    **dict.fromkeys(("KalshiClient.historical_markets", "KalshiClient.trades", "KalshiClient.historical_trades"), "listing"),
    "ClobClient.markets": "listing",
    **dict.fromkeys(("GammaClient.markets", "GammaClient.events"), "by keyset"),
    "GammaClient.follow_known": "known form",
    "GammaClient.follow by offset": "by offset",
}


@dataclass(frozen=True)
class Known:
    """What the calls ask for: five records of each listing, so that pages of two make three."""

    markets: list[str]
    archived: list[str]
    events: list[str]
    series: str
    close: datetime
    archived_close: datetime
    trades: int
    historical_trades: int
    gamma_markets: list[str]
    gamma_events: list[str]
    conditions: list[str]
    tokens: list[str]


Work = Callable[[Any, Known], Awaitable[Any]]


async def pages(walked: AsyncIterator[Page]) -> list[Page]:
    return [page async for page in walked]


def thirds(records: int) -> int:
    """A page size that makes three pages."""
    return next(limit for limit in range(1, 1001) if -(-records // limit) == 3)


def hours(known: Known) -> tuple[datetime, datetime]:
    return known.close - 6 * HOUR, known.close


def archived_hours(known: Known) -> tuple[datetime, datetime]:
    return known.archived_close - 6 * HOUR, known.archived_close


CALLS: dict[str, Work] = {
    "HttpClient.page": lambda client, known: client.page("/markets", (("limit", "2"),)),
    "HttpClient.answer": lambda client, known: client.answer(Call("/historical/cutoff")),
    "HttpClient.answers": lambda client, known: client.answers([kalshi.market(ticker) for ticker in known.markets[:3]]),
    "HttpClient.follow": lambda client, known: pages(client.follow(kalshi.markets(tickers=known.markets, limit=2))),
    "KalshiClient.pages": lambda client, known: pages(
        client.pages("/markets", (("tickers", ",".join(known.markets)), ("limit", "2")), "markets")
    ),
    "KalshiClient.events": lambda client, known: pages(client.events(tickers=known.events, limit=2)),
    "KalshiClient.markets": lambda client, known: pages(client.markets(tickers=known.markets, limit=2)),
    "KalshiClient.historical_markets": lambda client, known: pages(client.historical_markets(tickers=known.archived, limit=2)),
    "KalshiClient.series": lambda client, known: pages(client.series()),
    "KalshiClient.historical_cutoff": lambda client, known: client.historical_cutoff(),
    "KalshiClient.market": lambda client, known: client.market(known.markets[0]),
    "KalshiClient.candles": lambda client, known: client.candles(known.series, known.markets[0], *hours(known)),
    "KalshiClient.candles_batch": lambda client, known: client.candles_batch(known.markets, *hours(known)),
    "KalshiClient.historical_candles": lambda client, known: client.historical_candles(known.archived[0], *archived_hours(known)),
    "KalshiClient.orderbook": lambda client, known: client.orderbook(known.markets[0]),
    "KalshiClient.orderbooks": lambda client, known: client.orderbooks(known.markets),
    "KalshiClient.trades": lambda client, known: pages(client.trades(ticker=known.markets[0], limit=thirds(known.trades))),
    "KalshiClient.historical_trades": lambda client, known: pages(
        client.historical_trades(ticker=known.archived[0], limit=thirds(known.historical_trades))
    ),
    "GammaClient.market": lambda client, known: client.market(known.gamma_markets[0]),
    "GammaClient.event": lambda client, known: client.event(known.gamma_events[0]),
    "GammaClient.markets": lambda client, known: pages(client.markets(closed=True, ids=known.gamma_markets, limit=2)),
    "GammaClient.events": lambda client, known: pages(client.events(closed=True, ids=known.gamma_events, limit=2)),
    "GammaClient.known": lambda client, known: client.known(polymarket.markets(closed=True)),
    "GammaClient.follow_known": lambda client, known: pages(client.follow_known(polymarket.events(closed=True, ids=known.gamma_events))),
    "GammaClient.answer": lambda client, known: client.answer(polymarket.market(known.gamma_markets[0])),
    "GammaClient.follow by offset": lambda client, known: pages(
        client.follow(polymarket.by_offset(polymarket.markets(closed=True, ids=known.gamma_markets, limit=2)))
    ),
    "ClobClient.book": lambda client, known: client.book(known.tokens[0]),
    "ClobClient.midpoint": lambda client, known: client.midpoint(known.tokens[0]),
    "ClobClient.prices_history": lambda client, known: client.prices_history(known.tokens[0], interval="1w", fidelity_minutes=60),
    "ClobClient.markets": lambda client, known: pages(client.markets()),
    "ClobClient.market": lambda client, known: client.market(known.conditions[0]),
    "ClobClient.fee_rate": lambda client, known: client.fee_rate(known.tokens[0]),
    "ClobClient.time": lambda client, known: client.time(),
    "ClobClient.books": lambda client, known: client.books(known.tokens),
    "ClobClient.midpoints": lambda client, known: client.midpoints(known.tokens),
}
#: Public methods that call nothing.
NO_CALLS = {"HttpClient.pause"}


def client_classes() -> list[type[HttpClient]]:
    """Every client below bellwether.venues."""
    for module in pkgutil.walk_packages(bellwether.venues.__path__, "bellwether.venues."):
        importlib.import_module(module.name)
    found, waiting = [HttpClient], [HttpClient]
    while waiting:
        waiting = [
            kind for kind in chain.from_iterable(kind.__subclasses__() for kind in waiting) if kind.__module__.startswith("bellwether")
        ]
        found += waiting
    return found


def public_methods() -> set[str]:
    """Class.method of everything that a client can be asked for."""
    return {
        f"{kind.__name__}.{name}"
        for kind in client_classes()
        for name, member in vars(kind).items()
        if inspect.isroutine(member) and not name.startswith("_")
    }


async def discover(served: Served) -> Known:
    """Records to ask for, five of each kind."""
    options: dict[str, Any] = {"attempts": 1, "timeout": 60.0}
    async with (
        served.client(KalshiClient, "", None, **options) as venue,
        served.client(GammaClient, "", None, **options) as gamma,
    ):
        found, trades = await five(venue.markets(status="settled", limit=50), venue.trades)
        archived, historical_trades = await five(venue.historical_markets(limit=50), venue.historical_trades)
        events = (await anext(venue.events(status="settled", limit=5))).items("events")
        markets = (await anext(gamma.markets(closed=True, limit=5))).items("markets")
        trading = (await anext(gamma.markets(closed=False, limit=5))).items("markets")
        families = (await anext(gamma.events(closed=True, limit=5))).items("events")
    return Known(
        markets=[market["ticker"] for market in found],
        archived=[market["ticker"] for market in archived],
        events=[event["event_ticker"] for event in events],
        series=found[0]["ticker"].partition("-")[0],
        close=datetime.fromisoformat(found[0]["close_time"]),
        archived_close=datetime.fromisoformat(archived[0]["close_time"]),
        trades=trades,
        historical_trades=historical_trades,
        gamma_markets=[market["id"] for market in markets],
        gamma_events=[event["id"] for event in families],
        conditions=[market["conditionId"] for market in markets],
        tokens=[token for market in trading for token in json.loads(market["clobTokenIds"])],
    )


async def five(markets: AsyncIterator[Page], trades: Callable[..., AsyncIterator[Page]]) -> tuple[list[Any], int]:
    """Five markets of a page, the first of which has enough trades for three pages, and how many it has."""
    found = (await anext(markets)).items("markets")
    for place, market in enumerate(found):
        traded = sum([len(page.items("trades")) async for page in trades(ticker=market["ticker"])])
        if traded >= 5:
            others = [other for other in found if other is not market]
            return [found[place], *others[:4]], traded
    raise AssertionError("no market has trades")


#: Each fault; stalls take seconds.
BY_FAULT = [pytest.param(fault, marks=[pytest.mark.slow] if fault == "stall" else []) for fault in HTTP_FAULTS]


@pytest.fixture(scope="module")
def venues() -> Iterator[Served]:
    clock = Clock(NOW)
    with served(generated(11, NOW), clock) as found:
        yield found


@pytest.fixture(scope="module")
def known(venues: Served) -> Known:
    return asyncio.run(discover(venues))


@pytest.fixture(scope="module")
def honest(venues: Served, known: Known) -> dict[str, Any]:
    """What every call answers without faults."""

    async def all_calls() -> dict[str, Any]:
        options: dict[str, Any] = {"fault": None, "attempts": 1, "timeout": 60.0}
        return {call: (await ask(venues, known, call, **options))[0] for call in CALLS}

    return asyncio.run(all_calls())


async def ask(venues: Served, known: Known, call: str, *, fault: str | None, **options: Any) -> tuple[Any, int]:
    """What `call` answers under a fault, and the number of attempts."""
    kind = {kind.__name__: kind for kind in client_classes()}[call.partition(".")[0]]
    async with venues.client(kind, f"{call} {fault}", fault, **options) as client:
        return await CALLS[call](client, known), client.stats.attempts


def records(answer: Any) -> list[Any]:
    found = answer if isinstance(answer, list) else [answer]
    return [record for page in found if isinstance(page, Page) for record in page.items("markets")]


async def cell(venues: Served, known: Known, honest: Any, call: str, *, fault: str, **options: Any) -> str:
    """How `call` ends under a fault."""
    try:
        answer, attempts = await ask(venues, known, call, fault=fault, **options)
    except VenueError as error:
        check_error(error)
        return f"{error.kind}@{error.attempts}"
    if answer == honest:
        return str(attempts)
    return "empty" if not records(answer) else f"a wrong answer@{attempts}"


def check_error(error: VenueError) -> None:
    """It names the call and the cause, and nothing that is secret."""
    assert error.call.startswith(("GET /", "POST /"))
    assert error.call in str(error)
    assert error.cause
    assert error.cause in str(error)
    assert isinstance(error, PagingError) == (error.kind == "paging")
    assert SECRET not in "".join([repr(error), *traceback.format_exception(error)])


def agrees(declared: str, found: str) -> bool:
    """Whether a cell is as declared."""
    return found.isdigit() and int(found) >= int(declared[:-1]) if declared.endswith("+") else found == declared


async def row(venues: Served, known: Known, honest: dict[str, Any], fault: str, forced: str, **options: Any) -> dict[str, str]:
    """The cells of one fault, all calls side by side."""
    found = await asyncio.gather(*(cell(venues, known, honest[call], call, fault=forced, **options) for call in CALLS))
    return dict(zip(CALLS, found, strict=True))


def wrong(declared: dict[str, dict[str, str]], found: dict[str, str], fault: str) -> dict[str, str]:
    """The cells that are not as declared."""
    expected = {call: declared[WAYS.get(call, "answer")][fault] for call in found}
    return {
        call: f"{fault}: declared {expected[call]}, found {ended}" for call, ended in found.items() if not agrees(expected[call], ended)
    }


def test_every_call_of_every_client_is_tried():
    assert public_methods() - NO_CALLS - {call.partition(" ")[0] for call in CALLS} == set()
    assert WAYS.keys() < CALLS.keys()


@pytest.mark.parametrize("text", [PASSING, LASTING], ids=["passing", "lasting"])
def test_every_call_under_every_fault_has_a_declared_end(text: str):
    declared = table(text)
    assert set(declared) == {"answer", *WAYS.values()}
    assert all(list(cells) == list(HTTP_FAULTS) for cells in declared.values())


def test_answers_without_faults_hold_what_the_tables_count(honest: dict[str, Any]):
    listed = {call: len(answer) for call, answer in honest.items() if isinstance(answer, list)}
    assert {call for call, count in listed.items() if count == 3} >= {"KalshiClient.markets", "KalshiClient.trades", "GammaClient.events"}


@pytest.mark.parametrize("fault", BY_FAULT)
async def test_a_fault_that_clears(venues: Served, known: Known, honest: dict[str, Any], fault: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    found = await row(venues, known, honest, fault, fault, attempts=20, timeout=STALLED if fault == "stall" else PATIENT)
    assert wrong(table(PASSING), found, fault) == {}
    assert SECRET not in caplog.text


@pytest.mark.parametrize("fault", BY_FAULT)
async def test_a_fault_that_never_clears(
    venues: Served, known: Known, honest: dict[str, Any], fault: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    found = await row(venues, known, honest, fault, f"{fault}=1000", attempts=ATTEMPTS, timeout=STALLED if fault == "stall" else PATIENT)
    assert wrong(table(LASTING), found, fault) == {}
    assert SECRET not in caplog.text


async def test_faults_of_the_application_itself_strike_without_being_asked_for(honest: dict[str, Any], known: Known):
    faults = Faults({"html": 0.4, "status": 0.4}, seed=3)
    with serve(generated(11, NOW, faults=faults)) as site:
        async with HttpClient(site.kalshi, limits=RateLimit(tokens_per_second=1e9), sleep=at_once) as client:
            answer = await CALLS["HttpClient.answers"](client, known) + await CALLS["HttpClient.follow"](client, known)
    assert answer == honest["HttpClient.answers"] + honest["HttpClient.follow"]
    assert client.stats.attempts == 6 + faults.stats.total()
    assert client.stats.failures == {"malformed": faults.stats["html"], "server": faults.stats["status"]}
    assert client.stats.failures.keys() == {"malformed", "server"}
