"""Reading and changing of single calls and attempts in the journal's tables."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from bellwether.database import Transaction
from bellwether.errors import LakeError
from bellwether.journal.request import CallKey
from bellwether.journal.schema import attempts, calls, reopenings, responses
from bellwether.journal.values import Answered, CallStatus, CostSource, Outcome, Reply, Served, State, Usage

_STATE = ("state", "finished_at", "answer", "outcome", "reason")

_standing = sa.select(*(calls.c[name] for name in _STATE)).where(calls.c.key == sa.bindparam("k"))
_locked = _standing.with_for_update()
_attempts = (
    sa.select(*(attempts.c[name] for name in ("number", "token", "holder", "started_at", "expires_at", "outcome")))
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
    """Return number, token, holder, times and outcome of each attempt at a call, oldest first."""
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
