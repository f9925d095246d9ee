"""Migration of journals of earlier versions: missing columns are added, and the arena's records get a table of their own."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from bellwether.journal.schema import ADDED, VERSION, attempts, calls, journal_version, metadata, records, reopenings, responses

#: Purposes of version 1's calls to the model `arena` that were records.
_PURPOSES = ", ".join(f"'arena/{kind}'" for kind in ("universe", "cohort", "prompt", "intent", "execution", "intervention"))
_IS_RECORD = f"model = 'arena' AND purpose IN ({_PURPOSES})"
#: A response that arrived after its lease was lost becomes the record if the call has no other.
_COPY = f"""
INSERT INTO records (key, kind, subject, number, body, stored_at, run, holder, lease_token, lease_expires_at, created_at, reason)
SELECT c.key, substr(c.purpose, length('arena/') + 1), c.scope, c.sample, r.body, r.stored_at, a.run, coalesce(a.holder, c.holder),
       CASE WHEN c.state IN ('claimed', 'answered') THEN c.lease_token END, c.lease_expires_at, c.created_at,
       CASE WHEN r.body IS NULL THEN c.reason END
FROM (SELECT * FROM calls WHERE {_IS_RECORD}) AS c
LEFT JOIN attempts AS a
       ON a.key = c.key AND a.number = coalesce(c.answer, (SELECT min(number) FROM attempts WHERE key = c.key AND outcome = 'ok'))
LEFT JOIN responses AS r ON r.key = a.key AND r.number = a.number
"""  # noqa: S608 (constants alone)
_REFUSAL = "a newer Bellwether has converted this journal, end this process and start it again"
#: Stops running processes of the earlier version, which would repeat stored records.
_GUARD = {
    "sqlite": f"CREATE TRIGGER converted BEFORE INSERT ON calls WHEN NEW.{_IS_RECORD.replace('purpose', 'NEW.purpose')} "
    f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END",
    "postgresql": f"ALTER TABLE calls ADD CONSTRAINT converted_by_a_newer_bellwether CHECK (NOT ({_IS_RECORD}))",
}


def is_current(connection: Connection) -> bool:
    """Return True if the journal has the version and all columns of this code."""
    return _version(connection) == VERSION and not _missing_columns(connection)


def migrate(connection: Connection) -> None:
    """Add missing columns and move records to their own table, with keys and contents unchanged. Requires a transaction and the lock `create`."""
    for name, column in _missing_columns(connection):
        kind = metadata.tables[name].c[column].type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
    if _version(connection) == VERSION:
        return
    records.create(connection)
    connection.exec_driver_sql(_COPY)
    for table in (responses, attempts, reopenings, calls):
        connection.execute(table.delete().where(table.c.key.in_(sa.select(records.c.key))))
    connection.exec_driver_sql(_GUARD[connection.dialect.name])
    connection.execute(journal_version.update().values(version=VERSION))


def _version(connection: Connection) -> int | None:
    return connection.execute(sa.select(journal_version.c.version)).scalar()


def _missing_columns(connection: Connection) -> list[tuple[str, str]]:
    missing = []
    for name, columns in ADDED.items():
        present = {column["name"] for column in sa.inspect(connection).get_columns(name)}
        missing += [(name, column) for column in columns if column not in present]
    return missing
