"""A bucket on an S3 server on loopback, and the environment of commands that use it."""

from __future__ import annotations

import itertools
import logging
import urllib.request
from collections.abc import Iterator

import pytest

_BUCKETS = itertools.count()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Address of the server."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of an empty bucket, which the environment's keys open."""
    for name, value in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"), ("ENDPOINT_URL", s3_endpoint), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    name = f"store-{next(_BUCKETS)}"
    urllib.request.urlopen(urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT"))
    return f"s3://{name}"
