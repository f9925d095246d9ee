"""Documents are read from Parquet and JSON lines alike, and a bad one is refused with its row and field."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bellwether.corpus import LONGEST_TEXT, build_index, read_documents
from bellwether.corpus.dates import find_last_past_date
from bellwether.errors import ConfigError

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROW = {"id": "a", "title": "Rain", "text": "It rains.", "url": "https://example.org/a", "published_at": AT, "revised_at": None}


def write_parquet(path: Path, *rows: dict[str, Any]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def write_lines(path: Path, *rows: dict[str, Any]) -> Path:
    text = "".join(f"{json.dumps(row, default=datetime.isoformat)}\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write(path: Path, *rows: dict[str, Any]) -> Path:
    return write_parquet(path, *rows) if path.suffix == ".parquet" else write_lines(path, *rows)


NAMES = pytest.mark.parametrize("name", ["c.parquet", "c.jsonl", "c.jsonl.gz"])


@NAMES
def test_all_formats_have_the_same_documents_with_times_in_utc(tmp_path: Path, name: str) -> None:
    elsewhere = AT.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+05:30").tzinfo)
    found = list(read_documents(write(tmp_path / name, ROW, ROW | {"id": "b", "published_at": elsewhere, "other": 1})))
    assert [number for number, _ in found] == [1, 2]
    assert [document.model_dump() for _, document in found] == [ROW, ROW | {"id": "b"}]
    assert found[1][1].published_at.utcoffset() == timedelta(0)  # type: ignore[union-attr]


@NAMES
@pytest.mark.parametrize(
    ("field", "value"),
    [("id", 7), ("id", ""), ("title", 1.5), ("text", None), ("url", 3), ("published_at", 20260301), ("revised_at", True)],
)
def test_a_wrong_type_is_refused_with_file_row_field_and_value(tmp_path: Path, name: str, field: str, value: object) -> None:
    path = write(tmp_path / name, *([ROW] if name != "c.parquet" else []), ROW | {field: value})
    row = 1 if name == "c.parquet" else 2
    with pytest.raises(ConfigError, match=rf"{name}, row {row}: {field} = {value!r}"):
        list(read_documents(path))


LATE = datetime.fromisoformat("9999-12-31T23:59:59-12:00")


@NAMES
@pytest.mark.parametrize(("at", "problem"), [(datetime(2026, 3, 1), "timezone"), (LATE, "not a time between the years 1 and 9999 in UTC")])
def test_a_time_without_an_offset_or_beyond_the_calendar_is_refused(tmp_path: Path, name: str, at: datetime, problem: str) -> None:
    path = write(tmp_path / name, ROW | {"revised_at": at})
    shown = f"('?{at.isoformat()}'?|253402343999000000 .*)"
    with pytest.raises(ConfigError, match=rf"{name}, row 1: revised_at = {shown}: .*{problem}"):
        list(read_documents(path))


@pytest.mark.parametrize(("rows", "problem"), [([], "it has no documents"), ([ROW | {"published_at": None}], "none of its 1 documents")])
def test_a_corpus_that_can_show_nothing_is_refused(tmp_path: Path, rows: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"c\.jsonl: {problem}"):
        build_index(write_lines(tmp_path / "c.jsonl", *rows), tmp_path / "index.db")


def test_an_id_that_occurs_twice_is_refused_and_leaves_no_index(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "c.jsonl", ROW, ROW | {"id": "b"}, ROW)
    with pytest.raises(ConfigError, match=r"row 3: id = 'a' occurs twice"):
        build_index(path, tmp_path / "index.db")
    assert [found.name for found in tmp_path.iterdir()] == ["c.jsonl"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("c.csv", b"id\n", "give a .parquet or .jsonl file"),
        ("c.jsonl", b'{"id": "a"', "row 1: the row: Invalid JSON"),
        ("c.jsonl", b'["a"]', "row 1"),
        ("c.jsonl", b'\xef\xbb\xbf{"id": "a", "text": "b"}', "row 1: title: Field required"),
        ("c.jsonl", b'{"id": "a", "title": "b"}', "row 1: text: Field required"),
        ("c.parquet", b"PAR1", "c.parquet"),
        ("c.jsonl.gz", b"no gzip", "c.jsonl.gz"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        list(read_documents(tmp_path / name))


def test_a_missing_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the column text is missing"):
        list(read_documents(write_parquet(tmp_path / "c.parquet", {"id": "a", "title": "b"})))


def test_nanoseconds_are_read_and_long_texts_are_cut(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([ROW | {"text": "x" * 10_000_000}])
    rows = rows.set_column(rows.schema.get_field_index("published_at"), "published_at", pa.array([AT], pa.timestamp("ns", "UTC")))
    pq.write_table(rows, tmp_path / "c.parquet")
    ((_, document),) = read_documents(tmp_path / "c.parquet")
    assert (document.published_at, len(document.text)) == (AT, LONGEST_TEXT)


PAST = [
    "On 5 March 2026 the court ruled for the city.",
    "The bill passed on March 5, 2026, and will take effect in June.",
    "Updated 2026-03-05: the company lost.",
    "Boston beat New York on Mar. 5th, 2026.",
    "It was decided in 2027.",
    "The vote was held on the 5th of March 2026!",
    "They met on May 5, 2026.",
    "In March 2026, unemployment rose.",
    "As of March 2026, the rate is 4%.",
    "Parliament voted on 5 March 2026 to expel him.",
    "On 5 March 2026, in a 5-4 decision, the court struck down the law.",
    "The court ruled on Thursday, March 5, 2026.",
    "The court ruled on 2026/03/05 for the city.",
    "The court ruled on 5. March 2026.",
    "On Sunday, 15 March, the vote was lost.",
    "The vote was lost yesterday, March 15.",
]
COMING = [
    "The court will rule on 5 March 2026.",
    "Will the bill pass by March 5, 2026?",
    "The vote, scheduled for 2026-03-05, is open.",
    "Ahead of the election on 5 March 2026 polls are close.",
    "It may rain on March 5, 2026.",
    "Elections: 3 November 2027.",
    "The bond matures on 15 March 2031.",
    "Parliament approved the tax, which applies from 1 January 2027.",
    "The party picked its candidate for the 3 November 2026 election.",
    "On 5 March 2026, the Senate will vote.",
    "Results for the first quarter of 2026 beat estimates.",
    "The plan runs until March 2026.",
    "Growth of 2% in 2027 is the consensus.",
    "The court ruled on 5 January 2026.",
    "Order 2026-99-99 of 31 February 2026 was lost.",
    "The court ruled on 05/01/2026.",
    "The March 15 attacks were remembered.",
    "In 2019 the city fell: on March 15, the mayor fled.",
    "The court ruled on 20 December.",
    "The court ruled on 5 may of them.",
]


@pytest.mark.parametrize("text", PAST)
def test_a_later_date_mentioned_as_past_is_found(text: str) -> None:
    found = find_last_past_date(f"Before. {text} After.", date(2026, 2, 1))
    assert found is not None and found > date(2026, 2, 1)


@pytest.mark.parametrize("text", COMING)
def test_a_date_to_come_or_an_earlier_one_is_not_found(text: str) -> None:
    assert find_last_past_date(f"Before. {text} After.", date(2026, 2, 1)) is None


def test_a_date_in_numbers_or_without_a_year_is_read() -> None:
    """Dotted dates begin with the day; of others the earlier reading counts. Without a year, the date is of the half year after the document."""
    days = {"15/03/2026": 15, "03/15/2026": 15, "03/05/2026": 5, "05/03/2026": 5, "07.03.2026": 7, "7 March": 7}
    found = {written: find_last_past_date(f"Updated: {written}", date(2025, 12, 20)) for written in days}
    assert found == {written: date(2026, 3, day) for written, day in days.items()}
