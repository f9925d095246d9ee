"""Tables of the journal, with the same columns on SQLite and Postgres, and the statements that read and change calls and attempts.

Rows of `attempts`, `responses`, `reopenings` and `records` are facts: added, completed once, never removed. `calls` contains the state of each call,
`rates` and `leases` what processes share for a short time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

from bellwether.database import DatabaseSchema, Transaction, Utc
from bellwether.errors import LakeError
from bellwether.journal.values import Answered, CallKey, CallStatus, CostSource, Outcome, Reply, Served, State, Usage, require_natural

#: Version of these tables and of the contents of records. Journals of other versions are rejected.
VERSION = 5

#: Time for which an attempt counts as in flight and a lease is held, unless its process renews it.
LEASE = timedelta(seconds=30)

_ESCAPE = "\x1a"
#: Signs with a meaning in LIKE.
_WILD = re.compile(r"[%_\\]")


class AnyText(TypeDecorator[str]):
    """Column type for arbitrary text from models and providers: what is read equals what was stored.

    Databases reject NUL and lone surrogates: these, and the escape character U+001A, are stored as U+001A and four hexadecimal digits.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape characters that a database rejects, such as NUL."""
        return value if value is None or _is_plain(value) else "".join(map(_escape, value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Restore the original text."""
        if value is None or _ESCAPE not in value:
            return value
        head, *parts = value.split(_ESCAPE)
        return head + "".join(chr(int(part[:4], 16)) + part[4:] for part in parts)


def _is_plain(value: str) -> bool:
    """Return True if a text can be stored without escapes."""
    if "\x00" in value or _ESCAPE in value:
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _escape(sign: str) -> str:
    return f"{_ESCAPE}{ord(sign):04x}" if sign in ("\x00", _ESCAPE) or "\ud800" <= sign <= "\udfff" else sign


def _one_of(column: str, values: type[State] | type[Outcome] | type[CostSource], name: str) -> CheckConstraint:
    """Return the constraint that a column has one of the values of an enumeration."""
    return CheckConstraint(f"{column} IN ({', '.join(repr(value.value) for value in values)})", name=name)


def _not_negative(*columns: str) -> list[CheckConstraint]:
    return [CheckConstraint(f"{column} >= 0", name=f"{column}_not_negative") for column in columns]


metadata = MetaData(naming_convention={"ck": "%(table_name)s_%(constraint_name)s", "pk": "%(table_name)s_key", "fk": "%(table_name)s_of"})

#: One row: the version of the tables. Its presence marks the database as a journal.
journal_version = Table(
    "journal_version",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("created_at", Utc, nullable=False),
)

#: What `bellwether.database` needs to know of the journal.
SCHEMA = DatabaseSchema("journal", "BELLWETHER_JOURNAL", metadata, journal_version, VERSION, private=True)

#: One row per call: its request and its end. A call in progress is an open call with an attempt that has no outcome.
calls = Table(
    "calls",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("model", AnyText, nullable=False),
    Column("purpose", AnyText, nullable=False),
    Column("scope", AnyText, nullable=False),
    Column("sample", Integer, nullable=False),
    Column("request", AnyText, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("finished_at", Utc),
    Column("answer", Integer),
    Column("outcome", Text),
    Column("reason", AnyText),
    _one_of("state", State, "state"),
    _one_of("outcome", Outcome, "outcome"),
    CheckConstraint("(state = 'answered') = (answer IS NOT NULL)", name="answered_by_an_attempt"),
    CheckConstraint("(state IN ('answered', 'failed')) = (finished_at IS NOT NULL)", name="finished_at"),
    CheckConstraint("state <> 'failed' OR (outcome IS NOT NULL AND reason IS NOT NULL)", name="failed_with_a_reason"),
)

Index("calls_by_state", calls.c.state, calls.c.created_at)

#: One row per attempt, written before the request is sent and completed once. Costs are integer micro-dollars; NULL is unknown. entry: of the
#: registry, whose requests in flight are limited. expires_at: until then no other attempt begins. leased_until: until then it counts as in flight.
attempts = Table(
    "attempts",
    metadata,
    Column("key", String(64), ForeignKey("calls.key"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("model", AnyText, nullable=False),
    Column("purpose", AnyText, nullable=False),
    Column("scope", AnyText, nullable=False),
    Column("run", AnyText),
    Column("entry", AnyText),
    Column("token", Text, nullable=False),
    Column("started_at", Utc, nullable=False),
    Column("expires_at", Utc, nullable=False),
    Column("leased_until", Utc, nullable=False),
    Column("abandoned_at", Utc),
    Column("ended_at", Utc),
    Column("outcome", Text),
    Column("reason", AnyText),
    Column("http_status", Integer),
    Column("request_id", AnyText),
    Column("latency_ms", Integer),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("estimate_microdollars", BigInteger),
    Column("cost_microdollars", BigInteger),
    Column("cost_source", Text),
    Column("price_list", AnyText),
    Column("served_model", AnyText),
    Column("system_fingerprint", AnyText),
    Column("served_by", AnyText),
    _one_of("outcome", Outcome, "outcome"),
    _one_of("cost_source", CostSource, "cost_source"),
    CheckConstraint("(cost_microdollars IS NULL) = (cost_source IS NULL)", name="cost_with_its_source"),
    CheckConstraint("(outcome IS NULL) = (ended_at IS NULL AND abandoned_at IS NULL)", name="outcome_at_the_end"),
    CheckConstraint("outcome <> 'abandoned' OR ended_at IS NULL", name="abandoned_without_an_end"),
    *_not_negative("prompt_tokens", "completion_tokens", "reasoning_tokens", "estimate_microdollars", "cost_microdollars"),
)

_COSTS = ("outcome", "estimate_microdollars", "cost_microdollars", "started_at", "leased_until")
Index("attempts_by_purpose", *(attempts.c[name] for name in ("purpose", "model", "scope", "run", *_COSTS)))
Index("attempts_by_run", *(attempts.c[name] for name in ("run", "model", *_COSTS)))
_in_progress = attempts.c.outcome.is_(None)
for _column in (attempts.c.entry, attempts.c.token):
    Index(f"attempts_in_progress_by_{_column.name}", _column, sqlite_where=_in_progress, postgresql_where=_in_progress)

#: One row per response body, verbatim, also of failures. sha256: of body and texts (`hash_response`).
responses = Table(
    "responses",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Column("content", AnyText),
    Column("reasoning", AnyText),
    Column("finish_reason", AnyText),
    Column("sha256", String(64), nullable=False),
    Column("stored_at", Utc, nullable=False),
    ForeignKeyConstraint(["key", "number"], ["attempts.key", "attempts.number"]),
)

#: One row per reopening of a failed call: the failure, the operator and the note.
reopenings = Table(
    "reopenings",
    metadata,
    Column("key", String(64), ForeignKey("calls.key"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("reopened_at", Utc, nullable=False),
    Column("reopened_by", AnyText, nullable=False),
    Column("note", AnyText, nullable=False),
    Column("failed_at", Utc, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", AnyText, nullable=False),
)

#: One row per record of the arena: a universe, cohort, prompt, intent, execution or intervention.
records = Table(
    "records",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", AnyText, nullable=False),
    Column("number", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("stored_at", Utc, nullable=False),
    Column("run", AnyText),
)

#: One row per rate: the time until which its capacity is reserved.
rates = Table("rates", metadata, Column("name", String(400), primary_key=True), Column("reserved_until", Utc, nullable=False))

#: One row per work that one process at a time may do, while a process does it.
leases = Table(
    "leases",
    metadata,
    Column("name", String(400), primary_key=True),
    Column("token", Text, nullable=False),
    Column("expires_at", Utc, nullable=False),
)

# --- calls and attempts -----------------------------------------------------------------------------------------------------

_STATE = ("state", "finished_at", "answer", "outcome", "reason")

_standing = sa.select(*(calls.c[name] for name in _STATE)).where(calls.c.key == sa.bindparam("k"))
_locked = _standing.with_for_update()
_attempts = (
    sa.select(*(attempts.c[name] for name in ("number", "token", "started_at", "expires_at", "outcome")))
    .where(attempts.c.key == sa.bindparam("k"))
    .order_by(attempts.c.number)
)
_attempt = (
    sa.select(
        *(calls.c[name] for name in _STATE),
        *(attempts.c[name].label(f"own_{name}") for name in ("outcome", "reason", "ended_at", "abandoned_at")),
    )
    .join_from(calls, attempts, attempts.c.key == calls.c.key)
    .where(calls.c.key == sa.bindparam("k"), attempts.c.number == sa.bindparam("n"))
    .with_for_update(of=[calls, attempts])  # both, so that Postgres reads the attempt again after it has waited for the call
)
_body = sa.select(responses.c.body).where(responses.c.key == sa.bindparam("k"), responses.c.number == sa.bindparam("n"))
_abandon = (
    attempts.update()
    .where(attempts.c.key == sa.bindparam("k"), attempts.c.outcome.is_(None))
    .values(outcome=Outcome.ABANDONED.value, abandoned_at=sa.bindparam("at"))
)
_insert_call, _insert_attempt, _insert_response = calls.insert(), attempts.insert(), responses.insert()

#: Fields of replies, usage and served models by column of `attempts`.
_REPLY = ("http_status", "request_id", "latency_ms")
_TOKENS = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
_USAGE = {**dict(zip(_TOKENS, _TOKENS, strict=True)), "cost_microdollars": "cost", "cost_source": "cost_source", "price_list": "price_list"}
_SERVED = {"served_model": "model", "system_fingerprint": "system_fingerprint", "served_by": "by"}
_ENDINGS = ("ended_at", "outcome", "reason", *_REPLY, *_USAGE, *_SERVED)
_end = (
    attempts.update()
    .where(attempts.c.key == sa.bindparam("k"), attempts.c.number == sa.bindparam("n"), attempts.c.ended_at.is_(None))
    .values({name: sa.bindparam(name) for name in _ENDINGS})
)

_answer = (
    sa.select(responses, *(attempts.c[name] for name in (*_REPLY, *_USAGE, *_SERVED, "abandoned_at")))
    .select_from(calls)
    .join(attempts, sa.and_(attempts.c.key == calls.c.key, attempts.c.number == calls.c.answer))
    .join(responses, sa.and_(responses.c.key == attempts.c.key, responses.c.number == attempts.c.number))
)
_one_answer = _answer.where(calls.c.key == sa.bindparam("k"))
_many_answers = _answer.where(calls.c.key.in_(sa.bindparam("keys", expanding=True)))

_used = sa.select(*(attempts.c[name] for name in _USAGE)).where(attempts.c.key == sa.bindparam("k"))

_count = sa.select(sa.func.count()).where(attempts.c.key == calls.c.key).scalar_subquery()
_status = sa.select(
    *(calls.c[name] for name in ("key", "model", "purpose", "scope", "sample", "state")),
    *(calls.c[name] for name in ("created_at", "finished_at", "outcome", "reason")),
    _count.label("attempts"),
)


def read_call(transaction: Transaction, key: str) -> Any:
    """Return the row of a call (state and result); None if the journal does not have the call."""
    return transaction.row(_standing, {"k": key})


def lock_call(transaction: Transaction, key: str) -> Any:
    """Lock a call until the transaction ends, and return its row as `read_call` does."""
    return transaction.row(_locked, {"k": key})


def add_call(transaction: Transaction, values: dict[str, Any]) -> None:
    """Insert a call with these column values."""
    transaction.change(_insert_call, values)


def change_call(transaction: Transaction, key: str, **values: Any) -> None:
    """Update columns of a locked call."""
    transaction.change(_call_update(tuple(values)), {"k": key, **values})


@lru_cache(maxsize=32)
def _call_update(columns: tuple[str, ...]) -> sa.Update:
    return calls.update().where(calls.c.key == sa.bindparam("k")).values({name: sa.bindparam(name) for name in columns})


def read_attempts(transaction: Transaction, key: str) -> list[Any]:
    """Return number, token, times and outcome of each attempt at a call, oldest first."""
    return transaction.rows(_attempts, {"k": key})


def lock_attempt(transaction: Transaction, key: str, number: int) -> Any:
    """Lock the call of an attempt, and return its row as `read_call` does, with the attempt's end in columns `own_…`; None if it is missing."""
    return transaction.row(_attempt, {"k": key, "n": number})


def add_attempt(transaction: Transaction, values: dict[str, Any]) -> None:
    """Insert an attempt with these column values."""
    transaction.change(_insert_attempt, values)


def abandon_attempts(transaction: Transaction, key: str, at: datetime) -> None:
    """Mark the attempts in progress at a call as abandoned: no result is expected from them."""
    transaction.change(_abandon, {"k": key, "at": at})


def end_attempt(
    transaction: Transaction, key: str, number: int, *, at: datetime, outcome: Outcome, reason: str | None, reply: Reply
) -> None:
    """Record the end of an attempt and store its response."""
    values = {
        "k": key,
        "n": number,
        "ended_at": at,
        "outcome": outcome.value,
        "reason": reason,
        **{name: getattr(reply, name) for name in _REPLY},
        **{column: getattr(reply.usage, field) for column, field in _USAGE.items()},
        **{column: getattr(reply.served, field) for column, field in _SERVED.items()},
    }
    transaction.change(_end, values)
    if outcome is Outcome.OK or reply.body or reply.content is not None:
        texts = {"content": reply.content, "reasoning": reply.reasoning, "finish_reason": reply.finish_reason}
        digest = hash_response(reply.body, *texts.values())
        transaction.change(_insert_response, {"key": key, "number": number, "body": reply.body, "sha256": digest, "stored_at": at, **texts})


def read_usage(transaction: Transaction, key: str) -> tuple[int, Usage]:
    """Return the number of attempts at a call and their total usage. The total cost is None if any billed attempt's cost is unknown.

    Unbilled attempts count as unused.
    """
    rows = transaction.rows(_used, {"k": key})
    if not rows:
        return 0, Usage()
    billed = [row for row in rows if row.cost_source != CostSource.UNBILLED]
    tokens = {name: sum_known([getattr(row, name) for row in billed]) for name in _TOKENS}
    costs = [row.cost_microdollars for row in billed]
    cost = sum_if_known(costs)
    sources = {row.cost_source for row in billed} or {CostSource.UNBILLED}
    source = CostSource.PRICE_LIST if len(sources) > 1 else CostSource(sources.pop() or CostSource.PRICE_LIST)
    lists = " + ".join(sorted({row.price_list for row in billed if row.price_list is not None})) or None
    return len(rows), Usage(**tokens, cost=cost, cost_source=None if cost is None else source, price_list=lists)


def sum_known(values: Sequence[int | None]) -> int | None:
    """Return the sum of the values that are not None. It is None if there are values, and all are None."""
    known = [value for value in values if value is not None]
    return sum(known) if known or not values else None


def sum_if_known(values: Sequence[int | None]) -> int | None:
    """Return the sum of the values. It is None if any value is None."""
    return None if None in values else sum_known(values)


def read_body(transaction: Transaction, key: str, number: int) -> bytes | None:
    """Return the stored response body of an attempt; None without one."""
    row = transaction.row(_body, {"k": key, "n": number})
    return None if row is None else bytes(row.body)


def hash_response(body: bytes, *texts: str | None) -> str:
    """Return the SHA-256 of a response, in hex. texts: content, reasoning and reason of the end, which were parsed from the body."""
    digest = hashlib.sha256(body)
    for text in texts:
        digest.update(b"\x00" if text is None else b"\x01" + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def verify_responses(transaction: Transaction) -> int:
    """Compare every response with its SHA-256, and return their number. Raises `LakeError` that names the first damaged one."""
    count = 0
    for row in transaction.connection.execute(sa.select(responses).order_by(responses.c.key, responses.c.number)):
        if hash_response(bytes(row.body), row.content, row.reasoning, row.finish_reason) != row.sha256:
            raise LakeError(
                f"verifying the journal: response {row.number} of call {row.key[:12]} is damaged (SHA-256 differs); restore a backup"
            )
        count += 1
    return count


def read_answer(transaction: Transaction, key: str) -> Answered | None:
    """Return the answer of a call; None for a call without an answer."""
    row = transaction.row(_one_answer, {"k": key})
    return None if row is None else _to_answer(row)


def read_answers(transaction: Transaction, keys: Sequence[str]) -> list[Answered]:
    """Return the stored answers of several calls. keys: at most a few hundred, for one statement."""
    return [_to_answer(row) for row in transaction.rows(_many_answers, {"keys": list(keys)})]


def read_bodies(transaction: Transaction, *, purpose: str, model: str, scope_start: str) -> list[bytes]:
    """Return the bodies of the answers of a purpose and model whose scope starts with `scope_start`, in the order of their keys."""
    wanted = _answer.where(calls.c.purpose == purpose, calls.c.model == model, calls.c.scope.startswith(scope_start, autoescape=True))
    return [bytes(row.body) for row in transaction.rows(wanted.with_only_columns(responses.c.body).order_by(calls.c.key))]


def _to_answer(row: Any) -> Answered:
    usage = {field: getattr(row, column) for column, field in _USAGE.items()}
    source = None if row.cost_source is None else CostSource(row.cost_source)
    reply = Reply(
        body=bytes(row.body),
        usage=Usage(**{**usage, "cost_source": source}),
        served=Served(row.served_model, row.system_fingerprint, row.served_by),
        **{name: getattr(row, name) for name in ("content", "reasoning", "finish_reason", *_REPLY)},
    )
    return Answered(key=CallKey(row.key), attempt=row.number, reply=reply, stored_at=row.stored_at, late=row.abandoned_at is not None)


def read_statuses(transaction: Transaction, *conditions: sa.ColumnElement[bool]) -> list[CallStatus]:
    """Return the states of the calls that meet all conditions, oldest first."""
    rows = transaction.rows(_status.where(*conditions).order_by(calls.c.created_at, calls.c.key))
    return [_to_status(row) for row in rows]


def _to_status(row: Any) -> CallStatus:
    outcome = None if row.outcome is None else Outcome(row.outcome)
    return CallStatus(**{**row._mapping, "key": CallKey(row.key), "state": State(row.state), "outcome": outcome})


def add_reopening(transaction: Transaction, key: str, values: dict[str, Any]) -> None:
    """Record that an operator reopened a call. Requires the call to be locked."""
    count = transaction.row(sa.select(sa.func.count()).where(reopenings.c.key == key))[0]
    transaction.change(reopenings.insert(), {"key": key, "number": count + 1, **values})


def read_last_reopening(transaction: Transaction, key: str) -> tuple[str, str] | None:
    """Return operator and note of a call's last reopening; None if the call was never reopened."""
    columns = (reopenings.c.reopened_by, reopenings.c.note)
    row = transaction.row(sa.select(*columns).where(reopenings.c.key == key).order_by(reopenings.c.number.desc()).limit(1))
    return None if row is None else (row.reopened_by, row.note)


# --- selections of attempts --------------------------------------------------------------------------------------------------

_END = "scope_end"
_FILTERS = ("purpose", "model", "scope", "run", _END)


@dataclass(frozen=True, slots=True)
class Scope:
    """Filter that selects the attempts of a budget: those equal in every field that is set.
    scope_end: end of the `scope` column, for several scopes at once.
    """

    purpose: str | None = None
    model: str | None = None
    scope: str | None = None
    run: str | None = None
    scope_end: str | None = None

    @property
    def filters(self) -> dict[str, str]:
        """The fields that are set, by name."""
        return {name: value for name in _FILTERS if (value := getattr(self, name)) is not None}

    @property
    def parameters(self) -> dict[str, str]:
        """Bound parameters for `scope_conditions`, by name."""
        filters = self.filters
        return filters if _END not in filters else {**filters, _END: "%" + _WILD.sub(r"\\\g<0>", filters[_END])}

    def __str__(self) -> str:
        values = (f"scope …{value}" if name == _END else f"{name} {value}" for name, value in self.filters.items())
        return ", ".join(values) or "everything"


def scope_conditions(names: Iterable[str]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that select the attempts of a scope, for a WHERE clause over the table `attempts`. names: of its filters."""
    return [
        attempts.c.scope.like(sa.bindparam(_END), escape="\\") if name == _END else attempts.c[name] == sa.bindparam(name) for name in names
    ]


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit in integer micro-dollars on the cost of the attempts selected by `of`.
    It applies only to callers that pass this budget to `Journal.begin`.

    Raises `ConfigError` unless the limit is a whole number from 0.
    """

    limit: int
    of: Scope = EVERYTHING

    def __post_init__(self) -> None:
        require_natural(self.limit if self.limit is not None else -1, f"budget of {self.of}")
