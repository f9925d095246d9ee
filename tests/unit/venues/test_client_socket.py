"""The client against a misbehaving server on a real socket."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import httpx
import pytest

from bellwether.venues.http.response_body import TooLargeError, read_body
from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from tests.venues.venue import FAST, Naps

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


async def stall(writer: asyncio.StreamWriter) -> None:
    """Send the headers, and then nothing for longer than the client waits."""
    writer.write(WHOLE[:-26])
    await writer.drain()
    await asyncio.sleep(2.0)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Send nothing, and close the connection."""


@asynccontextmanager
async def venue(first: Talk) -> AsyncIterator[tuple[str, list[str]]]:
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


@pytest.mark.parametrize("first", [cut, reset, cut_chunks, stall, hang_up])
async def test_an_answer_that_breaks_off_is_asked_for_again(first: Talk):
    limits = RateLimit(timeout=1.0 if first is stall else 60)
    async with venue(first) as (address, requests), KalshiClient(address, limits=limits, sleep=Naps()) as client:
        page = await client.get("/markets", (("limit", "5"),))
    assert page.body == BODY
    assert requests == ["GET /trade-api/v2/markets?limit=5 HTTP/1.1"] * 2


def packed_head(encoding: str, length: int | None = None) -> bytes:
    """Return the head of an encoded answer. Without a length the body ends with the connection."""
    size = f"Content-Length: {length}\r\n" if length is not None else "Connection: close\r\n"
    return f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n{size}\r\n".encode()


async def endless(writer: asyncio.StreamWriter) -> None:
    """Send a body that never ends."""
    writer.write(packed_head("identity") + b'{"markets":["')
    with suppress(OSError):
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()


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


@pytest.mark.parametrize("talk", [endless, bomb])
async def test_a_body_beyond_the_bound_is_given_up_at_once_in_little_memory(talk: Talk):
    async with venue(talk) as (url, requests), KalshiClient(url, limits=FAST, most_bytes=4 << 20, sleep=Naps()) as client:
        tracemalloc.start()
        try:
            with pytest.raises(TooLargeError, match=r"larger than 4 MB.+BELLWETHER_RESPONSE_MB"):
                await client.get("/markets")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(requests) == 1
    assert peak < 16 << 20


@pytest.mark.parametrize("talk", [half_of_a_packed_body, unasked])
async def test_a_body_that_cannot_be_unpacked_is_asked_for_again(talk: Talk):
    async with venue(talk) as (url, requests), KalshiClient(url, limits=FAST, sleep=Naps()) as client:
        assert (await client.get("/markets")).body == BODY
    assert len(requests) == 2


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 3 << 20])
@pytest.mark.parametrize("step", [7, 65_536])
async def test_packed_bodies_of_any_length_in_any_chunks_are_unpacked_whole(size: int, step: int):
    for body in (bytes(size), Random(1).randbytes(size if step > 7 else size % 1000)):
        packed = gzip.compress(body[: size // 2]) + gzip.compress(body[size // 2 :])

        async def chunks(packed: bytes = packed) -> AsyncIterator[bytes]:
            for start in range(0, len(packed), step):
                yield packed[start : start + step]

        response = httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=chunks())
        assert await read_body(response, 4 << 20) == body
