"""Comparison of model names: is the model that answered the one that was requested?"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

#: Parts of names that distinguish snapshots of a model: dates (2024-08-06, 20241022, 2411, 0613), builds (001), v1, latest; and tiers.
_VERSION = re.compile(r"(?:-(?:\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{2}-\d{4}|\d{8}|\d{6}|\d{3,4}|v\d+(?:-\d+)?|latest|free|nitro|floor))+$")
_UNDATED = re.compile(r"-(?:latest|free|nitro|floor)\b")
_SEPARATORS = re.compile(r"[._:@\s-]+")


@lru_cache(maxsize=4096)
def is_requested(requested: str, served: str) -> bool:
    """Return True if `served` names the requested model or a snapshot of it (gpt-4o, gpt-4o-2024-08-06).

    Prefixes of providers are ignored. Different snapshots are different models; a name without a date matches all of them.
    """
    (name, version), (served_name, served_version) = _parts(requested), _parts(served)
    return name == served_name and ("" in (version, served_version) or version == served_version)


def _parts(name: str) -> tuple[str, str]:
    """Split a model name into name and version. The provider's prefix is dropped."""
    plain = _SEPARATORS.sub("-", name.rstrip("/").rpartition("/")[2].strip().lower())
    version = _VERSION.search(plain)
    if version is None:
        return plain, ""
    return plain[: version.start()], _UNDATED.sub("", version[0]).replace("-", "")


def named_as_requested() -> pl.Expr:
    """Return an expression that is True if `served_model` names the model in the column `model`; null if either is null."""

    def judge(row: dict[str, str | None]) -> bool | None:
        requested, served = row["model"], row["served_model"]
        return None if requested is None or served is None else is_requested(requested, served)

    return pl.struct("model", "served_model").map_elements(judge, return_dtype=pl.Boolean)
