"""One set of S3 options for the three libraries that read and write the lake: fsspec, Polars and DuckDB.

Options carry Polars' names; what is left out is taken from the environment variable of the same name in capitals.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bellwether.errors import ConfigError

SCHEMES = ("s3", "s3a")
KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_endpoint_url", "aws_allow_http")


def resolve(options: Mapping[str, str]) -> dict[str, str]:
    """`options` completed from the environment; an `http://` endpoint allows plain http. Raises `ConfigError` for an unknown option."""
    unknown = sorted(set(options) - set(KEYS))
    if unknown:
        raise ConfigError(f"opening the lake on S3: no option is called {unknown[0]!r}; there are {', '.join(KEYS)}")
    merged = {key: value for key in KEYS if (value := options.get(key) or os.environ.get(key.upper()))}
    if merged.get("aws_endpoint_url", "").startswith("http://"):
        merged.setdefault("aws_allow_http", "true")
    if "aws_endpoint_url" in merged:
        merged.setdefault("aws_region", "us-east-1")
    return merged


def for_fsspec(options: Mapping[str, str]) -> dict[str, Any]:
    """Resolved options as keyword arguments of `s3fs.S3FileSystem`."""
    names = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "aws_endpoint_url": "endpoint_url",
    }
    given: dict[str, Any] = {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    if "aws_region" in options:
        given["client_kwargs"] = {"region_name": options["aws_region"]}
    return given


def for_duckdb(options: Mapping[str, str]) -> dict[str, str]:
    """Resolved options as the fields of a DuckDB secret of type s3."""
    names = {"aws_access_key_id": "key_id", "aws_secret_access_key": "secret", "aws_session_token": "session_token", "aws_region": "region"}
    fields = {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    if endpoint := options.get("aws_endpoint_url"):
        scheme, _, host = endpoint.rpartition("://")
        fields |= {"endpoint": host.rstrip("/"), "url_style": "path", "use_ssl": str(scheme != "http").lower()}
    return fields
