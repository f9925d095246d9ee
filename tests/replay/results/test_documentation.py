"""docs/trading-metrics.md: its example runs, and it names every number that is measured."""

from __future__ import annotations

import re
from pathlib import Path

from bellwether.tables.replay import HORIZONS_S, MEASURED

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "trading-metrics.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "trading-metrics.md", "exec"), {})


def test_every_metric_is_explained() -> None:
    names = {column.name for column in MEASURED} - {f"adverse_selection_{seconds}s" for seconds in HORIZONS_S}
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []
