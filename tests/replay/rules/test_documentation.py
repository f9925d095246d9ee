"""The page on the rules: its examples run, and it names every rule set, switch and reason."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from bellwether.replay.engine.codes import Reason
from bellwether.replay.rules import RuleSet, rule_set, rule_sets

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "replay-rules.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert "assert" in example
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "replay-rules.md", "exec"), {})


def test_it_lists_every_rule_set_and_no_other():
    listed = re.findall(r"^\| (`[a-z].*`) \|", PAGE.split("## Rule sets")[1].split("```")[0], flags=re.MULTILINE)
    assert {name for row in listed for name in re.findall(r"`([^`]+)`", row)} == set(rule_sets())


def test_it_explains_every_switch_that_differs_from_the_original():
    told = {"name", "title", "since", "default", "fees", "sources", "fee_unit", "balance_unit", "rebate_unit", "rebate_above"}
    ours, original = rule_set("kalshi-2026-08-30"), rule_set("pmb-2026-01")
    differ = {field.name for field in fields(RuleSet) if getattr(ours, field.name) != getattr(original, field.name)} - told
    assert differ == set(re.findall(r"^\| `([a-z_]+)` \|", PAGE.split("the original's:")[1].split("## Time")[0], flags=re.MULTILINE))


def test_it_names_every_reason_for_which_an_order_is_rejected():
    named = set(re.findall(r"`([a-z_]+)`", PAGE.split("Rejections, the first that applies:")[1].split("A rejected order")[0]))
    assert named - {"taker_only"} <= {reason.name.lower() for reason in Reason}
    assert {"insufficient_cash", "would_cross", "invalid_book", "no_book"} <= named
