"""The HTTP client of both venues: retries, refusals, rate limits, odd bodies, and final errors without secrets."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from itertools import product
from random import Random

import httpx
import pytest

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.http.client import ClobClient, GammaClient, KalshiClient, RateLimit
from bellwether.venues.http.page import VenueCall
from bellwether.venues.http.retry import RefusedError, RetryPolicy, TooLargeError, compute_delay
from bellwether.venues.kalshi import routes
from tests.unit.venues.venue import DATE, FAST, URL, Naps, Script, answer, client

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
        page = await venue.fetch(VenueCall("/markets"))
    assert page.answer == {"markets": [], "cursor": ""}
    assert len(script.requests) == 3
    assert len(naps.taken) == 2


async def test_the_back_off_grows_is_jittered_and_is_capped():
    naps = Naps()
    async with client(Script(answer({}, status=500)), naps=naps, retry=RetryPolicy(base=1, cap=8, seconds=1e9, attempts=40)) as venue:
        with pytest.raises(VenueError):
            await venue.fetch(VenueCall("/markets"))
    ceilings = [min(8, 2**attempt) for attempt in range(39)]
    assert all(0 <= nap <= ceiling for nap, ceiling in zip(naps.taken, ceilings, strict=True))
    assert max(naps.taken[4:]) > 4
    assert len(set(naps.taken)) == 39


async def test_the_total_time_of_a_call_is_bounded():
    naps = Naps()
    async with client(Script(answer({}, status=500)), naps=naps, retry=RetryPolicy(base=4, cap=16, seconds=60, attempts=10_000)) as venue:
        with pytest.raises(VenueError):
            await venue.fetch(VenueCall("/markets"))
    assert 30 < sum(naps.taken) <= 60


@pytest.mark.parametrize("asked", ["17", "Fri, 20 Mar 2026 08:30:17 GMT"])
async def test_retry_after_is_honoured(asked: str):
    naps = Naps()
    now = datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
    script = Script(answer({"error": "slow down"}, status=429, Retry_After=asked), GOOD)
    async with client(script, naps=naps, clock=lambda: now) as venue:
        await venue.fetch(VenueCall("/markets"))
    assert naps.taken == [17.0]


async def test_a_retry_after_beyond_the_bound_ends_the_call_at_once():
    naps = Naps()
    async with client(Script(answer({}, status=503, Retry_After="86400")), naps=naps) as venue:
        with pytest.raises(VenueError, match="after 1 attempt"):
            await venue.fetch(VenueCall("/markets"))
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
            await venue.fetch(VenueCall("/markets"))
    assert (len(script.requests), naps.taken, caught.value.status) == (1, [], status)


async def test_a_password_in_the_address_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture):
    caplog.set_level(0)
    script = Script(answer(b"", status=503), answer({"error": "no"}, status=400))
    options = {"limits": FAST, "transport": httpx.MockTransport(script), "sleep": Naps()}
    async with KalshiClient("https://name:SECRET%40@venue.example/trade-api/v2/", **options) as venue:
        with pytest.raises(RefusedError) as caught:
            await venue.fetch(routes.historical_cutoff())
    assert script.urls == ["/historical/cutoff"] * 2
    assert script.requests[0].headers["Authorization"] == httpx.BasicAuth("name", "SECRET@")._auth_header
    shown = [str(caught.value), repr(caught.value), repr(venue), caplog.text]
    assert not any("SECRET" in text for text in shown)


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
        await venue.fetch(VenueCall("/markets"))
        await other.fetch(VenueCall("/markets"))
    assert shared.names == [(f"venue {URL}", 400, 2)] * 2
    assert shared.taken == [10, 10, 10]


BODY = b'{"markets":[],"cursor":""}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n" + BODY
Talk = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def cut(writer: asyncio.StreamWriter) -> None:
    """Send half the body, and close the connection."""
    writer.write(WHOLE[:-13])
    await writer.drain()


async def reset(writer: asyncio.StreamWriter) -> None:
    """Send half the body, and reset the connection."""
    writer.write(WHOLE[:-13])
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def cut_chunks(writer: asyncio.StreamWriter) -> None:
    """Send a chunked body without its end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + BODY[:13] + b"\r\n")
    await writer.drain()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Send nothing, and close the connection."""


@asynccontextmanager
async def socket_venue(first: Talk) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve a misbehaving first connection and normal later ones. Returns the address and the requests received."""
    requests: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0])
        if len(requests) == 1:
            await first(writer)
        else:
            writer.write(WHOLE)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/trade-api/v2", requests


def packed_head(encoding: str, length: int | None = None) -> bytes:
    """Return the head of an encoded answer. Without a length the body ends with the connection."""
    size = f"Content-Length: {length}\r\n" if length is not None else "Connection: close\r\n"
    return f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n{size}\r\n".encode()


async def bomb(writer: asyncio.StreamWriter) -> None:
    """Send a few bytes that decompress to 64 MB."""
    packed = _packed_zeros(64 << 20)
    writer.write(packed_head("gzip", len(packed)))
    with suppress(OSError):
        writer.write(packed)
        await writer.drain()


async def half_of_a_packed_body(writer: asyncio.StreamWriter) -> None:
    """Send half of a compressed body whose stated length is that of the half."""
    writer.write(packed_head("gzip", 20) + gzip.compress(BODY)[:20])
    await writer.drain()


async def unasked(writer: asyncio.StreamWriter) -> None:
    """Send a body in an encoding that the client did not request."""
    writer.write(packed_head("br", 3) + b"abc")
    await writer.drain()


def _packed_zeros(size: int) -> bytes:
    packer, zeros = zlib.compressobj(9, wbits=31), bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(size >> 20)) + packer.flush()


async def test_a_body_beyond_the_bound_is_given_up_at_once_in_little_memory():
    async with socket_venue(bomb) as (url, requests), KalshiClient(url, limits=FAST, most_bytes=4 << 20, sleep=Naps()) as client:
        tracemalloc.start()
        try:
            with pytest.raises(TooLargeError, match=r"larger than 4 MB.+BELLWETHER_RESPONSE_MB"):
                await client.fetch(VenueCall("/markets"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(requests) == 1
    assert peak < 16 << 20


@pytest.mark.parametrize("talk", [half_of_a_packed_body, unasked])
async def test_a_body_that_cannot_be_unpacked_is_asked_for_again(talk: Talk):
    async with socket_venue(talk) as (url, requests), KalshiClient(url, limits=FAST, sleep=Naps()) as client:
        assert (await client.fetch(VenueCall("/markets"))).body == BODY
    assert len(requests) == 2


async def test_a_failure_that_does_not_pass_ends_in_one_error_without_headers():
    script = Script(answer({"error": {"code": "internal"}}, status=500, Set_Cookie="session=secret"))
    async with client(script, retry=RetryPolicy(attempts=4)) as venue:
        with pytest.raises(VenueError) as caught:
            await venue.fetch(VenueCall("/markets", (("limit", "5"),)))
    assert (caught.value.call, caught.value.attempts, len(script.requests)) == ("GET /markets?limit=5", 4, 4)
    assert "secret" not in str(caught.value)


def test_a_delay_doubles_up_to_its_cap():
    for least, (failures, longest) in product((0.0, 0.5), ((1, 2.0), (2, 4.0), (5, 32.0), (6, 60.0), (5000, 60.0))):
        rng = Random(1)
        found = [compute_delay(failures, rng, base=2.0, cap=60.0, least=least) for _ in range(500)]
        assert least * longest <= min(found) < (least + 0.05) * longest
        assert 0.95 * longest < max(found) <= longest


async def test_a_retry_after_that_makes_no_sense_is_ignored():
    now = datetime(2026, 3, 20, 8, 30, tzinfo=UTC)
    for asked in ("soon", "-5", "", "Fri, 20 Mar 1999 08:30:17 GMT", "Fri, 31 Dec 9999 23:59:59 -1400"):
        naps = Naps()
        async with client(Script(answer({}, status=429, Retry_After=asked), GOOD), naps=naps, clock=lambda: now) as venue:
            await venue.fetch(VenueCall("/markets"))
        assert 0 <= naps.taken[0] <= 0.5, asked


@pytest.mark.parametrize(("status", "named"), [(301, True), (308, True), (302, False), (303, False), (307, False)])
async def test_an_address_that_has_moved_is_named_without_its_password(status: int, named: bool):
    script = Script(answer(b"", status=status, Location="https://ann:secret@new.example/trade-api/v3/markets"))
    async with client(script) as venue:
        with pytest.raises(RefusedError, match=r"new.example/trade-api/v3/markets") as caught:
            await venue.fetch(VenueCall("/markets"))
    assert "secret" not in str(caught.value)
    assert ("kalshi_url" in str(caught.value)) == named, "a setting is changed only for a lasting move"
    assert len(script.requests) == 1


async def test_an_answer_has_its_bytes_status_timeout_and_the_venues_time():
    seen, body, sent = [], b'{ "markets" : [ ],\n "cursor":null }', {"Content-Encoding": "gzip"}

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(404, content=gzip.compress(body), headers=sent)

    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    for date, fetched_at in ((DATE, datetime(2026, 3, 20, 8, 30, tzinfo=UTC)), ("", now), ("yesterday", now)):
        sent["Date"] = date
        async with client(handler, limits=RateLimit(tokens_per_second=1e9, timeout=7), clock=lambda: now) as venue:
            page = await venue.fetch(VenueCall("/historical/markets/A/candlesticks"), accept=frozenset({404}))
        assert (page.body, page.status, page.fetched_at) == (body, 404, fetched_at)
    assert seen == [dict.fromkeys(("connect", "read", "write", "pool"), 7)] * 3


def test_an_address_that_cannot_be_used_is_refused_without_its_password():
    addresses = (
        "",
        "venue.example",
        "ftp://venue.example",
        "//venue.example",
        "http://[::1",
        "http://venue.example:port",
        "https://name:SECRET@[venue",
    )
    for address in addresses:
        with pytest.raises(ConfigError) as caught:
            KalshiClient(address)
        assert "SECRET" not in str(caught.value)
    with pytest.raises(ConfigError, match="gamma_url"):
        GammaClient("gamma.example")


@pytest.mark.parametrize(("kind", "calls_in_ten_seconds"), [(GammaClient, 300), (ClobClient, 500)])
def test_the_usual_rate_is_below_the_documented_one(kind: type[GammaClient] | type[ClobClient], calls_in_ten_seconds: int):
    limits = kind("https://venue.example").limits
    assert (limits.tokens_per_second * (10 + limits.bucket_seconds)) / limits.tokens_per_read <= calls_in_ten_seconds


async def stall(writer: asyncio.StreamWriter) -> None:
    """Send the headers, and then nothing for longer than the client waits."""
    writer.write(WHOLE[:-26])
    await writer.drain()
    for _ in range(40):
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("first", [cut, reset, cut_chunks, stall, hang_up])
async def test_an_answer_that_breaks_off_is_asked_for_again(first: Talk):
    limits = RateLimit(timeout=0.3 if first is stall else 60)
    async with socket_venue(first) as (address, requests), KalshiClient(address, limits=limits, sleep=Naps()) as client:
        page = await client.fetch(VenueCall("/markets", (("limit", "5"),)))
    assert page.body == BODY
    assert requests[:2] == ["GET /trade-api/v2/markets?limit=5 HTTP/1.1"] * 2


def test_a_call_is_retried_sixty_times_within_three_minutes():
    retry = RetryPolicy()
    assert (retry.base, retry.cap, retry.seconds, retry.attempts) == (0.5, 20.0, 180.0, 60)


async def test_a_wait_that_the_venue_asks_for_is_passed_on_to_other_processes():
    shared = SharedBuckets()
    asked = [answer(b"", status=429, Retry_After=seconds) for seconds in ("7", "100000")]
    async with client(Script(asked[0], GOOD, answer(b"", status=429), GOOD, asked[1]), limits=RateLimit(shared=shared)) as venue:
        await venue.fetch(VenueCall("/markets"))
        await venue.fetch(VenueCall("/markets"))
        with pytest.raises(VenueError):
            await venue.fetch(VenueCall("/markets"))
    assert shared.pauses == [7]
