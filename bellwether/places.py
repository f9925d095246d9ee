"""Places of files: local folders and object stores, with the same S3 options for all libraries.

Options have the names of Polars; missing ones are read from the environment variable of the same name in capitals.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bellwether.errors import ConfigError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from upath import UPath

SCHEMES = ("s3", "s3a")
KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_endpoint_url", "aws_allow_http")
#: Shorter timeouts than botocore's minute; errors of the server are retried.
_PATIENCE = {"connect_timeout": 5, "read_timeout": 20, "retries": {"mode": "standard", "max_attempts": 4}}


def place(where: str | Path) -> Path:
    """Convert an object-store URL to a `UPath`, which has the methods of a path. Local paths are returned unchanged.

    Listings are not cached, because other machines write there too. Credentials stay in the environment. Raises `ConfigError` for a scheme without
    its package.
    """
    if not isinstance(where, str):
        return where
    if "://" not in where or where.startswith("file://"):
        return Path(where.removeprefix("file://"))
    options = resolve({}) if where.partition("://")[0] in SCHEMES else {}
    for secret in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"):
        options.pop(secret, None)
    return cast(Path, open_store(where, for_fsspec(options)))


def open_store(url: str, options: Mapping[str, Any]) -> UPath:
    """Open the root of an object store. options: of its fsspec filesystem. Raises `ConfigError` for a scheme without its package."""
    try:
        from upath import UPath

        root = UPath(url.rstrip("/"), use_listings_cache=False, **options)
        root.fs  # noqa: B018 - made now, so that a missing package is found here
        if url.partition("://")[0] in SCHEMES:
            _retry_connections()
    except (ImportError, ValueError) as error:
        scheme = url.partition("://")[0]
        raise ConfigError(f"opening {url}: {error}. Install the package that serves {scheme}:// (for s3: bellwether[s3])") from error
    return root


@cache
def _retry_connections() -> None:
    """Make s3fs retry refused and broken connections, because a store that restarts is unavailable for seconds."""
    from botocore.exceptions import ConnectionError as NoConnection
    from s3fs.core import add_retryable_error

    add_retryable_error(NoConnection)


def is_stored(path: Path) -> bool:
    """Return True if a path returned by `place` is in an object store."""
    return not isinstance(path, Path)


def filesystem(path: Path) -> tuple[AbstractFileSystem, str]:
    """Return the fsspec filesystem and the key of a path in an object store."""
    stored = cast("UPath", path)
    return stored.fs, stored.path.rstrip("/")


def failures(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the exceptions that reading and writing a place may raise: `OSError`, those of libraries below s3fs, and `more`."""
    names = (("botocore.exceptions", "BotoCoreError"), ("aiohttp", "ClientError"))
    return (OSError, *more, *(getattr(sys.modules[module], name) for module, name in names if module in sys.modules))


def is_conflict(error: OSError) -> bool:
    """Return True if a store refused a write because of its condition or a concurrent write."""
    if isinstance(error, FileExistsError):
        return True
    answer = getattr(error.__cause__, "response", None) or {}
    return answer.get("ResponseMetadata", {}).get("HTTPStatusCode") in {409, 412}


def resolve(options: Mapping[str, str]) -> dict[str, str]:
    """Complete `options` from the environment; an `http://` endpoint allows plain http. Raises `ConfigError` for an unknown option."""
    unknown = sorted(set(options) - set(KEYS))
    if unknown:
        raise ConfigError(f"opening a place on S3: no option is called {unknown[0]!r}; there are {', '.join(KEYS)}")
    merged = {key: value for key in KEYS if (value := options.get(key) or os.environ.get(key.upper()))}
    if merged.get("aws_endpoint_url", "").startswith("http://"):
        merged.setdefault("aws_allow_http", "true")
    if "aws_endpoint_url" in merged:
        merged.setdefault("aws_region", "us-east-1")
    return merged


def for_fsspec(options: Mapping[str, str]) -> dict[str, Any]:
    """Convert resolved options to keyword arguments of `s3fs.S3FileSystem`."""
    names = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "aws_endpoint_url": "endpoint_url",
    }
    arguments: dict[str, Any] = {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    arguments["config_kwargs"] = dict(_PATIENCE)
    if "aws_region" in options:
        arguments["client_kwargs"] = {"region_name": options["aws_region"]}
    return arguments


def for_duckdb(options: Mapping[str, str]) -> dict[str, str]:
    """Convert resolved options to fields of a DuckDB secret of type s3."""
    names = {"aws_access_key_id": "key_id", "aws_secret_access_key": "secret", "aws_session_token": "session_token", "aws_region": "region"}
    fields = {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    if endpoint := options.get("aws_endpoint_url"):
        scheme, _, host = endpoint.rpartition("://")
        fields |= {"endpoint": host.rstrip("/"), "url_style": "path", "use_ssl": str(scheme != "http").lower()}
    return fields
