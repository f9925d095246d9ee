"""Figures are tested in `tests/figures`; where files are looked at they are bytes."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from bellwether.figures import canvas
from bellwether.report import figures


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of a report is a few bytes."""
    monkeypatch.setattr(canvas, "png", lambda *_: b"\x89PNG")
    monkeypatch.setattr(figures, "_kept", OrderedDict())
