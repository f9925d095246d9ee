"""Rate limits that bite, each in its service's own way."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from bellwether.errors import ConfigError
from bellwether.sandbox.limits import WINDOW, Bucket, Limits, RateLimited, Windows, needed_tokens


class Seconds:
    """A monotonic clock that moves only when told, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 50.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def asking(runner: asyncio.Runner, seconds: Seconds) -> Callable[[Limits], Callable[..., httpx.Response]]:
    """Asks an application that answers everything, behind the limits."""

    def build(limits: Limits) -> Callable[..., httpx.Response]:
        async def anything(scope: Any, receive: Any, send: Any) -> None:
            body = await Request(scope, receive).body()
            await Response(b'{"you sent":%d}' % len(body), media_type="application/json")(scope, receive, send)

        transport = httpx.ASGITransport(RateLimited(anything, limits, seconds, seconds.sleep))
        http = httpx.AsyncClient(transport=transport, base_url="http://sandbox")

        def ask(path: str, method: str = "GET", **kwargs: Any) -> httpx.Response:
            return runner.run(http.request(method, path, **kwargs))

        return ask

    return build


# --- Kalshi --------------------------------------------------------------------------------------------------------


def test_the_bucket_gives_its_burst_and_then_its_rate(seconds: Seconds) -> None:
    bucket = Bucket(100, 200, seconds)
    assert sum(bucket.take(10) for _ in range(100)) == 20
    seconds.now += 0.35
    assert sum(bucket.take(10) for _ in range(100)) == 3
    seconds.now += 1000
    assert sum(bucket.take(10) for _ in range(100)) == 20


def test_the_documented_terms_of_kalshi_are_forty_at_once_and_twenty_a_second(asking: Any, seconds: Seconds) -> None:
    ask = asking(Limits())
    assert [ask("/trade-api/v2/markets").status_code for _ in range(41)] == [200] * 40 + [429]
    seconds.now += 1
    assert sum(ask("/trade-api/v2/markets").status_code == 200 for _ in range(30)) == 20


def test_kalshi_refuses_without_retry_after(asking: Any) -> None:
    ask = asking(Limits(tokens_per_second=5, burst_seconds=2, cost=10))
    assert ask("/trade-api/v2/events").status_code == 200
    refused = ask("/trade-api/v2/events")
    assert (refused.status_code, refused.json()) == (429, {"error": "too many requests"})
    assert "retry-after" not in refused.headers


# --- Polymarket ----------------------------------------------------------------------------------------------------

FEW = Limits(gamma=(("", 6), ("/markets", 3)), clob=(("", 100), ("/book", 2)), patience=4)


def test_polymarket_delays_first_and_then_refuses(asking: Any, seconds: Seconds) -> None:
    ask = asking(FEW)
    assert [ask("/gamma/markets/keyset").status_code for _ in range(3)] == [200] * 3
    assert not seconds.slept
    assert ask("/gamma/markets").status_code == 429, "ten seconds are longer than its patience"
    seconds.now += 7
    assert ask("/gamma/markets").status_code == 200
    assert seconds.slept == [pytest.approx(3)]


def test_groups_of_paths_count_apart_and_the_service_counts_all(asking: Any) -> None:
    ask = asking(FEW)
    assert [ask("/gamma/markets").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert [ask("/gamma/events").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert [ask("/clob/book?token_id=1").status_code for _ in range(3)] == [200, 200, 429]
    assert [ask("/clob/books", "POST", json=[]).status_code for _ in range(3)] == [200] * 3


def test_the_gateways_refusal_is_no_json(asking: Any) -> None:
    ask = asking(FEW)
    refused = [ask("/clob/book") for _ in range(3)][-1]
    assert refused.text == "error code: 1015"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(gaps=st.lists(st.floats(0, 4), min_size=1, max_size=80), most=st.integers(1, 7), patience=st.floats(0, 12))
def test_no_window_ever_lets_more_than_its_limit_begin(gaps: list[float], most: int, patience: float) -> None:
    windows, now, begun = Windows((("", most),)), 0.0, []
    for gap in gaps:
        now += gap
        delay = windows.delay("/x", now, patience)
        if delay is not None:
            assert 0 <= delay <= patience
            begun.append(now + delay)
    assert begun == sorted(begun)
    for first, later in zip(begun, begun[most:], strict=False):
        assert later - first >= WINDOW - 1e-9


# --- models --------------------------------------------------------------------------------------------------------


def chat(tokens: int, key: str = "sandbox-a") -> dict[str, Any]:
    return {"method": "POST", "json": {"max_tokens": tokens}, "headers": {"authorization": f"Bearer {key}"}}


def test_a_key_has_so_many_requests_a_minute(asking: Any, seconds: Seconds) -> None:
    ask = asking(Limits(requests_per_minute=3))
    assert [ask("/v1/chat/completions", **chat(1)).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert ask("/v1/chat/completions", **chat(1, "sandbox-b")).status_code == 200
    seconds.now += 20
    assert ask("/v1/chat/completions", **chat(1)).status_code == 200


def test_a_key_has_so_many_tokens_a_minute(asking: Any, seconds: Seconds) -> None:
    ask = asking(Limits(tokens_per_minute=6000))
    assert ask("/v1/chat/completions", **chat(4000)).status_code == 200
    refused = ask("/v1/chat/completions", **chat(4000))
    assert refused.status_code == 429
    assert refused.json()["error"] | {"message": ""} == {"message": "", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}
    seconds.now += int(refused.headers["retry-after"])
    assert ask("/v1/chat/completions", **chat(4000)).status_code == 200


def test_a_request_that_never_fits_is_told_so(asking: Any) -> None:
    refused = asking(Limits(tokens_per_minute=100))("/v1/chat/completions", **chat(101))
    assert refused.status_code == 429
    assert "too large" in refused.json()["error"]["message"]
    assert "retry-after" not in refused.headers


def test_no_refusal_shows_the_key(asking: Any) -> None:
    ask = asking(Limits(requests_per_minute=1))
    assert "sandbox-a" not in [ask("/v1/chat/completions", **chat(1)) for _ in range(2)][-1].text


def test_the_body_still_arrives(asking: Any) -> None:
    assert asking(Limits())("/v1/chat/completions", "POST", content=b"x" * 1234).json() == {"you sent": 1234}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"max_tokens":"many","n":null}', b'{"max_tokens":-5}'])
def test_any_body_has_a_count(body: bytes) -> None:
    assert needed_tokens(body) == len(body) // 4


def test_tokens_are_those_of_prompt_and_answers() -> None:
    assert needed_tokens(orjson.dumps({"max_completion_tokens": 100, "max_tokens": 7, "n": 3})) == 300 + 12


# --- terms ---------------------------------------------------------------------------------------------------------


def test_the_control_and_listings_of_models_are_not_limited(asking: Any) -> None:
    ask = asking(Limits(requests_per_minute=1, tokens_per_second=1, burst_seconds=10))
    assert all(ask(path).status_code == 200 for path in ("/sandbox/clock", "/v1/models") for _ in range(20))


@pytest.mark.parametrize(
    "terms", [{"requests_per_minute": 0}, {"tokens_per_minute": -1}, {"gamma": (("", 0),)}, {"patience": -1}, {"patience": math.nan}]
)
def test_terms_that_let_nothing_pass_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="rate"):
        Limits(**terms)
