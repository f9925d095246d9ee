"""The journal of model calls: who may make a call, its answer or failure, and its cost."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl
import sqlalchemy as sa

from bellwether.database import Transaction
from bellwether.errors import ConfigError, LakeError
from bellwether.journal import rows
from bellwether.journal.budget import EVERYTHING, Budget, Scope, Spending, has_others, read_spending
from bellwether.journal.claims import Attempt, Claim, adopt_late_answer, require_estimate
from bellwether.journal.database import JournalDatabase
from bellwether.journal.export import count_calls, export_tables, summarize_usage
from bellwether.journal.holders import is_gone, this_process
from bellwether.journal.request import CallKey, Request, require_short_text
from bellwether.journal.schema import calls
from bellwether.journal.values import Answered, Busy, CallStatus, Failed, Outcome, State, Usage
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.untrusted_text import redact

if TYPE_CHECKING:
    from bellwether.journal.shared_limits import SharedLimits
    from bellwether.settings import Settings

T = TypeVar("T")

_CHUNK = 500
_HEXADECIMAL = frozenset("0123456789abcdef")


class Journal:
    """Database of all model calls of a world. Safe for concurrent use by several threads and processes.

    From asyncio call its methods, and those of claims and attempts, through `bellwether.journal.in_thread`.

    Attributes:
        url: `sqlite:////absolute/path.db` or `postgresql://user:password@host/database`; tables are created on first use.
        clock: returns the current time, aware. Default: Postgres' own clock, or this machine's on SQLite.
        patience: maximum seconds to wait for a lock, or for a server that restarts.

    Every method raises `ConfigError` if the database cannot be used as configured, and `LakeError` if it is damaged, full, locked,
    unreachable or of another version. After an error either nothing was changed, or the same call recognises its changes.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        self.database = JournalDatabase(url, clock=clock, patience=patience)

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

    def create(self) -> None:
        """Create the journal if it is missing, even if the lake has model answers that it will not know."""
        self.database.before_creation = lambda: None
        self.database.open()

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
        lease: timedelta,
        holder: str | None = None,
        run: str | None = None,
        estimate: int | None = None,
        budgets: tuple[Budget, ...] = (),
    ) -> tuple[Claim, Attempt] | Answered | Busy | Failed:
        """Claim a call and begin an attempt. If the call cannot be claimed, return its stored answer, its failure, or who holds it.

        The attempt is durable when this returns, before its request is sent. A call whose lease has expired is taken over, and its attempt in
        progress counts as abandoned; so does the call of a process of this machine that has ended (`bellwether.journal.holders`).

        Args:
            request: the call.
            lease: duration of the claim from now; longer than the attempt may take.
            holder: name of the caller; default this process.
            run: the run that pays for the attempt.
            estimate: maximum expected cost of the attempt, in micro-dollars; required with budgets.
            budgets: raises `BudgetExceeded`, and claims nothing, if the attempt could exceed one of them.
        """
        claim = self._create_claim(request, lease, holder, run)
        require_estimate(request, estimate, budgets)

        def work(transaction: Transaction) -> Attempt | Answered | Busy | Failed:
            if budgets:
                transaction.lock("budget")
            if _add_claim(transaction, request, claim):
                return claim._start(transaction, 1, estimate, budgets)
            state = _claim_existing(transaction, request, claim)
            return claim._begin(transaction, estimate, budgets) if isinstance(state, Claim) else state

        result = self.database.write("beginning a model call", work)
        return (claim, result) if isinstance(result, Attempt) else result

    def _create_claim(self, request: Request, lease: timedelta, holder: str | None, run: str | None) -> Claim:
        """Create a claim in memory that the database does not have yet."""
        if lease <= timedelta(0):
            raise ConfigError(f"claiming a model call: the lease is {lease}; it must be longer than an attempt may take")
        who = require_short_text(holder, "holder of a model call") if holder is not None else this_process()
        payer = require_short_text(run, "run of a model call") if run is not None else None
        return Claim(self.database, request, token=secrets.token_hex(16), holder=who, run=payer, lease=lease)

    def look(self, key: str) -> Answered | Busy | Failed | None:
        """Return the state of a call without claiming it; None for a call that can be claimed."""
        return self.database.read("reading a model call", lambda transaction: _read_state(transaction, CallKey(key)))

    def together(self, works: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run functions that use this journal, its claims and its attempts. Returns the result or error of each.

        The effect is the same as running them one after the other. On SQLite they share one transaction, and so one write to the disk; on
        Postgres, where writers do not wait for one another, each has its own. All are durable on return.
        """
        return self.database.together("writing to the journal", works)

    @property
    def shares(self) -> bool:
        """True if the functions passed to `together` share one transaction, as on SQLite."""
        return self.database.has_one_writer

    def shared_limits(self) -> SharedLimits | None:
        """Open the limits that all processes on this journal share; None on SQLite. The caller closes them after use."""
        return self.database.shared_limits()

    def answer(self, key: str) -> Answered | None:
        """Return the stored answer of a call; None for a call without an answer."""
        return self.database.read("reading an answer", lambda transaction: rows.read_answer(transaction, key))

    def answers(self, keys: Iterable[str]) -> dict[CallKey, Answered]:
        """Return the stored answers of several calls by key, in the order of `keys`. Calls without an answer are left out."""
        wanted = list(dict.fromkeys(keys))
        answers: dict[CallKey, Answered] = {}
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            stored = self.database.read("reading answers", partial(rows.read_answers, keys=chunk))
            by_key = {str(answer.key): answer for answer in stored}
            answers.update((CallKey(key), by_key[key]) for key in chunk if key in by_key)
        return answers

    def status(self, key: str) -> CallStatus | None:
        """Return the state of a call; None for a call that was never claimed."""
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
            problem = "several calls begin so; give more digits" if keys else "no call begins so; `bellwether journal failures` lists keys"
            raise ConfigError(f"finding the model call {beginning[:64]}: {problem}")
        return CallKey(keys[0].key)

    def pending(self) -> list[CallStatus]:
        """Return the calls that are neither answered nor failed, oldest first."""
        return self._statuses(calls.c.state.in_([State.OPEN.value, State.CLAIMED.value]))

    def expired(self) -> list[CallStatus]:
        """Return the claimed calls whose lease has expired by the journal's clock, because the holder died or stalled."""

        def work(transaction: Transaction) -> list[CallStatus]:
            return rows.read_statuses(transaction, calls.c.state == State.CLAIMED.value, calls.c.lease_expires_at <= transaction.now())

        return self.database.read("reading model calls", work)

    def failures(self) -> list[CallStatus]:
        """Return the failed calls, oldest first."""
        return self._statuses(calls.c.state == State.FAILED.value)

    def unanswered(self) -> list[CallStatus]:
        """Return the open calls whose last attempt failed, oldest first. The next run retries them."""
        return self._statuses(calls.c.state == State.OPEN.value, calls.c.outcome.is_not(None))

    def _statuses(self, *conditions: sa.ColumnElement[bool]) -> list[CallStatus]:
        return self.database.read("reading model calls", lambda transaction: rows.read_statuses(transaction, *conditions))

    def reopen(self, key: str, *, by: str, note: str) -> None:
        """Reopen a failed call, so that it can be claimed again. The operator and the note are stored with the failure.

        Raises `ConfigError` for a call that has not failed.
        """
        name = require_short_text(by, "reopening a model call: by")
        self.database.write("reopening a model call", lambda transaction: _reopen(transaction, key, name, note))

    def used(self, key: str) -> tuple[int, Usage]:
        """Return the number of attempts of a call and their total usage. The total cost is None if the cost of any billed attempt is unknown."""
        return self.database.read("summing the attempts of a model call", lambda transaction: rows.read_usage(transaction, key))

    def spent(self, of: Scope = EVERYTHING) -> Spending:
        """Return the known and reserved costs of the attempts that match `of`, in micro-dollars."""
        return self.database.read("summing costs", lambda transaction: read_spending(transaction, of))

    def has_others(self, of: Scope) -> bool:
        """Return True if a process that still runs has an attempt in progress that matches `of`."""
        return self.database.read("reading attempts in progress", lambda transaction: has_others(transaction, of))

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
        return self.database.snapshot("verifying responses", rows.verify_responses)

    def export(self) -> dict[str, pl.DataFrame]:
        """Return the tables `calls`, `attempts`, `responses`, `reopenings` and `records` as of one instant, without lease tokens."""
        return self.database.snapshot("exporting", export_tables)


def _read_state(transaction: Transaction, key: CallKey) -> Answered | Busy | Failed | None:
    """Return the state of a call; None for a call that can be claimed."""
    call = rows.read_call(transaction, key)
    return None if call is None else _settled_state(transaction, key, call)


def _settled_state(transaction: Transaction, key: CallKey, call: Any) -> Answered | Busy | Failed | None:
    """Return the answer, failure or current holder of a call; None if the call can be claimed."""
    if call.state == State.ANSWERED:
        return rows.read_answer(transaction, key)
    if call.state == State.FAILED:
        return Failed(key=key, outcome=Outcome(call.outcome), reason=call.reason, finished_at=call.finished_at)
    if call.state == State.CLAIMED and call.lease_expires_at > transaction.now() and not is_gone(call.holder):
        return Busy(key=key, holder=call.holder, until=call.lease_expires_at)
    return None


def _add_claim(transaction: Transaction, request: Request, claim: Claim) -> bool:
    """Add a new call that is claimed by `claim`. Return False if the journal already has the call."""
    now = transaction.now()
    expires = now + claim._lease
    identity = {name: getattr(request, name) for name in ("key", "model", "purpose", "scope", "sample")}
    lease = {"state": State.CLAIMED.value, "holder": claim.holder, "lease_token": claim._token, "lease_expires_at": expires}
    if not rows.add_call(transaction, {**identity, "request": request.text, "created_at": now, **lease}):
        return False
    claim.expires_at = expires
    return True


def _claim_existing(transaction: Transaction, request: Request, claim: Claim) -> Claim | Answered | Busy | Failed:
    """Claim a call that the journal has, or return its answer, failure or current holder."""
    call = rows.lock_call(transaction, request.key)
    if call.lease_token == claim._token:
        claim.expires_at = call.lease_expires_at
        return claim
    return _settled_state(transaction, request.key, call) or _take_over(transaction, request, claim, call)


def _take_over(transaction: Transaction, request: Request, claim: Claim, call: Any) -> Claim | Answered:
    """Claim a call that no running process holds. If an attempt counted as abandoned has brought an answer, return that answer instead."""
    now = transaction.now()
    rows.abandon_attempts(transaction, request.key, now)
    earlier = rows.read_attempts(transaction, request.key)
    if adopt_late_answer(transaction, request.key, earlier, now):
        answered = rows.read_answer(transaction, request.key)
        assert answered is not None
        return answered
    expires = now + claim._lease
    rows.change_call(
        transaction, request.key, state=State.CLAIMED.value, holder=claim.holder, lease_token=claim._token, lease_expires_at=expires
    )
    claim.attempts, claim.expires_at = len(earlier), expires
    claim.taken_from = call.holder if call.state == State.CLAIMED else None
    return claim


def _reopen(transaction: Transaction, key: str, by: str, note: str) -> None:
    call = rows.lock_call(transaction, key)
    if call is not None and call.state == State.OPEN and rows.read_last_reopening(transaction, key) == (by, redact(note)):
        return  # The commit of the same words was not confirmed.
    if call is None or call.state != State.FAILED:
        state = "it is not in the journal" if call is None else f"it is {call.state}"
        raise ConfigError(f"reopening the model call {key[:12]}: {state}; only failed calls are reopened")
    rows.add_reopening(
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
    rows.change_call(transaction, key, state=State.OPEN.value, finished_at=None)


def require_no_answers(config: Settings, where: str) -> None:
    """Raise `LakeError` if the lake has model answers, which a new journal would not know. where: place of the journal."""
    lake = Lake.of(config)
    of_models = {"benchmark/forecasts": pl.col("call_key").is_not_null(), "arena/decisions": pl.lit(value=True)}
    for name, answered in of_models.items():
        stored = lake.slice(table(name), missing="skip")
        if stored.rows and stored.scan().filter(answered).head(1).collect().height:
            raise LakeError(
                f"opening the journal {where}: it is missing or empty, while the lake has answers of models in {name}, which could be paid for "
                "twice. Restore the journal from a backup, or create an empty one with `bellwether doctor --rebuild`"
            )
