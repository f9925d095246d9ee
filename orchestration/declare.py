"""Deprecated names of `orchestration.asset_declarations`, until 0.4."""

from __future__ import annotations

from bellwether.extras import lazy_names, renamed_names

_HOME = "asset_declarations"
_RENAMED = {
    "of": "table_asset",
    "out": "table_output",
    "Follow": "UpdatePolicy",
    "FOLLOW": "FOLLOW_INPUTS",
    "select": "select",
    "key": "key",
}
__getattr__ = renamed_names(__name__, _RENAMED, lazy_names("orchestration", {_HOME: _RENAMED.values()}), prefix=f"orchestration.{_HOME}.")
