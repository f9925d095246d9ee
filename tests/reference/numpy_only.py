"""scoringrules imported without numba, which would compile all scores at each import."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def _without_numba() -> ModuleType:
    modules: dict[str, Any] = sys.modules
    numba = modules.pop("numba", None)
    modules["numba"] = None
    try:
        import scoringrules
    finally:
        del modules["numba"]
        if numba is not None:
            modules["numba"] = numba
    return scoringrules


scoringrules = _without_numba()
