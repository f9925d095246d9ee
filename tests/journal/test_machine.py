"""Any sequence of what holders may do, compared with a model of twenty lines: who holds, what is the answer, what was paid."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from bellwether.errors import ConfigError
from bellwether.journal import Answered, Attempt, Budget, BudgetExceeded, Busy, Claim, Failed, Journal, LeaseLost, Outcome
from tests.journal.calls import LEASE, Clock, ask, said

CALLS = st.integers(0, 1)
HOLDERS = st.sampled_from(["one", "two"])
COSTS = st.integers(0, 50) | st.none()
BUDGET = 600
ESTIMATE = 40


@dataclass
class Try:
    """An attempt as the model sees it; `cost` is None while it is not known."""

    call: int
    number: int
    claim: int
    outcome: str | None = None
    cost: int | None = None
    text: str | None = None
    handle: Attempt | None = None
    ended: bool = False


@dataclass
class Call:
    """A call as the model sees it; `claim` numbers the claim that holds it."""

    state: str = "none"
    claim: int | None = None
    expires: datetime | None = None
    answer: int | None = None
    tries: list[Try] = field(default_factory=list)
    reopenings: int = 0

    @property
    def under_way(self) -> list[Try]:
        return [one for one in self.tries if one.outcome is None]

    @property
    def late(self) -> Try | None:
        return next((one for one in self.tries if one.outcome == "ok"), None)

    def abandon(self) -> None:
        for one in self.under_way:
            one.outcome = "abandoned"

    def adopt(self) -> bool:
        if self.late is None or self.under_way:
            return False
        self.state, self.answer, self.claim = "answered", self.late.number, None
        return True


class Machine(RuleBasedStateMachine):
    """Several holders on one journal; claims and attempts stay usable after they were lost, as in a process that stalled."""

    url = ""

    @initialize()
    def open(self) -> None:
        self.clock = Clock()
        self.journal = _fresh(self.url, self.clock)
        self.model = {number: Call() for number in range(2)}
        self.claims: list[tuple[int, Claim]] = []

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()

    @rule(number=CALLS, holder=HOLDERS)
    def claim(self, number: int, holder: str) -> None:
        call = self.model[number]
        found = self.journal.claim(ask(number), lease=LEASE, holder=holder, run="run")
        if call.state == "claimed" and call.expires is not None and call.expires > self.clock.now:
            assert isinstance(found, Busy)
            assert found.until == call.expires
        elif call.state == "failed":
            assert isinstance(found, Failed)
        elif call.state == "answered" or (call.abandon() or call.adopt()):
            assert isinstance(found, Answered)
        else:
            assert isinstance(found, Claim)
            assert found.attempts == len(call.tries)
            call.state, call.claim, call.expires = "claimed", len(self.claims), self.clock.now + LEASE
            self.claims.append((number, found))

    @rule(number=CALLS, holder=HOLDERS)
    def begin_at_once(self, number: int, holder: str) -> None:
        call = self.model[number]
        before = self.journal.status(ask(number).key)
        options: dict[str, Any] = {"lease": LEASE, "holder": holder, "run": "run", "estimate": ESTIMATE, "budgets": (Budget(BUDGET),)}
        (found,) = self.journal.together([partial(self.journal.begin, ask(number), **options)])
        if isinstance(found, BudgetExceeded):
            assert self._committed() + ESTIMATE > BUDGET
            assert self.journal.status(ask(number).key) == before
        elif call.state == "claimed" and call.expires is not None and call.expires > self.clock.now:
            assert isinstance(found, Busy)
        elif call.state == "failed":
            assert isinstance(found, Failed)
        elif call.state == "answered" or (call.abandon() or call.adopt()):
            assert isinstance(found, Answered)
        else:
            claim, handle = found
            assert self._committed() + ESTIMATE <= BUDGET
            call.state, call.claim, call.expires = "claimed", len(self.claims), self.clock.now + LEASE
            call.tries.append(Try(number, len(call.tries) + 1, len(self.claims), handle=handle))
            self.claims.append((number, claim))

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        index, (number, claim) = self._pick(data)
        call = self.model[number]
        try:
            handle = claim.begin(estimate=ESTIMATE, budgets=(Budget(BUDGET),))
        except LeaseLost:
            assert call.claim != index or call.adopt()
        except ConfigError:
            assert call.claim == index
            assert call.under_way
        except BudgetExceeded:
            assert call.claim == index
            assert self._committed() + ESTIMATE > BUDGET
        else:
            assert call.claim == index
            assert not call.under_way
            assert call.late is None
            assert self._committed() + ESTIMATE <= BUDGET
            call.tries.append(Try(number, len(call.tries) + 1, index, handle=handle))
            call.expires = self.clock.now + LEASE

    @precondition(lambda self: self._open_tries())
    @rule(data=st.data(), cost=COSTS)
    def answer(self, data: st.DataObject, cost: int | None) -> None:
        one = data.draw(st.sampled_from(self._open_tries()))
        call = self.model[one.call]
        text = f"{one.call}.{one.number}"
        assert one.handle is not None
        try:
            found = one.handle.answer(said(text, cost))
        except LeaseLost as lost:
            assert lost.stored
            assert call.claim != one.claim
            self._end(one, "ok", cost, text)
            if call.state in ("open", "claimed"):
                call.adopt()
            assert lost.answered == (call.state == "answered")
        else:
            assert call.claim == one.claim
            assert found.content == text
            self._end(one, "ok", cost, text)
            call.state, call.answer, call.claim = "answered", one.number, None

    @precondition(lambda self: self._open_tries())
    @rule(data=st.data(), cost=COSTS, outcome=st.sampled_from([Outcome.TIMEOUT, Outcome.MALFORMED, Outcome.REFUSAL]))
    def fail(self, data: st.DataObject, cost: int | None, outcome: Outcome) -> None:
        one = data.draw(st.sampled_from(self._open_tries()))
        assert one.handle is not None
        lost = _is_lost(lambda: one.handle.fail(outcome, "why", said("no", cost)))  # type: ignore[union-attr]
        assert lost == (self.model[one.call].claim != one.claim)
        self._end(one, outcome.value, cost, None)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), final=st.booleans())
    def put_down(self, data: st.DataObject, final: bool) -> None:
        index, (number, claim) = self._pick(data)
        call = self.model[number]
        held = call.claim == index
        if held:
            call.abandon()
        adopted = held and final and call.adopt()
        before = call.state
        lost = _is_lost(lambda: claim.give_up(Outcome.TIMEOUT, "why") if final else claim.release("why"))
        if held and not adopted:
            assert not lost
            call.state, call.claim = ("failed" if final else "open"), None
        else:
            assert lost or before in ("open", "failed")

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        index, (number, claim) = self._pick(data)
        call = self.model[number]
        assert _is_lost(claim.renew) == (call.claim != index)
        if call.claim == index:
            call.expires = self.clock.now + LEASE

    @rule(number=CALLS)
    def reopen(self, number: int) -> None:
        call = self.model[number]
        note = f"time {call.reopenings}"
        if call.state != "failed":
            with pytest.raises(ConfigError):
                self.journal.reopen(ask(number).key, by="ana", note=note)
            return
        self.journal.reopen(ask(number).key, by="ana", note=note)
        call.state, call.reopenings = "open", call.reopenings + 1

    @rule(seconds=st.sampled_from([1, 119, 121, 300]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @invariant()
    def the_journal_is_as_the_model(self) -> None:
        if not hasattr(self, "journal"):
            return
        for number, call in self.model.items():
            status = self.journal.status(ask(number).key)
            assert (status.state.value if status else "none") == call.state
            assert (status.attempts if status else 0) == len(call.tries)
            answered = self.journal.answer(ask(number).key)
            assert (answered.attempt if answered else None) == call.answer
            assert (answered.content if answered else None) == (call.tries[call.answer - 1].text if call.answer else None)
        held = [number for number, call in self.model.items() if call.state == "claimed" and call.expires <= self.clock.now]
        assert {one.key for one in self.journal.expired()} == {ask(number).key for number in held}
        found = self.journal.spent()
        tries = [one for call in self.model.values() for one in call.tries]
        assert found.spent == sum(one.cost or 0 for one in tries)
        assert found.committed == self._committed()
        assert found.unknown == sum(one.cost is None and one.outcome is not None for one in tries)

    def _pick(self, data: st.DataObject) -> tuple[int, tuple[int, Claim]]:
        index = data.draw(st.integers(0, len(self.claims) - 1))
        return index, self.claims[index]

    def _open_tries(self) -> list[Try]:
        return [one for call in getattr(self, "model", {}).values() for one in call.tries if not one.ended]

    def _committed(self) -> int:
        return sum(ESTIMATE if one.cost is None else one.cost for call in self.model.values() for one in call.tries)

    def _end(self, one: Try, outcome: str, cost: int | None, text: str | None) -> None:
        one.outcome, one.cost, one.text, one.ended = outcome, cost, text, True


def _is_lost(act: Any) -> bool:
    try:
        act()
    except LeaseLost:
        return True
    return False


def _fresh(url: str, clock: Clock) -> Journal:
    """A journal without calls."""
    from bellwether.journal.schema import metadata

    journal = Journal(url, clock=clock)
    journal.database.open()
    with journal.database._engine.connect() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name != "journal_version":
                connection.execute(table.delete())
    return journal


@pytest.mark.slow
def test_any_sequence_of_acts_is_as_the_model_says(url: str) -> None:
    machine = type("Machine", (Machine,), {"url": url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30 if url.startswith("sqlite") else 10,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
