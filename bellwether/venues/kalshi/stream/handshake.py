"""Signed handshake of Kalshi's WebSocket; failures are classified as transient or final."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from bellwether.errors import ConfigError, VenueError
from bellwether.venues.http.page import strip_user
from bellwether.venues.http.retry import CONNECTION, MALFORMED, RATE_LIMIT, REFUSALS, SERVER, TIMEOUT, TransientFailure, parse_error_text
from bellwether.venues.kalshi.stream.signing import Credentials, build_headers

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

#: Maximum number of unread frames, and maximum bytes of a frame.
_QUEUE = 4096
_LARGEST = 1 << 24
#: The debug messages of the library contain the signed headers.
_QUIET = logging.getLogger("bellwether.websocket")
_QUIET.setLevel(logging.INFO)


def format_handshake(url: str) -> str:
    """Format the handshake as text for messages, such as "GET /path (WebSocket)"."""
    return f"GET {urlsplit(url).path} (WebSocket)"


def check_url(url: str) -> str:
    """Return `url` if it is a valid WebSocket address. Raises `ConfigError` otherwise."""
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.netloc:
        raise ConfigError(
            f"connecting to Kalshi's stream: the address {strip_user(url)!r} does not start with ws:// or wss:// and a host; mend kalshi_stream_url"
        )
    return url


class _NoRedirects(connect):
    """WebSocket connection without redirects, because the signed headers must not reach another host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Refuse the redirect: return it as an error instead of its target."""
        return exc


async def open_socket(url: str, credentials: Credentials, *, timeout: float) -> ClientConnection:
    """Open a signed connection. Raises `TransientFailure` for failures that may pass, and `VenueError` for a refusal.

    timeout: seconds. The signature uses the real time. No error message contains the key or a signature.
    """
    path = urlsplit(url).path
    try:
        return await _NoRedirects(
            url,
            additional_headers=build_headers(credentials, "GET", path, time.time_ns() // 1_000_000),
            compression=None,
            open_timeout=timeout,
            close_timeout=2.0,
            logger=_QUIET,
            ping_interval=None,
            max_queue=_QUEUE,
            max_size=_LARGEST,
        )
    except InvalidStatus as error:
        raise _status_failure(format_handshake(url), error) from None
    except InvalidURI as error:
        raise ConfigError(
            f"connecting to Kalshi's stream: {strip_user(url)!r} is no address ({error.msg}); mend kalshi_stream_url"
        ) from None
    except InvalidHandshake as error:
        raise TransientFailure(MALFORMED, f"no WebSocket at the other end ({type(error).__name__})") from None
    except TimeoutError:
        raise TransientFailure(TIMEOUT, f"no answer to the handshake within {timeout:g} s") from None
    except (OSError, EOFError) as error:
        raise TransientFailure(CONNECTION, f"no connection ({type(error).__name__})") from None


def _status_failure(call: str, error: InvalidStatus) -> Exception:
    """Convert a refused handshake to an exception, by its status."""
    status = error.response.status_code
    cause = f"HTTP {status}: {parse_error_text(bytes(error.response.body or b''))}"
    if status == 429 or status >= 500:
        return TransientFailure(RATE_LIMIT if status == 429 else SERVER, cause)
    if 300 <= status < 500:
        kind = REFUSALS.get(status, "refused")
        advice = (
            "Look at the key, whether it has expired, and at this machine's clock" if kind == "authentication" else "Look at the address"
        )
        return VenueError(call, 1, cause, advice, kind=kind)
    return TransientFailure(MALFORMED, cause)
