"""Fixtures for reports without figures, which `tests/figures` covers."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

from bellwether.figures import canvas
from bellwether.report import figures
from bellwether.report.writer import write_report
from tests.report.frames import example


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace every figure of a report by a few bytes."""
    monkeypatch.setattr(canvas, "png", lambda *_: b"\x89PNG")
    monkeypatch.setattr(figures, "_cache", OrderedDict())


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the example."""
    root = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "png", lambda *_: b"\x89PNG")
        patch.setattr(figures, "_cache", OrderedDict())
        write_report(example(), root)
    return root / "q"
