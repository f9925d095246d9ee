"""Reports without figures, which the tests of figures cover."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import pytest

from bellwether.figures import canvas
from bellwether.report import figures
from bellwether.report.writer import write_report
from tests.unit.report.frames import example


def replace_figures(patch: pytest.MonkeyPatch) -> None:
    """Replace every figure of a report by a few bytes."""
    patch.setattr(canvas, "png", lambda *_: b"\x89PNG")
    patch.setattr(figures, "_cache", OrderedDict())


def write_example(root: Path) -> Path:
    """Write the report of the example, and return its folder."""
    with pytest.MonkeyPatch.context() as patch:
        replace_figures(patch)
        write_report(example(), root)
    return root / "q"
