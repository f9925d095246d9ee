"""Fixtures of an S3 server and a bucket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lake.s3_server import S3Server


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
    """URL of an empty bucket. The environment contains its keys."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for name, value in s3_server.options.items():
        monkeypatch.setenv(name.upper(), value)
    yield f"s3://{s3_server.bucket()}"
    s3_server.fault = None
