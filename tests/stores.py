"""Fixtures of an S3 server and a bucket, and helpers for tests on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.s3_server import S3Server, retry_at_once


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """S3 server on loopback that fails on demand."""
    pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of an empty bucket. The environment contains its keys, and requests are retried without delays."""
    retry_at_once(monkeypatch)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name, value in s3_server.options.items():
        monkeypatch.setenv(name.upper(), value)
    yield f"s3://{s3_server.bucket()}"
    s3_server.fault = None


def requests_of(place: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Record all further requests to the store of a place, with the last part of the key."""
    from bellwether.places import filesystem

    fs, _ = filesystem(place)
    sent: list[str] = []
    request = fs._call_s3

    async def noted(method: str, *args: Any, **more: Any) -> Any:
        sent.append(f"{method} {more.get('Key', '').rpartition('/')[2]}")
        return await request(method, *args, **more)

    patch.setattr(fs, "_call_s3", noted)
    return sent


def close_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Continue without a store: nothing answers at its address, and requests are not retried."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("bellwether.places._PATIENCE", {"connect_timeout": 1, "read_timeout": 1, "retries": {"max_attempts": 0}})
    monkeypatch.setattr("s3fs.core.S3FileSystem.retries", 1)
