"""`bellwether query`: tables like those of DuckDB's command line, and complete JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bellwether.console import console
from bellwether.lake import Lake
from bellwether.lake.sql import find_tables
from bellwether.lake.warehouse import publish
from bellwether.settings import settings
from bellwether.tables.benchmark import QUESTIONS
from cli.main import main
from tests.unit.publish.rows import questions

WIDE = "SELECT range AS number, 'a' AS name, repeat('long ', 40) AS text, range * 2 AS twice, TIMESTAMPTZ '2026-07-01 12:00:00+02' AS at FROM range(100)"


@pytest.fixture(autouse=True)
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lake = Lake(str(tmp_path / "lake"))
    lake.write(QUESTIONS, ("made-up",), questions(), run_id="r")
    publish(lake, settings().warehouse_uri, tables=(QUESTIONS,))
    monkeypatch.setenv("COLUMNS", "80")
    console.cache_clear()
    yield
    console.cache_clear()


def query(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["query", *arguments], catch_exceptions=False)


def test_a_wide_and_long_table_is_cut_to_the_terminal() -> None:
    lines = query(WIDE).output.splitlines()
    assert lines[0].startswith("┌")
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 50
    assert any("100 rows" in line and "(40 shown)" in line for line in lines), lines[-2:]
    assert "varchar" in lines[2]


def test_a_wide_table_continues_in_further_boxes_without_the_columns_that_are_equal_in_all_rows() -> None:
    names = [f"a_rather_long_name_{number}" for number in range(5)]
    values = ", ".join(f"range * {number + 1} AS {name}" for number, name in enumerate(names))
    lines = query(f"SELECT 'x' AS kind, NULL AS cost, {values} FROM range(3)").output.splitlines()
    boxes = [[name.strip() for name in lines[place + 1].strip("│").split("│")] for place, line in enumerate(lines) if line.startswith("┌")]
    assert boxes == [names[:3], [names[0], *names[3:]]]
    assert [[int(cell) for cell in line.strip("│").split("│")] for line in lines[12:15]] == [[n, 4 * n, 5 * n] for n in range(3)]
    assert lines[-1] == "In all rows: kind x, cost NULL"


@pytest.mark.parametrize(("rows", "boxes"), [(10, 3), (100, 1)])
def test_columns_beyond_the_most_lines_are_only_named(rows: int, boxes: int) -> None:
    names = [f"a_rather_long_name_{number:02}" for number in range(30)]
    sql = f"SELECT {', '.join(f'range + {number} AS {name}' for number, name in enumerate(names))} FROM range({rows})"
    lines = query(sql).output.splitlines()
    shown = [name for name in names if any(name in line for line in lines[:-1])]
    assert (sum(line.startswith("┌") for line in lines), len(lines) <= 61) == (boxes, True)
    assert lines[-1] == f"Also: {', '.join(names[len(shown) :])}"


@pytest.mark.parametrize("sql", ["SHOW TABLES", "show all tables;"])
def test_the_tables_are_listed_with_their_schemas(sql: str) -> None:
    found = json.loads(query(sql, "--json").stdout)
    assert {"name": "benchmark.questions", "rows": questions().height, "description": QUESTIONS.row} in found


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ('SELECT 1 FROM "Benchmark"."leaderboard" AS board', {"benchmark/leaderboard"}),
        ("FROM views.price_before(24)", {"benchmark/questions", "clean/prices"}),
        ("FROM views.answers JOIN arena.rankings ON true", {"benchmark/forecasts", "benchmark/questions", "arena/rankings"}),
        ("FROM meta.tables", set()),
    ],
)
def test_the_tables_of_a_query_include_those_of_its_views(sql: str, tables: set[str]) -> None:
    assert {declared.name for declared in find_tables(sql)} == tables


def test_times_are_shown_in_utc_and_control_characters_as_signs() -> None:
    text = query("SELECT TIMESTAMPTZ '2026-07-01 12:00:00+02' AS at, chr(27) || '[31m' || chr(8238) AS name").output
    assert "2026-07-01 10:00:00" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_columns_named_as_expressions_keep_their_own_values() -> None:
    lines = query("""SELECT 1.5 AS "round(""value"", 5)", 2.5 AS "round(value, 5)", 3.5 AS "value" """).output.splitlines()
    assert [cell.strip() for cell in lines[-2].strip("│").split("│")] == ["1.5", "2.5", "3.5"]


def test_rounded_numbers_have_no_negative_zero() -> None:
    sql = "SELECT round(-0.00001::DOUBLE, 3) AS small, -0.0::FLOAT AS zero, -0.5::DOUBLE AS half"
    assert "-0.0" not in query(sql).output
    assert str(json.loads(query(sql, "--json").stdout)) == "[{'small': 0.0, 'zero': 0.0, 'half': -0.5}]"


def test_json_has_null_for_what_json_has_no_number_for() -> None:
    text = query("SELECT 1 / 0 AS infinite, 'nan'::DOUBLE AS undefined, 0.5::DOUBLE AS half, ['inf'::DOUBLE, 1] AS list", "--json").stdout
    assert json.loads(text, parse_constant=pytest.fail) == [{"infinite": None, "undefined": None, "half": 0.5, "list": [None, 1.0]}]


@pytest.mark.parametrize(("sql", "count"), [("", 0), ("SELECT 1; SELECT 2", 2)])
def test_a_query_has_one_result(sql: str, count: int) -> None:
    result = query(sql)
    assert (result.exit_code, f"give one SELECT, not {count} statements" in result.output) == (1, True)


def test_queries_with_a_name_are_listed_and_unknown_names_refused() -> None:
    listed = " ".join(query().output.split())
    assert "arena_weeks: One row per week of the arena, newest first: offered markets" in listed
    refused = query("arena_week")
    assert (refused.exit_code, "no query has this name; did you mean arena_weeks" in refused.output) == (1, True)


def test_a_file_of_sql_is_text(tmp_path: Path) -> None:
    (tmp_path / "bin.sql").write_bytes(b"\xff\xfe\x00")
    assert query(f"@{tmp_path / 'bin.sql'}").exit_code == 1


def test_json_is_complete() -> None:
    rows = json.loads(query(WIDE, "--json").stdout)
    assert len(rows) == 100
    assert rows[50]["text"] == "long " * 40


@pytest.mark.nightly
def test_ctrl_c_ends_a_query() -> None:
    begun = "import sys; from cli.main import main; print('ready', flush=True); main()"
    endless = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE hash(a.range + b.range) = 7"
    with subprocess.Popen(
        [sys.executable, "-c", begun, "query", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stdout.readline() == "ready\n"
        time.sleep(5)
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        try:
            assert running.wait(60) == 1
        finally:
            running.kill()
        assert running.stderr is not None and running.stderr.read().strip() == "Aborted!"
