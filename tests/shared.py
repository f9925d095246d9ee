"""What the processes of a test run share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared(factory: pytest.TempPathFactory) -> Path:
    """The folder of this test run, the same in all of its processes."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
