"""Dagster's files and their logs stay small."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as db

from orchestration.sqlite import engine


def test_the_log_that_rewriting_a_file_leaves_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "index.db"
    opened = engine(f"sqlite:///{file}")
    with opened.connect() as connection:
        connection.execute(db.text("PRAGMA journal_mode = WAL"))
        connection.execute(db.text("CREATE TABLE rows (text)"))
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000)"
        connection.execute(db.text(f"INSERT INTO rows {numbers} SELECT hex(randomblob(500)) FROM n"))
        connection.commit()
        connection.connection.driver_connection.execute("VACUUM")  # type: ignore[union-attr]
        connection.execute(db.text("INSERT INTO rows VALUES ('the next write starts the log anew')"))
        connection.commit()
        assert file.stat().st_size > 8_000_000
        assert (tmp_path / "index.db-wal").stat().st_size <= 1_000_000
    opened.dispose()
