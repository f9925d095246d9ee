"""The lineup of a week that has a cohort."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bellwether.tables import arena as tables
from cli import arena as commands
from tests.unit.arena.weeks import WEEK
from tests.unit.arena.world import row_of


def test_running_a_week_with_another_lineup_than_its_cohort_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tables.AGENTS.frame([row_of("arena/agents", week=WEEK, agent_id=f"{WEEK}/f", lineup="pair")])
    monkeypatch.setattr(commands, "open_table_reader", lambda known_at: lambda table: rows)
    found = CliRunner().invoke(commands.arena, ["run", "--week", str(WEEK), "--lineup", "rules"])
    assert found.exit_code == 2
    assert f"the cohort {WEEK} keeps the lineup pair" in " ".join(found.output.replace("│", " ").split())
