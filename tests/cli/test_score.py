"""`bellwether score`: tables within the terminal, JSON, the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from bellwether.formatting import visible
from bellwether.scoring import ScoreResult, score
from cli.main import main
from tests.unit.scoring.forecast_rows import HOSTILE, Row, Write, draw_rows, named, write_rows


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return draw_rows()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_rows, tmp_path)


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["score", *map(str, words)])


def test_the_tables_are_printed_and_the_exit_code_is_0(rows: Sequence[Row], write: Write) -> None:
    done = run(write("f.csv", rows))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("60 questions, 2 forecasters, 15 clusters: series\n")
    for title in ("Scores", "Skill", "Calibration", "Paired differences of the Brier score"):
        assert re.search(f"^{title}", done.stdout, re.MULTILINE), title
    assert done.stdout.strip() == str(score(write("f.csv", rows))).strip()


def test_json_is_what_python_returns(rows: Sequence[Row], write: Write) -> None:
    path = write("f.csv", rows)
    done = run(path, "--json", "--by", "category", "--cluster", "series", "--cluster", "day")
    found = json.loads(done.stdout, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    expected = score(path, by="category", cluster=["series", "day"]).to_dict()
    assert (done.exit_code, found) == (0, json.loads(json.dumps(expected)))
    assert {row["group"] for row in found["groups"]} == {"A", "B", "C"}
    assert found["columns"]["cluster"] == ["series", "day"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.csv",), "Error: nowhere.csv: there is no such file; correct the path"),
        (("f.csv", "--cluster", "nothing"), "Error: f.csv: --cluster names the column 'nothing', which is not there"),
        (("f.csv", "--html", "f.csv/page.html"), "Error: writing f.csv/page.html: it cannot be written"),
    ],
)
def test_an_error_is_one_line_and_the_exit_code_is_1(
    words: tuple[str, ...], message: str, rows: Sequence[Row], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write("f.csv", rows[:30]).parent)
    done = run(*words)
    assert done.exit_code == 1
    assert done.stderr.startswith(message) and len(done.stderr.splitlines()) == 1
    assert not [path for path in Path().iterdir() if path.name.startswith(".f")]


WIDE = [
    "予測モデルの非常に長い名前その一号機二〇二六年七月版",
    "予測モデルの非常に長い名前その二号機二〇二六年七月版",
    "🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀🦀",
]


def lines_of(result: ScoreResult) -> list[str]:
    return str(result).split("\n")


@pytest.mark.parametrize("names", [WIDE, HOSTILE[:6]], ids=["wide", "hostile"])
def test_the_tables_fit_80_columns_and_every_forecaster_has_its_row(names: Sequence[str], rows: Sequence[Row]) -> None:
    result = score(named(rows, names, questions=8), by="category", replicates=0)
    lines = lines_of(result)
    assert max(map(cell_len, lines)) <= 80
    head = next(index for index, line in enumerate(lines) if line.startswith("Scores"))
    body = lines[head + 3 : lines.index(next(line for line in lines[head:] if line.startswith("Brier and log loss")))]
    first = "".join("".join(re.split(r" +8 [\d.]+ \[", line)[0].split()) for line in body)
    assert sum(" 8 0." in line for line in body) == len(names) + 1
    assert all("".join(visible(name).split()) in first for name in names)


def test_control_characters_of_names_and_columns_never_reach_the_terminal(rows: Sequence[Row]) -> None:
    hostile = [{**row, "cate\x1b[2Jgory": row["category"] + "\x1b[31m\n"} for row in named(rows, HOSTILE[2:6], questions=8)]
    text = str(score(hostile, by="cate\x1b[2Jgory", cluster="cate\x1b[2Jgory", replicates=0))
    assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    assert "␛[31m" in text and "[red]bold[/red]" in text and "two␊lines" in text


@pytest.mark.parametrize("option", ["--html", "--outcomes"])
def test_a_page_never_replaces_what_is_read(rows: Sequence[Row], write: Write, option: str) -> None:
    data = write("f.csv", rows)
    outcomes = write("o.csv", [{"question": row["question_id"], "outcome": row["outcome"]} for row in rows if row["model"] == "sharp"])
    written = data if option == "--html" else outcomes
    before = written.read_bytes()
    done = run(data, "--outcomes", outcomes, "--html", written)
    assert done.exit_code == 1
    assert "it is read as data; name another file with --html" in done.stderr
    assert written.read_bytes() == before
