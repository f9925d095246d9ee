"""Outcomes of another file by one or several columns, and repeated forecasts."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from cli.main import main
from tests.unit.scoring.forecast_rows import refusal, scored

Rows = list[dict[str, Any]]
ASKED: Rows = [{"id": letter, "probability": 0.1 * (1 + index)} for index, letter in enumerate("ABCDEF")]
KNOWN: Rows = [{"question": f"Will {letter}?", "id": letter, "outcome": index % 2} for index, letter in enumerate("FEDCBA")]


def test_columns_of_the_same_name_are_joined_before_others() -> None:
    assert scored(ASKED, outcomes=KNOWN).forecasts["outcome"].to_list() == [1, 0, 1, 0, 1, 0]


def test_any_columns_are_joined_if_they_are_named() -> None:
    asked = [{"key": row["id"], "probability": row["probability"], "id": "x"} for row in ASKED]
    known = [{"ref": row["id"], "outcome": row["outcome"]} for row in KNOWN]
    assert scored(asked, outcomes=known, on="key=ref").forecasts["outcome"].to_list() == [1, 0, 1, 0, 1, 0]
    refusal(asked, outcomes=known, on="key=nothing")
    refusal(KNOWN, on="id")
    assert "no row has an outcome in the rows by id = question" in refusal(ASKED, outcomes=[{"question": "Z", "outcome": 1}])


def test_whole_numbers_of_any_type_name_the_same_question() -> None:
    asked = pl.DataFrame({"id": [1.0, 2.0], "p": [0.25, 1e-7]})
    result = scored(asked, outcomes=[{"id": "2", "outcome": 0}, {"id": 1, "outcome": 1}])
    assert result.forecasts.select("question", "probability", "outcome").rows() == [("1", 0.25, 1.0), ("2", 1e-7, 0.0)]


def test_an_outcome_is_refused_in_its_own_file() -> None:
    known = [{**row, "outcome": "maybe" if row["id"] == "C" else row["outcome"]} for row in KNOWN]
    assert "row 4, column 'outcome': 'maybe' is no outcome" in refusal(ASKED, outcomes=known)


def test_outcomes_name_every_question_once() -> None:
    assert "row 1, column 'id': 'A' has no outcome in the rows; give --skip-unresolved" in refusal(ASKED, outcomes=KNOWN[:-1])
    assert "row 7, column 'id': 'F' has a row before; give every question one outcome" in refusal(ASKED, outcomes=[*KNOWN, KNOWN[0]])
    left = scored(ASKED, outcomes=KNOWN[:-1], skip_unresolved=True)
    assert (left.n_questions, left.notes) == (5, ("1 row on 1 question left out: not resolved.",))


def test_rows_left_out_without_an_outcome_need_no_cluster_and_no_times() -> None:
    asked = [{**row, "at": "2026-01-01"} for row in ASKED[1:]]
    known = [{**row, "series": f"s{number % 2}", "closes": "2026-02-01"} for number, row in enumerate(KNOWN)]
    unresolved = {**ASKED[0], "at": None}
    options = {"before": "closes", "at": "at", "skip_unresolved": True}
    left = scored([*asked, unresolved], outcomes=known[:-1], **options)
    assert (left.n_questions, left.clusters) == (5, scored(asked, outcomes=known[:-1], **options).clusters)
    assert "column 'at': an empty value is no time" in refusal([*asked, unresolved], outcomes=known, **options)


def dated() -> tuple[Rows, Rows]:
    """Return forecasts on four questions and three dates, and their outcomes in another order."""
    days = ["2026-01-01", "2026-02-01", "2026-03-01"]
    asked = [{"id": f"q{q}", "date": day, "probability": (q + d + 1) / 10} for q in range(4) for d, day in enumerate(days)]
    known = [{"id": f"q{q}", "date": day, "outcome": (q + d) % 2} for d, day in enumerate(days) for q in range(4)]
    return asked, known


def test_several_columns_join_outcomes() -> None:
    asked, known = dated()
    result = scored(asked, outcomes=known, question=["id", "date"])
    assert result.forecasts["outcome"].to_list() == [(q + d) % 2 for q in range(4) for d in range(3)]
    assert (result.n_questions, result.n_clusters) == (12, 4)
    renamed = [{"key": row["id"], "day": row["date"], "outcome": row["outcome"]} for row in known]
    assert scored(asked, outcomes=renamed, on=["id=key", "date=day"]).forecasts.equals(result.forecasts)


@pytest.mark.nightly
@pytest.mark.parametrize("year", ["2024-07-21", "2025-10-26"])
def test_the_sets_of_forecastbench_are_scored(year: str, recordings: Path, tmp_path: Path) -> None:
    folder = recordings.parent / "data_2026_11" / "bridges" / "forecastbench" / "resolutions"
    if not folder.is_dir():
        pytest.skip(f"no resolution sets at {folder}")
    resolutions = json.loads(gzip.decompress((folder / f"{year}_resolution_set.json.gz").read_bytes()))["resolutions"]
    draw = random.Random(year)
    markets = ("infer", "manifold", "metaculus", "polymarket")
    forecasts = [
        {
            **{name: row[name] for name in ("id", "source", "direction")},
            "forecast": round(draw.random(), 3),
            "resolution_date": None if row["source"] in markets else row["resolution_date"],
        }
        for row in resolutions
    ]
    expected = [(one["forecast"] - row["resolved_to"]) ** 2 for one, row in zip(forecasts, resolutions, strict=True) if row["resolved"]]
    path = tmp_path / "forecasts.json"
    path.write_text(json.dumps({"organization": "me", "model": "mine", "forecasts": draw.sample(forecasts, len(forecasts))}))
    words = ["--question", "id", "--question", "direction", "--question", "resolution_date", "--skip-unresolved", "--json"]
    done = CliRunner().invoke(main, ["score", str(path), "--outcomes", str(folder / f"{year}_resolution_set.json.gz"), *words])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (brier,) = [row["value"] for row in found["scores"] if row["metric"] == "brier"]
    assert (found["n_questions"], {row["forecaster"] for row in found["scores"]}) == (len(expected), {"mine"})
    assert brier == pytest.approx(sum(expected) / len(expected), abs=1e-12)


START = datetime(2026, 3, 1, tzinfo=UTC)


def repeated(written: str) -> Rows:
    """Return four forecasts each of two forecasters on ten questions, at different times, in random order."""
    draw = random.Random(8)
    rows = []
    for number, (name, question, turn) in enumerate((name, question, turn) for name in "ab" for question in range(10) for turn in range(4)):
        at = START + timedelta(hours=100 * turn + draw.randrange(100))
        times = {"iso": at.isoformat(), "z": f"{at:%Y-%m-%dT%H:%M:%SZ}", "plain": f"{at:%Y-%m-%d %H:%M:%S}", "unix": at.timestamp()}
        p = round(draw.random(), 2)
        rows.append(
            {
                "forecaster": name,
                "question_id": question,
                "forecast_id": number,
                "p": p,
                "forecast_timestamp": times[written],
                "outcome": question % 2,
            }
        )
    return draw.sample(rows, len(rows))


@pytest.mark.parametrize("written", ["iso", "plain", "unix"])
def test_the_last_or_the_first_forecast_counts(written: str) -> None:
    data, (keep, turn) = repeated(written), ("first", 0) if written == "unix" else ("last", -1)
    result = scored(data, keep=keep, at="forecast_timestamp")
    for row in result.forecasts.iter_rows(named=True):
        own = [one for one in data if (one["forecaster"], str(one["question_id"])) == (row["forecaster"], row["question"])]
        assert row["probability"] == sorted(own, key=lambda one: one["forecast_timestamp"])[turn]["p"]
    assert result.forecasts.height == 20
    assert result.notes == (f"60 repeated forecasts left out: the {keep} by 'forecast_timestamp' of each forecaster and question counts.",)
    assert scored(data[::-1], keep=keep, at="forecast_timestamp").scores.equals(result.scores)


def test_the_mean_of_repeated_forecasts_counts() -> None:
    data = repeated("iso")
    result = scored(data, keep="mean")
    expected = pl.DataFrame(data).group_by("forecaster", "question_id").agg(pl.col("p").mean())
    means = {(name, str(question)): p for name, question, p in expected.iter_rows()}
    assert {(row["forecaster"], row["question"]): row["probability"] for row in result.forecasts.iter_rows(named=True)} == pytest.approx(
        means
    )


def test_forecasts_at_the_same_time_are_refused() -> None:
    data = [{"q": 1, "question": "a", "p": p, "at": "2026-03-01", "outcome": 1} for p in (0.2, 0.4)]
    assert "row 2, column 'question': 'a'" in refusal(data, keep="last", at="at")
    for at in ("soon", "1772366400000", "20260301"):
        assert f"column 'at': '{at}' is no time" in refusal([{**row, "at": at} for row in data], keep="last", at="at")


@pytest.mark.parametrize("options", [{"keep": "last"}, {"at": "forecast_timestamp"}, {"keep": "last", "at": "when"}, {"keep": "newest"}])
def test_options_of_repeated_forecasts_belong_together(options: dict[str, Any]) -> None:
    refusal(repeated("iso"), **options)


def test_forecasts_after_the_close_do_not_count() -> None:
    closes = {"a": "2026-03-02T12:00:00Z", "b": "2026-03-04T00:00:00+00:00"}
    data = [{"question": q, "p": day / 10, "at": f"2026-03-0{day}T12:00:00Z"} for q in "ab" for day in range(1, 6)]
    known = [{"question": q, "close_time": at, "outcome": int(q == "a")} for q, at in closes.items()]
    result = scored(data, outcomes=known, keep="last", at="at", before="close_time")
    assert result.forecasts["probability"].to_list() == [0.1, 0.3]
    assert "6 forecasts left out: not before the time in 'close_time'." in result.notes
    assert scored(data, outcomes=known, keep="mean", at="at", before="close_time").forecasts["probability"].to_list() == pytest.approx(
        [0.1, 0.2]
    )
    refusal(data, outcomes=known, before="close_time")
    past = [{**row, "close_time": "2025-01-01T00:00:00Z"} for row in known]
    refusal(data, outcomes=past, keep="last", at="at", before="close_time")


def test_times_without_a_zone_are_utc() -> None:
    times = [
        "2026-03-01T12:00:00+01:00",
        "2026-03-01 12:00",
        "2026-03-01 11:30:00.5",
        "2026-03-01",
        "1772366400",
        "2026-03-01 12:00:00 -0500",
    ]
    data = [{"question": index, "p": 0.5, "at": at, "close": "2026-03-01T11:30:01", "outcome": 1} for index, at in enumerate(times)]
    assert scored(data, at="at", before="close").forecasts["question"].to_list() == ["0", "2", "3"]


def test_a_missing_forecast_does_not_replace_one() -> None:
    data = [{"question": "a", "p": p, "at": f"2026-03-0{day}", "outcome": 1} for day, p in ((1, 0.3), (2, None))]
    assert scored(data, keep="last", at="at").forecasts["probability"].to_list() == [0.3]


def test_wrapped_json_is_read(tmp_path: Path) -> None:
    rows = [{"id": index, "p": 0.1 * index, "outcome": index % 2} for index in range(1, 6)]
    for document, name in (({"forecasts": rows}, "f"), ({"model": "mine", "made": {"by": "me"}, "forecasts": rows}, "mine"), (rows, "f")):
        (tmp_path / "f.json").write_text(json.dumps(document))
        result = scored(tmp_path / "f.json")
        assert result.forecasts["probability"].to_list() == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
        assert result.forecasters == [name]
    (tmp_path / "f.json").write_text('{"model": "mine", "forecasts": []}')
    assert refusal(tmp_path / "f.json").endswith("it has no rows; give forecasts")
