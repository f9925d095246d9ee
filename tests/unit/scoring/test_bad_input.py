"""Data that cannot be scored is refused in one message with the file, the line, the column, the value and the remedy."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

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
    (with_line("q3,s1,35,1"), "line 5, column 'p': '35' is no probability"),
    (with_line("q3,s1,1.0000000001,1"), "line 5, column 'p': '1.0000000001'"),
    (with_line("q3,s1,-0.1,1"), "line 5, column 'p': '-0.1'"),
    (with_line("q3,s1,high,1"), "line 5, column 'p': 'high'"),
    (with_line("q3,s1,inf,1"), "line 5, column 'p': 'inf'"),
    (HEAD.replace(",", ";") + "q1;s1;0,35;1\nq2;s2;0.5;0\n", "line 2, column 'p': '0,35'"),
    (HEAD + "q1,s1,0,35,1\nq2,s2,0,5,0\n", "line 2: it has 5 cells"),
    (all_lines(p=""), "no row of a resolved question holds a forecast"),
    (with_line("q3,s1,0.4,Springfield"), "line 5, column 'outcome': 'Springfield' is no outcome"),
    (with_line("q3,s1,0.4,2"), "line 5, column 'outcome': '2' is no outcome"),
    (with_line(",s1,0.4,1"), "line 5, column 'question_id': an empty value"),
    (appended(LINES[3]), "line 10, column 'question_id': 'q3' has a forecast of 'f' before"),
    (appended("q9,s1,0.4,1,1"), "line 10: it has 5 cells"),
    (appended('"q9,s1,0.4,1'), "line 10: it has 1 cells"),
    ("\n".join(LINES), "no column is named as a probability among 'q0', 's0', '0.1', '0'"),
    ("q,p,p,outcome\nq1,.1,.2,1\n", "line 1: two columns are called 'p'"),
    ("", "it is empty"),
    (HEAD, "it has no rows"),
    (with_line('"q\n3",s1,0.4,1').replace("q4,s2,0.5", "q4,s2,5"), "line 7, column 'p': '5'"),
    ("model,question_id,p,outcome\na,q1,0.1,1\nb,q1,0.2,0\n", "line 3, column 'outcome': '0' on question 'q1' differs from"),
    ("p,outcome,weight\n0.1,1,1\n0.2,0,0\n", "line 3, column 'weight': '0'"),
    ("p,outcome,weight\n0.1,1,1\n0.2,0,1e300\n", "line 3, column 'weight': '1e300'"),
    ("p,outcome,weight\n0.1,1,1\n0.2,0,\n", "line 3, column 'weight': an empty value is no weight"),
    ("model,p_a,p_b,y\nx,0.1,0.2,1\n", "several columns of probabilities ('p_a', 'p_b')"),
]

#: Contents of f.csv, and the option that the message must name.
OPTIONS = [
    (all_lines(p="{}1"), "--percent p"),
    (with_line("q3,s1,35%,1"), "--percent p"),
    (with_line("q3,s1,0.4,pending"), "line 5, column 'outcome': 'pending' is not resolved; give --skip-unresolved"),
    (with_line("q3,s1,0.4,"), "line 5, column 'outcome': an empty value is not resolved; give --skip-unresolved"),
    (with_line("q3,s1,0.4,0.3"), "line 5, column 'outcome': '0.3' is a share between no (0) and yes (1); correct it, or give --fractional"),
    (
        with_line("q3,,0.4,1"),
        "line 5, column 'series': an empty value is no cluster; give every row a cluster, one of its own where it shares none, or give --cluster with the column of questions",
    ),
    ("p\n0.3\n", "give --outcome COLUMN, or --outcomes FILE"),
    ("id,chance,outcome\na,0.25,1\nb,0.5,0\n", "give --probability COLUMN"),
    ("id,P,p,outcome\na,0.25,0.5,1\n", "the columns 'P' and 'p' have the same name but for case and spaces; give --probability COLUMN"),
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


def test_a_refusal_names_the_option_that_accepts_the_file(tmp_path: Path) -> None:
    for content, option in OPTIONS:
        (tmp_path / "f.csv").write_text(content, encoding="utf-8", newline="")
        assert option in (message := refused(tmp_path / "f.csv")), message


def test_a_file_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    files = [
        ("f.csv", (HEAD + "qé,s1,0.5,1\n").encode("latin-1"), "it is not UTF-8"),
        ("f.jsonl", '{"p": 0.5, "y": 1}\n{"p": 0.5, "q": "é"}\n'.encode("latin-1"), "it is not UTF-8"),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n{"p": \n', "line 2: it is not JSON"),
        ("f.jsonl", b'{"p": 0.5, "y": 1}\n\n[1]\n', "line 3: it is no object"),
        ("f.jsonl", b'{"p": 0.9, "p": 0.1, "y": 1}\n', "line 1: it is not JSON ('p' occurs twice"),
        ("f.json", b'[{"p": 0.9, "y": 1, "y": 0}]', "it is not JSON ('y' occurs twice"),
        ("f.json", b"[" * 100_000, "it is not JSON (it is nested too deeply)"),
        ("f.jsonl", b'{"p": Infinity, "y": 1}\n', "line 1, column 'p': 'inf'"),
        ("f.jsonl", b'{"p": true, "y": 1}\n', "line 1, column 'p': 'True'"),
        ("f.jsonl", b'{"p": [0.1], "y": 1}\n', "line 1, column 'p': '[0.1]'"),
        ("f.parquet", b"PAR1 no", "it cannot be read as Parquet"),
        ("f.csv.gz", gzip.compress(b"p,y\n0.5,1\n", mtime=0)[:-9], "it cannot be read"),
        ("f.json", b'{"a": [{"p": 0.1, "y": 1}], "b": []}', "it holds 2 lists ('a', 'b')"),
        ("f.json", b'[{"p": 0.1, "y": 1}, 3]', "it holds no list of objects"),
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
    data: list[Any] = [None, {}, {"p": 0.5, "y": 1}, {"p": [0.5, 0.4], "y": [1]}, [{"p": 0.5, "y": 1, "weight": float("inf")}]]
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


@pytest.mark.parametrize("words", [("YES", "No"), ("1.0", "0.0"), (" true ", "FALSE")])
def test_outcomes_in_words_are_those_in_numbers(words: tuple[str, str], simple: list[dict[str, Any]], write: Write) -> None:
    named = [{**row, "outcome": words[0] if row["outcome"] else words[1]} for row in simple]
    assert score(write("f.csv", named), replicates=0).forecasts["outcome"].to_list() == [row["outcome"] for row in simple]


def test_percentages_are_read_when_asked_for() -> None:
    rows = [{"p": "35%", "y": 1}, {"p": "40 %", "y": 0}, {"p": "0", "y": 0}]
    assert score(rows, percent="p", replicates=0).forecasts["probability"].to_list() == [0.35, 0.4, 0]


SHEETS = [
    ("f.csv", "\ufeff" + HEAD, LINES),
    ("f.csv", HEAD.upper().replace("_", " "), [f"{line}\r" for line in LINES]),
    ("f.tsv", HEAD.replace(",", "\t"), [line.replace(",", "\t") for line in LINES]),
    ("f.csv", HEAD.replace(",", ";"), [line.replace(",", ";").replace("0.", "0,") for line in LINES]),
    ("f.csv", HEAD.replace(",", ";"), [line.replace(",", ";").replace("0.", ",") for line in LINES]),
]


def test_what_spreadsheets_write_is_read(tmp_path: Path) -> None:
    for name, head, lines in SHEETS:
        (tmp_path / name).write_text(head + "\n".join(lines) + "\n", encoding="utf-8", newline="")
        result = score(tmp_path / name, replicates=0)
        assert result.forecasts["probability"].to_list() == [(index + 1) / 10 for index in range(8)], head


def test_percentages_with_decimal_commas_are_read(tmp_path: Path) -> None:
    lines = [f"q{index};s{index};{index + 1},5 %;{index % 2}" for index in range(8)]
    (tmp_path / "f.csv").write_text(HEAD.replace(",", ";") + "\n".join(lines))
    found = score(tmp_path / "f.csv", percent="p", replicates=0).forecasts["probability"].to_list()
    assert found == pytest.approx([(index + 1.5) / 100 for index in range(8)])


def test_nan_and_words_for_a_missing_value_are_no_forecast(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('[{"p": 0.5, "y": 1}, {"p": NaN, "y": 1}, {"p": "n/a", "y": 0}, {"y": 1}]')
    result = score(tmp_path / "f.json", replicates=0)
    assert result.forecasts["probability"].to_list() == [0.5, None, None, None]
    assert result.notes == ("3 rows without a forecast: coverage counts them.",)


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


@pytest.mark.parametrize(("kept", "message"), [(0, "30 of 30 prices are within 0.02 of the outcome"), (3, "27 of 30 prices"), (4, None)])
def test_prices_of_decided_markets_are_refused(kept: int, message: str | None) -> None:
    """Of 30 prices all but `kept` are close to the outcomes."""
    rows = [{"question": f"q{n}", "p": 0.3, "outcome": n % 2, "market_price": 0.5 if n < kept else abs(n % 2 - 0.02)} for n in range(30)]
    if message is None:
        assert score(rows, replicates=0).columns.market == "market_price"
    else:
        found = refused(rows)
        assert "column 'market_price'" in found and message in found and "known after the fact" in found


@pytest.mark.parametrize("name", ["market_probability", "closing_price", "p_value "])
def test_other_names_are_read_only_if_an_option_names_them(name: str) -> None:
    rows = [{"question": f"q{n}", "p": 0.3, "outcome": n % 2, name: 0.2 + n / 60} for n in range(30)]
    assert score(rows, replicates=0).columns.market is None
    assert score(rows, market=name, replicates=0).columns.market == name


def test_a_question_that_is_not_resolved_has_no_outcome() -> None:
    rows = [{"question": n, "p": 0.3, "resolved_to": 0.4 if n == 2 else n % 2, "resolved": n != 2} for n in range(5)]
    assert "row 3, column 'resolved_to': '0.4' is not resolved" in refused(rows)
    assert score(rows, skip_unresolved=True, replicates=0).n_questions == 4


def test_shares_of_yes_are_scored_when_asked_for() -> None:
    rows = [{"question": n, "p": 0.3, "outcome": 0.4 if n == 2 else n % 2} for n in range(5)]
    assert score(rows, fractional=True, replicates=0).forecasts["outcome"][2] == 0.4
