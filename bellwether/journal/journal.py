"""Journal of model calls: claims, answers, costs and states."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl
import sqlalchemy as sa

from bellwether.errors import ConfigError, LakeError
from bellwether.journal import rows
from bellwether.journal.budget import EVERYTHING, Budget, Scope, Spending, has_others, read_spending
from bellwether.journal.claims import Attempt, Claim, adopt_late_answer, require_estimate
from bellwether.journal.database import Database, Transaction
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
    """All model calls of a world. Safe for concurrent use from several threads and processes.

    From asyncio call its methods, and those of claims and attempts, through `bellwether.journal.in_thread`.

    Attributes:
        url: `sqlite:////absolute/path.db` or `postgresql://user:password@host/database`; tables are created on first use.
        clock: returns the current time, aware. Default: Postgres' own clock, or this machine's on SQLite.
        patience: maximum seconds to wait for a lock, or for a server that restarts.

    Every method raises `ConfigError` if the database cannot be used as configured, and `LakeError` if it is damaged, full, locked,
    unreachable or of another version. After an error either nothing was changed, or the same call recognises its changes.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        self.database = Database(url, clock=clock, patience=patience)

    @classmethod
    def of(cls, config: Settings) -> Journal:
        """Return the journal of a world. Creating it raises `LakeError` if the lake has model answers, which could be paid for twice."""
        journal = cls(config.journal_url)
        journal.database.before_creation = lambda: require_no_answers(config, journal.where)
        return journal

    def require_no_answers(self) -> None:
        """Raise `LakeError` if this journal does not exist while the lake has answers of models."""
        self.database.before_creation()

    def create(self) -> None:
        """Create an empty journal if it is missing, even if the lake has answers of models."""
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
        """File, or server and database without a password."""
        return self.database.where

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self.database.close()

    def exists(self) -> bool:
        """Return whether the journal exists; nothing is created."""
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
        """Claim a call and begin an attempt. Only one caller succeeds; the others get the answer, the current holder or the failure.

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
        claim = self._wanted(request, lease, holder, run)
        require_estimate(request, estimate, budgets)

        def work(transaction: Transaction) -> Attempt | Answered | Busy | Failed:
            if budgets:
                transaction.alone("budget")
            if _add_claim(transaction, request, claim):
                return claim._start(transaction, 1, estimate, budgets)
            known = _claim_existing(transaction, request, claim)
            return claim._begin(transaction, estimate, budgets) if isinstance(known, Claim) else known

        found = self.database.write("beginning a model call", work)
        return (claim, found) if isinstance(found, Attempt) else found

    def _wanted(self, request: Request, lease: timedelta, holder: str | None, run: str | None) -> Claim:
        """Create a claim that holds nothing yet."""
        if lease <= timedelta(0):
            raise ConfigError(f"claiming a model call: the lease is {lease}; it must be longer than an attempt may take")
        who = require_short_text(holder, "holder of a model call") if holder is not None else this_process()
        payer = require_short_text(run, "run of a model call") if run is not None else None
        return Claim(self.database, request, token=secrets.token_hex(16), holder=who, run=payer, lease=lease)

    def look(self, key: str) -> Answered | Busy | Failed | None:
        """Return the state of a call without claiming it; None if it can be claimed."""
        return self.database.read("reading a model call", lambda transaction: _read_state(transaction, CallKey(key)))

    def together(self, works: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """Run `works`, functions that use this journal, its claims and attempts, and return their results or errors.

        The effect is the same as one after the other. On SQLite they share one transaction, so one write to the disk; all is durable on return.
        On Postgres, where writers do not wait for each other, each is durable by itself.
        """
        return self.database.together("writing to the journal", works)

    @property
    def shares(self) -> bool:
        """True if functions passed to `together` share one transaction."""
        return self.database.has_one_writer

    def shared_limits(self) -> SharedLimits | None:
        """Open a connection to the limits shared by all processes on this journal; None on SQLite. Close it after use."""
        return self.database.shared_limits()

    def answer(self, key: str) -> Answered | None:
        """Return the stored answer of a call; None without one."""
        return self.database.read("reading an answer", lambda transaction: rows.read_answer(transaction, key))

    def answers(self, keys: Iterable[str]) -> dict[CallKey, Answered]:
        """Return the stored answers of these calls by key, in the order of `keys`."""
        wanted = list(dict.fromkeys(keys))
        found: dict[CallKey, Answered] = {}
        for chunk in _chunks(wanted):
            read = self.database.read("reading answers", partial(rows.read_answers, keys=chunk))
            by_key = {str(one.key): one for one in read}
            found.update((CallKey(key), by_key[key]) for key in chunk if key in by_key)
        return found

    def status(self, key: str) -> CallStatus | None:
        """Return the state of a call; None if it was never claimed."""
        found = self._statuses(calls.c.key == key)
        return found[0] if found else None

    def find(self, beginning: str) -> CallKey:
        """Return the only key with this prefix. Raises `ConfigError` for none or several, and for fewer than 8 digits."""
        if len(beginning) < 8 or not set(beginning) <= _HEXADECIMAL:
            raise ConfigError(f"finding a model call: {beginning!r:.80} is not a key; give at least its first 8 hexadecimal digits")
        keys = self.database.read(
            "finding a model call",
            lambda transaction: transaction.rows(sa.select(calls.c.key).where(calls.c.key.startswith(beginning)).limit(2)),
        )
        if len(keys) != 1:
            found = "several calls begin so; give more digits" if keys else "no call begins so; `bellwether journal failures` lists keys"
            raise ConfigError(f"finding the model call {beginning[:64]}: {found}")
        return CallKey(keys[0].key)

    def pending(self) -> list[CallStatus]:
        """Return calls that are neither answered nor failed, oldest first."""
        return self._statuses(calls.c.state.in_([State.OPEN.value, State.CLAIMED.value]))

    def expired(self) -> list[CallStatus]:
        """Return claimed calls whose lease has expired by the journal's clock: their holders died or stalled."""

        def work(transaction: Transaction) -> list[CallStatus]:
            return rows.read_statuses(transaction, calls.c.state == State.CLAIMED.value, calls.c.lease_expires_at <= transaction.now())

        return self.database.read("reading model calls", work)

    def failures(self) -> list[CallStatus]:
        """Return calls that were given up, oldest first."""
        return self._statuses(calls.c.state == State.FAILED.value)

    def unanswered(self) -> list[CallStatus]:
        """Return open calls whose last attempt failed, oldest first; the next run retries them."""
        return self._statuses(calls.c.state == State.OPEN.value, calls.c.outcome.is_not(None))

    def _statuses(self, *conditions: sa.ColumnElement[bool]) -> list[CallStatus]:
        return self.database.read("reading model calls", lambda transaction: rows.read_statuses(transaction, *conditions))

    def reopen(self, key: str, *, by: str, note: str) -> None:
        """Reopen a failed call, so that it can be claimed; operator and note are stored with the failure.

        Raises `ConfigError` for a call that has not failed.
        """
        name = require_short_text(by, "reopening a model call: by")
        self.database.write("reopening a model call", lambda transaction: _reopen(transaction, key, name, note))

    def used(self, key: str) -> tuple[int, Usage]:
        """Return the number and total usage of a call's attempts. A total is None if the value of any attempt is unknown."""
        return self.database.read("summing the attempts of a model call", lambda transaction: rows.read_usage(transaction, key))

    def spent(self, of: Scope = EVERYTHING) -> Spending:
        """Return known and reserved costs of the attempts of a scope, in micro-dollars."""
        return self.database.read("summing costs", lambda transaction: read_spending(transaction, of))

    def has_others(self, of: Scope) -> bool:
        """Return whether a running process has an attempt of a scope in progress."""
        return self.database.read("reading attempts in progress", lambda transaction: has_others(transaction, of))

    def usage(self, *by: str, of: Scope = EVERYTHING) -> pl.DataFrame:
        """Return attempts, tokens and micro-dollars of a scope, one row per value of `by`: purpose, model, scope, run or outcome; one row without any.

        `unknown` counts ended attempts without a known cost; `reserved` is the estimate of their cost and of those in progress.
        """
        return self.database.read("summing usage", lambda transaction: summarize_usage(transaction, by, of))

    def counts(self) -> pl.DataFrame:
        """Count calls by purpose, model, state and outcome."""
        return self.database.read("counting model calls", count_calls)

    def export(self) -> dict[str, pl.DataFrame]:
        """Return `calls`, `attempts`, `responses`, `reopenings` and `records` as frames of one snapshot, without lease tokens."""
        return self.database.snapshot("exporting", export_tables)


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk


def _read_state(transaction: Transaction, key: CallKey) -> Answered | Busy | Failed | None:
    """Return the state of a call; None if it can be claimed."""
    call = rows.read_call(transaction, key)
    return None if call is None else _settled_state(transaction, key, call)


def _settled_state(transaction: Transaction, key: CallKey, call: Any) -> Answered | Busy | Failed | None:
    if call.state == State.ANSWERED:
        return rows.read_answer(transaction, key)
    if call.state == State.FAILED:
        return Failed(key=key, outcome=Outcome(call.outcome), reason=call.reason, finished_at=call.finished_at)
    if call.state == State.CLAIMED and call.lease_expires_at > transaction.now() and not is_gone(call.holder):
        return Busy(key=key, holder=call.holder, until=call.lease_expires_at)
    return None


def _add_claim(transaction: Transaction, request: Request, claim: Claim) -> bool:
    """Add and claim a new call; return False if the journal has it."""
    now = transaction.now()
    expires = now + claim._lease
    named = {name: getattr(request, name) for name in ("key", "model", "purpose", "scope", "sample")}
    held = {"state": State.CLAIMED.value, "holder": claim.holder, "lease_token": claim._token, "lease_expires_at": expires}
    if not rows.add_call(transaction, {**named, "request": request.text, "created_at": now, **held}):
        return False
    claim.expires_at = expires
    return True


def _claim_existing(transaction: Transaction, request: Request, claim: Claim) -> Claim | Answered | Busy | Failed:
    call = rows.lock_call(transaction, request.key)
    if call.lease_token == claim._token:
        claim.expires_at = call.lease_expires_at
        return claim
    return _settled_state(transaction, request.key, call) or _take_over(transaction, request, claim, call)


def _take_over(transaction: Transaction, request: Request, claim: Claim, call: Any) -> Claim | Answered:
    now = transaction.now()
    rows.abandon_attempts(transaction, request.key, now)
    before = rows.read_attempts(transaction, request.key)
    if adopt_late_answer(transaction, request.key, before, now):
        answered = rows.read_answer(transaction, request.key)
        assert answered is not None
        return answered
    expires = now + claim._lease
    rows.change_call(
        transaction, request.key, state=State.CLAIMED.value, holder=claim.holder, lease_token=claim._token, lease_expires_at=expires
    )
    claim.attempts, claim.expires_at = len(before), expires
    claim.taken_from = call.holder if call.state == State.CLAIMED else None
    return claim


def _reopen(transaction: Transaction, key: str, by: str, note: str) -> None:
    call = rows.lock_call(transaction, key)
    if call is not None and call.state == State.OPEN and rows.read_last_reopening(transaction, key) == (by, redact(note)):
        return  # The commit of the same words was not confirmed.
    if call is None or call.state != State.FAILED:
        found = "it is not in the journal" if call is None else f"it is {call.state}"
        raise ConfigError(f"reopening the model call {key[:12]}: {found}; only failed calls are reopened")
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
    """Raise `LakeError` where tables contain answers that a new journal would not know."""
    lake = Lake(config.lake_uri)
    of_models = {"benchmark/forecasts": pl.col("call_key").is_not_null(), "arena/decisions": pl.lit(value=True)}
    for name, answered in of_models.items():
        found = lake.slice(table(name), missing="skip")
        if found.rows and found.scan().filter(answered).head(1).collect().height:
            raise LakeError(
                f"opening the journal {where}: it is missing or empty, while the lake has answers of models in {name}, which could be paid for "
                "twice. Restore the journal from a backup, or start a new one with `bellwether journal create`"
            )
