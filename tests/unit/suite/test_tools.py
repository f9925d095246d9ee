"""Limits of tests, changes of the mutation check, and comparison of frozen tables."""

from __future__ import annotations

import time
from pathlib import Path

import polars as pl
import pytest

from tests import mutations
from tests.freeze import compare
from tests.limits import TESTS, Watch, find_excess, find_faults, find_folder
from tests.mutations import Mutation


@pytest.mark.parametrize(
    ("folder", "seconds", "watch", "faults"),
    [
        ("unit/lake", 4.0, Watch(longest_sleep=0.2), 0),
        ("unit/lake", 4.1, Watch(), 1),
        ("unit/lake", 0.1, Watch(processes=["subprocess.Popen"]), 1),
        ("processes", 0.1, Watch(processes=["subprocess.Popen"]), 0),
        ("graph", 0.1, Watch(runs=1), 0),
        ("cli", 4.1, Watch(runs=1, longest_sleep=0.3), 3),
    ],
)
def test_a_test_keeps_the_limits_of_its_folder(folder: str, seconds: float, watch: Watch, faults: int) -> None:
    assert len(find_faults(folder, seconds, watch)) == faults


def test_seconds_of_imports_and_compilation_are_left_out_once() -> None:
    watch, start = Watch(), time.process_time()
    with watch.exempt(), watch.exempt():
        begun = time.process_time()
        while time.process_time() - begun < 0.02:
            pass
    assert 0.02 <= watch.uncounted <= time.process_time() - start


def test_budgets_are_compared_by_folder() -> None:
    paths = (TESTS / "unit/lake/test_slices.py", TESTS / "graph/arena/test_weeks.py", TESTS / "conftest.py")
    assert [find_folder(path) for path in paths] == ["unit/lake", "graph", ""]
    budgets = {"graph": {"lines": 100, "seconds": 20}}
    assert find_excess("lines", {"graph": 100}, budgets) == []
    assert len(find_excess("lines", {"graph": 101, "cli": 1}, budgets)) == 2


def test_a_number_and_a_comparison_are_changed_and_an_index_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("def f(é, rows):\n    return rows[1] if é <= 0.5 else 7\n")
    monkeypatch.setattr(mutations, "ROOT", tmp_path)
    line = "return rows[1] if é <= 0.5 else 7"
    changed = {mutation.becomes for mutation in mutations._find_changes("a.py", ())}
    assert changed == {line.replace("<=", "<"), line.replace("0.5", "0.55"), line.replace("7", "8")}
    Mutation("a.py", line, line.replace("7", "8"), ()).apply(tmp_path)
    assert (tmp_path / "a.py").read_text() == "def f(é, rows):\n    return rows[1] if é <= 0.5 else 8\n"
    with pytest.raises(ValueError, match=r"a\.py: 0 lines"):
        Mutation("a.py", line, line, ()).apply(tmp_path)


def test_listed_changes_fit_the_code() -> None:
    for mutation in mutations.read_mutations():
        lines = [line.strip() for line in (mutations.ROOT / mutation.file).read_text(encoding="utf-8").split("\n")]
        assert lines.count(mutation.line) == 1, mutation
        assert all((mutations.ROOT / path).exists() for path in mutation.tests), mutation


def test_changed_rows_added_tables_and_repeated_rows_are_listed(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, amounts in ((before, [1, 2, 2]), (after, [1, 2, 3])):
        folder.mkdir()
        pl.DataFrame({"amount": amounts}).write_parquet(folder / "arena.ledger.parquet")
    assert list(compare(before, before)) == []
    pl.DataFrame({"p": [0.5]}).write_parquet(after / "arena.scores.parquet")
    told = list(compare(before, after))
    assert told == ["arena.ledger: - 1 of 3 rows", "  - (2,)", "arena.ledger: + 1 of 3 rows", "  + (3,)", "arena.scores is new"]
