"""`bellwether journal`: its output for operators, and reopening of failed calls."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bellwether.journal import Journal, Outcome
from bellwether.journal.records import Records
from bellwether.settings import settings
from cli.main import main
from tests.unit.journal.calls import LEASE, begin_attempt, begin_call, claim_attempt, make_reply, make_request


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def journal() -> Journal:
    """The journal of this test's world: one call answered, one failed, one whose holder died."""
    opened = Journal(settings().journal_url)
    begin_attempt(opened, make_request(0)).answer(make_reply(cost=1_234_567))
    claim, attempt = claim_attempt(opened, make_request(1), estimate=50)
    attempt.fail(Outcome.TIMEOUT, "no body within 40 s")
    claim.give_up(Outcome.TIMEOUT, "3 of 3 attempts timed out")
    begin_attempt(opened, make_request(2), "host:7", lease=timedelta(microseconds=1))
    return opened


def test_without_a_journal_nothing_is_made() -> None:
    result = run("journal")
    assert (result.exit_code, "No model calls yet" in result.output) == (0, True)
    assert json.loads(run("journal", "--json").output)["calls"] == []
    assert run("journal", "failures").output == "No call has failed.\n"
    assert not Path(settings().world_home).exists()


def test_the_overview_shows_states_costs_and_expired_leases(journal: Journal) -> None:
    shown = run("journal").output
    assert "$1.234567" in shown
    assert "held by host:7" in shown
    assert max(map(len, shown.splitlines()[1:-1])) <= 80
    found = json.loads(run("journal", "--json").output)
    assert found["journal"] == str(settings().world_home / "journal.db")
    assert {(row["state"], row["outcome"]): row["calls"] for row in found["calls"]} == {
        ("answered", "ok"): 1,
        ("failed", "timeout"): 1,
        ("claimed", None): 1,
    }
    assert [(row["attempts"], row["spent"], row["reserved"], row["unknown"]) for row in found["usage"]] == [(3, 1_234_567, 50, 1)]
    assert [row["key"] for row in found["expired"]] == [make_request(2).key]


def test_records_of_the_arena_are_counted_apart_from_calls_and_cost_nothing(journal: Journal) -> None:
    records = Records(journal, LEASE, holder="host:8")
    for number in range(2):
        records.once("intervention", "arena", lambda: b"x", number)
    records._claim("cohort", "2026-03-01", 0, "token")
    with pytest.raises(ZeroDivisionError):
        records.once("universe", "2026-03-01", lambda: bytes(1 // 0))
    shown = run("journal").output
    assert "Arena records: intervention 2\n" in shown
    assert "cohort of 2026-03-01 is claimed: held by host:8 until " in shown
    assert "universe of 2026-03-01 is open: ZeroDivisionError: integer division or modulo by zero" in shown
    found = json.loads(run("journal", "--json").output)
    assert found["records"] == {"intervention": 2}
    assert [(row["kind"], row["state"]) for row in found["unfinished"]] == [("cohort", "claimed"), ("universe", "open")]
    assert sum(row["calls"] for row in found["calls"]) == 3
    assert "arena" not in run("journal", "failures").output


def test_open_calls_whose_attempt_failed_are_listed_with_the_failures(journal: Journal) -> None:
    claim, attempt = claim_attempt(journal, make_request(3))
    attempt.fail(Outcome.PROVIDER_ERROR, "no connection to http://127.0.0.1:9 (Connection refused)")
    claim.release("no connection to http://127.0.0.1:9 (Connection refused)", Outcome.PROVIDER_ERROR)
    shown = run("journal", "failures").output
    assert "(Connection refused) (open: the next run retries it)" in shown
    assert shown.count("open: the next run") == 1
    found = json.loads(run("journal", "failures", "--json").output)
    assert [(row["key"], row["state"]) for row in found] == [(make_request(1).key, "failed"), (make_request(3).key, "open")]


def test_a_failed_call_is_reopened_by_the_beginning_of_its_key(journal: Journal) -> None:
    result = run("journal", "reopen", make_request(1).key[:10], "--by", "ana", "--note", "the provider is back")
    assert (result.exit_code, result.output.split()) == (0, ["reopened", make_request(1).key])
    assert isinstance(begin_call(journal, make_request(1)), tuple)
    assert journal.export()["reopenings"].select("reopened_by", "note").rows() == [("ana", "the provider is back")]
