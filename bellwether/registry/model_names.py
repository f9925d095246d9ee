"""Names of models: comparison of the served model with the requested one."""

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
    """Return whether `served` is the name of the requested model or of a snapshot of it (gpt-4o, gpt-4o-2024-08-06).

    Prefixes of providers are ignored. Different snapshots are different models; a name without a date matches all of them.
    """
    (wanted, wanted_version), (found, found_version) = _parts(requested), _parts(served)
    return wanted == found and ("" in (wanted_version, found_version) or wanted_version == found_version)


def _parts(name: str) -> tuple[str, str]:
    """Split a name without its provider into name and version."""
    plain = _SEPARATORS.sub("-", name.rstrip("/").rpartition("/")[2].strip().lower())
    version = _VERSION.search(plain)
    if version is None:
        return plain, ""
    return plain[: version.start()], _UNDATED.sub("", version[0]).replace("-", "")


def named_as_requested() -> pl.Expr:
    """Return per row whether `served_model` is the model of `model`; null if either is null."""

    def judge(row: dict[str, str | None]) -> bool | None:
        wanted, found = row["model"], row["served_model"]
        return None if wanted is None or found is None else is_requested(wanted, found)

    return pl.struct("model", "served_model").map_elements(judge, return_dtype=pl.Boolean)
