"""Messages of the arena's commands before and after a run: unknown names, decisions blocked by a budget, no output of Dagster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from bellwether.doctor.installation import _arena, _guarded
from bellwether.errors import BellwetherError
from bellwether.journal.journal import ADVICE
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.settings import settings
from bellwether.tables import table
from cli.main import main
from tests.rows import filled

WEEK = date(2026, 4, 19)
BUDGET = f"beginning a model call of about $0.04: the budget of scope x is $0.01; {ADVICE}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()


@pytest.mark.parametrize(
    ("state", "reason", "waits"),
    [
        ("blocked", BUDGET, True),
        ("blocked", "no key", True),
        ("open", BUDGET, True),
        ("open", "the model is away", False),
        ("open", None, False),
        ("finished", None, False),
    ],
)
def test_decisions_that_wait_for_money_fail_the_command(
    monkeypatch: pytest.MonkeyPatch, state: str, reason: str | None, waits: bool
) -> None:
    from assets.arena import queries

    rows = pl.DataFrame(
        {"week": [WEEK, WEEK - timedelta(days=7)], "place": [1, 1], "state": [state, "blocked"], "reason": [reason, "of another week"]},
        schema_overrides={"reason": pl.String},
    )
    monkeypatch.setattr(queries, "open_table_reader", lambda known_at: lambda declared: rows)
    if waits:
        with pytest.raises(BellwetherError, match=r"1 decisions are not taken: .*The same command continues"):
            queries.require_answers([WEEK])
    else:
        queries.require_answers([WEEK])


@pytest.mark.parametrize(("name", "value", "close"), [("LINEUP", "sandbux", "sandbox"), ("METHODOLOGY", "v1-kalshy", "v1-kalshi")])
def test_an_unknown_lineup_or_methodology_stops_a_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, close: str
) -> None:
    monkeypatch.setenv(f"BELLWETHER_{name}", value)
    settings.cache_clear()
    ran = CliRunner().invoke(main, ["arena", "run", "--week", str(WEEK)])
    assert ran.exit_code != 0
    assert f"'{value}' does not exist; did you mean {close}" in " ".join(ran.output.split())
    (found,) = _guarded(_arena, settings())
    assert (found.check, found.status) == ("arena", "bad")
    assert not (home / "sandbox" / "lake").exists()


#: Commands that show tables of the arena, and the table that each warning names.
SHOWING = {"leaderboard arena": "arena/leaderboard", "query FROM:arena.ledger": None, "query FROM:arena.rankings": "arena/rankings"}


@pytest.fixture
def arena_home(home: Path) -> Lake:
    lake = Lake(settings().lake_uri, clock=lambda: datetime(2026, 4, 19, 8, 30, tzinfo=UTC))
    for name in ("arena/leaderboard", "arena/rankings", "arena/ledger"):
        lake.write(table(name), (), table(name).empty(), run_id="r", inputs={"arena/agents": sha256(b"").hexdigest()[:32]})
    publish(lake, settings().warehouse_uri)
    return lake


def test_commands_warn_of_a_failed_rebuild_of_what_they_show(arena_home: Lake) -> None:
    def run(command: str) -> Result:
        return CliRunner().invoke(main, [word.replace(":", " ") for word in command.split()], catch_exceptions=False)

    before = {command: run(command) for command in SHOWING}
    assert {(ran.exit_code, ran.stderr) for ran in before.values()} == {(0, "")}
    for name in ("arena/leaderboard", "arena/rankings"):
        declared = table(name)
        arena_home.write(declared, (), declared.empty(), run_id="r", inputs={"arena/agents": "of rows before the last ones"})
    publish(arena_home, settings().warehouse_uri)
    for command, first in SHOWING.items():
        ran = run(command)
        assert (ran.exit_code, ran.stdout) == (0, before[command].stdout), command
        expected = f"Warning: Out of date, because a rebuild failed or is overdue: {first} of 2026-04-19 08:30 UTC"
        assert ran.stderr.startswith(expected) if first else ran.stderr == "", command


def test_a_warehouse_without_the_last_rows_is_named(arena_home: Lake) -> None:
    board = table("arena/leaderboard")
    arena_home.write(board, (), board.frame([filled(board.name)]), run_id="r")
    for sql, warns in (("FROM arena.leaderboard", True), ("SELECT 1 FROM arena.ledger", False)):
        ran = CliRunner().invoke(main, ["query", sql], catch_exceptions=False)
        assert ("lacks later rows of arena/leaderboard." in ran.stderr) == warns, sql


def test_a_leaderboard_is_dated(arena_home: Lake) -> None:
    assert CliRunner().invoke(main, ["leaderboard", "arena"]).stdout.endswith("As of 2026-04-19 08:30 UTC.\n")
    assert "As of 2026-05-01 00:00 UTC." in CliRunner().invoke(main, ["leaderboard", "arena", "--known-at", "2026-05-01"]).stdout


def test_a_past_leaderboard_is_that_of_the_arena() -> None:
    refused = CliRunner().invoke(main, ["leaderboard", "--known-at", "2026-05-01"])
    assert (refused.exit_code, "--known-at is for the arena" in refused.output) == (2, True)
