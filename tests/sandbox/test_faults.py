"""Faults on demand: their effect on answers, determinism, and progress of clients that retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bellwether.errors import ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.faults import HTTP_FAULTS, PERMANENT, STREAM_FAULTS, FaultMiddleware, Faults, parse_header
from bellwether.sandbox.services import Service

NOW = datetime(2025, 6, 15, tzinfo=UTC)
RECORDS = [{"id": str(number)} for number in range(10)]


def _slice(request: Request, parameter: str) -> tuple[list[dict[str, str]], str]:
    start, limit = int(request.query_params.get(parameter) or 0), int(request.query_params.get("limit", 4))
    return RECORDS[start : start + limit], str(start + limit) if start + limit < len(RECORDS) else ""


async def kalshi(request: Request) -> JSONResponse:
    records, cursor = _slice(request, "cursor")
    return JSONResponse({"cursor": cursor, "markets": records})


async def keyset(request: Request) -> JSONResponse:
    records, cursor = _slice(request, "after_cursor")
    return JSONResponse({"markets": records, **({"next_cursor": cursor} if cursor else {})})


async def bare(request: Request) -> JSONResponse:
    return JSONResponse(_slice(request, "offset")[0])


async def clob(request: Request) -> JSONResponse:
    records, cursor = _slice(request, "next_cursor")
    return JSONResponse({"data": records, "next_cursor": cursor or "LTE=", "limit": 4, "count": len(records)})


async def echo(request: Request) -> JSONResponse:
    return JSONResponse({"body": (await request.body()).decode()})


def application() -> Starlette:
    """A little of every service: ten records in pages of four."""
    return Starlette(
        routes=[
            Route("/trade-api/v2/markets", kalshi),
            Route("/gamma/markets/keyset", keyset),
            Route("/gamma/markets", bare),
            Route("/clob/markets", clob),
            Route("/clob/books", echo, methods=["POST"]),
            Route("/v1/chat/completions", echo, methods=["POST"]),
            Route("/sandbox/clock", echo),
        ]
    )


class Faultful:
    """Calls the application in process."""

    def __init__(self, faults: Faults, runner: asyncio.Runner) -> None:
        self.faults = faults
        self._runner = runner
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(FaultMiddleware(application(), faults, Clock(NOW))), base_url="http://sandbox"
        )

    def __call__(self, path: str, fault: str | None = None, method: str = "GET", **kwargs: Any) -> httpx.Response:
        headers = {"X-Sandbox-Fault": fault} if fault else {}
        return self._runner.run(self._http.request(method, path, headers=headers, **kwargs))


@pytest.fixture
def asking(runner: asyncio.Runner) -> Callable[[str], Faultful]:
    return lambda text: Faultful(Faults.parse(text, seed=7), runner)


@pytest.fixture
def ask(asking: Callable[[str], Faultful]) -> Faultful:
    """Client of the application without faults, except forced ones."""
    return asking("")


# --- forced by the header ------------------------------------------------------------------------------------------

LISTINGS = {
    "kalshi": ("/trade-api/v2/markets?limit=4&cursor={}", "cursor", "markets"),
    "keyset": ("/gamma/markets/keyset?limit=4&after_cursor={}", "next_cursor", "markets"),
    "clob": ("/clob/markets?limit=4&next_cursor={}", "next_cursor", "data"),
}


def ids(answer: Any, records: str) -> list[str]:
    return [record["id"] for record in (answer if isinstance(answer, list) else answer[records])]


@pytest.mark.parametrize("listing", LISTINGS)
def test_duplicate_sends_the_previous_page_again_whole(ask: Faultful, listing: str) -> None:
    url, cursor, records = LISTINGS[listing]
    first = ask(url.format("").removesuffix("&cursor=")).json()
    second = ask(url.format(4), "duplicate").json()
    assert second == first
    assert second[cursor] == "4"
    assert ids(ask(url.format(4), "duplicate").json(), records) == ["4", "5", "6", "7"], "it passes when the request is repeated"


@pytest.mark.parametrize("listing", LISTINGS)
def test_drop_loses_the_records_while_the_cursor_goes_on(ask: Faultful, listing: str) -> None:
    url, cursor, records = LISTINGS[listing]
    answer = ask(url.format(4), "drop").json()
    assert ids(answer, records) == []
    assert answer[cursor] == "8"


@pytest.mark.parametrize("listing", LISTINGS)
def test_cursor_leads_back_to_the_same_page(ask: Faultful, listing: str) -> None:
    url, cursor, records = LISTINGS[listing]
    answer = ask(url.format(4), "cursor").json()
    assert answer[cursor] == "4"
    assert ids(answer, records) == ["4", "5", "6", "7"]


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_fault_that_finds_nothing_to_spoil_leaves_the_answer_right(ask: Faultful, listing: str) -> None:
    url, _, records = LISTINGS[listing]
    for fault in ("duplicate", "cursor"):
        assert ids(ask(url.format(""), fault).json(), records) == ["0", "1", "2", "3"]
    assert ids(ask(url.format(8), "drop").json(), records) == ["8", "9"]
    assert ask("/gamma/markets?offset=4", "duplicate").json() == RECORDS[4:8], "a bare list has no cursor"
    assert ask("/v1/chat/completions", "drop", "POST", content=b"[1]").json() == {"body": "[1]"}
    assert not ask.faults.stats


@pytest.mark.parametrize(
    ("path", "fault", "status", "says"),
    [
        ("/trade-api/v2/markets", "storm", 429, '{"error":"too many requests"}'),
        ("/gamma/markets", "storm", 429, "error code: 1015"),
        ("/trade-api/v2/markets", "expired", 401, "authentication error"),
        ("/v1/chat/completions", "expired", 401, "invalid_api_key"),
        ("/v1/chat/completions", "credit", 402, "insufficient_credits"),
        ("/v1/chat/completions", "storm", 429, "rate_limit_exceeded"),
    ],
)
def test_each_service_refuses_in_its_own_words(ask: Faultful, path: str, fault: str, status: int, says: str) -> None:
    answer = ask(path, fault, "POST" if path.startswith("/v1") else "GET")
    assert answer.status_code == status
    assert says in answer.text
    assert ("retry-after" in answer.headers) == (path.startswith("/v1") and status == 429)


def test_a_transient_fault_strikes_as_often_as_asked_and_then_passes(ask: Faultful) -> None:
    def statuses(fault: str, times: int) -> list[int]:
        return [ask("/trade-api/v2/markets", fault).status_code for _ in range(times)]

    assert [status >= 500 for status in statuses("status=3", 5)] == [True, True, True, False, True]
    assert statuses("storm", 5) == [429] * 4 + [200]
    assert statuses("storm=1", 2) == [429, 200]


def test_expired_and_credit_stay(ask: Faultful) -> None:
    assert {ask("/v1/chat/completions", "credit", "POST").status_code for _ in range(9)} == {402}
    assert {ask("/v1/chat/completions", "expired=1", "POST").status_code for _ in range(9)} == {401}


def test_the_control_is_spared(asking: Callable[[str], Faultful]) -> None:
    ask = asking("status=1")
    assert ask("/sandbox/clock", "html").status_code == 200
    assert ask("/elsewhere").status_code == 404


# --- decided by the rates ------------------------------------------------------------------------------------------

MIXED = "storm=0.1,status=0.2,cut=0.1,html=0.1,drop=0.1,duplicate=0.1,cursor=0.1,stall=0.1"


def history(faults: Faults, requests: int, times: int) -> list[list[str]]:
    """Return the faults of several requests over time."""
    keys = [bytes([number]) * 16 for number in range(requests)]
    return [[fault.name if (fault := faults.decide(Service.KALSHI, key)) else "" for _ in range(times)] for key in keys]


def test_the_same_seed_and_requests_give_the_same_faults_in_any_order() -> None:
    one, other = Faults.parse(MIXED, 5), Faults.parse(MIXED, 5)
    keys = [bytes([number]) * 16 for number in range(20)]
    seen = {key: [one.decide(Service.GAMMA, key) for _ in range(10)] for key in keys}
    turns = [[other.decide(Service.GAMMA, key) for key in reversed(keys)] for _ in range(10)]
    assert {key: [turn[len(keys) - 1 - index] for turn in turns] for index, key in enumerate(keys)} == seen
    assert history(Faults.parse(MIXED, 6), 20, 10) != history(Faults.parse(MIXED, 5), 20, 10)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    names=st.dictionaries(st.sampled_from([name for name in HTTP_FAULTS if name not in PERMANENT]), st.floats(0.01, 1), min_size=1),
    seed=st.integers(0, 1000),
)
def test_no_request_is_faulted_for_ever(names: dict[str, float], seed: int) -> None:
    total = sum(names.values())
    faults = Faults({name: rate / total for name, rate in names.items()}, seed)
    for struck in history(faults, 5, 40):
        streaks = "".join("x" if fault else " " for fault in struck).split()
        longest = max(map(len, streaks), default=0)
        assert longest <= max(2, 4 if "storm" in names else 0)


def test_lasting_faults_stay_and_strike_only_where_there_are_keys() -> None:
    faults = Faults.parse("expired=0.5,credit=0.2", 1)
    keys = [bytes([number]) * 16 for number in range(100)]
    first = [faults.decide(Service.MODELS, key) for key in keys]
    assert {fault.name if fault else "" for fault in first} == {"", "expired", "credit"}
    assert all([faults.decide(Service.MODELS, key) for key in keys] == first for _ in range(5))
    assert not any(faults.decide(Service.KALSHI, key) for key in keys)


# --- streams -------------------------------------------------------------------------------------------------------


def test_a_streams_faults_are_repeatable_and_leave_room() -> None:
    faults = Faults({"gap": 0.1, "reorder": 0.1, "disconnect": 0.05}, 4)
    plans = [[faults.plan(frame, connection) for frame in range(300)] for connection in range(6)]
    assert plans == [[Faults(faults.rates, 4).plan(frame, connection) for frame in range(300)] for connection in range(6)]
    assert {fault for plan in plans for fault in plan} == {None, *STREAM_FAULTS}
    assert not any(plan[frame] for plan in plans for frame in range(300) if frame % 3 != 2)
    assert all("disconnect" not in plan for plan in plans[2::3])
    gaps = [fault for connection in range(20) for frame in range(600) if (fault := faults.plan(frame, connection)) == "gap"]
    assert abs(len(gaps) / 12_000 - 0.1) < 0.015


# --- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("statsu=0.1", "statsu"),
        ("status", "status"),
        ("status=often", "often"),
        ("status=1.5", "1.5"),
        ("status=nan", "nan"),
        ("status=0.1,status=0.2", "twice"),
        ("status=0.6,cut=0.6", "status, cut"),
        ("gap=0.6,reorder=0.6", "reorder, gap"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_the_part(text: str, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        Faults.parse(text, 1)


def test_settings_are_read() -> None:
    assert dict(Faults.parse(" status = 0.1 , cut=5e-2,", 3).rates) == {"status": 0.1, "cut": 0.05}
    assert dict(Faults.parse("", 3).rates) == {}
    assert parse_header("storm") == ("storm", 4)
    assert parse_header("cut=7") == ("cut", 7)
    for header in ("nonsense", "status=0", "status=x", "status=", ""):
        with pytest.raises(ConfigError, match="force a fault"):
            parse_header(header)
