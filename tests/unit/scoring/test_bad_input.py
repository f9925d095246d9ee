"""Data that cannot be scored is refused in one message with the file, the line, the column, the value and the remedy."""

from __future__ import annotations

import gzip
import re
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.errors import ScoringError
from bellwether.scoring import score
from tests.unit.scoring.forecast_rows import Row, Write

HEAD = "question_id,series,p,outcome\n"
LINES = [f"q{index},s{index // 2},0.{index + 1},{index % 2}" for index in range(8)]


def with_line(line: str, number: int = 5) -> str:
    """Return a file whose line `number` is replaced. Line 5 is q3."""
    lines = [*LINES]
    lines[number - 2] = line
    return HEAD + "\n".join(lines) + "\n"


def appended(line: str) -> str:
    return HEAD + "\n".join([*LINES, line]) + "\n"


def all_lines(*, p: str = "0.{}", outcome: str = "{}") -> str:
    return HEAD + "".join(f"q{index},s{index},{p.format(index + 1)},{outcome.format(index % 2)}\n" for index in range(8))


#: Contents of f.csv, and parts of the message in this order.
FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a percentage among fractions": (
        with_line("q3,s1,35,1"),
        ("f.csv, line 5, column 'p': '35' is no probability", "correct it, or leave the row out"),
    ),
    "percentages": (all_lines(p="{}1"), ("f.csv, line 2, column 'p': '11' is no probability", "give --percent p (percent='p')")),
    "percentages with signs": (
        all_lines(p="{}1%"),
        ("f.csv, line 2, column 'p': '11%' is a percentage", "give --percent p (percent='p') to divide by 100"),
    ),
    "a percentage with its sign among fractions": (
        with_line("q3,s1,35%,1"),
        ("f.csv, line 5, column 'p': '35%' is a percentage, but line 2 holds '0.1'", "write the whole column in one unit"),
    ),
    "a rounding error": (
        with_line("q3,s1,1.0000000001,1"),
        ("f.csv, line 5, column 'p': '1.0000000001' is a rounding error beyond [0, 1]", "give --clip (clip=True)"),
    ),
    "less than 0": (with_line("q3,s1,-0.1,1"), ("f.csv, line 5, column 'p': '-0.1' is no probability", "correct it")),
    "a word for a probability": (
        with_line("q3,s1,high,1"),
        ("f.csv, line 5, column 'p': 'high' is no number", "correct it, or leave it empty"),
    ),
    "a decimal comma": (
        HEAD.replace(",", ";") + "q1;s1;0,35;1\nq2;s2;0.5;0\n",
        ("f.csv, line 2, column 'p': '0,35' has a comma, but line 3 holds '0.5' with a point", "write all decimals alike"),
    ),
    "a decimal comma among commas": (
        HEAD + "q1,s1,0,35,1\nq2,s2,0,5,0\n",
        ("f.csv, line 2: it has 5 cells, and there are 4 columns", "write decimals with a point, or separate columns by semicolons"),
    ),
    "no probability anywhere": (all_lines(p=""), ("f.csv: no row of a resolved question holds a forecast", "give probabilities in 'p'")),
    "a name for an outcome": (
        with_line("q3,s1,0.4,Springfield"),
        ("f.csv, line 5, column 'outcome': 'Springfield' is no outcome", "write yes or no, 1 or 0, or nothing where it is not resolved"),
    ),
    "words and numbers as outcomes": (
        with_line("q3,s1,0.4,yes"),
        ("f.csv, line 2, column 'outcome': '0' is a number, but line 5 holds 'yes'", "write all as 1 and 0, or all as yes and no"),
    ),
    "an outcome that is pending": (
        with_line("q3,s1,0.4,pending"),
        (
            "f.csv, line 5, column 'outcome': 'pending' is no outcome: the question is not resolved",
            "--skip-unresolved (skip_unresolved=True)",
        ),
    ),
    "an empty outcome": (
        with_line("q3,s1,0.4,"),
        ("f.csv, line 5, column 'outcome': an empty value is no outcome: the question is not resolved", "--skip-unresolved"),
    ),
    "no cluster": (
        with_line("q3,,0.4,1"),
        ("f.csv, line 5, column 'series': an empty value is no cluster", "give every row a cluster", "--independent (independent=True)"),
    ),
    "no question": (
        with_line(",s1,0.4,1"),
        ("f.csv, line 5, column 'question_id': an empty value is no question", "fill it in, or leave the row out"),
    ),
    "a row twice": (
        appended(LINES[3]),
        ("f.csv, line 10, column 'question_id': 'q3' has a forecast of 'f' before, in line 5", "keep one row"),
    ),
    "too many cells": (appended("q9,s1,0.4,1,1"), ("f.csv, line 10: it has 5 cells, and there are 4 columns", "correct the line")),
    "a quote that is not closed": (appended('"q9,s1,0.4,1'), ("f.csv: after line 9 it is not CSV any more", "close the quotes")),
    "no names": (
        "\n".join(LINES),
        ("f.csv: no column is recognised as the probability among 'q0', 's0', '0.1', '0'", "add a line with the names"),
    ),
    "numbers for names": (
        "0.5,1\n0.4,0\n",
        ("f.csv, line 1: it holds values where the names of the columns belong: '0.5,1'", "add a line of names"),
    ),
    "a name twice": ("q,p,p,outcome\nq1,.1,.2,1\n", ("f.csv, line 1: two columns are called 'p'", "rename one")),
    "nothing": ("", ("f.csv: it is empty", "give names of columns and rows of forecasts")),
    "names alone": (HEAD, ("f.csv: it has no rows", "give forecasts")),
    "no outcome column": ("p\n0.3\n", ("f.csv: no column is recognised as the outcome among 'p'", "--outcome COLUMN", "--outcomes FILE")),
    "no probability column": (
        "id,chance,outcome\na,0.25,1\nb,0.5,0\n",
        (
            "f.csv: no column is recognised as the probability among 'id', 'chance', 'outcome'",
            "'chance' would do",
            "give --probability chance",
        ),
    ),
    "a place after a line break in a cell": (
        with_line('"q\n3",s1,0.4,1').replace("q4,s2,0.5", "q4,s2,5"),
        ("f.csv, line 7, column 'p': '5'",),
    ),
    "outcomes that differ": (
        "model,question_id,p,outcome\na,q1,0.1,1\nb,q1,0.2,0\n",
        ("f.csv, line 3, column 'outcome': 0 on question 'q1', but line 2 has 1", "correct one", "--question"),
    ),
    "a weight of nothing": (
        "p,outcome,weight\n0.1,1,1\n0.2,0,0\n",
        ("f.csv, line 3, column 'weight': '0' is no weight", "give a positive number, or leave the row out"),
    ),
    "weights beyond comparison": (
        "p,outcome,weight\n0.1,1,1\n0.2,0,1e300\n",
        ("f.csv, line 3, column 'weight': '1e300' is more than 1e+12 times the weight of line 2, '1'", "correct one, or leave the row out"),
    ),
    "two layouts at once": (
        "model,p_a,p_b,y\nx,0.1,0.2,1\n",
        ("f.csv: there are several columns of probabilities ('p_a', 'p_b') and a column of forecasters ('model')", "name no forecaster"),
    ),
    "an escape in a name": ("id,c\x1b[31m,outcome\na,0.25,1\nb,0.5,0\n", (r"give --probability 'c\x1b[31m'",)),
}


def refused(data: Any, **options: Any) -> str:
    """Return the message, after checking that it has no line break or control character."""
    with pytest.raises(ScoringError) as error:
        score(data, replicates=0, **options)
    message = str(error.value)
    assert message.isprintable(), message
    return message


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_scored_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, parts = FILES[name]
    monkeypatch.chdir(tmp_path)
    Path("f.csv").write_text(content, encoding="utf-8", newline="")
    message = refused("f.csv")
    start = 0
    for part in parts:
        assert part in message[start:], message
        start = message.index(part, start) + len(part)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.csv", (HEAD + "qé,s1,0.5,1\n").encode("latin-1"), "f.csv: it is not UTF-8 text; save it as UTF-8"),
        (
            "f.jsonl",
            '{"p": 0.5, "y": 1}\n{"p": 0.5, "q": "é"}\n'.encode("latin-1"),
            "f.jsonl, line 2: it is not UTF-8 text; save the file as UTF-8",
        ),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n{"p": \n', "f.jsonl, line 2: it is not JSON"),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n\n[1]\n', "f.jsonl, line 3: it holds a list; give one JSON object per line"),
        ("f.jsonl", b'{"p": Infinity, "y": 1}\n', "f.jsonl, line 1, column 'p': inf is no probability"),
        (
            "f.jsonl",
            b'{"p": 0.5, "y": 1}\n{"p": "0.4", "y": 0}\n',
            "f.jsonl, line 2, column 'p': '0.4' is text, but line 1 holds 0.5, a number",
        ),
        ("f.jsonl", b'{"p": true, "y": 1}\n', "f.jsonl, line 1, column 'p': True is no number; give numbers"),
        ("f.jsonl", b'{"p": [0.1], "y": 1}\n', "f.jsonl, line 1, column 'p': it holds a list; write one value"),
        (
            "f.jsonl",
            b'{"p": 0.1, "y": true}\n{"p": 0.2, "y": 0}\n',
            "f.jsonl, line 2, column 'y': 0 is a number, but line 1 holds True, a boolean",
        ),
        (
            "f.jsonl",
            b'{"p": 0.1, "y": 1, "id": 1180591620717411303424}\n{"p": 0.1, "y": 1, "id": 1180591620717411303425}\n',
            "f.jsonl, line 1, column 'id': 1.1805916207174113e+21 is a number too large to keep its digits; write it as text, in quotes",
        ),
        ("f.parquet", b"PAR1 no", "f.parquet: it cannot be read as Parquet"),
        ("f.csv.gz", gzip.compress(b"p,y\n0.5,1\n", mtime=0)[:-9], "f.csv.gz: it cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert refused(name).startswith(message)


def test_a_path_that_holds_no_file_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.csv") == f"{tmp_path}/no.csv: there is no such file; correct the path"
    (tmp_path / "folder.csv").mkdir()
    assert refused(tmp_path / "folder.csv") == f"{tmp_path}/folder.csv: it is a folder; give the files in it"


def test_a_file_given_twice_is_refused(write: Write, simple: Sequence[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("f.csv", simple)
    monkeypatch.chdir(tmp_path)
    assert "a file is given twice" in refused([path, "f.csv"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "scoring: forecasts are given as NoneType; give a path, a frame or a mapping of columns"),
        ({}, "the frame: it has no rows; give forecasts"),
        ({"p": 0.5, "y": 1}, "the frame, column 'p': it holds 0.5; give one value per row"),
        ({"p": [0.5, 0.4], "y": [1]}, "scoring: the columns have different lengths: 'p' 2, 'y' 1"),
        ([{"p": 0.5, "y": 1}, {"p": 0.4, "y": "no"}], "the rows, row 2, column 'y': 'no' is text, but row 1 holds 1, a number"),
        ([{"p": 0.5, "y": 1, "weight": float("inf")}], "the rows, row 1, column 'weight': inf is no weight"),
    ],
)
def test_data_that_is_no_table_is_refused(data: Any, message: str) -> None:
    assert refused(data).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": "serie"}, "--cluster names the column 'serie', which is not there; did you mean 'series'?"),
        ({"percent": "outcome"}, "scoring: --percent names 'outcome', which is read as no probability or price"),
        ({"cluster": ["series", "question_id", "p"]}, "scoring: 3 columns of clusters are given; give one, or two"),
        (
            {"probability": "p", "outcome": "p"},
            "the column 'p' is given as --probability p and --outcome; give each role a column of its own",
        ),
        ({"cluster": ["series", "series"]}, "the column 'series' is given as --cluster series twice"),
        ({"level": 95}, "inference: level is 95; give a mass between 0 and 1, such as 0.95"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], message: str, simple: list[dict[str, Any]]) -> None:
    assert message in refused(simple, **options)


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


def test_percentages_of_less_than_one_per_cent_are_noted() -> None:
    p = [0.2, 0.3, 0.7, 35]
    (note,) = score({"p": p, "y": [0, 0, 1, 1]}, percent="p", replicates=0).notes
    assert note == "More than half of the values of 'p' are at most 1 %: check that it holds percentages."


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


def unsupported() -> dict[str, tuple[str, Any]]:
    """Return values of types that cannot be read, by the name of the type in the message."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame
    return {
        "Period": ("Period objects", frame({"x": pandas.period_range("2024-01", periods=4, freq="M")})),
        "Interval": ("Interval objects", frame({"x": pandas.interval_range(0, 4)})),
        "complex": ("complex objects", frame({"x": np.arange(4) + 1j})),
        "UUID": ("UUID objects", frame({"x": [uuid.UUID(int=index) for index in range(4)]})),
        "longdouble": ("longdouble values", frame({"x": np.linspace(0, 1, 4).astype(np.longdouble)})),
        "timedelta": ("Duration", frame({"x": pandas.to_timedelta(range(4), "D")})),
        "Polars object": ("object objects", pl.DataFrame({"x": pl.Series([object()] * 4, dtype=pl.Object)})),
        "Polars duration": ("Duration", pl.DataFrame({"x": [timedelta(days=1)] * 4})),
        "Polars binary": ("Binary values", pl.DataFrame({"x": [b"\xff"] * 4})),
        "Polars struct": ("Struct", pl.DataFrame({"x": [{"a": 1}] * 4})),
    }


@pytest.mark.parametrize("role", ["question", "cluster", "forecaster", "at"])
@pytest.mark.parametrize(
    "kind",
    [
        "Period",
        "Interval",
        "complex",
        "UUID",
        "longdouble",
        "timedelta",
        "Polars object",
        "Polars duration",
        "Polars binary",
        "Polars struct",
    ],
)
def test_a_column_of_an_unsupported_type_is_named_with_its_type(kind: str, role: str) -> None:
    message, frame = unsupported()[kind]
    numbers = {"q": list("abcd"), "probability": [0.1, 0.2, 0.3, 0.4], "outcome": [0, 1, 0, 1]}
    for name, values in numbers.items():
        frame = frame.with_columns(pl.Series(name, values)) if isinstance(frame, pl.DataFrame) else frame.assign(**{name: values})
    assert len(score(frame, question="q").forecasters) == 1, "an unused column does not matter"
    options: dict[str, Any] = {"keep": "last", "at": "x", "question": "q"} if role == "at" else {role: "x"}
    with pytest.raises(ScoringError, match=re.escape("the frame, row 1, column 'x': it holds ")) as caught:
        score(frame, **options)
    assert message in str(caught.value)
