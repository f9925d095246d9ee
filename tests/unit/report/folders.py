"""Reports without figures, which the tests of figures cover."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.pages import charts
from bellwether.report.writer import write_report
from tests.unit.report.frames import example


def replace_figures(patch: pytest.MonkeyPatch) -> None:
    """Replace every figure of a report by a few bytes."""
    patch.setattr(charts, "png", lambda *_: b"\x89PNG")


def write_example(root: Path) -> Path:
    """Write the report of the example, and return its folder."""
    with pytest.MonkeyPatch.context() as patch:
        replace_figures(patch)
        write_report(example(), root)
    return root / "q"
