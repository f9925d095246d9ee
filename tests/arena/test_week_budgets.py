"""Budgets of a week: of all its models, where the run stops, and of each, where the others go on."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from assets.arena.assets import _money
from bellwether.arena.weekly import rows
from bellwether.arena.weekly.deciding import decide_week
from bellwether.arena.weekly.means import WeekBudgets, scope_of, spending_of
from tests.arena.weeks import SEVEN, WEEK, Arena

PRICED = "".join(
    f'[{name}]\nmodel = "sandbox/{name}"\nworlds = ["sandbox"]\ninput_price = {price}\noutput_price = {price}\n'
    for name, price in (("timid", 1), ("noisy", 2))
)
LINEUP = '[pair]\ntitle = "t"\nmethodology = "small"\nworlds = ["sandbox"]\n[pair.families]\ncalibrated = "sandbox-calibrated"\ncheap = "timid"\ndear = "noisy"\n'
CENT = Decimal("0.01")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    found = Arena(tmp_path_factory.mktemp("arena"), lineup="pair")
    (found.registry / "models.toml").write_text(PRICED)
    (found.registry / "lineups.toml").write_text(LINEUP)
    return found


def _decide(arena: Arena, budgets: WeekBudgets, run: str) -> tuple[dict[str, str], dict[str, str], dict[str, float]]:
    """Decide the week; the states and reasons by family, and what the asset says of money."""
    with arena.journal() as journal:
        world = replace(arena.world(journal, run), budgets=budgets)
        frame, _ = rows.decisions_rows(world, decide_week(world, WEEK))
        families = [name.split("/")[1] for name in frame["decision_id"]]
        return dict(zip(families, frame["state"], strict=True)), dict(zip(families, frame["reason"], strict=True)), _money(world, WEEK)


def test_budgets_stop_before_money_is_spent_and_a_raised_one_goes_on(arena: Arena) -> None:
    states, reasons, money = _decide(arena, WeekBudgets(week=CENT), "one")
    assert {states["cheap"], states["dear"]} == {"blocked"}, "the week's budget stops the run"
    assert f"the budget of purpose arena/decisions, scope …/{WEEK} is $0.010000" in reasons["dear"]
    assert (money["week: dollars spent"], money["week: dollars left"]) == (0, 0.01)

    states, reasons, money = _decide(arena, WeekBudgets(week=Decimal(10), model=Decimal("0.04")), "two")
    assert states.pop("dear") == "open", "a model's own budget concerns that model alone"
    assert set(states.values()) == {"finished"}
    assert f"model sandbox/noisy, scope …/{WEEK} is $0.040000" in reasons["dear"]
    spent = money["sandbox/timid: dollars spent"]
    assert 0 < spent < 0.04
    both = spent + money["sandbox/calibrated: dollars spent"]
    assert money["week: dollars spent"] == pytest.approx(both)
    assert money["week: dollars left"] == pytest.approx(10 - both)
    assert money["sandbox/timid: dollars left"] == pytest.approx(0.04 - spent)

    states, _, money = _decide(arena, WeekBudgets(week=Decimal(10), model=Decimal(1)), "three")
    assert set(states.values()) == {"finished"}
    assert money["week: dollars spent"] == pytest.approx(both + money["sandbox/noisy: dollars spent"])
    with arena.journal() as journal:
        assert journal.spent(scope_of(WEEK + SEVEN)).committed == 0, "another week has its own budget"
        whole, models = spending_of(journal, WEEK, WeekBudgets())
    assert whole.left is None
    assert set(models) == {"sandbox/calibrated", "sandbox/timid", "sandbox/noisy"}


def test_a_week_without_calls_has_cost_nothing(tmp_path: Path) -> None:
    with Arena(tmp_path).journal() as journal:
        whole, models = spending_of(journal, WEEK, WeekBudgets(week=Decimal(5)))
    assert (whole.spent, whole.reserved, whole.left, models) == (0, 0, 5, {})
