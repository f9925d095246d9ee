"""The journal of model calls: whether an attempt may begin, the call's answer or failure, and its cost."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import polars as pl
import sqlalchemy as sa

from bellwether.database import Database, Transaction
from bellwether.errors import ConfigError, LakeError
from bellwether.journal import rows
from bellwether.journal.attempts import Attempt, InFlight, NewAttempt, describe_state, renew_attempts
from bellwether.journal.budget import EVERYTHING, Budget, Scope, Spending, read_spending
from bellwether.journal.export import count_calls, export_answers, export_tables, import_answers, summarize_usage
from bellwether.journal.limits import SharedLimits
from bellwether.journal.request import CallKey, Request, require_short_text
from bellwether.journal.schema import SCHEMA, calls
from bellwether.journal.values import Answered, Busy, CallStatus, Failed, Full, State, Usage
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.untrusted_text import redact

if TYPE_CHECKING:
    from bellwether.settings import Settings

_CHUNK = 500
_HEXADECIMAL = frozenset("0123456789abcdef")


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
        holder: str | None = None,
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
            holder: name of the caller, for `renew`; default this process.
            run: the run that pays for the attempt.
            estimate: maximum expected cost of the attempt, in micro-dollars; required with budgets.
            budgets: raises `BudgetExceeded`, and begins nothing, if the attempt could exceed one of them.
            in_flight: maximum numbers of requests in flight.
        """
        new = NewAttempt(
            request, timeout, this_process() if holder is None else holder, secrets.token_hex(16), run, estimate, budgets, in_flight
        )
        begun = self.database.write("beginning a model call", new.begin)
        return Attempt(self.database, request.key, *begun) if isinstance(begun, tuple) else begun

    def renew(self, holder: str) -> None:
        """Let the attempts in progress of a holder count as in flight for another 30 seconds."""
        self.database.write("renewing attempts", partial(renew_attempts, holder=holder))

    def look(self, key: str) -> Answered | Busy | Failed | None:
        """Return the state of a call; None if an attempt may begin."""
        return self.database.read("reading a model call", lambda transaction: _read_state(transaction, CallKey(key)))

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
        return self.database.read("reading model calls", lambda transaction: rows.read_statuses(transaction, *conditions))

    def reopen(self, key: str, *, by: str, note: str) -> None:
        """Reopen a failed call, so that another attempt may begin. The operator and the note are stored with the failure.

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
        """Return the tables `calls`, `attempts`, `responses`, `reopenings` and `records` as of one instant."""
        return self.database.snapshot("exporting", export_tables)

    def export_answers(self, path: Path) -> int:
        """Write all answers to a file of JSON lines, as of one instant, and return their number."""
        return self.database.snapshot("exporting answers", partial(export_answers, path=path))

    def import_answers(self, path: Path) -> int:
        """Add the answers of a file of JSON lines to calls that have none, and return their number. Either all are added or none.

        A missing journal is created, even if the lake has model answers: those that the file lacks may be paid for again.
        Raises `ConfigError` that names file, line and field of a damaged answer, and of one that differs from the call's own.
        """
        self.database.before_creation = lambda: None
        return self.database.write("importing answers", partial(import_answers, path=path))


def this_process() -> str:
    """Return the name of this process as a holder of attempts, `host:pid`."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _read_state(transaction: Transaction, key: CallKey) -> Answered | Busy | Failed | None:
    call = rows.read_call(transaction, key)
    return None if call is None else describe_state(transaction, key, call, rows.read_attempts(transaction, key))


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
                "twice. Restore the journal from a backup, or import the answers of an export with `bellwether journal import`"
            )
