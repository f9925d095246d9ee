"""Exported frames of the journal: complete, typed, consistent, and without secrets."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from bellwether.errors import ConfigError, LakeError
from bellwether.journal.journal import Journal
from bellwether.journal.tables import Scope
from bellwether.journal.values import CostSource, Outcome, Reply, Usage
from tests.unit.journal.calls import START, TIMEOUT, Clock, begin_attempt, make_reply, make_request

UTC = pl.Datetime("us", "UTC")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


@pytest.fixture
def tables(journal: Journal, clock: Clock) -> dict[str, pl.DataFrame]:
    slow = begin_attempt(journal, run="week-9")
    clock.advance(TIMEOUT)
    begin_attempt(journal).fail(Outcome.TIMEOUT, "40 s")
    begin_attempt(journal, estimate=9).answer(make_reply("ja, 70 %"))
    slow.answer(make_reply("0.1", cost=5))
    begin_attempt(journal, make_request(1)).fail(Outcome.REFUSAL, "no", final=True)
    journal.reopen(make_request(1).key, by="ana", note="once more")
    return journal.export()


def test_times_are_utc_money_is_integer_and_bodies_are_bytes(tables: dict[str, pl.DataFrame]) -> None:
    attempts = tables["attempts"]
    assert attempts.schema["started_at"] == attempts.schema["abandoned_at"] == tables["calls"].schema["created_at"] == UTC
    assert attempts.schema["cost_microdollars"] == attempts.schema["estimate_microdollars"] == pl.Int64
    assert tables["responses"].schema["body"] == pl.Binary
    assert attempts.filter(key=make_request().key).sort("number").select(
        "number", "outcome", "cost_microdollars", "abandoned_at", "run"
    ).rows() == [(1, "ok", 5, START + TIMEOUT, "week-9"), (2, "timeout", None, None, None), (3, "ok", 120, None, None)]


@pytest.mark.parametrize("column", ["body", "content"])
def test_a_changed_response_is_found(journal: Journal, url: str, column: str) -> None:
    for sample in range(3):
        begin_attempt(journal, make_request(sample)).answer(make_reply("ja\x00, 70 %"))
    assert journal.verify() == 3
    value = "'7'" if column == "content" else "CAST('7' AS BLOB)" if url.startswith("sqlite") else "'7'::bytea"
    key = make_request(1).key
    with sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://")).begin() as connection:
        connection.exec_driver_sql(f"UPDATE responses SET {column} = {value} WHERE key = '{key}'")
    with pytest.raises(LakeError, match=rf"response 1 of call {key[:12]} is damaged \(SHA-256 differs\); restore a backup"):
        journal.verify()


def test_the_frames_are_of_one_moment(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call answered between the reads of two tables appears in neither, or completely."""
    import bellwether.journal.export as export

    genuine = export._export_table
    attempt = begin_attempt(journal)

    def meanwhile(transaction, table):  # type: ignore[no-untyped-def]
        frame = genuine(transaction, table)
        if table.name == "calls":
            attempt.answer(make_reply())
        return frame

    monkeypatch.setattr(export, "_export_table", meanwhile)
    seen = journal.export()
    monkeypatch.undo()
    assert (seen["calls"]["state"].to_list(), seen["attempts"]["outcome"].to_list(), seen["responses"].height) == (["open"], [None], 0)
    assert journal.export()["responses"].height == 1


def queries_of_page() -> list[str]:
    """Return the queries of docs/models.md."""
    return [query for query in PAGE.read_text().split("```sql\n")[1].split("```")[0].split(";") if query.strip()]


def test_the_queries_of_the_page_run_on_the_database(url: str, clock: Clock) -> None:
    with Journal(url, clock=clock) as journal:
        begin_attempt(journal).fail(Outcome.MALFORMED, "no JSON", make_reply("?", cost=7))
        begin_attempt(journal).answer(make_reply())
    with sa.create_engine(url).connect() as connection:
        found = [connection.exec_driver_sql(query).fetchall() for query in queries_of_page()]
    assert [(row[0], row[1], row[2], round(float(row[3]), 6)) for row in found[0]] == [
        ("acme/oracle-2", "malformed", 1, 0.000007),
        ("acme/oracle-2", "ok", 1, 0.00012),
    ]
    assert [tuple(row) for row in found[1]] == [(make_request().key, "acme/oracle-2", "0.7")]


def test_every_row_is_there_and_empty_tables_have_their_columns(tables: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    assert {name: frame.height for name, frame in tables.items()} == {
        "calls": 2,
        "attempts": 4,
        "responses": 2,
        "reopenings": 1,
        "records": 0,
    }
    with Journal(f"sqlite:///{tmp_path}/empty.db") as empty:
        assert {name: frame.schema for name, frame in empty.export().items()} == {name: frame.schema for name, frame in tables.items()}


# --- JSON lines ------------------------------------------------------------------------------------------------------------


def test_answers_are_imported_into_another_journal_as_they_were_and_only_once(url: str, clock: Clock, tmp_path: Path) -> None:
    reply = Reply(b"\x00\xff", "ja\x00 \ud800 70 %", "weil", "stop", Usage(1, 2, None, 9, CostSource.PROVIDER), 200, "req", 90)
    lines, again = tmp_path / "answers.jsonl", tmp_path / "again.jsonl"
    with Journal(url, clock=clock) as journal, Journal(f"sqlite:///{tmp_path}/other.db", clock=clock) as other:
        begin_attempt(journal, make_request(0), run="week-9").answer(reply)
        begin_attempt(journal, make_request(1)).answer(make_reply(cost=None))
        begin_attempt(journal, make_request(2)).fail(Outcome.REFUSAL, "no", final=True)
        begin_attempt(other, make_request(1)).fail(Outcome.TIMEOUT, "slow")
        assert journal.export_answers(lines) == 2
        assert (other.import_answers(lines), other.import_answers(lines), journal.import_answers(lines)) == (2, 0, 0)
        found = other.answer(make_request(0).key)
        assert found is not None
        assert (found.reply, other.spent(Scope(run="week-9")).spent, other.verify()) == (reply, 9, 2)
        assert other.export_answers(again) == 2
    assert again.read_bytes() == lines.read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"content": "0.7"', '"content": "0.8"', "line 2: sha256 is '"),
        ('"key": "', '"key": "0', "line 2: key is '0"),
        (
            '"cost_microdollars": 120',
            '"cost_microdollars": 121',
            "line 2: cost_microdollars is 121, but the journal's answer of call .* has 120",
        ),
        ('"cost_microdollars": 120', '"cost_microdollars": -1', "line 2: cost_microdollars is -1"),
        ('"run": null, ', "", "line 2: run is "),
        ("{", "[", "line 2: this is no answer"),
    ],
)
def test_a_line_that_differs_is_named_and_nothing_is_imported(journal: Journal, tmp_path: Path, old: str, new: str, said: str) -> None:
    lines = tmp_path / "answers.jsonl"
    with Journal(f"sqlite:///{tmp_path}/other.db") as other:
        for number in range(2):
            begin_attempt(other, make_request(number)).answer(make_reply())
        other.export_answers(lines)
    texts = lines.read_text().splitlines(keepends=True)
    known = next(number for number in range(2) if make_request(number).key in texts[1])
    begin_attempt(journal, make_request(known)).answer(make_reply())
    lines.write_text(texts[0] + texts[1].replace(old, new, 1))
    with pytest.raises(ConfigError, match=f"answers.jsonl, {said}"):
        journal.import_answers(lines)
    assert journal.counts()["calls"].sum() == 1
