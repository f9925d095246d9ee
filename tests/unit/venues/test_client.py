"""The client: retries, refusals, rate limits, and final error messages."""

from __future__ import annotations

import asyncio
import gc
import gzip
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.retry import RefusedError, RetryPolicy, parse_http_date
from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from tests.venues.venue import DATE, FAST, URL, Naps, Script, answer, client

GOOD = answer({"markets": [], "cursor": ""})
REQUEST = httpx.Request("GET", URL)

PASSING = {
    "408 of a proxy that waited too long": answer(b"", status=408),
    "425 while the matching engine restarts": answer({"error": "engine restarting"}, status=425),
    "429 with a string error and no Retry-After": answer({"error": "too many requests"}, status=429),
    "500": answer({"error": {"code": "internal"}}, status=500),
    "503 during maintenance, as a web page": answer(b"<html>maintenance</html>", status=503),
    "a web page with status 200": answer(b"<!doctype html><html></html>"),
    "truncated JSON": answer(b'{"markets":[{"ticker":"A"'),
    "an empty body": answer(b""),
    "a list instead of an object": answer([]),
    "a timeout": httpx.ReadTimeout("too slow", request=REQUEST),
    "a refused connection": httpx.ConnectError("refused", request=REQUEST),
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=list(PASSING))
async def test_a_failure_that_may_pass_is_repeated(failure: httpx.Response | Exception):
    script, naps = Script(failure, failure, GOOD), Naps()
    async with client(script, naps=naps) as venue:
        page = await venue.get("/markets")
    assert page.answer == {"markets": [], "cursor": ""}
    assert len(script.requests) == 3
    assert len(naps.taken) == 2


async def test_a_failure_that_does_not_pass_ends_in_one_clear_error():
    script = Script(answer({"error": {"code": "internal"}}, status=500))
    async with client(script, retry=RetryPolicy(attempts=4)) as venue:
        with pytest.raises(VenueError, match=r"GET /markets\?limit=5: failed after 4 attempts: .+run again later") as caught:
            await venue.get("/markets", (("limit", "5"),))
    assert (caught.value.call, caught.value.attempts, len(script.requests)) == ("GET /markets?limit=5", 4, 4)


async def test_the_back_off_grows_is_jittered_and_is_capped():
    naps = Naps()
    async with client(Script(answer({}, status=500)), naps=naps, retry=RetryPolicy(base=1, cap=8, seconds=1e9, attempts=40)) as venue:
        with pytest.raises(VenueError):
            await venue.get("/markets")
    ceilings = [min(8, 2**attempt) for attempt in range(39)]
    assert all(0 <= nap <= ceiling for nap, ceiling in zip(naps.taken, ceilings, strict=True))
    assert max(naps.taken[4:]) > 4
    assert len(set(naps.taken)) == 39


async def test_the_total_time_of_a_call_is_bounded():
    naps = Naps()
    async with client(Script(answer({}, status=500)), naps=naps, retry=RetryPolicy(base=4, cap=16, seconds=60, attempts=10_000)) as venue:
        with pytest.raises(VenueError):
            await venue.get("/markets")
    assert 30 < sum(naps.taken) <= 60


@pytest.mark.parametrize("seed", range(3))
async def test_the_defaults_outlive_a_minute_of_429(seed: int):
    from random import Random

    waited = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal waited
        waited += seconds

    def venue_of_a_bad_minute(request: httpx.Request) -> httpx.Response:
        return answer({"error": "too many requests"}, status=429) if waited < 60 else answer({})

    transport = httpx.MockTransport(venue_of_a_bad_minute)
    async with KalshiClient(URL, limits=FAST, transport=transport, sleep=sleep, rng=Random(seed)) as venue:
        assert (await venue.get("/markets")).status == 200


@pytest.mark.parametrize("asked", ["17", "Fri, 20 Mar 2026 08:30:17 GMT"])
async def test_retry_after_is_honoured(asked: str):
    naps = Naps()
    now = datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
    script = Script(answer({"error": "slow down"}, status=429, Retry_After=asked), GOOD)
    async with client(script, naps=naps, clock=lambda: now) as venue:
        await venue.get("/markets")
    assert naps.taken == [17.0]


async def test_pauses_stay_as_long_as_the_venue_asks():
    naps = Naps()
    script = Script(*[answer({}, status=429, Retry_After="2")] * 6, GOOD)
    async with client(script, naps=naps) as venue:
        await venue.get("/markets")
    assert naps.taken == [2.0] * 6


@pytest.mark.parametrize("asked", ["soon", "-5", "", "Fri, 20 Mar 1999 08:30:17 GMT"])
async def test_a_retry_after_that_makes_no_sense_is_ignored(asked: str):
    naps = Naps()
    async with client(Script(answer({}, status=429, Retry_After=asked), GOOD), naps=naps) as venue:
        await venue.get("/markets")
    assert 0 <= naps.taken[0] <= 0.5


async def test_a_retry_after_beyond_the_bound_ends_the_call_at_once():
    naps = Naps()
    async with client(Script(answer({}, status=503, Retry_After="86400")), naps=naps) as venue:
        with pytest.raises(VenueError, match="after 1 attempt"):
            await venue.get("/markets")
    assert naps.taken == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            400,
            {"error": {"code": "bad_request", "message": "bad request", "details": "invalid status filter"}},
            "bad_request: bad request: invalid status filter",
        ),
        (404, {"error": "market not found"}, "market not found"),
        (401, {"code": "unauthorized", "message": "no key"}, "unauthorized: no key"),
        (403, b"<html>forbidden</html>", "a web page"),
        (304, b"", "no JSON"),
        (418, {}, "no message"),
    ],
)
async def test_a_refusal_is_not_repeated_and_carries_the_venues_words(status: int, body: object, words: str):
    script, naps = Script(answer(body, status=status)), Naps()
    async with client(script, naps=naps) as venue:
        with pytest.raises(RefusedError, match=f"HTTP {status}: .*{words}") as caught:
            await venue.get("/markets")
    assert (len(script.requests), naps.taken, caught.value.status) == (1, [], status)


@pytest.mark.parametrize("status", [301, 308])
async def test_an_address_that_has_moved_is_named_with_the_setting_to_change(status: int):
    script = Script(answer(b"", status=status, Location="https://ann:secret@new.example/trade-api/v3/markets"))
    async with client(script) as venue:
        with pytest.raises(RefusedError, match=r"moved to 'new.example/trade-api/v3/markets'.+kalshi_url") as caught:
            await venue.get("/markets")
    assert "secret" not in str(caught.value)
    assert len(script.requests) == 1


@pytest.mark.parametrize("status", [302, 303, 307])
async def test_an_address_that_has_moved_for_now_is_named_without_advice_to_change_a_setting(status: int):
    async with client(Script(answer(b"", status=status, Location="/wait"))) as venue:
        with pytest.raises(RefusedError, match=r"moved for now to '/wait'") as caught:
            await venue.get("/markets")
    assert "setting" not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refusal_of_an_interface_without_keys_does_not_blame_a_key(status: int):
    async with client(Script(answer(b"<html>blocked</html>", status=status))) as venue:
        with pytest.raises(RefusedError, match=r"Kalshi is public: no key is sent or needed") as caught:
            await venue.get("/markets")
    assert "Look at the key" not in str(caught.value)


async def test_a_status_that_the_caller_accepts_is_an_answer():
    async with client(Script(answer({"error": "not found"}, status=404))) as venue:
        assert (await venue.get("/historical/markets/A/candlesticks", accept=frozenset({404}))).status == 404


async def test_no_header_reaches_a_message():
    script = Script(answer({"error": "no"}, status=400, Set_Cookie="session=secret", Kalshi_Key="secret"))
    async with client(script) as venue:
        with pytest.raises(VenueError) as caught:
            await venue.get("/markets")
    assert "secret" not in str(caught.value)


async def test_the_time_of_an_answer_is_the_venues_own():
    async with client(Script(GOOD), clock=lambda: datetime(1999, 1, 1, tzinfo=UTC)) as venue:
        assert (await venue.get("/markets")).fetched_at == datetime(2026, 3, 20, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize("date", ["", "yesterday"])
async def test_without_a_date_the_clock_tells_the_time(date: str):
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    async with client(Script(answer({}, Date=date)), clock=lambda: now) as venue:
        assert (await venue.get("/markets")).fetched_at == now


async def test_the_body_is_kept_to_the_byte():
    body = b'{ "markets" : [ ],\n "cursor":null }'
    compressed = httpx.Response(200, content=gzip.compress(body), headers={"Date": DATE, "Content-Encoding": "gzip"})

    def handler(request: httpx.Request) -> httpx.Response:
        return compressed

    async with client(handler) as venue:
        assert (await venue.get("/markets")).body == body


async def test_a_call_leaves_nothing_in_memory_that_has_to_be_collected(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)  # kept records must not keep the call
    good = answer({"markets": [], "cursor": "of this test alone"})  # other tests may hold pages with the body of GOOD
    gc.collect()
    gc.disable()
    try:
        async with client(Script(answer(b"", status=503), good), naps=Naps()) as venue:
            await venue.get("/markets")
        # isinstance would query weak proxies of other tests for objects that no longer exist.
        left = [item for item in gc.get_objects() if issubclass(type(item), httpx.Response | VenuePage)]
    finally:
        gc.enable()
    assert not [item for item in left if item is not good and good.content in (getattr(item, "body", b""), getattr(item, "_content", b""))]


async def test_every_call_has_a_timeout_and_connections_are_few():
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return answer({})

    async with client(handler, limits=RateLimit(tokens_per_second=1e9, timeout=7)) as venue:
        await venue.get("/markets")
    assert seen == [dict.fromkeys(("connect", "read", "write", "pool"), 7)]


async def test_the_token_bucket_lets_a_burst_through_and_then_holds_the_rate():
    # Five calls at once, then one in ten minutes.
    limits = RateLimit(tokens_per_second=0.1, tokens_per_read=60, bucket_seconds=3000)
    assert (limits.bucket().max_rate, limits.bucket().time_period) == (300, 3000)
    async with client(Script(GOOD), limits=limits) as venue:
        calls = [asyncio.create_task(venue.get("/markets")) for _ in range(6)]
        await asyncio.gather(*calls[:5])
        assert not calls[5].done()
        calls[5].cancel()


def test_the_documented_basic_tier_is_the_default():
    bucket = RateLimit().bucket()
    assert (bucket.max_rate, bucket.time_period) == (400, 2)


@pytest.mark.parametrize("address", ["", "venue.example", "ftp://venue.example", "//venue.example"])
def test_an_address_that_is_none_is_refused_before_any_call(address: str):
    with pytest.raises(ConfigError, match="does not start with http"):
        KalshiClient(address)


@pytest.mark.parametrize("address", ["http://[::1", "http://venue.example:port", "https://name:SECRET@[venue"])
def test_an_address_that_cannot_be_read_is_refused_without_its_password(address: str):
    with pytest.raises(ConfigError, match=r"is none|does not start with") as caught:
        KalshiClient(address)
    assert "SECRET" not in str(caught.value)


async def test_a_password_in_the_address_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture):
    caplog.set_level(0)
    script = Script(answer(b"", status=503), answer({"error": "no"}, status=400))
    options = {"limits": FAST, "transport": httpx.MockTransport(script), "sleep": Naps()}
    async with KalshiClient("https://name:SECRET%40@venue.example/trade-api/v2/", **options) as venue:
        with pytest.raises(RefusedError) as caught:
            await venue.historical_cutoff()
    assert script.urls == ["/historical/cutoff"] * 2
    assert script.requests[0].headers["Authorization"] == httpx.BasicAuth("name", "SECRET@")._auth_header
    shown = [str(caught.value), repr(caught.value), repr(venue), caplog.text]
    assert not any("SECRET" in text for text in shown)


async def test_an_answer_that_trickles_in_for_ever_is_given_up():
    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.005)

    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=trickle())

    async with client(handler, retry=RetryPolicy(seconds=0.05)) as venue:
        with pytest.raises(VenueError, match=r"no whole answer in 0\.05 seconds") as caught:
            await venue.historical_cutoff()
    assert caught.value.kind == "timeout"


async def test_no_more_calls_than_connections_are_under_way_however_many_are_made_side_by_side():
    under_way = most = 0

    async def handler(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return answer({})

    options = {"limits": RateLimit(tokens_per_second=1e9, connections=2), "transport": httpx.MockTransport(handler)}
    async with KalshiClient(URL, **options) as venue:
        await asyncio.gather(*(venue.historical_cutoff() for _ in range(9)))
    assert most == 2


def test_a_date_that_no_calendar_has_is_none():
    assert parse_http_date("Fri, 31 Dec 9999 23:59:59 -1400") is None


class SharedBuckets:
    """Buckets of several clients by name. Records the seconds of each pause."""

    def __init__(self) -> None:
        self.names: list[tuple[str, float, float]] = []
        self.taken: list[float] = []
        self.pauses: list[float] = []

    def limiter(self, name: str, max_rate: float, time_period: float) -> SharedBuckets:
        self.names.append((name, max_rate, time_period))
        return self

    async def acquire(self, amount: float = 1) -> None:
        self.taken.append(amount)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_each_attempt_is_taken_from_the_bucket_that_processes_share():
    shared = SharedBuckets()
    limits = RateLimit(shared=shared)
    async with client(Script(answer(b"", status=503), GOOD), limits=limits) as venue, client(Script(GOOD), limits=limits) as other:
        await venue.get("/markets")
        await other.get("/markets")
    assert shared.names == [(f"venue {URL}", 400, 2)] * 2
    assert shared.taken == [10, 10, 10]


async def test_a_wait_that_the_venue_asks_for_is_passed_on_to_other_processes():
    shared = SharedBuckets()
    asked = [answer(b"", status=429, Retry_After=seconds) for seconds in ("7", "100000")]
    async with client(Script(asked[0], GOOD, answer(b"", status=429), GOOD, asked[1]), limits=RateLimit(shared=shared)) as venue:
        await venue.get("/markets")
        await venue.get("/markets")
        with pytest.raises(VenueError):
            await venue.get("/markets")
    assert shared.pauses == [7]
