"""Attempts at model calls: requests to a provider, each inserted before it is sent and ended once.

While an attempt is in progress, no other begins at its call until its time is over. The first answer that arrives is the call's, even a late one;
what other attempts bring is stored with its cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from bellwether.database import Database, Transaction
from bellwether.errors import ConfigError, LakeError
from bellwether.journal import rows
from bellwether.journal.budget import Budget, require_budgets
from bellwether.journal.request import CallKey, Request, require_natural, require_short_text
from bellwether.journal.schema import attempts
from bellwether.journal.values import FAILURES, UNBILLED, Answered, Busy, CostSource, Failed, Full, Outcome, Reply, State, Usage
from bellwether.untrusted_text import redact

T = TypeVar("T")

#: Time for which an attempt counts as in flight, unless its holder renews it (`Journal.renew`).
LEASE = timedelta(seconds=30)

_NO_REPLY = Reply()
_TURNED_AWAY = Reply(usage=Usage(cost=0, cost_source=CostSource.UNBILLED))
_is_in_flight = sa.and_(attempts.c.outcome.is_(None), attempts.c.leased_until > sa.bindparam("now"))
_in_flight = {name: sa.select(sa.func.count()).where(attempts.c[name] == sa.bindparam("value"), _is_in_flight) for name in ("entry", "run")}
_renew = (
    attempts.update()
    .where(attempts.c.holder == sa.bindparam("who"), attempts.c.outcome.is_(None), attempts.c.expires_at > sa.bindparam("now"))
    .values(leased_until=sa.bindparam("until"))
)


@dataclass(frozen=True, slots=True)
class InFlight:
    """Maximum numbers of requests in flight, in all processes. entry: of the model registry; most: of this entry; most_of_run: of the run."""

    entry: str
    most: int
    most_of_run: int | None = None


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """Attempt to be begun: its request, who makes it and for how long, who pays, and its limits. See `Journal.begin`."""

    request: Request
    timeout: timedelta
    holder: str
    token: str
    run: str | None
    estimate: int | None
    budgets: tuple[Budget, ...]
    in_flight: InFlight | None

    def __post_init__(self) -> None:
        call = f"model call {self.request.key[:12]}"
        if self.timeout <= timedelta(0):
            raise ConfigError(f"{call}: the timeout is {self.timeout}; it must be longer than an attempt may take")
        require_short_text(self.holder, f"{call}: holder")
        if self.run is not None:
            require_short_text(self.run, f"{call}: run")
        require_natural(self.estimate, f"{call}: estimate")
        if self.budgets and self.estimate is None:
            raise ConfigError(f"{call}: a budget needs an estimate, and none is given for {self.request.model}")

    def begin(self, transaction: Transaction) -> tuple[int, datetime] | Answered | Busy | Failed | Full:
        """Insert the attempt and return its number and start, or return why it does not begin. Raises `BudgetExceeded`."""
        transaction.lock("begin")
        key, now = self.request.key, transaction.now()
        call = rows.lock_call(transaction, key)
        earlier = rows.read_attempts(transaction, key) if call is not None else []
        if begun := next((attempt for attempt in earlier if attempt.token == self.token), None):
            return begun.number, begun.started_at  # The commit was not confirmed.
        if call is not None and (state := describe_state(transaction, key, call, earlier)) is not None:
            return state
        if (full := self._find_full(transaction, now)) is not None:
            return full
        require_budgets(transaction, self.budgets, self.estimate or 0)
        self._insert(transaction, len(earlier) + 1, now, is_new=call is None)
        return len(earlier) + 1, now

    def _find_full(self, transaction: Transaction, now: datetime) -> Full | None:
        """Return the limit of requests in flight that is reached, if any."""
        if self.in_flight is None:
            return None
        limits = (
            ("entry", "model", self.in_flight.entry, self.in_flight.most),
            ("run", "run", self.run, self.in_flight.most_of_run),
        )
        for column, kind, value, most in limits:
            if most is not None and transaction.row(_in_flight[column], {"value": value, "now": now})[0] >= most:
                return Full(f"{kind} {value}")
        return None

    def _insert(self, transaction: Transaction, number: int, now: datetime, *, is_new: bool) -> None:
        identity = {name: getattr(self.request, name) for name in ("key", "model", "purpose", "scope")}
        if is_new:
            state = {"state": State.OPEN.value, "created_at": now}
            rows.add_call(transaction, {**identity, "sample": self.request.sample, "request": self.request.text, **state})
        else:
            rows.abandon_attempts(transaction, self.request.key, now)
        payer = {"run": self.run, "estimate_microdollars": self.estimate}
        entry = None if self.in_flight is None else self.in_flight.entry
        owner = {"entry": entry, "holder": self.holder, "token": self.token}
        times = {"started_at": now, "expires_at": now + self.timeout, "leased_until": now + LEASE}
        rows.add_attempt(transaction, {**identity, "number": number, **payer, **owner, **times})


def describe_state(transaction: Transaction, key: CallKey, call: Any, earlier: list[Any]) -> Answered | Busy | Failed | None:
    """Return the answer, failure or attempt in progress of a call; None if an attempt may begin. earlier: all attempts at the call."""
    if call.state == State.ANSWERED:
        return rows.read_answer(transaction, key)
    if call.state == State.FAILED:
        return Failed(key=key, outcome=Outcome(call.outcome), reason=call.reason, finished_at=call.finished_at)
    now = transaction.now()
    current = next((attempt for attempt in earlier if attempt.outcome is None and attempt.expires_at > now), None)
    return None if current is None else Busy(key=key, holder=current.holder, until=current.expires_at)


def renew_attempts(transaction: Transaction, holder: str) -> None:
    """Let the attempts in progress of a holder count as in flight for another `LEASE`."""
    now = transaction.now()
    transaction.change(_renew, {"who": holder, "now": now, "until": now + LEASE})


class Attempt:
    """One request to a provider, recorded before it is sent. Created by `Journal.begin`.

    number: from 1, within the call. started_at: UTC.
    """

    def __init__(self, database: Database, key: CallKey, number: int, started_at: datetime) -> None:
        self.key, self.number, self.started_at = key, number, started_at
        self._database = database

    def __repr__(self) -> str:
        return f"Attempt({self.key[:12]}, number={self.number}, started_at={self.started_at})"

    def answer(self, reply: Reply) -> Answered:
        """Store the reply, which becomes the call's answer unless it has one. Returns the call's answer."""
        if reply.content is None:
            raise ConfigError(f"model call {self.key[:12]}: a reply without content is no answer; end the attempt with fail()")

        def work(transaction: Transaction, call: Any) -> Answered:
            ended_at = self._end(transaction, call, Outcome.OK, None, reply)
            if call.answer not in (None, self.number):
                return _read_answer(transaction, self.key)
            if call.answer is None:
                ended = {"state": State.ANSWERED.value, "answer": self.number, "finished_at": ended_at}
                rows.change_call(transaction, self.key, **ended, outcome=Outcome.OK.value, reason=None)
            return Answered(self.key, self.number, reply, ended_at, late=call.own_abandoned_at is not None)

        return self._write("storing an answer", work)

    def fail(self, outcome: Outcome, reason: str, reply: Reply | None = None, *, final: bool = False) -> Answered | Failed | None:
        """Record that the attempt failed, with its reply and cost. Returns the call's answer, or its final failure; None if the call is open.

        Without a reply the cost is unknown, except for rate limit, out of credit and authentication, for which the provider bills nothing.
        final: the call has failed, until an operator reopens it. A late attempt does not decide that.
        """
        if outcome not in FAILURES:
            raise ConfigError(f"model call {self.key[:12]}: {outcome!r} is no failure; use one of {', '.join(sorted(FAILURES))}")
        stored = reply or (_TURNED_AWAY if outcome in UNBILLED else _NO_REPLY)

        def work(transaction: Transaction, call: Any) -> Answered | Failed | None:
            ended_at = self._end(transaction, call, outcome, redact(reason), stored)
            if call.state == State.OPEN and rows.read_attempts(transaction, self.key)[-1].number == self.number:
                ended = {"state": State.FAILED.value, "finished_at": ended_at} if final else {}
                rows.change_call(transaction, self.key, outcome=outcome.value, reason=redact(reason), **ended)
                return Failed(self.key, outcome, redact(reason), ended_at) if final else None
            state = describe_state(transaction, self.key, call, [])
            return state if isinstance(state, Answered | Failed) else None

        return self._write("recording a failed attempt", work)

    def abandon(self, reason: str) -> None:
        """Let another attempt begin at once, because no result of this one is expected. Its cost is unknown; a late answer is still stored."""

        def work(transaction: Transaction, call: Any) -> None:
            if call.own_outcome is None:
                rows.abandon_attempts(transaction, self.key, transaction.now())
                rows.change_call(transaction, self.key, reason=redact(reason))

        self._write("abandoning an attempt", work)

    def _write(self, doing: str, work: Callable[[Transaction, Any], T]) -> T:
        """Run `work` with the row of the call and this attempt. The call is locked until the transaction ends."""

        def with_call(transaction: Transaction) -> T:
            call = rows.lock_attempt(transaction, self.key, self.number)
            if call is None:
                raise LakeError(f"{doing}: model call {self.key[:12]} is not in the journal; was another one restored?")
            return work(transaction, call)

        return self._database.write(doing, with_call)

    def _end(self, transaction: Transaction, call: Any, outcome: Outcome, reason: str | None, reply: Reply) -> datetime:
        """Record the end of the attempt and return when it was. Raises `ConfigError` if it has ended differently. call: from `rows.lock_attempt`."""
        ended_at: datetime | None = call.own_ended_at
        if ended_at is None:
            now = transaction.now()
            rows.end_attempt(transaction, self.key, self.number, at=now, outcome=outcome, reason=reason, reply=reply)
            return now
        body = rows.read_body(transaction, self.key, self.number) or b""
        if (call.own_outcome, call.own_reason, body) != (outcome, reason, reply.body):
            raise ConfigError(f"model call {self.key[:12]}: attempt {self.number} has ended already ({call.own_outcome})")
        return ended_at


def _read_answer(transaction: Transaction, key: CallKey) -> Answered:
    answered = rows.read_answer(transaction, key)
    assert answered is not None
    return answered
