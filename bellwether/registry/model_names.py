"""Names of models: whether the model that a response names is the requested one."""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

#: Parts of names that tell snapshots of one model apart: dates (2024-08-06, 20241022, 2411, 0613), builds (001), v1, latest; and tiers.
_VERSION = re.compile(r"(?:-(?:\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{2}-\d{4}|\d{8}|\d{6}|\d{3,4}|v\d+(?:-\d+)?|latest|free|nitro|floor))+$")
_UNDATED = re.compile(r"-(?:latest|free|nitro|floor)\b")
_SEPARATORS = re.compile(r"[._:@\s-]+")


@lru_cache(maxsize=4096)
def is_requested(requested: str, served: str) -> bool:
    """Return whether `served` names the model that was requested: the same name, or that of a snapshot of it (gpt-4o, gpt-4o-2024-08-06).

    Providers in front of a name are ignored. Two different snapshots are two models; a name without a date contradicts none.
    """
    (wanted, wanted_version), (found, found_version) = _parts(requested), _parts(served)
    return wanted == found and ("" in (wanted_version, found_version) or wanted_version == found_version)


def _parts(name: str) -> tuple[str, str]:
    """A name without its provider, and its version."""
    plain = _SEPARATORS.sub("-", name.rstrip("/").rpartition("/")[2].strip().lower())
    version = _VERSION.search(plain)
    if version is None:
        return plain, ""
    return plain[: version.start()], _UNDATED.sub("", version[0]).replace("-", "")


def named_as_requested() -> pl.Expr:
    """Per row: whether `served_model` names the model of `model`; null where either is."""

    def judge(row: dict[str, str | None]) -> bool | None:
        wanted, found = row["model"], row["served_model"]
        return None if wanted is None or found is None else is_requested(wanted, found)

    return pl.struct("model", "served_model").map_elements(judge, return_dtype=pl.Boolean)
