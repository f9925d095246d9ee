"""The journal of model calls: whether an attempt may begin, the call's answer or failure, and its cost.

An attempt is a request to a provider, inserted before it is sent and ended once. While it is in progress, no other begins at its call until its
time is over. The first answer that arrives is the call's, even a late one; what other attempts bring is stored with its cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl
import sqlalchemy as sa

from bellwether.database import Database, Transaction
from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.formatting import redact
from bellwether.journal import tables
from bellwether.journal.export import (
    RESERVED_FOR,
    Spending,
    count_calls,
    export_answers,
    export_tables,
    import_answers,
    read_spending,
    sum_column,
    summarize_usage,
)
from bellwether.journal.limits import SharedLimits
from bellwether.journal.tables import EVERYTHING, LEASE, SCHEMA, Budget, Scope, attempts, calls, scope_conditions
from bellwether.journal.values import (
    FAILURES,
    UNBILLED,
    Answered,
    Busy,
    CallKey,
    CallStatus,
    CostSource,
    Failed,
    Full,
    Outcome,
    Reply,
    Request,
    State,
    Usage,
    format_dollars,
    require_natural,
    require_short_text,
)
from bellwether.lake import Lake
from bellwether.tables import table

if TYPE_CHECKING:
    from bellwether.settings import Settings

T = TypeVar("T")

#: End of the message about an exceeded budget, by which it is recognised.
ADVICE = "raise the budget to go on"
_CHUNK = 500
_HEXADECIMAL = frozenset("0123456789abcdef")
_NO_REPLY = Reply()
_TURNED_AWAY = Reply(usage=Usage(cost=0, cost_source=CostSource.UNBILLED))
_in_flight = sa.select(sa.func.count()).where(
    attempts.c.entry == sa.bindparam("entry"), attempts.c.outcome.is_(None), attempts.c.leased_until > sa.bindparam("now")
)
_renew = (
    attempts.update()
    .where(
        attempts.c.token.in_(sa.bindparam("tokens", expanding=True)),
        attempts.c.outcome.is_(None),
        attempts.c.expires_at > sa.bindparam("now"),
    )
    .values(leased_until=sa.bindparam("until"))
)


class Journal:
    """Database of all model calls of a world. Safe for concurrent use by several threads and processes.

    From asyncio call its methods, and those of attempts, through `bellwether.concurrency.in_thread`.

    Attributes:
        url: `sqlite:////absolute/path.db` or `postgresql://user:password@host/database`; tables are created on first use.
        clock: returns the current time, aware. Default: Postgres' own clock, or this machine's on SQLite.
        patience: maximum seconds to wait for a lock, or for a server that restarts.

    Every method raises `ConfigError` if the database cannot be used as configured, and `LakeError` if it is damaged, full, locked,
    unreachable or of another version. After an error either nothing was changed, or the same call recognises its changes.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        self.database = Database(url, SCHEMA, clock=clock, patience=patience)
        #: Rates and leases that all processes on this journal share.
        self.limits = SharedLimits(self.database)

    @classmethod
    def of(cls, config: Settings) -> Journal:
        """Return the journal of a world.
        Creating its database raises `LakeError` if the lake already has model answers, which would be paid for twice.
        """
        journal = cls(config.journal_url)
        journal.database.before_creation = lambda: require_no_answers(config, journal.where)
        return journal

    def require_no_answers(self) -> None:
        """Raise `LakeError` if the lake has model answers, which a new journal would not know and pay for again. Called before creation."""
        self.database.before_creation()

    def __repr__(self) -> str:
        return f"Journal({self.where})"

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def where(self) -> str:
        """Description of the journal's place: the file, or the server and database without a password."""
        return self.database.where

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self.database.close()

    def exists(self) -> bool:
        """Return True if the journal exists. Creates nothing."""
        return self.database.exists()

    def begin(
        self,
        request: Request,
        *,
        timeout: timedelta,
        run: str | None = None,
        estimate: int | None = None,
        budgets: tuple[Budget, ...] = (),
        in_flight: InFlight | None = None,
    ) -> Attempt | Answered | Busy | Failed | Full:
        """Begin an attempt at a call. If none may begin, return the call's answer, its failure, the attempt in progress, or the limit in its way.

        The attempt is durable when this returns, before its request is sent. An attempt whose time is over counts as abandoned.

        Args:
            request: the call.
            timeout: time from now within which no other attempt begins; longer than the attempt may take.
            run: the run that pays for the attempt.
            estimate: maximum expected cost of the attempt, in micro-dollars; required with budgets.
            budgets: raises `BudgetExceeded`, and begins nothing, if the attempt could exceed one of them.
            in_flight: maximum number of requests in flight.
        """
        new = NewAttempt(request, timeout, secrets.token_hex(16), run, estimate, budgets, in_flight)
        begun = self.database.write("beginning a model call", new.begin)
        return Attempt(self.database, request.key, new.token, *begun) if isinstance(begun, tuple) else begun

    def renew(self, attempts: Iterable[Attempt]) -> None:
        """Count attempts in progress as in flight for another 30 seconds."""
        tokens = [attempt.token for attempt in attempts]
        self.database.write("renewing attempts", partial(renew_attempts, tokens=tokens))

    def look(self, key: str) -> Answered | Busy | Failed | None:
        """Return the state of a call; None if an attempt may begin."""
        return self.database.read("reading a model call", lambda transaction: _read_state(transaction, CallKey(key)))

    def answer(self, key: str) -> Answered | None:
        """Return the stored answer of a call; None for a call without an answer."""
        return self.database.read("reading an answer", lambda transaction: tables.read_answer(transaction, key))

    def answers(self, keys: Iterable[str]) -> dict[CallKey, Answered]:
        """Return the stored answers of several calls by key, in the order of `keys`. Calls without an answer are left out."""
        wanted = list(dict.fromkeys(keys))
        answers: dict[CallKey, Answered] = {}
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            stored = self.database.read("reading answers", partial(tables.read_answers, keys=chunk))
            by_key = {str(answer.key): answer for answer in stored}
            answers.update((CallKey(key), by_key[key]) for key in chunk if key in by_key)
        return answers

    def bodies(self, purpose: str, model: str, scope_start: str) -> list[bytes]:
        """Return the bodies of the answers of a purpose and model whose scope starts with `scope_start`, in the order of their keys."""
        read = partial(tables.read_bodies, purpose=purpose, model=model, scope_start=scope_start)
        return self.database.read("reading answers", read)

    def status(self, key: str) -> CallStatus | None:
        """Return the state of a call; None for a call without an attempt."""
        return next(iter(self._statuses(calls.c.key == key)), None)

    def find(self, beginning: str) -> CallKey:
        """Return the only key that starts with `beginning`. Raises `ConfigError` if no key or several do, and for fewer than 8 digits."""
        if len(beginning) < 8 or not set(beginning) <= _HEXADECIMAL:
            raise ConfigError(f"finding a model call: {beginning!r:.80} is not a key; give at least its first 8 hexadecimal digits")
        keys = self.database.read(
            "finding a model call",
            lambda transaction: transaction.rows(sa.select(calls.c.key).where(calls.c.key.startswith(beginning)).limit(2)),
        )
        if len(keys) != 1:
            problem = "several calls begin so; give more digits" if keys else "no call begins so; `bellwether journal` lists keys"
            raise ConfigError(f"finding the model call {beginning[:64]}: {problem}")
        return CallKey(keys[0].key)

    def request(self, key: str) -> str:
        """Return the request of a call as canonical JSON. Raises `ConfigError` for an unknown key."""
        statement = sa.select(calls.c.request).where(calls.c.key == key)
        row = self.database.read("reading a model call", lambda transaction: transaction.row(statement))
        if row is None:
            raise ConfigError(f"reading the model call {key[:64]}: it is not in the journal; `bellwether journal` lists keys")
        return str(row.request)

    def pending(self) -> list[CallStatus]:
        """Return the calls that are neither answered nor failed, oldest first."""
        return self._statuses(calls.c.state == State.OPEN.value)

    def failures(self) -> list[CallStatus]:
        """Return the failed calls, oldest first."""
        return self._statuses(calls.c.state == State.FAILED.value)

    def unanswered(self) -> list[CallStatus]:
        """Return the open calls whose last attempt failed, oldest first. The next run retries them."""
        return self._statuses(calls.c.state == State.OPEN.value, calls.c.outcome.is_not(None))

    def _statuses(self, *conditions: sa.ColumnElement[bool]) -> list[CallStatus]:
        return self.database.read("reading model calls", lambda transaction: tables.read_statuses(transaction, *conditions))

    def reopen(self, key: str, *, by: str, note: str) -> None:
        """Reopen a failed call, so that another attempt may begin. The operator and the note are stored with the failure.

        Raises `ConfigError` for a call that has not failed.
        """
        name = require_short_text(by, "reopening a model call: by")
        self.database.write("reopening a model call", lambda transaction: _reopen(transaction, key, name, note))

    def used(self, key: str) -> tuple[int, Usage]:
        """Return the number of attempts of a call and their total usage. The total cost is None if the cost of any billed attempt is unknown."""
        return self.database.read("summing the attempts of a model call", lambda transaction: tables.read_usage(transaction, key))

    def spent(self, of: Scope = EVERYTHING) -> Spending:
        """Return the known and reserved costs of the attempts that match `of`, in micro-dollars."""
        return self.database.read("summing costs", lambda transaction: read_spending(transaction, of))

    def usage(self, *by: str, of: Scope = EVERYTHING) -> pl.DataFrame:
        """Return numbers of attempts and tokens, and costs in micro-dollars, per combination of `by`: any of purpose, model, scope, run, outcome.

        Without `by` there is one row. `unknown` counts ended attempts without a known cost; `reserved` is the estimated cost of these and of
        attempts in progress.
        """
        return self.database.read("summing usage", lambda transaction: summarize_usage(transaction, by, of))

    def counts(self) -> pl.DataFrame:
        """Count the calls for each combination of purpose, model, state and outcome."""
        return self.database.read("counting model calls", count_calls)

    def verify(self) -> int:
        """Compare every stored response with its SHA-256, and return their number. Raises `LakeError` that names the first damaged one."""
        return self.database.read("verifying responses", tables.verify_responses)

    def export(self) -> dict[str, pl.DataFrame]:
        """Return the tables `calls`, `attempts`, `responses`, `reopenings` and `records` as of one instant."""
        return self.database.read("exporting", export_tables)

    def export_answers(self, path: Path) -> int:
        """Write all answers to a file of JSON lines, as of one instant, and return their number."""
        return self.database.read("exporting answers", partial(export_answers, path=path))

    def import_answers(self, path: Path) -> int:
        """Add the answers of a file of JSON lines to calls that have none, and return their number. Either all are added or none.

        A missing journal is created, even if the lake has model answers: those that the file lacks may be paid for again.
        Raises `ConfigError` that names file, line and field of a damaged answer, and of one that differs from the call's own.
        """
        self.database.before_creation = lambda: None
        return self.database.write("importing answers", partial(import_answers, path=path))


def _read_state(transaction: Transaction, key: CallKey) -> Answered | Busy | Failed | None:
    call = tables.read_call(transaction, key)
    return None if call is None else describe_state(transaction, key, call, tables.read_attempts(transaction, key))


def _reopen(transaction: Transaction, key: str, by: str, note: str) -> None:
    call = tables.lock_call(transaction, key)
    if call is not None and call.state == State.OPEN and tables.read_last_reopening(transaction, key) == (by, redact(note)):
        return  # The commit of the same words was not confirmed.
    if call is None or call.state != State.FAILED:
        state = "it is not in the journal" if call is None else f"it is {call.state}"
        raise ConfigError(f"reopening the model call {key[:12]}: {state}; only failed calls are reopened")
    tables.add_reopening(
        transaction,
        key,
        {
            "reopened_at": transaction.now(),
            "reopened_by": by,
            "note": redact(note),
            "failed_at": call.finished_at,
            "outcome": call.outcome,
            "reason": call.reason,
        },
    )
    tables.change_call(transaction, key, state=State.OPEN.value, finished_at=None)


def require_no_answers(config: Settings, where: str) -> None:
    """Raise `LakeError` if the lake has model answers, which a new journal would not know. where: place of the journal."""
    lake = Lake.of(config)
    of_models = {"benchmark/forecasts": pl.col("call_key").is_not_null(), "arena/decisions": pl.lit(value=True)}
    for name, answered in of_models.items():
        stored = lake.slice(table(name), missing="skip")
        if stored.rows and stored.scan().filter(answered).head(1).collect().height:
            raise LakeError(
                f"opening the journal {where}: it is missing or empty, while the lake has answers of models in {name}, which could be paid for "
                "twice. Restore the journal from a backup, or import the answers of an export with `bellwether journal import`"
            )


# --- attempts -----------------------------------------------------------------------------------------------------------


class BudgetExceeded(BellwetherError):
    """A new attempt could cost more than is left of a budget. It was not begun, and nothing was spent."""

    def __init__(self, budget: Budget, spending: Spending, estimate: int) -> None:
        self.budget, self.spending, self.estimate = budget, spending, estimate
        unknown = f" ({spending.unknown} attempts ended without a known cost and count for 24 hours)" if spending.unknown else ""
        super().__init__(
            f"beginning a model call of about {format_dollars(estimate)}: the budget of {budget.of} is {format_dollars(budget.limit)}, of which "
            f"{format_dollars(spending.spent)} are spent and {format_dollars(spending.reserved)} reserved{unknown}; {ADVICE}"
        )

    @property
    def may_pass(self) -> bool:
        """True if the attempt may fit once the attempts in flight have ended, because only their estimates stand in its way."""
        return self.spending.in_flight > 0 and self.spending.spent + self.estimate <= self.budget.limit


@dataclass(frozen=True, slots=True)
class InFlight:
    """Maximum number of requests in flight, in all processes, for an entry of the model registry."""

    entry: str
    most: int


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """Attempt to be begun: its request, its timeout, who pays, and its limits. token: distinguishes it from all others. See `Journal.begin`."""

    request: Request
    timeout: timedelta
    token: str
    run: str | None
    estimate: int | None
    budgets: tuple[Budget, ...]
    in_flight: InFlight | None

    def __post_init__(self) -> None:
        call = f"model call {self.request.key[:12]}"
        if self.timeout <= timedelta(0):
            raise ConfigError(f"{call}: the timeout is {self.timeout}; it must be longer than an attempt may take")
        if self.run is not None:
            require_short_text(self.run, f"{call}: run")
        require_natural(self.estimate, f"{call}: estimate")
        if self.budgets and self.estimate is None:
            raise ConfigError(f"{call}: a budget needs an estimate, and none is given for {self.request.model}")

    def begin(self, transaction: Transaction) -> tuple[int, datetime] | Answered | Busy | Failed | Full:
        """Insert the attempt and return its number and start, or return why it does not begin. Raises `BudgetExceeded`."""
        transaction.lock("begin")
        key, now = self.request.key, transaction.now()
        call = tables.lock_call(transaction, key)
        earlier = tables.read_attempts(transaction, key) if call is not None else []
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
        """Return the limit of requests in flight, if it is reached."""
        if self.in_flight is None:
            return None
        count = transaction.row(_in_flight, {"entry": self.in_flight.entry, "now": now})[0]
        return Full(self.in_flight.entry) if count >= self.in_flight.most else None

    def _insert(self, transaction: Transaction, number: int, now: datetime, *, is_new: bool) -> None:
        identity = {name: getattr(self.request, name) for name in ("key", "model", "purpose", "scope")}
        if is_new:
            state = {"state": State.OPEN.value, "created_at": now}
            tables.add_call(transaction, {**identity, "sample": self.request.sample, "request": self.request.text, **state})
        else:
            tables.abandon_attempts(transaction, self.request.key, now)
        payer = {"run": self.run, "estimate_microdollars": self.estimate}
        entry = None if self.in_flight is None else self.in_flight.entry
        owner = {"entry": entry, "token": self.token}
        times = {"started_at": now, "expires_at": now + self.timeout, "leased_until": now + LEASE}
        tables.add_attempt(transaction, {**identity, "number": number, **payer, **owner, **times})


def describe_state(transaction: Transaction, key: CallKey, call: Any, earlier: list[Any]) -> Answered | Busy | Failed | None:
    """Return the answer, failure or attempt in progress of a call; None if an attempt may begin. earlier: all attempts at the call."""
    if call.state == State.ANSWERED:
        return tables.read_answer(transaction, key)
    if call.state == State.FAILED:
        return Failed(key=key, outcome=Outcome(call.outcome), reason=call.reason, finished_at=call.finished_at)
    now = transaction.now()
    current = next((attempt for attempt in earlier if attempt.outcome is None and attempt.expires_at > now), None)
    return None if current is None else Busy(key=key, until=current.expires_at)


def renew_attempts(transaction: Transaction, tokens: list[str]) -> None:
    """Count the attempts with these tokens that are in progress as in flight for another `LEASE`."""
    now = transaction.now()
    transaction.change(_renew, {"tokens": tokens, "now": now, "until": now + LEASE})


class Attempt:
    """One request to a provider, recorded before it is sent. Created by `Journal.begin`.

    number: from 1, within the call. started_at: UTC.
    """

    def __init__(self, database: Database, key: CallKey, token: str, number: int, started_at: datetime) -> None:
        self.key, self.token, self.number, self.started_at = key, token, number, started_at
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
                tables.change_call(transaction, self.key, **ended, outcome=Outcome.OK.value, reason=None)
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
            if call.state == State.OPEN and tables.read_attempts(transaction, self.key)[-1].number == self.number:
                ended = {"state": State.FAILED.value, "finished_at": ended_at} if final else {}
                tables.change_call(transaction, self.key, outcome=outcome.value, reason=redact(reason), **ended)
                return Failed(self.key, outcome, redact(reason), ended_at) if final else None
            state = describe_state(transaction, self.key, call, [])
            return state if isinstance(state, Answered | Failed) else None

        return self._write("recording a failed attempt", work)

    def abandon(self, reason: str) -> None:
        """Let another attempt begin at once, because no result of this one is expected. Its cost is unknown; a late answer is still stored."""

        def work(transaction: Transaction, call: Any) -> None:
            if call.own_outcome is None:
                tables.abandon_attempts(transaction, self.key, transaction.now())
                tables.change_call(transaction, self.key, reason=redact(reason))

        self._write("abandoning an attempt", work)

    def _write(self, doing: str, work: Callable[[Transaction, Any], T]) -> T:
        """Run `work` with the row of the call and this attempt. The call is locked until the transaction ends."""

        def with_call(transaction: Transaction) -> T:
            call = tables.lock_attempt(transaction, self.key, self.number)
            if call is None:
                raise LakeError(f"{doing}: model call {self.key[:12]} is not in the journal; was another one restored?")
            return work(transaction, call)

        return self._database.write(doing, with_call)

    def _end(self, transaction: Transaction, call: Any, outcome: Outcome, reason: str | None, reply: Reply) -> datetime:
        """Record the end of the attempt and return when it was. Raises `ConfigError` if it has ended differently. call: from `tables.lock_attempt`."""
        ended_at: datetime | None = call.own_ended_at
        if ended_at is None:
            now = transaction.now()
            tables.end_attempt(transaction, self.key, self.number, at=now, outcome=outcome, reason=reason, reply=reply)
            return now
        body = tables.read_body(transaction, self.key, self.number) or b""
        if (call.own_outcome, call.own_reason, body) != (outcome, reason, reply.body):
            raise ConfigError(f"model call {self.key[:12]}: attempt {self.number} has ended already ({call.own_outcome})")
        return ended_at


def _read_answer(transaction: Transaction, key: CallKey) -> Answered:
    answered = tables.read_answer(transaction, key)
    assert answered is not None
    return answered


def require_budgets(transaction: Transaction, budgets: tuple[Budget, ...], estimate: int) -> None:
    """Raise `BudgetExceeded` unless an attempt that costs `estimate` fits all budgets. Requires the lock under which attempts begin."""
    for budget in budgets:
        parameters = {**budget.of.parameters, "reserved_since": transaction.now() - RESERVED_FOR}
        committed: int = transaction.row(_select_committed(tuple(budget.of.filters)), parameters)[0]
        if committed + estimate > budget.limit:
            raise BudgetExceeded(budget, read_spending(transaction, budget.of), estimate)


@lru_cache(maxsize=16)
def _select_committed(names: tuple[str, ...]) -> sa.Executable:
    """Select what is committed of a scope in one sum, because every attempt sums up all attempts of its budgets. names: of the scope's filters."""
    cost, estimate = attempts.c.cost_microdollars, attempts.c.estimate_microdollars
    committed = sa.case((cost.is_not(None), cost), (attempts.c.started_at > sa.bindparam("reserved_since"), estimate))
    return sa.select(sum_column(committed)).where(*scope_conditions(names))
