"""Deprecated names of `orchestration.asset_declarations`, until 0.4."""

from __future__ import annotations

import warnings
from typing import Any

from orchestration import asset_declarations

_RENAMED = {
    "of": "table_asset",
    "out": "table_output",
    "Follow": "UpdatePolicy",
    "FOLLOW": "FOLLOW_INPUTS",
    "select": "select",
    "key": "key",
}


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    current = _RENAMED[name]
    warnings.warn(
        f"{__name__}.{name} is deprecated until 0.4; use {asset_declarations.__name__}.{current}", DeprecationWarning, stacklevel=2
    )
    return getattr(asset_declarations, current)
