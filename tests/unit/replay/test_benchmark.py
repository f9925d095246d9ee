"""The comparison with other simulators: its command line, its goals and its table."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from benchmarks._replay import __main__ as comparison
from benchmarks._replay import processes
from benchmarks._replay.workloads import rows


def test_the_usage_line_is_accepted() -> None:
    assert comparison.__doc__ is not None
    (line,) = re.findall(r"python -m benchmarks\._replay (.*)", comparison.__doc__)
    given = comparison.options(re.sub(r"[][…]", " ", line).split())
    assert (given.rounds, given.only, given.write) == (5, ["hftbacktest", "nautilus_trader"], True)


def test_a_peer_is_measured_with_and_without_bounds_on_every_tape() -> None:
    for tape in ("synthetic", "nba"):
        found = rows(tape, ["hftbacktest"])
        assert [row.ours.bounds for row in found] == [True, False] * 6
        goals = [(row.ours.agent, row.ours.seconds, row.goal) for row in found if row.goal is not None and row.ours.bounds]
        assert goals == [
            ("noop", 300, 15),
            ("compiled", 60, 10),
            ("compiled", 5, 10),
            ("follower", 300, 5),
            ("vector", 60, 3),
            ("vector", 5, 1),
        ]
    assert {row.goal for row in rows("synthetic", ["nautilus_trader"])} == {300}
    assert rows("nba", ["nautilus_trader"]) == []


def test_without_dask_the_comparison_starts_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RuntimeError, match=r"pip install 'bellwether\[dask\]'"):
        importlib.reload(processes).dask(1)


def test_the_table_has_goal_and_reached() -> None:
    run = comparison.Run("2026-11-26", "a machine")
    run.lines = [
        comparison.Line("first", "nba", 12.0, 11.0, 13.0, bound=">= 10"),
        comparison.Line("second", "nba", 9.0, 8.0, 10.0, bound=">= 10"),
        comparison.Line("third", "nba", bound=">= 10", reason="no network"),
        comparison.Line("fourth", "nba", 2.0, 2.0, 2.0),
    ]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in comparison.table(run).splitlines() if line.startswith("|")]
    assert [row[2:6] for row in cells[2:]] == [
        ["at least 10x", "12x", "11x to 13x", "yes"],
        ["at least 10x", "9x", "8x to 10x", "no"],
        ["at least 10x", "not measured", "", ""],
        ["", "2x", "", ""],
    ]
