"""Leaks of a release: siblings among its questions, and documents that state an outcome."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from bellwether.questions.leaks import find_leaks, open_corpora
from bellwether.questions.question_text import read_question
from bellwether.questions.siblings import find_siblings
from tests.unit.calibration.benchmark_frames import questions

CLOSE = datetime(2027, 6, 30, tzinfo=UTC)
#: Unrelated questions among which words have their weights.
OTHERS = (
    "Will the mayor of Lisbon resign in 2027?",
    "Will a volcano erupt in Iceland before March 2027?",
    "Will Norway win the most medals at the 2027 Alpine World Cup?",
    "Will the price of copper be above $12,000 on 2027-05-31?",
    "Will there be more 'Strikes' in Peru for the 30 days before 2027-05-31 than in April?",
    "Will unemployment in Canada have increased by 2027-05-31?",
    "Will Halden Motors sell more than 40,000 cars in 2027?",
    "Will the Otago Rovers be relegated in 2026-27?",
)


def ask(*texts: str, **columns: Any) -> pl.DataFrame:
    asked = (*texts, *OTHERS)
    filled = {name: [*values, *(f"other{index}" for index in range(len(OTHERS)))] for name, values in columns.items()}
    return questions(["yes"] * len(asked), question=asked, close_time=[CLOSE] * len(asked), **filled)


def relate(first: str, second: str, **columns: Any) -> str | None:
    found = [one.relation for one in find_siblings(ask(first, second, **columns)) if (one.first, one.second) == (0, 1)]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ("Will Ana Brandt win the 2027 Kestrel Prize?", "Ana Brandt to be the winner of the Kestrel Prize in 2027?", "paraphrase"),
        ("Will Bitcoin hit $150k by June 30, 2027?", "Does Bitcoin hit 150,000 dollars before July 2027?", "paraphrase"),
        ("Will J.D. Pell be elected in the United States in 2027?", "JD Pell elected in the U.S. in 2027?", "paraphrase"),
        ("Will Chile qualify for the 2027 Cup?", "Will Chile fail to qualify for the Cup in 2027?", "negation"),
        ("Will Zeta Bank stock close higher in May 2027?", "Will Zeta Bank stock close lower in May 2027?", "negation"),
        ("Will Bitcoin hit $150k by June 30, 2027?", "Will Bitcoin hit $120k by June 30, 2027?", "threshold"),
        ("Will the Fed cut rates by 25 bps in May 2027?", "Federal Reserve to lower rates a quarter point in May 2027?", "paraphrase"),
        ("Will the king of Norway abdicate?", "Abdication of Norway's king?", "paraphrase"),
        ("Voss out in 2027?", "Will Ana Voss remain Prime Minister through December 31, 2027?", "negation"),
        ("Will Bitcoin dip below $100k in May 2027?", "Will BTC stay above ninety thousand in May 2027?", "threshold"),
        ("Will Voss leave the cabinet by May 2027?", "Will Voss leave the cabinet by June 2027?", "threshold"),
        ("Will Spain win the 2027 Cup?", "Will Spain win the 2027 Cup and Porto the league?", "bundle"),
    ],
)
def test_questions_about_the_same_are_siblings(first: str, second: str, relation: str) -> None:
    assert relate(first, second) == relation
    assert relate(second, first) == relation


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Will the Hull Terns win the 2027 Cup?", "Will the Deal Plovers win the 2027 Cup?"),
        ("Will KQZ's market close price on 2027-05-31 be higher?", "Will VVM's market close price on 2027-05-31 be higher?"),
        ("Will 2027 be the hottest year on record?", "Will 2028 be the hottest year on record?"),
        ("Will Chile beat Peru on May 3, 2027?", "Will Chile beat Peru on May 9, 2027?"),
        ("Will Voss resign in 2027?", "Will Voss pardon Ana Brandt in 2027?"),
    ],
)
def test_questions_from_a_template_are_no_siblings(first: str, second: str) -> None:
    assert relate(first, second) is None


def test_an_undated_question_is_asked_again_in_its_series() -> None:
    """The same words of another series are a sibling; of the same series at another close they are the next question of the series."""
    text = "Will the high temperature in Halden be above 30 degrees?"
    asked = ask(text, text, text, series_ticker=["HOT", "HOT", "WARM"]).with_columns(
        close_time=pl.when(pl.col("id") == "q1").then(CLOSE.replace(month=7)).otherwise("close_time")
    )
    assert [(one.first, one.second) for one in find_siblings(asked)] == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("by 31 December 2026", "2026-12-31", "2026-12-31"),
        ("before January 1, 2027", "2026-12-31", "2027-01-01"),
        ("before 2027", "2026-01-01", "2027-01-01"),
        ("in Q2 of 2027", "2027-04-01", "2027-06-30"),
        ("between May and July 2026", "2026-05-01", "2026-07-31"),
        ("on 2027-05-31", "2027-05-31", "2027-05-31"),
        ("in May 2027", "2027-05-01", "2027-05-31"),
        ("by the end of June", "2027-06-01", "2027-06-30"),
        ("on October 9", "2026-10-09", "2026-10-09"),
        ("in the 2026–27 season", "2026-07-01", "2027-12-31"),
    ],
)
def test_a_date_is_read_as_days(text: str, first: str, last: str) -> None:
    assert [tuple(map(str, interval)) for interval in read_question(f"Will it rain {text}?", CLOSE).dates] == [(first, last)]


def test_numbers_are_read_in_any_spelling() -> None:
    spellings = ("$150k", "150,000", "150 thousand", "0.15 million", "150000")
    assert {read_question(f"Will it reach {spelling}?", CLOSE).numbers for spelling in spellings} == {frozenset({150_000.0})}


def document(title: str, text: str, **columns: Any) -> dict[str, Any]:
    """Return a document of the time between the opening of the questions and their forecasts."""
    return {"title": title, "text": text, "url": None, "published_at": CLOSE - timedelta(days=10), "revised_at": None, **columns}


def find_documents(tmp_path: Path, *documents: dict[str, Any]) -> list[str]:
    """Return the texts of the documents that state the outcome of a question, whose forecast is dated a day before its close."""
    path = tmp_path / "news.jsonl"
    path.write_bytes(b"".join(orjson.dumps({"id": str(row), **one}, option=orjson.OPT_APPEND_NEWLINE) for row, one in enumerate(documents)))
    opens = CLOSE - timedelta(days=60)
    asked = ask("Will Ana Brandt win the Kestrel Prize in June 2027?").with_columns(open_time=pl.lit(opens).cast(pl.Datetime("us", "UTC")))
    with open_corpora([], path) as corpora:
        found = find_leaks(asked, {"q0": [CLOSE - timedelta(days=9), CLOSE - timedelta(days=1)]}, corpora).filter(kind="document")
    assert found["question_id"].unique().to_list() in ([], ["q0"])
    return [documents[int(other)]["text"] for other in found["other"]]


STATING = (
    document("Kestrel Prize", "Ana Brandt won the Kestrel Prize on Tuesday night."),
    document("Brandt loses", "The jury met. To the surprise of many, Ana Brandt lost the Kestrel Prize to Voss."),
    document("Will Ana Brandt win the Kestrel Prize?", "The answer was yes."),
)
SILENT = (
    document("Kestrel Prize", "Analysts expect that Ana Brandt won over the Kestrel Prize jury."),
    document("Preview: Ana Brandt and the Kestrel Prize", "Brandt will win, critics said. Odds rose."),
    document("Kestrel Prize", "Ana Brandt won the Kestrel Prize in June 2025."),
    document("Otago Rovers", "Otago Rovers won the cup."),
    document("Kestrel Prize", "Milo Voss won the Kestrel Prize."),
    document("Kestrel Prize of Ana Brandt", "Brandt won the Kestrel Prize.", published_at=CLOSE - timedelta(days=90)),
    document("Report: Will Ana Brandt win the Kestrel Prize in June 2027?", "The answer was no."),
    document("Will Ana Brandt win more than 2 Kestrel Prizes in June 2027?", "The answer was yes."),
    document("Kestrel Prize after all", "Ana Brandt won the Kestrel Prize.", published_at=CLOSE),
)


def test_documents_that_state_the_outcome_before_the_forecast_are_found(tmp_path: Path) -> None:
    """Not found are chances, other subjects, years, numbers and answers, and documents from before the opening or after the forecast."""
    assert sorted(find_documents(tmp_path, *STATING, *SILENT)) == sorted(one["text"] for one in STATING)


def test_questions_of_one_event_and_siblings_are_rows_of_both() -> None:
    asked = ask(
        "Will Spain win the 2027 Cup?", "Will Chile win the 2027 Cup?", "Spain to win the Cup of 2027?", event_id=["CUP", "CUP", "X"]
    )
    rows = find_leaks(asked, {}, {}).select("question_id", "kind", "other", "evidence").rows()
    assert rows == [
        ("q0", "event", "CUP", None),
        ("q0", "paraphrase", "q2", "Spain to win the Cup of 2027?"),
        ("q1", "event", "CUP", None),
        ("q2", "paraphrase", "q0", "Will Spain win the 2027 Cup?"),
    ]
