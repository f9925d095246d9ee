"""Processes that compete for the same call, record or budget: exactly one gets it, on each database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bellwether.journal import Journal, Scope
from tests.journal.calls import begin_attempt, make_request
from tests.processes.journal_racers import ESTIMATE, RUNNERS, Racers, open_first, spend, spend_the_last, stall_or_take_over, win

pytest_plugins = ("tests.journal.fixtures",)


def check_one_answer_each(journal: Journal, keys: range) -> None:
    tables = journal.export()
    assert tables["calls"]["state"].to_list() == ["answered"] * len(keys)
    assert tables["attempts"]["outcome"].to_list() == ["ok"] * len(keys)
    assert tables["responses"]["key"].n_unique() == tables["responses"].height == len(keys)


@pytest.mark.slow
def test_each_call_is_won_by_exactly_one_of_all_processes(url: str, racers: Racers) -> None:
    for turn in range(3):
        keys = range(turn * 25, turn * 25 + 25)
        won = racers.race(win, url, keys)
        assert sorted(key for one in won for key in one) == list(keys)
    with Journal(url) as journal:
        check_one_answer_each(journal, range(75))
        answers = journal.answers(make_request(key).key for key in keys)
        for number, one in enumerate(won):
            assert {answers[make_request(key).key].content for key in one} <= {f"runner {number}"}


def test_each_expired_call_is_taken_over_by_exactly_one(url: str, racers: Racers) -> None:
    keys = range(40)
    with Journal(url) as journal:
        for key in keys:
            begin_attempt(journal, make_request(key), "dead", lease=timedelta(microseconds=1))
        won = racers.race(win, url, keys)
        assert sorted(key for one in won for key in one) == list(keys)
        outcomes = journal.usage("outcome").select("outcome", "attempts").rows()
        assert outcomes == [("abandoned", 40), ("ok", 40)]


def test_processes_that_open_a_new_journal_at_once_make_one(tmp_path: Path, postgres_url: str, racers: Racers) -> None:
    schema = postgres_url.rsplit("%3D", 1)[1]
    for turn in range(3):
        with sa.create_engine(postgres_url).begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {schema}_{turn}")
        for url in (f"sqlite:///{tmp_path}/new/{turn}/journal.db", f"{postgres_url}_{turn}"):
            assert len(set(racers.race(open_first, url))) == RUNNERS
            with Journal(url) as journal:
                check_one_answer_each(journal, range(RUNNERS))


def test_a_budget_holds_whoever_spends(url: str, racers: Racers) -> None:
    limit = 60 * ESTIMATE + 99
    begins = racers.race(spend, url, limit)
    with Journal(url) as journal:
        found = journal.spent(Scope(run="race"))
    assert limit - ESTIMATE < found.committed <= limit
    assert sum(begins) > 60


def test_the_last_money_of_a_budget_is_spent_once(url: str, racers: Racers) -> None:
    won = racers.race(spend_the_last, url, 30)
    assert [sum(one) for one in zip(*won, strict=True)] == [1] * 30


def test_a_holder_that_wakes_while_others_take_over_never_makes_a_second_answer(url: str, racers: Racers) -> None:
    keys = range(60)
    slow, *others = racers.race(stall_or_take_over, url, keys)
    with Journal(url) as journal:
        tables = journal.export()
        assert tables["calls"]["state"].to_list() == ["answered"] * len(keys)
        for key in keys:
            answer = journal.answer(make_request(key).key)
            assert answer is not None
            heard = {one[key] for one in (slow, *others)} - {"busy", "lost"}
            assert heard <= {answer.content}
        brought = tables["attempts"].filter(tables["attempts"]["outcome"] == "ok").height
        assert journal.spent().spent == tables["responses"].height == brought
        assert tables["attempts"]["outcome"].n_unique() == 1
