"""The page on the benchmark: its examples load, and its names exist in the code."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.forecasting import KINDS, forecaster
from bellwether.questions import Release, eligibility, release

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "benchmark.md").read_text(encoding="utf-8")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """Registry folder with the examples of the page."""
    releases, forecasters = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "releases.toml").write_text(releases, encoding="utf-8")
    (tmp_path / "forecasters.toml").write_text(forecasters, encoding="utf-8")
    return tmp_path


def test_the_examples_load(registry: Path) -> None:
    made = release("politics-2026", registry)
    assert (made.sample_size, made.per_series, made.require_open_after_cutoff) == (200, 1, True)
    assert forecaster("coin", registry).knowledge_cutoff == datetime(2025, 9, 1, tzinfo=UTC)


def test_the_page_names_every_rule_and_every_kind() -> None:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    strictest = Release(
        name="x",
        description="x",
        cutoff=instant,
        until=instant.replace(year=2027),
        seed=1,
        categories=("x",),
        require_open_after_cutoff=True,
    )
    first_cells = ", ".join(re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE))
    for rule in eligibility(strictest):
        assert rule.name in first_cells
    for kind in KINDS:
        assert f"`{kind}`" in first_cells
