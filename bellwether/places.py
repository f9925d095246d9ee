"""Places of files, which are local folders or S3 object stores, and S3 options that all libraries get in the same way.

Options have the names of Polars, and are read from the environment variables of the same name in capitals.
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

KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_endpoint_url", "aws_allow_http")
#: Shorter timeouts than botocore's minute; errors of the server are retried.
_PATIENCE = {"connect_timeout": 5, "read_timeout": 20, "retries": {"mode": "standard", "max_attempts": 4}}


def place(where: str | Path) -> Path:
    """Return a path object: a `UPath` for an object-store URL, a `Path` otherwise.

    Credentials stay in the environment. Raises `ConfigError` for a scheme other than S3's.
    """
    if not isinstance(where, str):
        return where
    if "://" not in where or where.startswith("file://"):
        return Path(where.removeprefix("file://"))
    secrets = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return cast(Path, open_store(where, {name: value for name, value in s3_options().items() if name not in secrets}))


def open_store(url: str, options: Mapping[str, str]) -> UPath:
    """Return the `UPath` of an object-store URL. Listings are not cached, because other machines write there too.

    options: from `s3_options`. Raises `ConfigError` for a scheme other than S3's, and if its packages are missing.
    """
    if not is_s3(url):
        raise ConfigError(f"opening {url}: only folders and s3:// are supported")
    try:
        from upath import UPath

        root = UPath(url.rstrip("/"), use_listings_cache=False, **_for_fsspec(options))
        root.fs  # noqa: B018 - made now, so that a missing package is found here
        _retry_connections()
    except (ImportError, ValueError) as error:
        raise ConfigError(f"opening {url}: {error}. Install bellwether[s3]") from error
    return root


def is_s3(location: str) -> bool:
    """Return True for the URL of an S3 object store."""
    return location.partition("://")[0] in ("s3", "s3a")


@cache
def _retry_connections() -> None:
    """Make s3fs retry connections that are refused or break, because a store that restarts is unavailable for some seconds."""
    from botocore.exceptions import ConnectionError as NoConnection
    from s3fs.core import add_retryable_error

    add_retryable_error(NoConnection)


def is_stored(path: Path) -> bool:
    """Return True if a path, as returned by `place`, is in an object store."""
    return not isinstance(path, Path)


def filesystem(path: Path) -> tuple[AbstractFileSystem, str]:
    """Return the fsspec filesystem and the key of a path in an object store."""
    stored = cast("UPath", path)
    return stored.fs, stored.path.rstrip("/")


def failures(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the exceptions to catch when a place is read or written: `OSError`, those of the libraries below s3fs, and `more`."""
    names = (("botocore.exceptions", "BotoCoreError"), ("aiohttp", "ClientError"))
    return (OSError, *more, *(getattr(sys.modules[module], name) for module, name in names if module in sys.modules))


def is_conflict(error: OSError) -> bool:
    """Return True if an object store refused a write because its condition was not met or another write was in progress."""
    if isinstance(error, FileExistsError):
        return True
    answer = getattr(error.__cause__, "response", None) or {}
    return answer.get("ResponseMetadata", {}).get("HTTPStatusCode") in {409, 412}


def s3_options() -> dict[str, str]:
    """Return the S3 options in the environment. An `http://` endpoint allows plain http."""
    merged = {key: value for key in KEYS if (value := os.environ.get(key.upper()))}
    if merged.get("aws_endpoint_url", "").startswith("http://"):
        merged.setdefault("aws_allow_http", "true")
    if "aws_endpoint_url" in merged:
        merged.setdefault("aws_region", "us-east-1")
    return merged


def _for_fsspec(options: Mapping[str, str]) -> dict[str, Any]:
    """Convert options from `s3_options` to keyword arguments of `s3fs.S3FileSystem`."""
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
    """Convert options from `s3_options` to the fields of a DuckDB secret for S3."""
    names = {"aws_access_key_id": "key_id", "aws_secret_access_key": "secret", "aws_session_token": "session_token", "aws_region": "region"}
    fields = {theirs: options[ours] for ours, theirs in names.items() if ours in options}
    if endpoint := options.get("aws_endpoint_url"):
        scheme, _, host = endpoint.rpartition("://")
        fields |= {"endpoint": host.rstrip("/"), "url_style": "path", "use_ssl": str(scheme != "http").lower()}
    return fields
