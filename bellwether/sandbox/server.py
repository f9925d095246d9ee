"""Server of the sandbox on a local port, for the duration of a `with` block."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp

from bellwether.errors import BellwetherError
from bellwether.sandbox.app import CLOB_PATH, GAMMA_PATH, KALSHI_PATH, MODELS_PATH
from bellwether.sandbox.replayer import KALSHI_STREAM_PATH

_LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Site:
    """Addresses of a running sandbox. root: common beginning of the addresses, such as http://127.0.0.1:4711."""

    root: str

    @property
    def kalshi(self) -> str:
        """Base URL of Kalshi's REST interface."""
        return self.root + KALSHI_PATH

    @property
    def kalshi_stream(self) -> str:
        """Address of Kalshi's WebSocket."""
        return self.root.replace("http://", "ws://") + KALSHI_STREAM_PATH

    @property
    def gamma(self) -> str:
        """Base URL of Polymarket's Gamma interface."""
        return self.root + GAMMA_PATH

    @property
    def clob(self) -> str:
        """Base URL of Polymarket's CLOB interface."""
        return self.root + CLOB_PATH

    @property
    def models(self) -> str:
        """Base URL of the model endpoint, for OpenAI's clients."""
        return self.root + MODELS_PATH


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise BellwetherError(
            f"serve the sandbox: cannot listen on {host} port {port} ({error.strerror or error}); choose another port, or 0 for any free one"
        ) from error
    return listener


class _Thread(threading.Thread):
    """Thread that runs the server; `cause` is the exception that ended it."""

    def __init__(self, server: uvicorn.Server, listener: socket.socket) -> None:
        super().__init__(name="bellwether-sandbox", daemon=True)
        self._server = server
        self._listener = listener
        self.cause: BaseException | None = None

    def run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except BaseException as error:
            self.cause = error


def _wait_until_started(server: uvicorn.Server, thread: _Thread) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            reason = repr(thread.cause) if thread.cause else "it did not answer in time"
            raise BellwetherError(f"serve the sandbox: the server did not start: {reason}; look at its log") from thread.cause
        time.sleep(0.005)


def _stop(server: uvicorn.Server, thread: _Thread) -> None:
    """Stop the server; responses that are not finished after `_STOP_SECONDS` are cut off."""
    server.should_exit = True
    thread.join(_STOP_SECONDS)
    if thread.is_alive():
        server.force_exit = True
        thread.join(_STOP_SECONDS)


@contextmanager
def serve(app: ASGIApp, host: str = "127.0.0.1", port: int = 0) -> Iterator[Site]:
    """Serve `app` in a thread until the block ends. Yields the addresses of the sandbox's services. port: 0 selects a free one.

    Requests whose Host header names another machine are refused, so that a web page cannot access the server. Raises `BellwetherError` if
    the port is in use.
    """
    listener = _listen(host, port)
    config = uvicorn.Config(
        TrustedHostMiddleware(app, allowed_hosts=[host, *_LOCAL], www_redirect=False),
        log_config=None,
        access_log=False,
        lifespan="off",
        date_header=False,
        server_header=False,
        timeout_keep_alive=60,
        ws_ping_interval=10.0,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = _Thread(server, listener)
    name = f"[{host}]" if ":" in host else host
    site = Site(f"http://{name}:{listener.getsockname()[1]}")
    try:
        thread.start()
        _wait_until_started(server, thread)
        yield site
    finally:
        _stop(server, thread)
        listener.close()
