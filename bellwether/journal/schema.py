"""Tables of the journal, with the same columns on SQLite and Postgres, and a column type for text.

Rows of `attempts`, `responses`, `reopenings` and `records` are facts: added, completed once, never removed. `calls` contains the state of each call,
`rates` and `leases` what processes share for a short time.
"""

from __future__ import annotations

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

from bellwether.database import DatabaseSchema, Utc
from bellwether.journal.values import CostSource, Outcome, State

#: Version of these tables and of the contents of records. Journals of other versions are rejected.
VERSION = 4

_ESCAPE = "\x1a"


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
    Column("holder", AnyText, nullable=False),
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
Index("attempts_in_progress", attempts.c.entry, attempts.c.run, attempts.c.holder, sqlite_where=_in_progress, postgresql_where=_in_progress)

#: One row per response body, verbatim, also of failures. sha256: of body and texts (`bellwether.journal.rows.hash_response`).
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
