"""Money spent, the remaining budget, and the stop before it is exceeded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bellwether.errors import ConfigError
from bellwether.journal.journal import BudgetExceeded, Journal
from bellwether.journal.tables import LEASE, Budget, Scope
from bellwether.journal.values import Outcome
from tests.unit.journal.calls import START, TIMEOUT, Clock, attempt_outcomes, begin_attempt, make_reply, make_request

RUN = Scope(run="week-9")


def test_an_attempt_that_fits_exactly_is_begun_and_the_next_is_not(journal: Journal) -> None:
    budget = Budget(300, RUN)
    for number in range(3):
        begin_attempt(journal, make_request(number), run="week-9", estimate=100, budgets=(budget,))
    with pytest.raises(BudgetExceeded, match=r"run week-9 is \$0.000300, of which \$0.000000 are spent and \$0.000300 reserved"):
        begin_attempt(journal, make_request(3), run="week-9", estimate=1, budgets=(budget,))
    assert len(attempt_outcomes(journal)) == 3
    begin_attempt(journal, make_request(3), run="week-9", estimate=0, budgets=(budget,))


def test_a_budget_of_what_scopes_end_with_counts_all_of_them(journal: Journal) -> None:
    week, other = Budget(250, Scope(scope_end="/2026-06-07")), Budget(250, Scope(scope_end="/2026-06-14"))
    for number, cohort in enumerate(("a", "b")):
        begin_attempt(journal, make_request(number, scope=f"{cohort}/2026-06-07"), estimate=100, budgets=(week,))
    with pytest.raises(BudgetExceeded, match=r"the budget of scope …/2026-06-07 is \$0.000250"):
        begin_attempt(journal, make_request(2, scope="c/2026-06-07"), estimate=100, budgets=(week,))
    begin_attempt(journal, make_request(3, scope="c/2026-06-14"), estimate=100, budgets=(other,))


def test_the_real_cost_takes_the_place_of_the_estimate(journal: Journal) -> None:
    budget = Budget(300, RUN)
    begin_attempt(journal, make_request(0), run="week-9", estimate=300, budgets=(budget,)).answer(make_reply(cost=120))
    found = journal.spent(RUN)
    assert (found.spent, found.reserved, found.committed) == (120, 0, 120)
    begin_attempt(journal, make_request(1), run="week-9", estimate=180, budgets=(budget,))


def test_an_attempt_of_unknown_cost_keeps_its_reservation(journal: Journal, clock: Clock) -> None:
    begin_attempt(journal, make_request(0), run="week-9", estimate=100).fail(Outcome.TIMEOUT, "slow")
    begin_attempt(journal, make_request(1), run="week-9", estimate=70)
    clock.advance(TIMEOUT)
    begin_attempt(journal, make_request(1)).abandon("interrupted")
    begin_attempt(journal, make_request(2), run="week-9").answer(make_reply(cost=None))
    found = journal.spent(RUN)
    assert (found.spent, found.reserved, found.unknown, found.uncounted) == (0, 170, 3, 1)
    with pytest.raises(BudgetExceeded, match=r"3 attempts ended without a known cost and count for 24 hours"):
        begin_attempt(journal, make_request(3), run="week-9", estimate=31, budgets=(Budget(200, RUN),))
    clock.now = START + timedelta(hours=24, microseconds=-1)
    assert journal.spent(RUN).reserved == 170
    clock.now = START + timedelta(hours=24)
    assert journal.spent(RUN).committed == 0
    begin_attempt(journal, make_request(4), run="week-9", estimate=200, budgets=(Budget(200, RUN),))


def test_what_was_turned_away_frees_its_reservation(journal: Journal) -> None:
    begin_attempt(journal, run="week-9", estimate=100).fail(Outcome.RATE_LIMIT, "429")
    assert journal.spent(RUN).committed == 0


def test_a_late_cost_counts_for_the_run_that_spent_it(journal: Journal, clock: Clock) -> None:
    slow = begin_attempt(journal, run="week-9")
    clock.advance(TIMEOUT)
    begin_attempt(journal, run="week-10").answer(make_reply(cost=7))
    slow.answer(make_reply(cost=5))
    assert [journal.spent(Scope(run=name)).spent for name in ("week-9", "week-10")] == [5, 7]


def test_spending_is_counted_by_scope(journal: Journal) -> None:
    begin_attempt(journal, make_request(0), run="week-9").answer(make_reply(cost=1))
    begin_attempt(journal, make_request(0, model="acme/other")).answer(make_reply(cost=10))
    begin_attempt(journal, make_request(0, purpose="arena/decisions")).answer(make_reply(cost=100))
    expected = {
        Scope(): 111,
        Scope(purpose="benchmark/forecasts"): 11,
        Scope(model="acme/oracle-2"): 101,
        Scope(model="acme/oracle-2", purpose="benchmark/forecasts"): 1,
        Scope(run="week-9"): 1,
        Scope(run="nobody"): 0,
        Scope(scope_end="2026"): 111,
        Scope(scope_end="202"): 0,
        Scope(scope_end="%"): 0,
        Scope(scope_end="_2026"): 0,
        Scope(scope_end="26", model="acme/oracle-2", purpose="arena/decisions"): 100,
    }
    assert {scope: journal.spent(scope).spent for scope in expected} == expected


def test_every_budget_counts(journal: Journal) -> None:
    tight, wide = Budget(10, Scope(model="acme/oracle-2")), Budget(10**9)
    with pytest.raises(BudgetExceeded) as stop:
        begin_attempt(journal, estimate=11, budgets=(wide, tight))
    assert (stop.value.budget, stop.value.estimate, stop.value.spending.committed) == (tight, 11, 0)


def test_a_budget_needs_an_estimate(journal: Journal) -> None:
    for given, refusal in (
        ({"budgets": (Budget(10),)}, "a budget needs an estimate"),
        ({"estimate": -1}, "-1"),
        ({"estimate": 0.5}, r"0\.5"),
    ):
        with pytest.raises(ConfigError, match=refusal):
            begin_attempt(journal, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [-1, 1.5, None])
def test_a_budget_is_a_whole_number(limit: object) -> None:
    with pytest.raises(ConfigError, match="budget of run week-9"):
        Budget(limit, RUN)  # type: ignore[arg-type]


def test_usage_sums_integers_by_what_is_asked(journal: Journal) -> None:
    for number in range(3):
        begin_attempt(journal, make_request(number), run="week-9", estimate=50).fail(Outcome.TIMEOUT, "slow")
        begin_attempt(journal, make_request(number), run="week-9", estimate=50).answer(make_reply(cost=2**53 + number))
    begin_attempt(journal, make_request(9, model="acme/other")).answer(make_reply(cost=None))
    frame = journal.usage("model", of=Scope(purpose="benchmark/forecasts"))
    assert frame.rows(named=True) == [
        {
            "model": "acme/oracle-2",
            "calls": 3,
            "attempts": 6,
            "prompt_tokens": 300,
            "completion_tokens": 60,
            "reasoning_tokens": 15,
            "spent": 3 * 2**53 + 3,
            "reserved": 150,
            "unknown": 3,
            "uncounted": 0,
            "in_flight": 0,
        },
        {
            "model": "acme/other",
            "calls": 1,
            "attempts": 1,
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "reasoning_tokens": 5,
            "spent": 0,
            "reserved": 0,
            "unknown": 1,
            "uncounted": 1,
            "in_flight": 0,
        },
    ]
    assert journal.usage()["attempts"].to_list() == [7]
    assert journal.usage("run", "outcome").select("run", "outcome", "attempts").sort("outcome", "run").rows() == [
        (None, "ok", 1),
        ("week-9", "ok", 3),
        ("week-9", "timeout", 3),
    ]
    with pytest.raises(ConfigError, match="by 'token'"):
        journal.usage("token")


def test_only_the_estimates_of_attempts_in_flight_may_pass(journal: Journal, clock: Clock) -> None:
    def may_pass(estimate: int = 6) -> bool:
        with pytest.raises(BudgetExceeded) as exceeded:
            begin_attempt(journal, make_request(9), run="week-9", estimate=estimate, budgets=(Budget(15, RUN),))
        return exceeded.value.may_pass

    attempt = begin_attempt(journal, make_request(0), run="week-9", estimate=10)
    assert may_pass()
    assert not may_pass(16), "it exceeds the budget by itself"
    attempt.fail(Outcome.TIMEOUT, "slow")
    begin_attempt(journal, make_request(1), run="week-10", estimate=10)
    assert not may_pass(), "the attempt in flight is of another run"
    begin_attempt(journal, make_request(2), run="week-9", estimate=10)
    assert may_pass()
    clock.advance(LEASE)
    assert not may_pass(), "its process has died"


def test_a_work_over_the_budget_leaves_no_call(journal: Journal) -> None:
    with pytest.raises(BudgetExceeded):
        begin_attempt(journal, make_request(1), estimate=60, budgets=(Budget(50),))
    assert journal.status(make_request(1).key) is None
