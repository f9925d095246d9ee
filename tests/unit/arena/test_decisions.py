"""Decisions through the journal: outages, concurrent runs, and a kill at every write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bellwether.arena.decision import Action, Decision, DecisionState, Problem, Reason
from bellwether.arena.execution import MarketData
from bellwether.arena.records import DecisionPlan, decode_record, encode_record
from bellwether.arena.weekly.decisions import DecisionOutcome
from bellwether.arena.weekly.model_calls import Task
from bellwether.errors import VenueError
from bellwether.forecasting.prompt import Message
from bellwether.journal.journal import Journal
from bellwether.journal.values import CallKey, CostSource, Outcome, Reply, Usage
from bellwether.models.client import Answer, NoAnswer
from bellwether.models.scheduler import Stopped
from tests.unit.arena.scripted_week import ANSWERS, BET, DEADLINE, KILLED, TIMEOUT, Provider, Run, fetch_quotes, make_run, tasks
from tests.unit.arena.world import NOW, account, usd
from tests.unit.journal.calls import Clock


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as made:
        yield made


def run(journal: Journal, saw: list[str], *families: str) -> list[DecisionOutcome]:
    return make_run(journal, saw.append).decide(tasks(families=families or tuple(ANSWERS)))


def decide(task: Task, run: Run) -> DecisionOutcome:
    (done,) = run.decide([task])
    return done


def sent_requests(saw: list[str]) -> list[str]:
    return [words for words in saw if words.startswith("asked")]


def test_agents_decide_one_after_another_and_once(journal: Journal) -> None:
    saw: list[str] = []
    first = run(journal, saw)
    assert [done.state for done in first] == [DecisionState.FINISHED] * 3
    assert [done.intent.decision.action for done in first if done.intent] == [Action.BET, Action.SELL, Action.INVALID]
    assert [len(done.execution.trades) for done in first if done.execution] == [2, 1, 0]
    assert sent_requests(saw) == ["asked acme 0", "asked beta 0", "asked beta 1", "asked zeta 0", "asked zeta 1"]
    assert run(journal, saw) == first
    assert len(sent_requests(saw)) == 5


def test_an_answer_that_cannot_be_used_is_asked_for_again_with_its_error(journal: Journal) -> None:
    (done,) = run(journal, [], "beta")
    assert done.intent is not None
    assert (len(done.intent.calls), done.intent.cost, done.intent.decision.action) == (2, 140, Action.SELL)
    texts = journal.export()["calls"].filter(purpose="arena/decisions")["request"].to_list()
    assert sum("Your previous answer could not be used (no JSON)" in text for text in texts) == 1


@pytest.mark.parametrize("outcome", [Outcome.MALFORMED, Outcome.TRUNCATION])
def test_an_answer_without_text_is_asked_for_once_more_and_then_invalid(journal: Journal, outcome: Outcome) -> None:
    keys, saw = [CallKey(sign * 64) for sign in "ab"], list[str]()

    def ask(task: Task, plan: DecisionPlan, messages: Sequence[Message], sample: int) -> Answer | NoAnswer:
        saw.append(messages[-1]["content"])
        spent = Usage(cost=30, cost_source=CostSource.PROVIDER)
        if sample and outcome is Outcome.TRUNCATION:
            return Answer(keys[sample], Reply(content=BET, finish_reason="stop"), spent=spent)
        return NoAnswer(keys[sample], outcome, "reasoning without an answer", 1, spent, final=True)

    (task,) = tasks(families=["acme"])
    done = decide(task, replace(make_run(journal), ask=ask))
    assert done.intent is not None
    expected = Problem.EMPTY if outcome is Outcome.MALFORMED else None
    assert (done.state, done.intent.decision.problem, len(done.intent.calls), done.intent.cost) == (DecisionState.FINISHED, expected, 2, 60)
    assert len(saw) == 2
    assert "could not be used (empty answer)" in saw[1]


def test_a_bankrupt_agent_is_not_asked(journal: Journal) -> None:
    saw: list[str] = []
    (task,) = tasks(families=["acme"])
    done = decide(replace(task, account=account("10")), make_run(journal, saw.append))
    assert (done.state, done.reason, saw) == (DecisionState.FINISHED, "bankrupt: it is not asked", [])


def test_a_bet_that_cannot_be_executed_is_executed_again_and_not_asked_for_again(journal: Journal) -> None:
    saw: list[str] = []
    (task,) = tasks(families=["acme"])
    unquoted = replace(task, fetch_market_data=lambda decision: replace_quotes(fetch_quotes(decision)))
    first = decide(unquoted, make_run(journal, saw.append))
    assert first.execution is not None
    assert (first.state, first.problem, first.execution.trades) == (DecisionState.READ, True, ())
    assert [one.reason for one in first.execution.refusals] == [Reason.NO_MIDPOINT, Reason.NO_MIDPOINT]
    assert first.reason == "every leg was refused: no midpoint (2)"
    second = decide(task, make_run(journal, saw.append))
    assert second.execution is not None
    assert (second.state, len(second.execution.trades), second.problem, len(sent_requests(saw))) == (DecisionState.FINISHED, 2, False, 1)
    assert decide(unquoted, make_run(journal, saw.append)) == second


def test_a_decision_whose_legs_were_all_refused_is_refused_at_its_deadline(journal: Journal) -> None:
    saw: list[str] = []
    looks: list[Decision] = []
    (task,) = tasks(families=["acme"])

    def unquoted(decision: Decision) -> MarketData:
        looks.append(decision)
        return replace_quotes(fetch_quotes(decision))

    def at(now: datetime) -> Run:
        return make_run(journal, saw.append, now=now)

    refused = replace(task, fetch_market_data=unquoted)
    assert [decide(refused, at(NOW + n * timedelta(hours=1))).state for n in range(3)] == [DecisionState.READ] * 3
    for now in (DEADLINE, DEADLINE + timedelta(days=1)):
        done = decide(refused, at(now))
        assert (done.state, done.problem, done.reason) == (DecisionState.REFUSED, True, "every leg was refused: no midpoint (2)")
    assert (len(looks), len(sent_requests(saw))) == (3, 1)
    assert decide(task, make_run(journal, saw.append, now=DEADLINE)).state is DecisionState.REFUSED, "no late trade"


def test_a_refused_decision_of_a_past_week_stays_refused(journal: Journal) -> None:
    (task,) = tasks(families=["acme"])
    past = replace(task, at=NOW - timedelta(days=7))
    first = decide(replace(past, fetch_market_data=lambda decision: replace_quotes(fetch_quotes(decision))), make_run(journal))
    assert (first.state, decide(past, make_run(journal))) == (DecisionState.REFUSED, first)
    assert first.plan is not None and first.plan.planned_at == NOW - timedelta(days=7)


def test_a_leg_that_was_refused_is_not_repeated_where_another_traded(journal: Journal) -> None:
    (task,) = tasks(families=["acme"])
    half = replace(
        task, fetch_market_data=lambda decision: replace(fetch_quotes(decision), quotes={"n": fetch_quotes(decision).quotes["n"]})
    )
    first = decide(half, make_run(journal))
    assert first.execution is not None
    assert (first.state, first.problem) == (DecisionState.FINISHED, True)
    assert [trade.market_id for trade in first.execution.trades] == ["n"]
    assert [(one.leg, one.reason) for one in first.execution.refusals] == [(1, Reason.NO_MIDPOINT)]
    assert decide(task, make_run(journal)) == first


@pytest.mark.parametrize(("waited", "state", "asked_again"), [(TIMEOUT / 2, DecisionState.OPEN, 0), (TIMEOUT, DecisionState.FINISHED, 1)])
def test_the_call_of_a_killed_worker_is_repeated_when_its_time_is_over(
    tmp_path: Path, waited: timedelta, state: DecisionState, asked_again: int
) -> None:
    def killed(words: str) -> None:
        raise Killed

    clock, saw = Clock(NOW), list[str]()
    (task,) = tasks(families=["acme"])
    with Journal(f"sqlite:///{tmp_path}/leases.db", clock=clock) as journal:
        with pytest.raises(Killed):
            decide(task, make_run(journal, killed))
        clock.advance(waited)
        assert (decide(task, make_run(journal, saw.append)).state, len(sent_requests(saw))) == (state, asked_again)


def replace_quotes(data: MarketData) -> MarketData:
    return replace(data, quotes={})


def test_a_partial_sale_is_not_repeated_and_reported_again(journal: Journal) -> None:
    both = '{"action": "SELL", "sells": [{"position_id": "2026-03-01/beta/2026-03-01/1", "percentage": 50}, {"position_id": "x", "percentage": 1}], "reasoning": "r"}'
    saw: list[str] = []
    with_answers = replace(make_run(journal), ask=Provider(journal, saw.append, {"beta": [both]}))
    (task,) = tasks(families=["beta"])
    for _ in range(2):
        done = decide(task, with_answers)
        assert done.execution is not None
        assert (len(done.execution.trades), len(done.execution.refusals), done.problem) == (1, 1, True)
    assert len(sent_requests(saw)) == 1


@pytest.mark.parametrize("kind", ["out_of_credit", "authentication", "budget"])
def test_without_credit_the_run_stops_and_the_next_one_goes_on(journal: Journal, kind: str) -> None:
    saw: list[str] = []
    stopped = make_run(journal, saw.append)
    assert isinstance(stopped.ask, Provider)
    stopped.ask.fails["acme"] = Stopped("acme", kind, "402")  # type: ignore[arg-type]
    found = stopped.decide(tasks())
    assert [done.state for done in found] == [DecisionState.BLOCKED] * 3
    assert all(done.problem and "402" in done.reason for done in found)
    assert sent_requests(saw) == ["asked acme 0"]
    assert [done.state for done in run(journal, saw)] == [DecisionState.FINISHED] * 3


def test_an_outage_leaves_a_decision_open_and_the_others_go_on(journal: Journal) -> None:
    out = make_run(journal)
    assert isinstance(out.ask, Provider)
    out.ask.fails["acme"] = Outcome.TIMEOUT
    found = out.decide(tasks())
    assert [done.state for done in found] == [DecisionState.OPEN, DecisionState.FINISHED, DecisionState.FINISHED]
    assert (found[0].reason, found[0].intent) == ("timeout: the provider's words", None)
    assert run(journal, [])[0].state is DecisionState.FINISHED


def test_after_the_deadline_nobody_is_asked(journal: Journal) -> None:
    saw: list[str] = []
    (done,) = make_run(journal, saw.append, now=DEADLINE).decide(tasks(families=["acme"]))
    assert (done.state, saw) == (DecisionState.OPEN, [])
    assert "deadline" in done.reason


def test_what_was_read_is_executed_by_the_next_run_without_a_call(journal: Journal) -> None:
    def no_data(decision: object) -> MarketData:
        raise VenueError("POST /midpoints", 3, "503")

    saw: list[str] = []
    (task,) = tasks(families=["acme"])
    read = decide(replace(task, fetch_market_data=no_data), make_run(journal, saw.append))
    assert (read.state, read.execution, read.problem) == (DecisionState.READ, None, True)
    assert "503" in read.reason
    done = decide(replace(task, deadline=NOW - timedelta(1)), make_run(journal, saw.append))
    assert (done.state, len(sent_requests(saw))) == (DecisionState.FINISHED, 1)


def test_a_prompt_stays_as_it_was_first_asked(journal: Journal) -> None:
    (task,) = tasks(families=["acme"])
    out = make_run(journal)
    assert isinstance(out.ask, Provider)
    out.ask.fails["acme"] = Outcome.TIMEOUT
    decide(task, out)
    done = decide(replace(task, messages=lambda: [{"role": "user", "content": "another"}], account=account("500")), make_run(journal))
    assert done.plan is not None
    assert (done.plan.cash, done.plan.messages) == (usd("10000"), task.messages())


def test_of_two_workers_the_first_to_execute_counts(journal: Journal) -> None:
    saw: list[str] = []
    (task,) = tasks(families=["acme"])
    states = []

    def meanwhile(decision: object) -> MarketData:
        states.append(decide(task, make_run(journal, saw.append, run="second")).state)
        return fetch_quotes(decision)  # type: ignore[arg-type]

    done = decide(replace(task, fetch_market_data=meanwhile), make_run(journal, saw.append, run="first"))
    assert (done.state, states, sent_requests(saw)) == (DecisionState.FINISHED, [DecisionState.FINISHED], ["asked acme 0"])


def test_records_come_back_as_they_were_stored(journal: Journal) -> None:
    for done in run(journal, []):
        assert done.plan is not None
        assert done.intent is not None
        assert done.execution is not None
        for record in (done.plan, done.intent, done.execution):
            assert decode_record(type(record), encode_record(record)) == record


class Killed(BaseException):
    """Exception that replaces a kill."""


def run_until_write(path: Path, number: int, saw: list[str]) -> bool:
    """Decide the week on a new journal that stores nothing from write `number` on. Returns whether that write was reached."""
    with Journal(f"sqlite:///{path}", clock=Clock(NOW)) as journal:
        journal.pending()
        left = [number]

        def step(_: object, __: object, statement: str, *___: object) -> None:
            left[0] -= not statement.lstrip().startswith(("SELECT", "BEGIN", "PRAGMA"))
            if left[0] <= 0:
                raise Killed

        sa.event.listen(journal.database._engine, "before_cursor_execute", step)
        try:
            run(journal, saw, *KILLED)
        except Killed:
            return True
    return False


def _records(means: Run) -> list[bytes | None]:
    names = [task.key.decision_id for task in tasks(families=KILLED)]
    return [means.records.stored(step, name) for name in names for step in ("prompt", "intent", "execution")]


def assert_recovered(path: Path, before: list[str], expected: list[bytes | None]) -> None:
    """Assert that the run after the time of the attempts ends like an undisturbed one, and sends only a request again that was in progress at the kill."""
    after: list[str] = []
    with Journal(f"sqlite:///{path}", clock=Clock(NOW + 2 * TIMEOUT)) as journal:
        found = run(journal, after, *KILLED)
        assert [done.state for done in found] == [DecisionState.FINISHED] * 2
        assert _records(make_run(journal)) == expected
    stored = {words.removeprefix("stored ") for words in before if words.startswith("stored")}
    again = {words.removeprefix("asked ") for words in sent_requests(after)}
    assert not stored & again, "an answer that was stored was paid for again"
    assert len({words.removeprefix("asked ") for words in sent_requests(before)} & again) <= 1
    assert len(set(sent_requests(before) + sent_requests(after))) == 3


@pytest.mark.parametrize("part", range(6))
def test_a_run_killed_at_any_write_loses_and_repeats_nothing(tmp_path: Path, part: int) -> None:
    """Every sixth write of the journal; the parts together are all of them."""
    with Journal(f"sqlite:///{tmp_path}/undisturbed.db") as journal:
        run(journal, [], *KILLED)
        expected = _records(make_run(journal))
    number = part + 1
    saw: list[str] = []
    while run_until_write(tmp_path / f"{number}.db", number, saw):
        assert_recovered(tmp_path / f"{number}.db", saw, expected)
        saw, number = [], number + 6
    assert number > 25


def test_what_was_paid_for_answers_that_never_came_is_known(journal: Journal) -> None:
    """The first answer was unusable and cost 70. The second request failed finally and cost 30."""
    provider = Provider(journal, [].append, {"beta": ["no JSON"]})
    keys: list[CallKey] = []

    def ask(task: Task, plan: DecisionPlan, messages: Sequence[Message], sample: int) -> Answer | NoAnswer:
        if sample == 0:
            first = provider(task, plan, messages, 0)
            keys.append(first.key)
            return first
        keys.append(CallKey("f" * 64))
        return NoAnswer(keys[-1], Outcome.REFUSAL, "it refused", 1, Usage(cost=30, cost_source=CostSource.PROVIDER), final=True)

    (task,) = tasks(families=["beta"])
    for _ in range(2):
        done = decide(task, replace(make_run(journal), ask=ask))
        assert (done.state, done.intent, done.calls, done.cost) == (DecisionState.FAILED, None, tuple(map(str, keys[:2])), 70 + 30)
    unknown = replace(make_run(journal), ask=lambda *_: NoAnswer(keys[1], Outcome.REFUSAL, "it refused", 1, final=True))
    assert decide(task, unknown).cost is None
