"""Columns with a known meaning: final prices, statistics, complements, contradicting and fractional outcomes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.scoring.forecast_rows import refusal, scored

Rows = list[dict[str, Any]]


def rows(count: int = 30, **columns: Any) -> Rows:
    """Return forecasts of one forecaster. Each column is a function of the number and the outcome."""
    draw = random.Random(4)
    return [
        {
            "question": f"q{index}",
            "p": round(draw.random(), 2),
            "outcome": index % 2,
            **{name: value(index, index % 2) for name, value in columns.items()},
        }
        for index in range(count)
    ]


def export() -> Rows:
    """Return rows with the columns of an exported question set. For four of five questions the final price is close to the outcome."""
    draw = random.Random(5)
    return [
        {
            "id": f"kalshi:K-{index}",
            "category": "x",
            "ground_truth": "yes" if index % 3 else "no",
            "market_probability": (0.95 if index % 3 else 0.04) if index % 5 else 0.5,
            "series_ticker": f"K{index // 2}",
            "price_24h": round(0.2 + 0.6 * draw.random(), 2),
        }
        for index in range(40)
    ]


MINE = [{"question_id": f"kalshi:K-{index}", "probability": 0.3 + index / 100} for index in range(40)]


def test_the_final_price_of_an_export_is_no_forecast_of_the_market() -> None:
    result = scored(MINE, outcomes=export())
    assert (result.columns.market, len(result.forecasters)) == (None, 1)
    assert any("market_probability" in note for note in result.notes)
    assert scored(MINE, outcomes=export(), market="price_24h").columns.market == "price_24h"
    refusal(MINE, outcomes=export(), market="market_probability")
    refusal(export(), probability="market_probability")


@pytest.mark.parametrize(
    "name", ["p_market_final", "prob_closing_price", "P-Kalshi-settlement", "forecast_community_close", "pred_final_market_price"]
)
def test_a_final_price_is_refused_as_a_forecaster_in_wide_and_long_tables(name: str) -> None:
    """The prices do not give away the outcomes, so that only the name does."""
    wide = [{"question": row["question"], "outcome": row["outcome"], "p_mine": row["p"], name: 0.3} for row in rows()]
    assert f"column {name!r}" in refusal(wide)
    refusal(wide, probability=name)
    assert len(scored(wide, probability="p_mine").forecasters) == 1
    long = [{**row, "model": model} for row in rows() for model in ("mine", name)]
    assert f"row 2, column 'model': {name!r}" in refusal(long)


@pytest.mark.parametrize("name", ["p_market_24h_before_close", "p_final", "p_gpt_final_market_aware", "prob_market"])
def test_prices_before_the_end_and_final_forecasts_are_forecasters(name: str) -> None:
    wide = [{"question": row["question"], "outcome": row["outcome"], "p_mine": row["p"], name: 0.3} for row in rows()]
    assert len(scored(wide).forecasters) == 2


def test_a_column_of_that_name_with_other_prices_is_read_if_named() -> None:
    data = rows(market_probability=lambda index, outcome: 0.2 + index / 60)
    assert scored(data).columns.market is None
    assert scored(data, market="market_probability").columns.market == "market_probability"


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (lambda index, outcome: outcome, "30 of 30 prices are within 0.02 of the outcome: they are final prices"),
        (lambda index, outcome: 0.5 if index < 3 else outcome, "27 of 30 prices are within 0.02"),
        (lambda index, outcome: 0.85 if outcome else 0.1, "all 30 prices repeat the outcomes"),
    ],
)
def test_prices_that_are_the_outcomes_or_nearly_are_refused(price: Any, message: str) -> None:
    found = refusal(rows(market_price=price))
    assert found.startswith("the rows, row ") and "column 'market_price'" in found
    assert message in found and "leave the column out, or give prices from the time of the forecasts" in found
    with_outcomes = rows(market_price=price)
    asked = [{name: row[name] for name in ("question", "p")} for row in with_outcomes]
    known = [{name: value for name, value in row.items() if name != "p"} for row in with_outcomes]
    assert message in refusal(asked, outcomes=known)


#: Columns of statistics, as functions of the row's number and probability.
STATISTICS = {
    "p_value": lambda index, p: 0.03,
    "forecast_std": lambda index, p: 0.1,
    "p_ci_high": lambda index, p: p,
    "p_q05": lambda index, p: p / 2,
    "p_no": lambda index, p: 1 - p,
    "prediction_correct": lambda index, p: index % 2,
    "forecast_timestamp": lambda index, p: 1_700_000_000 + index,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_is_no_forecaster(name: str) -> None:
    data = [
        {
            "question": row["question"],
            "outcome": row["outcome"],
            "p_mine": row["p"],
            "p_theirs": 0.4,
            name: STATISTICS[name](index, row["p"]),
        }
        for index, row in enumerate(rows())
    ]
    result = scored(data)
    assert sorted(result.forecasters) == ["mine", "theirs"]
    assert f"Not read as forecasters: {name!r}; give --probability COLUMN for those that are." in result.notes
    assert result.columns.probability == ("p_mine", "p_theirs")


def test_bounds_differ_from_models_of_high_and_low_effort_by_their_values() -> None:
    data = rows(p_gpt=lambda index, outcome: 0.5, p_gpt_low=lambda index, outcome: 0.4, p_gpt_high=lambda index, outcome: 0.6)
    models = rows(
        p_o3_low=lambda index, outcome: index / 30, p_o3_high=lambda index, outcome: 1 - index**2 / 900, p_o3=lambda index, outcome: 0.3
    )
    for each in (*data, *models):
        del each["p"]
    assert scored(data).columns.probability == ("p_gpt",)
    assert scored(models).columns.probability == ("p_o3_low", "p_o3_high", "p_o3")


def test_a_complement_by_its_values_is_refused() -> None:
    data = [
        {"question": row["question"], "outcome": row["outcome"], "p_home": row["p"], "p_away": round(1 - row["p"], 2)} for row in rows()
    ]
    assert "'p_home' and 'p_away' add up to 1" in refusal(data)
    assert scored(data, probability="p_home").n_questions == 30


@pytest.mark.parametrize("other", ["resolution", "ground_truth"])
def test_contradicting_outcomes_are_refused(other: str) -> None:
    data = rows(**{other: lambda index, outcome: "no" if index == 7 or not outcome else "yes"})
    assert "row 8, column 'outcome'" in refusal(data)
    assert scored(data, outcome=other).forecasts["outcome"].sum() == 14
    annulled = rows(**{other: lambda index, outcome: "annulled" if index == 3 else ("yes" if outcome else "no")})
    assert "row 4, column 'outcome'" in refusal(annulled)
    agreeing = rows(**{other: lambda index, outcome: "" if index == 3 else ("yes" if outcome else "no")})
    assert scored(agreeing).columns.outcome == "outcome"


def test_an_outcome_of_a_forecast_that_contradicts_the_file_of_outcomes_is_refused() -> None:
    known = [
        {"question": row["question"], "resolution": 1 - row["outcome"] if index == 4 else row["outcome"]}
        for index, row in enumerate(rows())
    ]
    assert "row 5, column 'outcome'" in refusal(rows(), outcomes=known)


def test_fractional_outcomes_need_an_option() -> None:
    data = [{**row, "outcome": 0.4 if index == 2 else row["outcome"]} for index, row in enumerate(rows())]
    assert (
        "row 3, column 'outcome': 0.4 is a share between no (0) and yes (1); correct it, or give --fractional (fractional=True)"
        in refusal(data)
    )
    assert scored(data, fractional=True).forecasts["outcome"][2] == 0.4
    asked = [{name: row[name] for name in ("question", "p")} for row in data]
    known = [{name: row[name] for name in ("question", "outcome")} for row in data]
    assert "row 3, column 'outcome': 0.4 is a share" in refusal(asked, outcomes=known)
    assert scored(asked, outcomes=known, fractional=True).forecasts["outcome"][2] == 0.4


@pytest.mark.parametrize(("no", "yes"), [(False, True), ("false", "true")])
def test_a_question_that_is_not_resolved_has_no_outcome(no: object, yes: object) -> None:
    data = [
        {"question": row["question"], "p": row["p"], "resolved_to": 0.4 if i == 2 else row["outcome"], "resolved": no if i == 2 else yes}
        for i, row in enumerate(rows())
    ]
    assert "row 3, column 'resolved_to': 0.4" in refusal(data) and "the question is not resolved" in refusal(data)
    assert scored(data, skip_unresolved=True).n_questions == 29
    asked = [{name: row[name] for name in ("question", "p")} for row in data]
    known = [{name: value for name, value in row.items() if name != "p"} for row in data]
    assert scored(asked, outcomes=known, skip_unresolved=True).n_questions == 29


def test_the_cases_found_in_use_are_read(recordings: Path) -> None:
    cases = recordings.parent / "data_2026_11" / "cases" / "scoring"
    if not cases.is_dir():
        pytest.skip(f"no cases at {cases}")
    for name, column in (("c_ci_wide.csv", "forecast_mine"), ("c_prob_no_only.csv", "p_mine")):
        assert scored(cases / name).columns.probability == (column,)
    first = {"semicolon_deccomma.csv": 0.17, "sep_line.csv": 0.17, "spaces_header.csv": 0.17, "j_nan.jsonl": 0.91}
    for name, value in first.items():
        result = scored(cases / name)
        assert (result.n_questions, result.forecasts["probability"][0]) == (24, value)
    assert scored(cases / "j_nan.jsonl").notes == ("1 row without a forecast: coverage counts them.",)
    assert scored(cases / "no_match.csv", outcomes=cases / "no_match_outcomes.csv").forecasts["outcome"].to_list() == [1, 0, 0, 1]
