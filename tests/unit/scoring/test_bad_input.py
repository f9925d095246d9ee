"""Data that cannot be scored is refused in one message with the file, the line, the column, the value and the remedy."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.errors import ScoringError
from bellwether.scoring import score
from tests.unit.scoring.forecast_rows import Row, Write, simple_rows, write_rows

HEAD = "question_id,series,p,outcome\n"
LINES = [f"q{index},s{index // 2},0.{index + 1},{index % 2}" for index in range(8)]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_rows, tmp_path)


@pytest.fixture
def simple() -> list[dict[str, Any]]:
    return simple_rows()


def with_line(line: str, number: int = 5) -> str:
    """Return a file whose line `number` is replaced. Line 5 is q3."""
    lines = [*LINES]
    lines[number - 2] = line
    return HEAD + "\n".join(lines) + "\n"


def appended(line: str) -> str:
    return HEAD + "\n".join([*LINES, line]) + "\n"


def all_lines(*, p: str = "0.{}", outcome: str = "{}") -> str:
    return HEAD + "".join(f"q{index},s{index},{p.format(index + 1)},{outcome.format(index % 2)}\n" for index in range(8))


#: Contents of f.csv, and the place and value that the message must name.
FILES = [
    (with_line("q3,s1,35,1"), "line 5, column 'p': '35'"),
    (all_lines(p="{}1"), "line 2, column 'p': '11'"),
    (all_lines(p="{}1%"), "line 2, column 'p': '11%'"),
    (with_line("q3,s1,35%,1"), "line 5, column 'p': '35%'"),
    (with_line("q3,s1,1.0000000001,1"), "line 5, column 'p': '1.0000000001'"),
    (with_line("q3,s1,-0.1,1"), "line 5, column 'p': '-0.1'"),
    (with_line("q3,s1,high,1"), "line 5, column 'p': 'high'"),
    (HEAD.replace(",", ";") + "q1;s1;0,35;1\nq2;s2;0.5;0\n", "line 2, column 'p': '0,35'"),
    (HEAD + "q1,s1,0,35,1\nq2,s2,0,5,0\n", "line 2: it has 5 cells"),
    (all_lines(p=""), "no row of a resolved question holds a forecast"),
    (with_line("q3,s1,0.4,Springfield"), "line 5, column 'outcome': 'Springfield'"),
    (with_line("q3,s1,0.4,yes"), "line 2, column 'outcome': '0'"),
    (with_line("q3,s1,0.4,pending"), "line 5, column 'outcome': 'pending'"),
    (with_line("q3,s1,0.4,"), "line 5, column 'outcome': an empty value"),
    (with_line("q3,,0.4,1"), "line 5, column 'series': an empty value"),
    (with_line(",s1,0.4,1"), "line 5, column 'question_id': an empty value"),
    (appended(LINES[3]), "line 10, column 'question_id': 'q3'"),
    (appended("q9,s1,0.4,1,1"), "line 10: it has 5 cells"),
    (appended('"q9,s1,0.4,1'), "after line 9"),
    ("\n".join(LINES), "no column is recognised as the probability among 'q0', 's0', '0.1', '0'"),
    ("0.5,1\n0.4,0\n", "line 1: it holds values where the names"),
    ("q,p,p,outcome\nq1,.1,.2,1\n", "line 1: two columns are called 'p'"),
    ("", "it is empty"),
    (HEAD, "it has no rows"),
    ("p\n0.3\n", "no column is recognised as the outcome among 'p'"),
    (with_line('"q\n3",s1,0.4,1').replace("q4,s2,0.5", "q4,s2,5"), "line 7, column 'p': '5'"),
    ("model,question_id,p,outcome\na,q1,0.1,1\nb,q1,0.2,0\n", "line 3, column 'outcome': 0 on question 'q1', but line 2 has 1"),
    ("p,outcome,weight\n0.1,1,1\n0.2,0,0\n", "line 3, column 'weight': '0'"),
    ("p,outcome,weight\n0.1,1,1\n0.2,0,1e300\n", "line 3, column 'weight': '1e300'"),
    ("model,p_a,p_b,y\nx,0.1,0.2,1\n", "several columns of probabilities ('p_a', 'p_b')"),
    ("id,c\x1b[31m,outcome\na,0.25,1\nb,0.5,0\n", r"give --probability 'c\x1b[31m'"),
]


def refused(data: Any, **options: Any) -> str:
    """Return the message, after checking that it has no line break or control character."""
    with pytest.raises(ScoringError) as error:
        score(data, replicates=0, **options)
    message = str(error.value)
    assert message.isprintable(), message
    return message


def test_a_file_that_cannot_be_scored_is_refused_with_place_and_value(tmp_path: Path) -> None:
    for content, place in FILES:
        (tmp_path / "f.csv").write_text(content, encoding="utf-8", newline="")
        message = refused(tmp_path / "f.csv")
        assert "f.csv" in message and place in message, message


@pytest.mark.parametrize(
    ("content", "option"),
    [
        (all_lines(p="{}1"), "--percent p"),
        (with_line("q3,s1,1.0000000001,1"), "--clip"),
        (with_line("q3,s1,0.4,pending"), "--skip-unresolved"),
        (with_line("q3,,0.4,1"), "--independent"),
        ("p\n0.3\n", "--outcomes FILE"),
        ("id,chance,outcome\na,0.25,1\nb,0.5,0\n", "--probability chance"),
    ],
)
def test_a_refusal_names_the_option_that_accepts_the_file(content: str, option: str, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(content, encoding="utf-8", newline="")
    assert option in refused(tmp_path / "f.csv")


def test_a_file_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    files = [
        ("f.csv", (HEAD + "qé,s1,0.5,1\n").encode("latin-1"), "it is not UTF-8"),
        ("f.jsonl", '{"p": 0.5, "y": 1}\n{"p": 0.5, "q": "é"}\n'.encode("latin-1"), "line 2: it is not UTF-8"),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n{"p": \n', "line 2: it is not JSON"),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n\n[1]\n', "line 3: it holds a list"),
        ("f.jsonl", b'{"p": Infinity, "y": 1}\n', "line 1, column 'p': inf"),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n{"p": "0.4", "y": 0}\n', "line 2, column 'p': '0.4'"),
        ("f.jsonl", b'{"p": true, "y": 1}\n', "line 1, column 'p': True"),
        ("f.jsonl", b'{"p": [0.1], "y": 1}\n', "line 1, column 'p': it holds a list"),
        ("f.jsonl", b'{"p": 0.1, "y": true}\n{"p": 0.2, "y": 0}\n', "line 2, column 'y': 0"),
        (
            "f.jsonl",
            b'{"p": 0.1, "y": 1, "id": 1180591620717411303424}\n{"p": 0.1, "y": 1, "id": 1180591620717411303425}\n',
            "line 1, column 'id': 1.1805916207174113e+21 is a number too large",
        ),
        ("f.parquet", b"PAR1 no", "it cannot be read as Parquet"),
        ("f.csv.gz", gzip.compress(b"p,y\n0.5,1\n", mtime=0)[:-9], "it cannot be read"),
    ]
    for name, content, place in files:
        (tmp_path / name).write_bytes(content)
        assert f"{name}, {place}" in (message := refused(tmp_path / name)) or f"{name}: {place}" in message, message


def test_a_path_that_holds_no_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "no.csv")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv")


def test_a_file_given_twice_is_refused(write: Write, simple: Sequence[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("f.csv", simple)
    monkeypatch.chdir(tmp_path)
    refused([path, "f.csv"])


def test_data_and_options_that_make_no_sense_are_refused(simple: list[dict[str, Any]]) -> None:
    data: list[Any] = [
        None,
        {},
        {"p": 0.5, "y": 1},
        {"p": [0.5, 0.4], "y": [1]},
        [{"p": 0.5, "y": 1}, {"p": 0.4, "y": "no"}],
        [{"p": 0.5, "y": 1, "weight": float("inf")}],
    ]
    for one in data:
        refused(one)
    options: list[dict[str, Any]] = [
        {"cluster": "serie"},
        {"percent": "outcome"},
        {"cluster": ["series", "question_id", "p"]},
        {"probability": "p", "outcome": "p"},
        {"cluster": ["series", "series"]},
        {"level": 95},
    ]
    for option in options:
        refused(simple, **option)


def test_outcomes_of_their_own_must_name_every_question_once(simple: list[dict[str, Any]]) -> None:
    forecasts = [{name: value for name, value in row.items() if name != "outcome"} for row in simple]
    outcomes = [{"question_id": row["question_id"], "outcome": row["outcome"]} for row in simple]
    assert "column 'question_id': 'q11' has no outcome in the rows; give --skip-unresolved" in refused(forecasts, outcomes=outcomes[:-1])
    assert "row 13, column 'question_id': 'q0' has a row before; give every question one outcome" in refused(
        forecasts, outcomes=[*outcomes, outcomes[0]]
    )
    left = score(forecasts, outcomes=outcomes[:-1], skip_unresolved=True, replicates=0)
    assert (left.n_questions, left.notes) == (11, ("1 row on 1 question left out: not resolved.",))


@pytest.mark.parametrize("words", [("YES", "No"), ("1.0", "0.0"), ("T", "F"), (" y ", "n")])
def test_outcomes_in_words_are_those_in_numbers(words: tuple[str, str], simple: list[dict[str, Any]], write: Write) -> None:
    named = [{**row, "outcome": words[0] if row["outcome"] else words[1]} for row in simple]
    assert score(write("f.csv", named), replicates=0).forecasts["outcome"].to_list() == [row["outcome"] for row in simple]


def test_percentages_and_rounding_errors_are_read_when_asked_for() -> None:
    rows = [{"p": "35%", "y": 1}, {"p": "40 %", "y": 0}, {"p": "0", "y": 0}]
    assert score(rows, percent="p", replicates=0).forecasts["probability"].to_list() == [0.35, 0.4, 0]
    assert score([{"p": 1 + 1e-10, "y": 1}, {"p": -1e-12, "y": 0}], clip=True, replicates=0).forecasts["probability"].to_list() == [1, 0]
    assert "'35%' is a percentage, but row 2 holds '0.4'" in refused([{"p": "35%", "y": 1}, {"p": "0.4", "y": 0}], percent="p")


@pytest.mark.parametrize("content", ["\ufeff" + HEAD, "\n\n" + HEAD.replace("\n", "\r\n"), HEAD.replace(",", "\t"), HEAD.upper()])
def test_ways_of_writing_csv_make_no_difference(content: str, tmp_path: Path) -> None:
    (one,) = {letter for letter in ",;\t" if letter in content}
    end = "\r\n" if "\r" in content else "\n"
    (tmp_path / "f.csv").write_text(content + "".join(f"{line.replace(',', one)}{end}" for line in LINES), newline="")
    assert score(tmp_path / "f.csv", replicates=0).forecasts["probability"].to_list() == [(index + 1) / 10 for index in range(8)]


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\nquestion_id;series;p;outcome\n{rows}",
        "\n\nSEP=;;;;\nquestion_id;series;p;outcome\n{rows}",
        '" Question\nID ";"series\r\n";p;Outcome\n{rows}',
        "question_id;series;p;outcome\n{commas}",
        "question_id;series;p;outcome\n{percentages}",
        "question_id;series;p;outcome\n{commas}q8;;;1\n",
    ],
)
def test_what_spreadsheets_write_is_read(content: str, tmp_path: Path) -> None:
    lines = [line.replace(",", ";") for line in LINES]
    commas = [line.replace("0.", "0,") for line in lines]
    percentages = [f"q{index};s{index // 2};{index + 1},0%;{index % 2}" for index in range(8)]
    forms = {"rows": lines, "commas": commas, "percentages": percentages}
    (tmp_path / "f.csv").write_text(content.format(**{name: "\n".join(some) + "\n" for name, some in forms.items()}), newline="")
    percent = "p" if "percentages" in content else ()
    found = score(tmp_path / "f.csv", replicates=0, percent=percent, independent=True).forecasts["probability"].to_list()[:8]
    scale = 100 if percent else 10
    assert found == pytest.approx([(index + 1) / scale for index in range(8)])


def test_nan_of_python_is_a_missing_forecast(tmp_path: Path) -> None:
    for name, text in (("f.jsonl", '{"p": 0.5, "y": 1}\n{"p": NaN, "y": 1}\n'), ("f.json", '[{"p": 0.5, "y": 1}, {"p": NaN, "y": 1}]')):
        (tmp_path / name).write_text(text)
        result = score(tmp_path / name, replicates=0)
        assert (result.forecasts["probability"].to_list(), result.notes) == (
            [0.5, None],
            ("1 row without a forecast: coverage counts them.",),
        )


@pytest.mark.parametrize(
    "rows",
    [
        [{"p": 0.3, "y": 1}] * 5,
        [{"p": 0.5, "y": index % 2} for index in range(8)],
        [{"p": float(index % 2), "y": index % 2} for index in range(8)],
        [{"p": 0.3, "y": index % 2, "weight": 1e300} for index in range(8)],
        [{"p": 0.3, "y": index % 2, "weight": 1e-320} for index in range(8)],
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_undefined_is_null_and_the_text_is_whole(rows: list[dict[str, Any]]) -> None:
    result = score(rows, replicates=0)
    assert "nan" not in str(result) and "inf" not in str(result).replace("confidence", "")
    values = result.scores.select(pl.col("value", "lower", "upper").is_finite().all())
    assert all(values.row(0))


def test_enormous_weights_give_the_scores_of_ordinary_ones(simple: list[dict[str, Any]]) -> None:
    weights = [[scale * (1 + index % 3) for index in range(12)] for scale in (1.0, 2.0**900, 2.0**-900)]
    found = [score([{**row, "weight": w} for row, w in zip(simple, each, strict=True)], replicates=200).scores for each in weights]
    assert found[0].equals(found[1]) and found[0].equals(found[2])


def unsupported() -> list[tuple[str, Any]]:
    """Return the names of types that cannot be read, and frames with a column of each."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame
    return [
        ("Period objects", frame({"x": pandas.period_range("2024-01", periods=4, freq="M")})),
        ("Interval objects", frame({"x": pandas.interval_range(0, 4)})),
        ("complex objects", frame({"x": np.arange(4) + 1j})),
        ("UUID objects", frame({"x": [uuid.UUID(int=index) for index in range(4)]})),
        ("longdouble values", frame({"x": np.linspace(0, 1, 4).astype(np.longdouble)})),
        ("Duration", frame({"x": pandas.to_timedelta(range(4), "D")})),
        ("object objects", pl.DataFrame({"x": pl.Series([object()] * 4, dtype=pl.Object)})),
        ("Binary values", pl.DataFrame({"x": [b"\xff"] * 4})),
        ("Struct", pl.DataFrame({"x": [{"a": 1}] * 4})),
    ]


@pytest.mark.parametrize("role", ["question", "cluster", "forecaster", "at"])
def test_a_column_of_an_unsupported_type_is_named_with_its_type(role: str) -> None:
    numbers = {"q": list("abcd"), "probability": [0.1, 0.2, 0.3, 0.4], "outcome": [0, 1, 0, 1]}
    options: dict[str, Any] = {"keep": "last", "at": "x", "question": "q"} if role == "at" else {role: "x"}
    for kind, column in unsupported():
        polars = isinstance(column, pl.DataFrame)
        frame = column.with_columns(pl.Series(name, values) for name, values in numbers.items()) if polars else column.assign(**numbers)
        message = refused(frame, **options)
        assert message.startswith("the frame, row 1, column 'x': it holds ") and kind in message, (kind, message)
