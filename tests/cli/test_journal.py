"""`bellwether journal`: its output for operators, and reopening of failed calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bellwether.journal.journal import Attempt, Journal
from bellwether.journal.records import Records
from bellwether.journal.values import Outcome
from bellwether.settings import settings
from cli.main import main
from tests.unit.journal.calls import begin_attempt, begin_call, make_reply, make_request


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def journal() -> Journal:
    """The journal of this test's world: one call answered, one failed, one in progress."""
    opened = Journal(settings().journal_url)
    begin_attempt(opened, make_request(0)).answer(make_reply(cost=1_234_567))
    begin_attempt(opened, make_request(1), estimate=50).fail(Outcome.TIMEOUT, "no body within 40 s", final=True)
    begin_attempt(opened, make_request(2))
    return opened


def test_without_a_journal_nothing_is_made() -> None:
    result = run("journal")
    assert (result.exit_code, "No model calls yet" in result.output) == (0, True)
    assert json.loads(run("journal", "--json").output)["calls"] == []
    assert not Path(settings().world_home).exists()


def test_the_overview_shows_states_and_costs(journal: Journal) -> None:
    shown = run("journal").output
    assert "$1.234567" in shown
    assert max(map(len, shown.splitlines()[1:-2])) <= 80
    found = json.loads(run("journal", "--json").output)
    assert found["journal"] == str(settings().world_home / "journal.db")
    assert {(row["state"], row["outcome"]): row["calls"] for row in found["calls"]} == {
        ("answered", "ok"): 1,
        ("failed", "timeout"): 1,
        ("open", None): 1,
    }
    assert [(row["attempts"], row["spent"], row["reserved"], row["unknown"], row["in_flight"]) for row in found["usage"]] == [
        (3, 1_234_567, 50, 1, 1)
    ]


def test_records_of_the_arena_are_counted_apart_from_calls_and_cost_nothing(journal: Journal) -> None:
    for number in range(2):
        Records(journal).once("intervention", "arena", lambda: b"x", number)
    assert "Arena records: intervention 2\n" in run("journal").output
    found = json.loads(run("journal", "--json").output)
    assert found["records"] == {"intervention": 2}
    assert sum(row["calls"] for row in found["calls"]) == 3


def test_open_calls_whose_attempt_failed_are_listed_with_the_failures(journal: Journal) -> None:
    begin_attempt(journal, make_request(3)).fail(Outcome.PROVIDER_ERROR, "no connection to http://127.0.0.1:9 (Connection refused)")
    shown = run("journal").output
    assert "(Connection refused) (open: the next run retries it)" in shown
    assert shown.count("open: the next run") == 1
    found = json.loads(run("journal", "--json").output)["failures"]
    assert [(row["key"], row["state"]) for row in found] == [(make_request(3).key, "open"), (make_request(1).key, "failed")]


def test_a_failed_call_is_reopened_by_the_beginning_of_its_key(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ana")
    result = run("journal", "reopen", make_request(1).key[:10], "--note", "the provider is back")
    assert (result.exit_code, result.output.split()) == (0, ["reopened", make_request(1).key])
    assert isinstance(begin_call(journal, make_request(1)), Attempt)
    assert journal.export()["reopenings"].select("reopened_by", "note").rows() == [("ana", "the provider is back")]


def test_answers_are_exported_and_imported(journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    assert f"exported 1 answers to {file}" in run("journal", "export", str(file)).output.replace("\n", "")
    assert run("journal", "import", str(file)).output == "imported 0 answers\n"
    file.write_text(file.read_text().replace("0.7", "0.8"))
    refused = run("journal", "import", str(file))
    assert (refused.exit_code, "line 1: sha256 is" in refused.output) == (1, True)


def test_a_call_is_shown_with_its_tools_and_without_control_characters(journal: Journal) -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "search", "arguments": '{"query": "rain"}'}}]}
    request = make_request(3, messages=[{"role": "user", "content": "Rain?\x1b[2J"}, called, {"role": "tool", "content": "[bold]wet"}])
    begin_attempt(journal, request).answer(make_reply())
    shown = run("journal", "show", request.key[:8]).output
    assert shown.startswith('[user]\nRain?␛[2J\n\n[calls]\nsearch {"query": "rain"}\n\n[tool]\n[bold]wet\n\n[answer]\n')
    assert json.loads(run("journal", "show", request.key, "--json").output)["request"]["messages"] == request.messages
    assert run("journal", "show", "0" * 8).exit_code == 1
