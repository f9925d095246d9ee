"""Weeks over real connections: a dead endpoint, a gateway that serves another model, and budgets per week and model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

from assets.arena.assets import _spending_metadata
from bellwether.arena.weekly import rows
from bellwether.arena.weekly.context import WeekBudgets, compute_week_spending, week_scope
from bellwether.arena.weekly.decisions import decide_week
from bellwether.checks.rule import rules_for
from bellwether.tables.arena import TOKENS
from tests.arena.weeks import SEVEN, WEEK, Arena
from tests.shared import unused_port

MODELS = "".join(
    f'[{name}]\nmodel = "openai/gpt-4o"\napi_base = "http://127.0.0.1:{{{name}}}/v1"\nworlds = ["sandbox"]\n'
    for name in ("away", "gateway")
)
LINEUP = (
    '[pair]\ntitle = "t"\nmethodology = "small"\nworlds = ["sandbox"]\n[pair.families]\n'
    'away = "away"\ngateway = "gateway"\nhold = "rule/hold"\ncalibrated = "sandbox-calibrated"\n'
)


class Gateway(BaseHTTPRequestHandler):
    """Server that answers HOLD under the name of another model."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"message": {"role": "assistant", "content": '{"action": "HOLD", "reasoning": "r"}'}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        whole = {"model": "gpt-4o-mini", "system_fingerprint": "fp_1", "provider": "Elsewhere", "choices": [choice], "usage": usage}
        body = json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving(port: int = 0) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", port), Gateway) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_dead_endpoint_leaves_its_decision_open_and_a_fallback_is_recorded(tmp_path: Path) -> None:
    arena, away = Arena(tmp_path, lineup="pair"), unused_port()
    (arena.registry / "lineups.toml").write_text(LINEUP)
    with serving() as gateway:
        (arena.registry / "models.toml").write_text(MODELS.format(away=away, gateway=gateway))
        arena.decide()
    found = {row["decision_id"].split("/")[1]: row for row in arena.stored()["arena/decisions"].iter_rows(named=True)}
    assert found["away"]["state"] == "open"
    assert {row["state"] for name, row in found.items() if name != "away"} == {"finished"}
    assert found["away"]["action"] is None
    assert f"no connection to http://127.0.0.1:{away}/v1/chat/completions (Connection refused)" in found["away"]["reason"]
    with arena.journal() as journal:
        assert [call.reason for call in journal.unanswered() if call.purpose == "arena/decisions"] == [
            f"no connection to http://127.0.0.1:{away}/v1/chat/completions (Connection refused)"
        ]
    served = ("model", "served_model", "system_fingerprint", "served_by")
    assert [found["gateway"][name] for name in served] == ["openai/gpt-4o", "gpt-4o-mini", "fp_1", "Elsewhere"]
    assert [found["calibrated"][name] for name in served[:2]] == ["sandbox/calibrated", "calibrated"]
    assert [found["hold"][name] for name in served] == [None] * 4
    with arena.journal() as journal:
        attempts = journal.export()["attempts"].filter(pl.col("key").is_in(found["calibrated"]["call_keys"]))
    tokens = [attempts[name].sum() for name in ("prompt_tokens", "completion_tokens")]
    assert [found["calibrated"][name] for name in TOKENS] == tokens and min(tokens) > 0
    assert [found["hold"][name] for name in TOKENS] == [0, 0]
    rule = next(rule for rule in rules_for("arena/decisions") if rule.name == "served_model_is_requested")
    assert rule.condition is not None
    bad = arena.stored()["arena/decisions"].filter(~rule.condition)
    assert bad["decision_id"].to_list() == [found["gateway"]["decision_id"]]

    with serving(away):
        arena.decide()
    again = {row["decision_id"]: row for row in arena.stored()["arena/decisions"].iter_rows(named=True)}
    assert {row["state"] for row in again.values()} == {"finished"}
    assert again[found["gateway"]["decision_id"]] == found["gateway"]


PRICED_MODELS = "".join(
    f'[{name}]\nmodel = "sandbox/{name}"\nworlds = ["sandbox"]\ninput_price = {price}\noutput_price = {price}\n'
    for name, price in (("contrarian", 1), ("noisy", 2))
)
PRICED_LINEUP = '[pair]\ntitle = "t"\nmethodology = "small"\nworlds = ["sandbox"]\n[pair.families]\ncalibrated = "sandbox-calibrated"\ncheap = "contrarian"\ndear = "noisy"\n'
CENT = Decimal("0.01")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    found = Arena(tmp_path_factory.mktemp("arena"), lineup="pair")
    (found.registry / "models.toml").write_text(PRICED_MODELS)
    (found.registry / "lineups.toml").write_text(PRICED_LINEUP)
    return found


def _decide(arena: Arena, budgets: WeekBudgets, run: str) -> tuple[dict[str, str], dict[str, str], dict[str, float]]:
    """Decide the week. Returns states by family, reasons by family, and the spending in the metadata of the asset."""
    with arena.journal() as journal:
        world = replace(arena.world(journal, run), budgets=budgets)
        frame, _ = rows.build_decisions_rows(world, decide_week(world, WEEK))
        families = [name.split("/")[1] for name in frame["decision_id"]]
        return (
            dict(zip(families, frame["state"], strict=True)),
            dict(zip(families, frame["reason"], strict=True)),
            _spending_metadata(world, WEEK),
        )


def test_budgets_stop_before_money_is_spent_and_a_raised_one_goes_on(arena: Arena) -> None:
    states, reasons, money = _decide(arena, WeekBudgets(week=CENT), "one")
    assert {states["cheap"], states["dear"]} == {"blocked"}, "the week's budget stops the run"
    assert f"the budget of purpose arena/decisions, scope …/{WEEK} is $0.010000" in reasons["dear"]
    assert (money["week: dollars spent"], money["week: dollars left"]) == (0, 0.01)

    states, reasons, money = _decide(arena, WeekBudgets(week=Decimal(10), model=Decimal("0.04")), "two")
    assert states.pop("dear") == "open", "a model's own budget concerns that model alone"
    assert set(states.values()) == {"finished"}
    assert f"model sandbox/noisy, scope …/{WEEK} is $0.040000" in reasons["dear"]
    spent = money["sandbox/contrarian: dollars spent"]
    assert 0 < spent < 0.04
    both = spent + money["sandbox/calibrated: dollars spent"]
    assert money["week: dollars spent"] == pytest.approx(both)
    assert money["week: dollars left"] == pytest.approx(10 - both)
    assert money["sandbox/contrarian: dollars left"] == pytest.approx(0.04 - spent)

    states, _, money = _decide(arena, WeekBudgets(week=Decimal(10), model=Decimal(1)), "three")
    assert set(states.values()) == {"finished"}
    assert money["week: dollars spent"] == pytest.approx(both + money["sandbox/noisy: dollars spent"])
    with arena.journal() as journal:
        assert journal.spent(week_scope(WEEK + SEVEN)).committed == 0, "another week has its own budget"
        whole, models = compute_week_spending(journal, WEEK, WeekBudgets())
    assert whole.left is None
    assert set(models) == {"sandbox/calibrated", "sandbox/contrarian", "sandbox/noisy"}


def test_a_week_without_calls_has_cost_nothing(tmp_path: Path) -> None:
    with Arena(tmp_path).journal() as journal:
        whole, models = compute_week_spending(journal, WEEK, WeekBudgets(week=Decimal(5)))
    assert (whole.spent, whole.reserved, whole.left, models) == (0, 0, 5, {})


def test_changed_tokens_are_a_new_state_and_missing_ones_are_completed() -> None:
    """Rows of earlier versions of the table have no tokens."""
    first, later = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)

    def state(tokens: int | None, at: datetime) -> dict[str, object]:
        return {"state": "FAILED", "input_tokens": tokens, "output_tokens": tokens, **dict.fromkeys(("known_at", "changed_at"), at)}

    def merge(stored: int | None, journaled: int) -> list[tuple[object, object]]:
        states = rows._merge_states([state(stored, first)], [state(journaled, later)], None, later)
        return [(each["input_tokens"], each["changed_at"]) for each in states]

    assert merge(100, 100) == [(100, first)]
    assert merge(100, 200) == [(100, first), (200, later)], "what was published at `first` stays"
    assert merge(None, 200) == [(200, first)]
