"""What docs/arena.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

from bellwether.arena.ledger import Kind
from bellwether.arena.methodology import methodologies
from bellwether.arena.units import money_text

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "arena.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(example, {})


def test_the_numbers_are_those_of_the_methodologies() -> None:
    known = methodologies()
    assert all(f"`{name}`" in PAGE for name in known)
    v1 = known["v1"]
    assert f"${money_text(v1.cash)[:-3]} at the start" in PAGE
    assert f"bets from ${v1.minimum_bet}" in PAGE
    assert f"the {v1.universe} open markets" in PAGE
    assert f"refunded after {v1.grace_days} days" in PAGE
    assert f"until {v1.deadline_hours} hours after" in PAGE
    assert (v1.decision_cohorts, v1.mark_minutes, v1.confirmations, v1.dispute_hours, v1.source_gap * 100) == (5, 10, 2, 2, 5)


def test_every_kind_of_entry_is_explained() -> None:
    assert all(re.search(rf"\b{kind}\b", PAGE) for kind in Kind)
