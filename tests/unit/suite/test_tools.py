"""The list of changes for the mutation check."""

from __future__ import annotations

from tests import mutations


def test_listed_changes_fit_the_code() -> None:
    for mutation in mutations.read_mutations():
        lines = [line.strip() for line in (mutations.ROOT / mutation.file).read_text(encoding="utf-8").split("\n")]
        assert lines.count(mutation.line) == 1, mutation
        assert all((mutations.ROOT / path).exists() for path in mutation.tests), mutation
