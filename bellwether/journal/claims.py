"""Claims (the exclusive right to make a model call, for the duration of a lease) and attempts (requests to the provider under a claim).

Every write of a holder requires that its lease token is still the call's. An expired lease is lost only when another holder takes the call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from bellwether.database import Database, Transaction
from bellwether.errors import BellwetherError, ConfigError
from bellwether.journal import rows
from bellwether.journal.budget import Budget, require_budgets, reserve_estimate
from bellwether.journal.request import CallKey, Request, require_natural
from bellwether.journal.values import FAILURES, UNBILLED, Answered, CostSource, Outcome, Reply, State, Usage
from bellwether.untrusted_text import redact

T = TypeVar("T")

_NO_REPLY = Reply()
_TURNED_AWAY = Reply(usage=Usage(cost=0, cost_source=CostSource.UNBILLED))


class LeaseLost(BellwetherError):
    """The call no longer belongs to this claim, so the result of its attempt must not be used. `Journal.begin` returns the call's current state.

    stored: the attempt's response and cost were stored. answered: the call has an answer.
    """

    def __init__(self, key: str, state: str, *, stored: bool = False, answered: bool = False) -> None:
        self.key, self.stored, self.answered = key, stored, answered
        super().__init__(f"model call {key[:12]}: {state}; begin it again to see its state")


class Claim:
    """Exclusive right of one process to make a model call, under a lease. Created by `Journal.begin`.

    Attributes:
        key: key of the call.
        holder, run: the holder, and the run that pays.
        attempts: number of previous attempts.
        taken_from: the holder whose lease had expired; None if the call was free.
        expires_at: expiry of the lease, UTC.
    """

    def __init__(self, database: Database, request: Request, *, token: str, holder: str, run: str | None, lease: timedelta) -> None:
        self.key: CallKey = request.key
        self.holder = holder
        self.run = run
        self.attempts = 0
        self.taken_from: str | None = None
        self.expires_at: datetime | None = None
        self._request = request
        self._database = database
        self._token = token
        self._lease = lease

    def __repr__(self) -> str:
        return f"Claim({self.key[:12]}, holder={self.holder!r}, attempts={self.attempts}, expires_at={self.expires_at})"

    def release(self, reason: str, outcome: Outcome | None = None) -> None:
        """Give the call back, so that any process can claim it. The reason is stored, and an attempt in progress is marked as abandoned.

        Raises `LeaseLost`.
        """
        self._do("releasing a model call", lambda transaction: self._end_claim(transaction, State.OPEN, outcome, reason))

    def give_up(self, outcome: Outcome, reason: str) -> None:
        """End the call as failed, until an operator reopens it. An attempt in progress is marked as abandoned.

        Raises `LeaseLost`, also if the reply of a late attempt has become the call's answer.
        """
        _require_failure(self.key, outcome)
        self._do("giving up a model call", lambda transaction: self._end_claim(transaction, State.FAILED, outcome, reason))

    def _do(self, doing: str, work: Callable[[Transaction], T | LeaseLost]) -> T:
        """Run `work` in a transaction. Raises a `LeaseLost` that `work` returns, after the transaction is committed."""
        result = self._database.write(doing, work)
        if isinstance(result, LeaseLost):
            raise result
        return result

    def _holds(self, call: Any) -> bool:
        """Return True if the call is still claimed under this claim's lease."""
        return call is not None and call.state == State.CLAIMED and call.lease_token == self._token

    def _begin(self, transaction: Transaction, estimate: int | None, budgets: tuple[Budget, ...]) -> Attempt:
        """Begin the next attempt, or return the attempt in progress if an earlier commit was not confirmed.
        Requires the call to be locked and claimed.
        """
        earlier = rows.read_attempts(transaction, self.key)
        begun = next((attempt for attempt in earlier if attempt.outcome is None), None)
        if begun is not None:
            return Attempt(self, begun.number, begun.started_at)
        return self._start(transaction, len(earlier) + 1, estimate, budgets)

    def _start(self, transaction: Transaction, number: int, estimate: int | None, budgets: tuple[Budget, ...]) -> Attempt:
        """Add an attempt if the budgets allow its cost. Requires the call to be locked, without an attempt in progress."""
        require_budgets(transaction, budgets, estimate or 0)
        now = transaction.now()
        paid_by = {
            "model": self._request.model,
            "purpose": self._request.purpose,
            "scope": self._request.scope,
            "run": self.run,
        }
        lease = {"holder": self.holder, "lease_token": self._token, "started_at": now, "estimate_microdollars": estimate}
        rows.add_attempt(transaction, {"key": self.key, "number": number, **paid_by, **lease})
        reserve_estimate(transaction, paid_by, estimate)
        return Attempt(self, number, now)

    def _end_claim(self, transaction: Transaction, state: State, outcome: Outcome | None, reason: str) -> LeaseLost | None:
        """End the claim and set the call's state to `state`. Returns the `LeaseLost` to raise, if any."""
        call = rows.lock_call(transaction, self.key)
        if not self._holds(call):
            has_ended = call is not None and call.state == state and call.lease_token == self._token
            return None if has_ended else _lease_lost(self.key, call)
        now = transaction.now()
        rows.abandon_attempts(transaction, self.key, now)
        if state is State.FAILED and adopt_late_answer(transaction, self.key, rows.read_attempts(transaction, self.key), now):
            return LeaseLost(self.key, "a late attempt has brought its answer", answered=True)
        finished = {"finished_at": now} if state is State.FAILED else {}
        rows.change_call(transaction, self.key, state=state.value, outcome=outcome, reason=redact(reason), **finished)
        return None


def require_estimate(request: Request, estimate: int | None, budgets: tuple[Budget, ...]) -> None:
    """Raise `ConfigError` if the estimate is invalid, or missing although there are budgets."""
    require_natural(estimate, f"model call {request.key[:12]}: estimate")
    if budgets and estimate is None:
        raise ConfigError(f"model call {request.key[:12]}: a budget needs an estimate, and none is given for {request.model}")


class Attempt:
    """One request to a provider, recorded before it is sent. Created by `Journal.begin`.

    number: from 1, within the call. started_at: UTC.
    """

    def __init__(self, claim: Claim, number: int, started_at: datetime) -> None:
        self.key = claim.key
        self.number = number
        self.started_at = started_at
        self._claim = claim

    def __repr__(self) -> str:
        return f"Attempt({self.key[:12]}, number={self.number}, started_at={self.started_at})"

    def answer(self, reply: Reply) -> Answered:
        """Store the reply and mark the call as answered, in one transaction.

        Raises `LeaseLost` if another process has taken the call meanwhile. The reply and its cost are then stored as those of a late
        attempt. The reply becomes the call's answer if it has none and no other process has an attempt in progress.
        """
        if reply.content is None:
            raise ConfigError(f"model call {self.key[:12]}: a reply without content is no answer; end the attempt with fail()")
        return self._claim._do("storing an answer", lambda transaction: self._answer(transaction, reply))

    def fail(self, outcome: Outcome, reason: str, reply: Reply | None = None) -> None:
        """Record that the attempt failed, with its reply and cost. The claim continues, so another attempt may follow.

        Without a reply the cost is unknown, except for rate limit, out of credit and authentication, for which the provider bills nothing.
        Raises `LeaseLost` if another process has taken the call meanwhile; the attempt's reply and cost are stored nevertheless.
        """
        _require_failure(self.key, outcome)
        stored = reply or (_TURNED_AWAY if outcome in UNBILLED else _NO_REPLY)
        self._claim._do("recording a failed attempt", lambda transaction: self._fail(transaction, outcome, redact(reason), stored))

    def _answer(self, transaction: Transaction, reply: Reply) -> Answered | LeaseLost:
        """Store the reply of the attempt. Returns the stored answer, or the `LeaseLost` to raise if another process has taken the call."""
        call = rows.lock_call(transaction, self.key)
        own = rows.read_attempt(transaction, self.key, self.number)
        if call is None or own is None:
            return _lease_lost(self.key, call)
        if own.ended_at is not None:
            return self._answered_before(transaction, call, own, reply)
        now = transaction.now()
        rows.end_attempt(transaction, self.key, self.number, at=now, outcome=Outcome.OK, reason=None, reply=reply)
        if self._claim._holds(call):
            finish_call(transaction, self.key, self.number, now)
            return Answered(key=self.key, attempt=self.number, reply=reply, stored_at=now, late=own.abandoned_at is not None)
        adopted = call.state in (State.OPEN, State.CLAIMED) and adopt_late_answer(
            transaction, self.key, rows.read_attempts(transaction, self.key), now
        )
        return _lease_lost(self.key, call, stored=True, adopted=adopted)

    def _answered_before(self, transaction: Transaction, call: Any, own: Any, reply: Reply) -> Answered | LeaseLost:
        """Return the result of an attempt whose answer is already stored, because an earlier commit was not confirmed."""
        if own.outcome != Outcome.OK or rows.read_body(transaction, self.key, self.number) != reply.body:
            raise ConfigError(f"model call {self.key[:12]}: attempt {self.number} has ended already ({own.outcome})")
        if call.answer == self.number and own.abandoned_at is None:
            return Answered(key=self.key, attempt=self.number, reply=reply, stored_at=own.ended_at)
        return _lease_lost(self.key, call, stored=True, adopted=call.answer == self.number)

    def _fail(self, transaction: Transaction, outcome: Outcome, reason: str, reply: Reply) -> LeaseLost | None:
        call = rows.lock_call(transaction, self.key)
        own = rows.read_attempt(transaction, self.key, self.number)
        if call is None or own is None:
            return _lease_lost(self.key, call)
        if own.ended_at is not None and (own.outcome, own.reason) != (outcome, reason):
            raise ConfigError(f"model call {self.key[:12]}: attempt {self.number} has ended already ({own.outcome})")
        if own.ended_at is None:
            rows.end_attempt(transaction, self.key, self.number, at=transaction.now(), outcome=outcome, reason=reason, reply=reply)
        return None if self._claim._holds(call) else _lease_lost(self.key, call, stored=True)


def finish_call(transaction: Transaction, key: str, number: int, now: datetime) -> None:
    """Mark a call as answered by the response of attempt `number`."""
    rows.change_call(transaction, key, state=State.ANSWERED.value, answer=number, finished_at=now, outcome=Outcome.OK.value, reason=None)


def adopt_late_answer(transaction: Transaction, key: str, attempts: list[Any], now: datetime) -> bool:
    """If an attempt counted as abandoned has answered after all, make that the call's answer, unless another attempt is in progress.
    Return True if so.
    """
    late = next((attempt for attempt in attempts if attempt.outcome == Outcome.OK), None)
    if late is None or any(attempt.outcome is None for attempt in attempts):
        return False
    finish_call(transaction, key, late.number, now)
    return True


def _lease_lost(key: str, call: Any, *, stored: bool = False, adopted: bool = False) -> LeaseLost:
    """Build the error for a call that belongs to another claim or has ended.
    stored: this attempt's reply was stored; adopted: it is the call's answer.
    """
    note = "; what the attempt brought was kept" if stored else ""
    if call is None:
        return LeaseLost(key, "it is not in the journal")
    if adopted:
        return LeaseLost(key, f"the lease had passed on{note} and is the call's answer", stored=stored, answered=True)
    if call.state == State.CLAIMED:
        return LeaseLost(key, f"the lease has passed on to {call.holder}{note}", stored=stored)
    return LeaseLost(key, f"it is {call.state} meanwhile{note}", stored=stored, answered=call.state == State.ANSWERED)


def _require_failure(key: str, outcome: Outcome) -> None:
    if outcome not in FAILURES:
        raise ConfigError(f"model call {key[:12]}: {outcome!r} is no failure; use one of {', '.join(sorted(FAILURES))}")
