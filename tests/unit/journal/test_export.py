"""Exported frames of the journal: complete, typed, consistent, and without secrets."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from bellwether.errors import LakeError
from bellwether.journal import Journal, LeaseLost, Outcome, Scope
from tests.unit.journal.calls import LEASE, START, Clock, begin_attempt, claim_attempt, claim_call, make_reply, make_request

UTC = pl.Datetime("us", "UTC")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


@pytest.fixture
def tables(journal: Journal, clock: Clock) -> dict[str, pl.DataFrame]:
    slow = begin_attempt(journal, run="week-9")
    clock.advance(LEASE)
    claim, quick = claim_attempt(journal, holder="two")
    quick.fail(Outcome.TIMEOUT, "40 s")
    claim.release("40 s")
    begin_attempt(journal, holder="two", estimate=9).answer(make_reply("ja, 70 %"))
    with pytest.raises(LeaseLost):
        slow.answer(make_reply("0.1", cost=5))
    claim_call(journal, make_request(1)).give_up(Outcome.REFUSAL, "no")
    journal.reopen(make_request(1).key, by="ana", note="once more")
    return journal.export()


def test_times_are_utc_money_is_integer_and_bodies_are_bytes(tables: dict[str, pl.DataFrame]) -> None:
    attempts = tables["attempts"]
    assert attempts.schema["started_at"] == attempts.schema["abandoned_at"] == tables["calls"].schema["created_at"] == UTC
    assert attempts.schema["cost_microdollars"] == attempts.schema["estimate_microdollars"] == pl.Int64
    assert tables["responses"].schema["body"] == pl.Binary
    assert attempts.filter(key=make_request().key).sort("number").select(
        "number", "outcome", "cost_microdollars", "abandoned_at", "run"
    ).rows() == [
        (1, "ok", 5, START + LEASE, "week-9"),
        (2, "timeout", None, None, None),
        (3, "ok", 120, None, None),
    ]


def test_no_lease_token_leaves_the_journal(tables: dict[str, pl.DataFrame]) -> None:
    assert not [column for frame in tables.values() for column in frame.columns if "token" in column and "tokens" not in column]


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
    assert (seen["calls"]["state"].to_list(), seen["attempts"]["outcome"].to_list(), seen["responses"].height) == (["claimed"], [None], 0)
    assert journal.export()["responses"].height == 1


def code_of_page(language: str) -> str:
    """Return the first code block of a language in the section of docs/models.md on the journal."""
    return PAGE.read_text().split("## The journal")[1].split(f"```{language}\n")[1].split("```")[0]


def test_the_queries_of_the_page_run_on_the_database(url: str, clock: Clock) -> None:
    with Journal(url, clock=clock) as journal:
        claim, attempt = claim_attempt(journal)
        attempt.fail(Outcome.MALFORMED, "no JSON", make_reply("?", cost=7))
        claim.release("no JSON")
        begin_attempt(journal).answer(make_reply())
    with sa.create_engine(url).connect() as connection:
        found = [connection.exec_driver_sql(query).fetchall() for query in code_of_page("sql").split(";") if query.strip()]
    assert [(row[0], row[1], row[2], round(float(row[3]), 6)) for row in found[0]] == [
        ("acme/oracle-2", "malformed", 1, 0.000007),
        ("acme/oracle-2", "ok", 1, 0.00012),
    ]
    assert [row[1] for row in found[1]] == [1]
    assert [tuple(row) for row in found[2]] == [(make_request().key, "acme/oracle-2", "0.7")]


def test_the_example_of_the_page_asks_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = code_of_page("python").replace("/srv/bellwether", str(tmp_path))
    for _ in range(2):
        exec(code, {})
    assert capsys.readouterr().out == "0.4\n"
    with Journal(f"sqlite:///{tmp_path}/journal.db") as journal:
        assert journal.spent(Scope(run="week-9")).spent == 310


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
