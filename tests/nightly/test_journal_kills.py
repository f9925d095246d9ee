"""Kills at every statement and every 61st line of the journal's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.journal_crashes import check_kills


@pytest.mark.parametrize(("points", "stride"), [("statements", 1), ("lines", 61)])
def test_a_process_killed_at_every_step_loses_and_repeats_nothing(url: str, tmp_path: Path, points: str, stride: int) -> None:
    """A stride of one line takes two minutes and gives the same."""
    check_kills(points, stride, url, tmp_path / "log")
