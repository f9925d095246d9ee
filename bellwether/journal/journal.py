"""The journal: claims of model calls, their answers, what they cost, and how they stand."""

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
from bellwether.journal.budget import EVERYTHING, Budget, Scope, Spending, has_others, spending
from bellwether.journal.claims import Attempt, Claim, adopt, require_estimate
from bellwether.journal.database import Database, Transaction
from bellwether.journal.export import counts, frames, usage
from bellwether.journal.holders import is_gone, this_process
from bellwether.journal.request import CallKey, Request, short
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
    """All model calls of a world. Safe to use from several threads and processes at once.

    From asyncio call its methods, and those of claims and attempts, through `bellwether.journal.in_thread`.

    Attributes:
        url: `sqlite:////absolute/path.db` or `postgresql://user:password@host/database`; tables are created on first use.
        clock: tells the present, aware. When left out: Postgres' own clock, or this machine's with SQLite.
        patience: seconds to wait at most for a lock, or for a server that restarts.

    Every method raises `ConfigError` when the database cannot be used as it is set, and `LakeError` when it is damaged, full, locked,
    out of reach or of another version. After an error nothing was changed, or the same call again finds what it did.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] | None = None, patience: float = 30.0) -> None:
        self.database = Database(url, clock=clock, patience=patience)

    @classmethod
    def of(cls, config: Settings) -> Journal:
        """The journal of a world. Creating it raises `LakeError` where the lake has answers of models: they could be paid for twice."""
        journal = cls(config.journal_url)
        journal.database.before_creation = lambda: require_no_answers(config, journal.where)
        return journal

    def require_no_answers(self) -> None:
        """Raise `LakeError` where this journal does not exist while the lake has answers of models."""
        self.database.before_creation()

    def create(self) -> None:
        """Create an empty journal where it is missing, also next to a lake that has answers of models."""
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
        """The file, or the server and database; without a password."""
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
        """The right to make a call, for exactly one of all who try, with an attempt; or the answer, who holds the call, or why it failed.

        The attempt is on the disk before this returns, and so before its request is sent. A call whose lease has expired is taken over, and its
        attempt in progress counts as abandoned. So is, at once, the call of a process of this machine that has ended (`bellwether.journal.holders`).

        Args:
            request: the call.
            lease: duration of the right, from now; longer than the attempt may take.
            holder: who asks; this process when left out.
            run: the run that pays for the attempt.
            estimate: the most that the attempt is expected to cost, in micro-dollars; needed with budgets.
            budgets: nothing is claimed or begun if the attempt could exceed one of them, which raises `BudgetExceeded`.
        """
        claim = self._wanted(request, lease, holder, run)
        require_estimate(request, estimate, budgets)

        def work(transaction: Transaction) -> Attempt | Answered | Busy | Failed:
            if budgets:
                transaction.alone("budget")
            if _add(transaction, request, claim):
                return claim._start(transaction, 1, estimate, budgets)
            known = _take_known(transaction, request, claim)
            return claim._begin(transaction, estimate, budgets) if isinstance(known, Claim) else known

        found = self.database.write("beginning a model call", work)
        return (claim, found) if isinstance(found, Attempt) else found

    def _wanted(self, request: Request, lease: timedelta, holder: str | None, run: str | None) -> Claim:
        """A claim that is nobody's yet."""
        if lease <= timedelta(0):
            raise ConfigError(f"claiming a model call: the lease is {lease}; it must be longer than an attempt may take")
        who = short(holder, "holder of a model call") if holder is not None else this_process()
        payer = short(run, "run of a model call") if run is not None else None
        return Claim(self.database, request, token=secrets.token_hex(16), holder=who, run=payer, lease=lease)

    def look(self, key: str) -> Answered | Busy | Failed | None:
        """The state of a call, without claiming it; None when it may be claimed."""
        return self.database.read("reading a model call", lambda transaction: _standing_of(transaction, CallKey(key)))

    def together(self, works: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """The results of `works`, which use this journal, its claims and attempts; errors take the place of results.

        They do what they would do one after the other. On SQLite they share one transaction, and so one write to the disk: all is durable
        when this returns. On Postgres, where writers do not wait for each other, each is durable alone.
        """
        return self.database.together("writing to the journal", works)

    @property
    def shares(self) -> bool:
        """True if works that are done `together` share a transaction."""
        return self.database.has_one_writer

    def shared_limits(self) -> SharedLimits | None:
        """A new connection to the limits that all processes on this journal share; None on SQLite. Close it after use."""
        return self.database.shared_limits()

    def answer(self, key: str) -> Answered | None:
        """The stored answer of a call; None without one."""
        return self.database.read("reading an answer", lambda transaction: rows.answer(transaction, key))

    def answers(self, keys: Iterable[str]) -> dict[CallKey, Answered]:
        """The stored answers among these calls, by key, in the order of `keys`."""
        wanted = list(dict.fromkeys(keys))
        found: dict[CallKey, Answered] = {}
        for chunk in _chunks(wanted):
            read = self.database.read("reading answers", partial(rows.answers, keys=chunk))
            by_key = {str(one.key): one for one in read}
            found.update((CallKey(key), by_key[key]) for key in chunk if key in by_key)
        return found

    def status(self, key: str) -> CallStatus | None:
        """The state of a call; None when it was never claimed."""
        found = self._statuses(calls.c.key == key)
        return found[0] if found else None

    def find(self, beginning: str) -> CallKey:
        """The key that begins so. Raises `ConfigError` unless exactly one call's does, or for fewer than 8 digits."""
        if len(beginning) < 8 or not set(beginning) <= _HEXADECIMAL:
            raise ConfigError(f"finding a model call: {beginning!r:.80} is no key; give at least its first 8 hexadecimal digits")
        keys = self.database.read(
            "finding a model call",
            lambda transaction: transaction.rows(sa.select(calls.c.key).where(calls.c.key.startswith(beginning)).limit(2)),
        )
        if len(keys) != 1:
            found = "several calls begin so; give more digits" if keys else "no call begins so; `bellwether journal failures` lists keys"
            raise ConfigError(f"finding the model call {beginning[:64]}: {found}")
        return CallKey(keys[0].key)

    def pending(self) -> list[CallStatus]:
        """Calls that are neither answered nor failed, oldest first."""
        return self._statuses(calls.c.state.in_([State.OPEN.value, State.CLAIMED.value]))

    def expired(self) -> list[CallStatus]:
        """Claimed calls whose lease has expired by the journal's clock: their holders died or stalled."""

        def work(transaction: Transaction) -> list[CallStatus]:
            return rows.statuses(transaction, calls.c.state == State.CLAIMED.value, calls.c.lease_expires_at <= transaction.now())

        return self.database.read("reading model calls", work)

    def failures(self) -> list[CallStatus]:
        """Calls that were given up, oldest first."""
        return self._statuses(calls.c.state == State.FAILED.value)

    def unanswered(self) -> list[CallStatus]:
        """Open calls whose last attempt failed, oldest first; the next run retries them."""
        return self._statuses(calls.c.state == State.OPEN.value, calls.c.outcome.is_not(None))

    def _statuses(self, *conditions: sa.ColumnElement[bool]) -> list[CallStatus]:
        return self.database.read("reading model calls", lambda transaction: rows.statuses(transaction, *conditions))

    def reopen(self, key: str, *, by: str, note: str) -> None:
        """Reopen a failed call, so that it can be claimed; the operator and the note are stored with the failure.

        Raises `ConfigError` for a call that has not failed: an answer is a fact, and a call that is held needs no reopening.
        """
        name = short(by, "reopening a model call: by")
        self.database.write("reopening a model call", lambda transaction: _reopen(transaction, key, name, note))

    def used(self, key: str) -> tuple[int, Usage]:
        """Number of attempts of a call, and their usage in sum; a cost or a count is None as long as that of any attempt is unknown."""
        return self.database.read("summing the attempts of a model call", lambda transaction: rows.used(transaction, key))

    def spent(self, of: Scope = EVERYTHING) -> Spending:
        """Known and possible costs of the attempts of a scope, in micro-dollars."""
        return self.database.read("summing costs", lambda transaction: spending(transaction, of))

    def has_others(self, of: Scope) -> bool:
        """Return whether a running process has an attempt of a scope in progress."""
        return self.database.read("reading attempts in progress", lambda transaction: has_others(transaction, of))

    def usage(self, *by: str, of: Scope = EVERYTHING) -> pl.DataFrame:
        """Attempts, tokens and micro-dollars of a scope, one row per value of `by`: purpose, model, scope, run and outcome; all when none is named.

        `unknown` counts ended attempts without a known cost; `reserved` is the estimate of their cost and of those in progress.
        """
        return self.database.read("summing usage", lambda transaction: usage(transaction, by, of))

    def counts(self) -> pl.DataFrame:
        """Calls by purpose, model, state and outcome."""
        return self.database.read("counting model calls", counts)

    def export(self) -> dict[str, pl.DataFrame]:
        """`calls`, `attempts`, `responses`, `reopenings` and `records` as frames of one moment; without lease tokens."""
        return self.database.snapshot("exporting", frames)


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk


def _standing_of(transaction: Transaction, key: CallKey) -> Answered | Busy | Failed | None:
    """The state of a call; None when it may be claimed."""
    call = rows.standing(transaction, key)
    return None if call is None else _settled(transaction, key, call)


def _settled(transaction: Transaction, key: CallKey, call: Any) -> Answered | Busy | Failed | None:
    if call.state == State.ANSWERED:
        return rows.answer(transaction, key)
    if call.state == State.FAILED:
        return Failed(key=key, outcome=Outcome(call.outcome), reason=call.reason, finished_at=call.finished_at)
    if call.state == State.CLAIMED and call.lease_expires_at > transaction.now() and not is_gone(call.holder):
        return Busy(key=key, holder=call.holder, until=call.lease_expires_at)
    return None


def _add(transaction: Transaction, request: Request, claim: Claim) -> bool:
    """Take a call that the journal has not seen before."""
    now = transaction.now()
    expires = now + claim._lease
    named = {name: getattr(request, name) for name in ("key", "model", "purpose", "scope", "sample")}
    held = {"state": State.CLAIMED.value, "holder": claim.holder, "lease_token": claim._token, "lease_expires_at": expires}
    if not rows.add_call(transaction, {**named, "request": request.text, "created_at": now, **held}):
        return False
    claim.expires_at = expires
    return True


def _take_known(transaction: Transaction, request: Request, claim: Claim) -> Claim | Answered | Busy | Failed:
    call = rows.locked(transaction, request.key)
    if call.lease_token == claim._token:
        claim.expires_at = call.lease_expires_at
        return claim
    return _settled(transaction, request.key, call) or _take_over(transaction, request, claim, call)


def _take_over(transaction: Transaction, request: Request, claim: Claim, call: Any) -> Claim | Answered:
    now = transaction.now()
    rows.abandon(transaction, request.key, now)
    before = rows.attempts_of(transaction, request.key)
    if adopt(transaction, request.key, before, now):
        answered = rows.answer(transaction, request.key)
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
    call = rows.locked(transaction, key)
    if call is not None and call.state == State.OPEN and rows.last_reopening(transaction, key) == (by, redact(note)):
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
