"""Reading of response bodies with a maximum size, which also applies to the decompressed body."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import httpx

from bellwether.errors import VenueError

#: Requested encodings; others are not read.
ENCODINGS = "gzip, deflate"
#: Bytes that are unpacked at a time.
_PART = 1 << 20
_ADVICE = "Look at the address; if the venue really sends so much, raise BELLWETHER_RESPONSE_MB"


class TooLargeError(VenueError):
    """A response's body exceeds the maximum size; the rest of the body was not read."""

    def __init__(self, call: str, attempts: int, most: int) -> None:
        super().__init__(call, attempts, f"the answer is larger than {most / 2**20:g} MB and was not read", _ADVICE, kind="too large")


class OversizedBody(Exception):
    """A response's body is longer than the maximum."""


async def read_body(response: httpx.Response, most: int, body: bytearray | None = None) -> bytes:
    """Read and decompress the body of a streamed response. most: maximum number of bytes, both as sent and decompressed. body: receives the
    bytes in order, so that the part before a failure is available.

    Raises `OversizedBody` as soon as the body exceeds `most`, and `httpx.DecodingError` if it does not match its Content-Encoding, or ends
    too early.
    """
    unpack, stream = _create_decoder(response), response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    body = bytearray() if body is None else body
    sent = 0
    async for chunk in stream:
        sent += len(chunk)
        if sent > most:
            raise OversizedBody
        for part in unpack(chunk):
            body += part
            if len(body) > most:
                raise OversizedBody
    if sent and not unpack.is_whole:
        raise httpx.DecodingError("the packed body ends too early", request=response.request)
    return bytes(body)


class _IdentityDecoder:
    """Decoder of a body that is not compressed."""

    is_whole = True

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk


class _DeflateDecoder:
    """Decoder of gzip or deflate; a body may consist of several compressed parts (members)."""

    def __init__(self, fail: Callable[[str], Exception]) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._fail = fail

    @property
    def is_whole(self) -> bool:
        """True if the last compressed part has ended."""
        return self._member.eof

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed `chunk` in parts of at most `_PART` bytes."""
        part = b""
        while chunk or (len(part) == _PART and not self._member.eof):
            if self._member.eof:
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 32)
            try:
                part = self._member.decompress(chunk, _PART)
            except zlib.error as error:
                raise self._fail(str(error)) from error
            yield part
            chunk = self._member.unconsumed_tail or self._member.unused_data


def _create_decoder(response: httpx.Response) -> _IdentityDecoder | _DeflateDecoder:
    def fail(cause: str) -> Exception:
        return httpx.DecodingError(cause, request=response.request)

    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return _IdentityDecoder()
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _DeflateDecoder(fail)
    raise fail(f"an encoding that was not asked for: {encoding[:40]!r}")
