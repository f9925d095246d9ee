"""An S3 server on loopback that counts requests and fails on demand."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Answer = tuple[str, list[tuple[str, str]], bytes]
#: Returns the answer to a request, given its WSGI environment and the function that serves it. None: serve it as usual.
Fault = Callable[[dict[str, Any], Callable[[], Answer]], Answer | None]

SLOW_DOWN: Answer = (
    "503 Slow Down",
    [("Content-Type", "application/xml")],
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
)


class S3Server:
    """moto with a request counter. It serves one request at a time, because moto compares ETags and writes in two steps.

    Attributes:
        requests: (method, path) of each request since `counting` began.
        fault: answers requests in place of the server.
    """

    # Servers of one process share moto's buckets.
    _buckets = itertools.count()

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        self.fault: Fault | None = None
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self.endpoint = f"http://127.0.0.1:{self._server.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def options(self) -> dict[str, str]:
        """Return the options of a lake."""
        return {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "aws_endpoint_url": self.endpoint}

    def bucket(self) -> str:
        """Return the name of a new bucket."""
        name = f"bucket-{next(self._buckets)}"
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT"))
        return name

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count requests by method. The counts are complete at the end of the block."""
        start, counts = len(self.requests), Counter[str]()
        yield counts
        counts.update(method for method, _ in self.requests[start:])

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if environ.get("QUERY_STRING", "").startswith("list-type"):
            method = "LIST"
        self.requests.append((method, path))

        def serve() -> Answer:
            head: list[Any] = []
            with self._lock:
                body = b"".join(self._app(environ, lambda status, headers, *_: head.extend((status, headers))))
            return head[0], head[1], body

        answer = self.fault(environ, serve) if self.fault else None
        status, headers, body = answer or serve()
        start_response(status, headers)
        return [body]


def truncate_body(answer: Answer, *, silently: bool = False) -> Answer:
    """Return the answer with half of its body. `silently`: its headers do not promise the rest."""
    status, headers, body = answer
    half = body[: len(body) // 2]
    if silently:
        unstated = ("content-length", "x-amz-checksum-crc32", "x-amz-checksum-crc64nvme")
        headers = [*((name, value) for name, value in headers if name.lower() not in unstated), ("Content-Length", str(len(half)))]
    return status, headers, half


def lose_answer(serve: Callable[[], Answer]) -> Answer:
    """Serve a request, but answer like a gateway that lost the answer."""
    serve()
    return "504 Gateway Timeout", [("Content-Type", "text/plain")], b"lost"


def retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without delays. Clients of S3 wait for seconds, but this server recovers at once."""
    sleep = asyncio.sleep

    async def yield_control(_: float) -> None:
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", yield_control)
    monkeypatch.setattr(time, "sleep", lambda _: None)
