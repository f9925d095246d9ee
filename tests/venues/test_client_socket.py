"""The client against a real socket that misbehaves."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from tests.venues.venue import Naps

BODY = b'{"markets":[],"cursor":""}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n" + BODY
Talk = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def cut(writer: asyncio.StreamWriter) -> None:
    """Half the body, then the end of the connection."""
    writer.write(WHOLE[:-13])
    await writer.drain()


async def reset(writer: asyncio.StreamWriter) -> None:
    """Half the body, then a reset."""
    writer.write(WHOLE[:-13])
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def cut_chunks(writer: asyncio.StreamWriter) -> None:
    """A chunked body without its end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + BODY[:13] + b"\r\n")
    await writer.drain()


async def stall(writer: asyncio.StreamWriter) -> None:
    """The headers, and then nothing for longer than the client waits."""
    writer.write(WHOLE[:-26])
    await writer.drain()
    await asyncio.sleep(0.6)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Not a word."""


@asynccontextmanager
async def venue(first: Talk) -> AsyncIterator[tuple[str, list[str]]]:
    """A server whose first connection misbehaves and whose others answer; its address and the requests it got."""
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
    async with venue(first) as (address, requests), KalshiClient(address, limits=RateLimit(timeout=0.3), sleep=Naps()) as client:
        page = await client.page("/markets", (("limit", "5"),))
    assert page.body == BODY
    assert requests == ["GET /trade-api/v2/markets?limit=5 HTTP/1.1"] * 2
