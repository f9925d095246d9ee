"""Failures of calls, their retries with back-off, and the bounds of a response."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from bellwether.errors import VenueError
from bellwether.venues.http.page import MalformedBody, VenuePage, strip_user

if TYPE_CHECKING:
    import httpx

#: Doublings after which every cap is reached.
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of the retries of one call.

    base, cap: seconds of `compute_delay`, with full jitter. seconds: maximum total time of all waits and attempts. attempts: maximum number
    of attempts.
    """

    base: float = 0.5
    cap: float = 20.0
    seconds: float = 180.0
    attempts: int = 60

    def draw(self, failures: int, rng: Random) -> float:
        """Draw the seconds to wait after this many failures in a row."""
        return compute_delay(failures, rng, base=self.base, cap=self.cap)

    def is_spent(self, attempts: int, seconds: float) -> bool:
        """Return True if no attempt may follow this many. seconds: from the start of the first to the end of the next wait."""
        return attempts >= self.attempts or seconds > self.seconds


#: Kinds of failures, as `VenueError.kind` states them.
RATE_LIMIT, SERVER, TIMEOUT, CONNECTION, MALFORMED = "rate limit", "server", "timeout", "connection", "malformed"
#: Kind of a refusal by HTTP status; any other status is "refused".
REFUSALS = {301: "moved", 308: "moved", 401: "authentication", 402: "out of credit", 403: "authentication", 404: "not found"}


class TransientFailure(Exception):
    """Failure that may pass. kind: see `VenueError.kind`. retry_after: seconds to wait as requested by the venue, if any."""

    def __init__(self, kind: str, cause: str, retry_after: float | None = None) -> None:
        self.kind = kind
        self.cause = cause
        self.retry_after = retry_after
        super().__init__(cause)


class RefusedError(VenueError):
    """Refusal of a call that a retry cannot cure. `status` is the HTTP status."""

    def __init__(self, call: str, attempts: int, status: int, cause: str, advice: str | None = None) -> None:
        self.status = status
        super().__init__(call, attempts, cause, advice or _REFUSED_AGAIN, kind=REFUSALS.get(status, "refused"))


#: Requested encodings; others are not read.
ENCODINGS = "gzip, deflate"


class TooLargeError(VenueError):
    """A response's body exceeds the maximum size; the rest of the body was not read."""

    def __init__(self, call: str, attempts: int, most: int) -> None:
        advice = "Look at the address; if the venue really sends so much, raise BELLWETHER_RESPONSE_MB"
        super().__init__(call, attempts, f"the answer is larger than {most / 2**20:g} MB and was not read", advice, kind="too large")


class OversizedBody(Exception):
    """A response's body is longer than the maximum."""


async def read_body(response: httpx.Response, most: int, body: bytearray | None = None) -> bytes:
    """Read and decompress the body of a streamed response. most: maximum number of bytes, decompressed. body: receives the bytes in order,
    so that the part before a failure is available.

    Raises `OversizedBody` as soon as the body exceeds `most`, and `httpx.DecodingError` if it does not match its Content-Encoding, or ends
    too early. httpx would decompress a chunk as a whole, to a thousand times its size.
    """
    import httpx

    body, sent, stream = bytearray() if body is None else body, 0, response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise httpx.DecodingError(f"an encoding that was not asked for: {encoding[:40]!r}", request=response.request)
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding not in ("", "identity") else None
    try:
        async for chunk in stream:
            sent += len(chunk)
            body += unpack.decompress(chunk, most + 1 - len(body)) if unpack else chunk
            if len(body) > most:
                raise OversizedBody
    except zlib.error as error:
        raise httpx.DecodingError(str(error), request=response.request) from error
    if unpack and sent and not unpack.eof:
        raise httpx.DecodingError("the packed body ends too early", request=response.request)
    return bytes(body)


#: Likely cause of a refusal as unauthorized at an interface without keys.
BLOCKED = "no key is sent or needed; it may refuse this machine's region or network address (VPN, proxy, firewall)"
_REFUSED_AGAIN = "The same request will be refused again: check the parameters"
#: Statuses from 400 to 499 that a retry may cure -> kind of the failure.
_PASSING = {408: TIMEOUT, 425: SERVER, 429: RATE_LIMIT}


def refuse_redirect(call: str, attempts: int, response: httpx.Response, setting: str) -> RefusedError:
    """Build the error for a redirected call, with the target; redirects are not followed. setting: name of the setting that has the
    address.
    """
    address = strip_user(response.headers["Location"])[:300]
    status, lasting = response.status_code, response.status_code in (301, 308)
    cause = f"HTTP {status}: the address has moved{'' if lasting else ' for now'} to {address!r}"
    return RefusedError(call, attempts, status, cause, f"Put the new address into the setting {setting}" if lasting else None)


def compute_delay(failures: int, rng: Random, *, base: float, cap: float, least: float = 0.0) -> float:
    """Draw the seconds to wait after this many failures, uniformly between `least` * d and d = min(cap, base * 2**(failures - 1)).

    `least` 0 is the "full jitter", 1/2 the "equal jitter" of M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    longest = min(cap, base * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
    return rng.uniform(least * longest, longest)


def describe_failure(error: httpx.HTTPError) -> TransientFailure:
    """Convert a transport error to a `TransientFailure` whose message contains no headers and addresses."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return TransientFailure(TIMEOUT, f"no answer in time ({type(error).__name__})")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.DecodingError):
        return TransientFailure(CONNECTION, f"the connection broke in the middle of the answer ({type(error).__name__})")
    return TransientFailure(CONNECTION, f"no connection ({type(error).__name__})")


def check_status(response: httpx.Response, body: bytes, now: Callable[[], datetime]) -> None:
    """Raise `TransientFailure` for a status that a retry may cure: 408, 425, 429 and 5xx."""
    status = response.status_code
    kind = SERVER if status >= 500 else _PASSING.get(status)
    if kind is not None:
        raise TransientFailure(kind, f"HTTP {status}: {parse_error_text(body)}", parse_retry_after(response, now))


def check_body(page: VenuePage, required: str, *, lists: bool = False) -> None:
    """Raise `TransientFailure` for a successful response whose body is truncated, a web page, not a JSON object (or list, with `lists`), or an
    object without the field `required`.
    """
    if page.status >= 300:
        return
    try:
        content = page.json if lists else page.answer
    except MalformedBody as malformed:
        raise TransientFailure(MALFORMED, f"HTTP {page.status} with {malformed}") from None
    if required and isinstance(content, dict) and required not in content:
        names = ", ".join(sorted(content)) or "nothing"
        raise TransientFailure(MALFORMED, f"HTTP {page.status} without {required!r}; the answer holds {names:.200}")


def parse_retry_after(response: httpx.Response, now: Callable[[], datetime]) -> float | None:
    """Parse the seconds to wait from Retry-After (a number or a date); None without such a header."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    return seconds_until(text, now())


def parse_http_date(text: str) -> datetime | None:
    """Parse the aware UTC instant of an HTTP date; None for other text."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def seconds_until(text: str, now: datetime) -> float | None:
    """Return the seconds from `now` to an HTTP date, 0 for a past date; None for other text."""
    until = parse_http_date(text) if text else None
    return None if until is None else max(0.0, (until - now).total_seconds())


def parse_error_text(body: bytes) -> str:
    """Extract the venue's message, at most 300 characters, from an error body.

    Bodies are `{"error": {"code", "message", "details"}}`, `{"error": "…"}` or an object with these three keys.
    """
    try:
        content: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "a web page (HTML)" if body.lstrip().startswith(b"<") else f"a body of {len(body)} bytes that is no JSON"
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        texts = [str(error[name]) for name in ("code", "message", "details") if error.get(name)]
        error = ": ".join(dict.fromkeys(texts)) or "no message"
    return str(error)[:300]
