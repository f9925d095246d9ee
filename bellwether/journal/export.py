"""Contents of the journal outside its database: spending, tables and totals as Polars frames, and answers as JSON lines, which another journal imports.

A line is a JSON object with the call, the attempt that answered it, and the response, whose body is in base64 and whose SHA-256 is checked.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import sqlalchemy as sa
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from bellwether.database import Transaction, Utc
from bellwether.errors import ConfigError
from bellwether.files import atomic_file
from bellwether.journal import tables
from bellwether.journal.tables import Scope, attempts, calls, records, reopenings, responses, scope_conditions
from bellwether.journal.values import CostSource, Outcome, Request, State

_DTYPES: dict[type, pl.DataType] = {
    Utc: pl.Datetime("us", "UTC"),
    sa.Integer: pl.Int32(),
    sa.BigInteger: pl.Int64(),
    sa.LargeBinary: pl.Binary(),
}
#: Columns that only matter while an attempt begins.
_WITHHELD = ("token", "leased_until")
_GROUPS = ("purpose", "model", "scope", "run", "outcome")


#: Time for which an attempt without a known cost stays reserved; its charge is on the provider's account by then.
RESERVED_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Spending:
    """Costs of the attempts in a scope, in integer micro-dollars.

    Attributes:
        spent: sum of the known costs.
        reserved: estimates of attempts without a known cost, in progress or ended, that began less than `RESERVED_FOR` ago.
        unknown: number of ended attempts without a known cost.
        uncounted: number of attempts with neither a cost nor an estimate, which no budget counts.
        in_flight: number of attempts in progress, whose cost may turn out lower than what they reserve.
    """

    spent: int
    reserved: int
    unknown: int
    uncounted: int
    in_flight: int

    @property
    def committed(self) -> int:
        """Micro-dollars that count against a budget: known costs, and estimates for attempts without a known cost."""
        return self.spent + self.reserved


def spending_columns() -> dict[str, sa.ColumnElement[int]]:
    """Return SQL expressions that sum `attempts` into the fields of `Spending`. Bind the parameters of `spending_parameters`."""
    cost, estimate = attempts.c.cost_microdollars, attempts.c.estimate_microdollars
    reserved = sa.and_(cost.is_(None), estimate.is_not(None), attempts.c.started_at > sa.bindparam("reserved_since"))
    unknown = sa.and_(cost.is_(None), attempts.c.outcome.is_not(None))
    return {
        "spent": sum_column(cost),
        "reserved": sum_column(sa.case((reserved, estimate))),
        "unknown": sum_column(sa.case((unknown, 1))),
        "uncounted": sum_column(sa.case((sa.and_(cost.is_(None), estimate.is_(None)), 1))),
        "in_flight": sum_column(sa.case((sa.and_(attempts.c.outcome.is_(None), attempts.c.leased_until > sa.bindparam("now")), 1))),
    }


def spending_parameters(transaction: Transaction) -> dict[str, Any]:
    """Return the values of the parameters in `spending_columns` at the current time."""
    now = transaction.now()
    return {"reserved_since": now - RESERVED_FOR, "now": now}


def sum_column(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Return the SQL sum of a column as an integer; NULLs are ignored."""
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)


def read_spending(transaction: Transaction, of: Scope) -> Spending:
    """Return the known costs and the reserved estimates of the attempts in a scope."""
    columns = (column.label(name) for name, column in spending_columns().items())
    row = transaction.row(sa.select(*columns).where(*scope_conditions(of.filters)), of.parameters | spending_parameters(transaction))
    return Spending(**row._mapping)


def export_tables(transaction: Transaction) -> dict[str, pl.DataFrame]:
    """Return the journal's tables by name, each sorted by its key."""
    return {table.name: _export_table(transaction, table) for table in (calls, attempts, responses, reopenings, records)}


def _export_table(transaction: Transaction, table: sa.Table) -> pl.DataFrame:
    columns = [column for column in table.columns if column.name not in _WITHHELD]
    schema = {column.name: _DTYPES.get(type(column.type), pl.String()) for column in columns}
    found = transaction.rows(sa.select(*columns).order_by(*table.primary_key.columns))
    return pl.DataFrame([tuple(row) for row in found], schema=schema, orient="row")


def summarize_usage(transaction: Transaction, by: tuple[str, ...], of: Scope) -> pl.DataFrame:
    """Return totals over the attempts that match `of`, one row per combination of values in the columns `by`."""
    odd = [name for name in by if name not in _GROUPS]
    if odd:
        raise ConfigError(f"usage of model calls by {odd[0]!r}: there are {', '.join(_GROUPS)}")
    groups = [attempts.c[name] for name in by]
    totals: dict[str, Any] = {
        "calls": sa.func.count(sa.distinct(attempts.c.key)),
        "attempts": sa.func.count(),
        **{name: sum_column(attempts.c[name]) for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens")},
        **spending_columns(),
    }
    statement = sa.select(*groups, *(column.label(name) for name, column in totals.items())).where(*scope_conditions(of.filters))
    found = transaction.rows(
        statement.group_by(*groups).order_by(*groups) if groups else statement, of.parameters | spending_parameters(transaction)
    )
    schema = {**dict.fromkeys(by, pl.String()), **dict.fromkeys(totals, pl.Int64())}
    return pl.DataFrame([tuple(row) for row in found], schema=schema, orient="row")


def count_calls(transaction: Transaction) -> pl.DataFrame:
    """Count the calls for each combination of purpose, model, state and outcome."""
    groups = [calls.c[name] for name in ("purpose", "model", "state", "outcome")]
    found = transaction.rows(sa.select(*groups, sa.func.count()).group_by(*groups).order_by(*groups))
    schema = {**{column.name: pl.String() for column in groups}, "calls": pl.Int64()}
    return pl.DataFrame([tuple(row) for row in found], schema=schema, orient="row")


# --- answers as JSON lines ------------------------------------------------------------------------------------------------

Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Line(BaseModel):
    """Answer of one call in a file of JSON lines. Names are those of the tables; body is in base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    request: str
    run: str | None
    started_at: AwareDatetime
    ended_at: AwareDatetime
    http_status: Count | None
    request_id: str | None
    latency_ms: Count | None
    prompt_tokens: Count | None
    completion_tokens: Count | None
    reasoning_tokens: Count | None
    cost_microdollars: Count | None
    cost_source: CostSource | None
    price_list: str | None
    served_model: str | None
    system_fingerprint: str | None
    served_by: str | None
    body: str
    content: str
    reasoning: str | None
    finish_reason: str | None
    sha256: str


#: Columns of a line by table, besides the key.
_RESPONSE = ("body", "content", "reasoning", "finish_reason", "sha256")
_ATTEMPT = tuple(name for name in _Line.model_fields if name not in ("key", "request", *_RESPONSE))
#: Fields that may differ between two journals with the same answer.
_OWN = ("run", "started_at", "ended_at")
_lines = (
    sa.select(calls.c.key, calls.c.request, *(attempts.c[name] for name in _ATTEMPT), *(responses.c[name] for name in _RESPONSE))
    .join(attempts, sa.and_(attempts.c.key == calls.c.key, attempts.c.number == calls.c.answer))
    .join(responses, sa.and_(responses.c.key == attempts.c.key, responses.c.number == attempts.c.number))
    .order_by(calls.c.key)
)


def export_answers(transaction: Transaction, path: Path) -> int:
    """Write all answers to a file of JSON lines, and return their number."""
    count = 0
    with atomic_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        for row in transaction.connection.execute(_lines):
            file.write(json.dumps(_to_fields(row), default=lambda time: time.isoformat()) + "\n")
            count += 1
    return count


def _to_fields(row: Any) -> dict[str, Any]:
    return {**row._mapping, "body": base64.b64encode(bytes(row.body)).decode()}


def import_answers(transaction: Transaction, path: Path) -> int:
    """Add the answers of a file to calls that have none, and return their number.
    Raises `ConfigError` that names file, line and field of a damaged or different answer.
    """
    transaction.lock("begin")
    count = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                count += _import_line(transaction, text, f"importing answers: {path}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"importing answers: {path} cannot be read ({error}); give a file of `bellwether journal export`") from None
    return count


def _import_line(transaction: Transaction, text: str, where: str) -> bool:
    """Add the answer of a line, and return True unless the call has it already."""
    line, request, body = _parse_line(text, where)
    stored = transaction.row(_lines.where(calls.c.key == line.key))
    if stored is not None:
        _require_same(line, _Line.model_validate(_to_fields(stored)), where)
        return False
    call = tables.lock_call(transaction, line.key)
    identity = {name: getattr(request, name) for name in ("key", "model", "purpose", "scope")}
    if call is None:
        state = {"state": State.OPEN.value, "created_at": line.started_at}
        tables.add_call(transaction, {**identity, "sample": request.sample, "request": line.request, **state})
    number = len(tables.read_attempts(transaction, line.key)) + 1
    fields = line.model_dump()
    ended = {"outcome": Outcome.OK.value, "expires_at": line.ended_at, "leased_until": line.ended_at, "token": ""}
    tables.add_attempt(transaction, {**identity, "number": number, **{name: fields[name] for name in _ATTEMPT}, **ended})
    response = {**{name: fields[name] for name in _RESPONSE}, "body": body, "stored_at": line.ended_at}
    transaction.change(responses.insert(), {"key": line.key, "number": number, **response})
    finished = {"state": State.ANSWERED.value, "answer": number, "finished_at": line.ended_at}
    tables.change_call(transaction, line.key, **finished, outcome=Outcome.OK.value, reason=None)
    return True


def _parse_line(text: str, where: str) -> tuple[_Line, Request, bytes]:
    """Return a line, its request and its body. Raises `ConfigError` for a line that contradicts itself."""
    try:
        line = _Line.model_validate(json.loads(text))
        fields = json.loads(line.request)
        request = Request(**{name: fields[name] for name in ("model", "messages", "purpose", "parameters", "scope", "sample")})
        body = base64.b64decode(line.body, validate=True)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ConfigError(f"{where}: {'.'.join(map(str, fault['loc']))} is {fault['input']!r:.80}: {fault['msg']}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{where}: this is no answer ({error!r:.80}); give a file of `bellwether journal export`") from None
    if (request.key, request.text) != (line.key, line.request):
        raise ConfigError(f"{where}: key is {line.key!r:.80}, but the request has {request.key}; the line was changed")
    sha256 = tables.hash_response(body, line.content, line.reasoning, line.finish_reason)
    if sha256 != line.sha256:
        raise ConfigError(f"{where}: sha256 is {line.sha256!r:.80}, but the response has {sha256}; the line was changed")
    if (line.cost_microdollars is None) != (line.cost_source is None):
        raise ConfigError(f"{where}: cost_source is {line.cost_source!r}; give it exactly if cost_microdollars is given")
    return line, request, body


def _require_same(line: _Line, stored: _Line, where: str) -> None:
    """Raise `ConfigError` if the answer of a line differs from that of the journal."""
    for name in _Line.model_fields:
        imported, own = getattr(line, name), getattr(stored, name)
        if name not in _OWN and imported != own:
            raise ConfigError(
                f"{where}: {name} is {imported!r:.80}, but the journal's answer of call {line.key[:12]} has {own!r:.80}; nothing was imported"
            )
