"""Calls of a week: an unreachable model, a gateway that serves another model, and budgets per week and model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.arena.weekly import rows
from bellwether.arena.weekly.context import WeekBudgets, week_scope
from bellwether.arena.weekly.decisions import decide_week
from bellwether.checks.rule import rules_for
from bellwether.journal.values import Outcome, Served
from bellwether.models.response import AttemptResult
from bellwether.models.transport import ModelCall
from bellwether.tables import arena as tables
from tests.unit.arena.weeks import REGISTRY, SEVEN, WEEK, Arena, answer
from tests.unit.models.scripted_client import COST, make_failure

#: Entries of models at dollars per million tokens, and a lineup of them.
PRICES = {"mute": 1, "away": 1, "gateway": 1, "cheap": 1, "dear": 2}
MODELS = "".join(f'[{name}]\nmodel = "acme/{name}"\ninput_price = {price}\noutput_price = {price}\n' for name, price in PRICES.items())


def make_arena(folder: Path, *families: str) -> Arena:
    arena = Arena(folder, lineup="own")
    members = "".join(f'{name} = "{name}"\n' for name in ("mute", *families))
    (arena.registry / "models.toml").write_text(MODELS)
    (arena.registry / "families.toml").write_text(REGISTRY["families.toml"])
    (arena.registry / "lineups.toml").write_text(f'[own]\ntitle = "t"\nmethodology = "small"\n[own.families]\n{members}')
    return arena


def test_an_unreachable_model_leaves_its_decision_open_and_a_fallback_is_recorded(tmp_path: Path) -> None:
    def script(call: ModelCall) -> Any:
        if call.model.name == "away":
            return make_failure(Outcome.TIMEOUT, None)
        result: AttemptResult = answer(call)
        served = Served("mute-mini", "fp_1", "Elsewhere") if call.model.name == "gateway" else Served(call.model.name)
        return replace(result, reply=replace(result.reply, served=served))

    arena = make_arena(tmp_path, "away", "gateway")
    arena.script = script
    arena.decide()
    found = {row["decision_id"].split("/")[1]: row for row in arena.read(tables.DECISIONS).iter_rows(named=True)}
    assert {name: row["state"] for name, row in found.items() if row["state"] != "finished"} == {"away": "open"}
    assert (found["away"]["action"], found["away"]["reason"]) == (None, "timeout: HTTP None")
    with arena.journal() as journal:
        assert [(call.purpose, call.outcome) for call in journal.unanswered()] == [("arena/decisions", Outcome.TIMEOUT)]
    columns = ("model", "served_model", "system_fingerprint", "served_by", "input_tokens", "output_tokens")
    assert {name: tuple(found[name][column] for column in columns) for name in ("gateway", "mute", "hold")} == {
        "gateway": ("acme/gateway", "mute-mini", "fp_1", "Elsewhere", 100, 20),
        "mute": ("acme/mute", "mute", None, None, 200, 40),
        "hold": (None, None, None, None, 0, 0),
    }
    rule = next(rule for rule in rules_for("arena/decisions") if rule.name == "served_model_is_requested")
    assert rule.condition is not None
    bad = arena.read(tables.DECISIONS).filter(~rule.condition)
    assert bad["decision_id"].to_list() == [found["gateway"]["decision_id"]]

    arena.script = answer
    arena.decide()
    again = {row["decision_id"].split("/")[1]: row for row in arena.read(tables.DECISIONS).iter_rows(named=True)}
    assert {row["state"] for row in again.values()} == {"finished"}
    assert again["gateway"] == found["gateway"]
    repeated = [name for name, count in Counter(arena.calls).items() if count > 1]
    assert repeated == [f"{WEEK}/away/{WEEK} 0"], "what was answered is not asked again"


def decide(arena: Arena, budgets: WeekBudgets, run: str) -> tuple[dict[str, str], dict[str, str]]:
    """Decide the week. Returns states and reasons by family."""
    with arena.journal() as journal:
        world = replace(arena.world(journal, run), budgets=budgets)
        frame, _ = rows.build_decisions_rows(world, decide_week(world, WEEK))
    families = [name.split("/")[1] for name in frame["decision_id"]]
    return dict(zip(families, frame["state"], strict=True)), dict(zip(families, frame["reason"], strict=True))


def test_budgets_stop_before_money_is_spent_and_a_raised_one_continues(tmp_path: Path) -> None:
    """A call may cost 16,000 tokens and its prompt, and costs 20 millionths of a dollar."""
    arena = make_arena(tmp_path, "cheap", "dear")

    def spent(model: str | None = None) -> int:
        with arena.journal() as journal:
            return journal.spent(week_scope(WEEK, model)).spent

    states, reasons = decide(arena, WeekBudgets(week=Decimal("0.01")), "one")
    assert {states["cheap"], states["dear"]} == {"blocked"}, "the week's budget stops the run"
    assert f"the budget of purpose arena/decisions, scope …/{WEEK} is $0.010000" in reasons["dear"]
    assert (spent(), arena.calls) == (0, [])

    states, reasons = decide(arena, WeekBudgets(week=Decimal(10), model=Decimal("0.03")), "two")
    assert states.pop("dear") == "open", "a model's own budget concerns that model alone"
    assert set(states.values()) == {"finished"}
    assert f"model acme/dear, scope …/{WEEK} is $0.030000" in reasons["dear"]
    assert (spent(), spent("acme/cheap")) == (3 * COST, COST), "mute is asked twice"

    states, _ = decide(arena, WeekBudgets(week=Decimal(10), model=Decimal(1)), "three")
    assert set(states.values()) == {"finished"}
    assert len(arena.calls) == 4
    with arena.journal() as journal:
        assert journal.spent(week_scope(WEEK)).committed == 4 * COST
        assert journal.spent(week_scope(WEEK + SEVEN)).committed == 0, "another week has its own budget"
        assert journal.export()["attempts"].filter(pl.col("outcome") != "ok").is_empty()
