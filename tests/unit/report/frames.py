"""Small releases for tests: frames of the benchmark's tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.answers import Answers
from bellwether.questions.analysis import analyse
from bellwether.report.inputs import ReportInputs
from bellwether.report.predictions import Predictions, predictions
from bellwether.tables.benchmark import FORECASTS, HORIZONS, QUESTIONS

CUTOFF = datetime(2025, 10, 1, tzinfo=UTC)
KNOWN = datetime(2026, 1, 5, 6, 7, 8, tzinfo=UTC)
STAMP = {"release": "q", "known_at": KNOWN, "rules": "1"}


def question(number: int, truth: str = "yes", **facts: Any) -> dict[str, Any]:
    """Return one row of benchmark/questions with these columns changed."""
    close = facts.pop("close_time", CUTOFF + timedelta(days=number + 1, hours=6))
    row = {
        **STAMP,
        "id": f"kalshi:M{number}",
        "question": f"Will number {number} happen?",
        "description": f"If number {number} happens, it is yes.",
        "category": ("Politics", "Sports", "Weather")[number % 3],
        "close_time": close,
        "ground_truth": truth,
        "market_probability": 0.99 if truth == "yes" else 0.01,
        "series_ticker": f"S{number // 2}",
        "source": "kalshi",
        "market_id": f"M{number}",
        "event_id": f"E{number}",
        "cluster": f"kalshi:S{number // 2}",
        "open_time": close - timedelta(days=10),
        "settled_at": close + timedelta(hours=3),
        "ordinal": number,
        "version": 1,
        "cutoff": CUTOFF,
    }
    for name, hours in HORIZONS.items():
        row |= {f"price_{name}": Decimal("0.6"), f"price_{name}_at": close - timedelta(hours=hours)}
    return row | facts


def questions(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return QUESTIONS.validate(QUESTIONS.frame(rows))


def release(n: int = 24, seed: int = 3, **facts: Any) -> pl.DataFrame:
    """Return `n` questions with random outcomes and prices."""
    generator = np.random.default_rng(seed)
    truths = generator.random(n) < 0.4
    prices = np.clip(generator.random(n) * 0.5 + 0.3 * truths, 0.01, 0.99)
    return questions(
        [
            question(number, "yes" if truth else "no", **{f"price_{name}": Decimal(f"{price:.2f}") for name in HORIZONS}, **facts)
            for number, (truth, price) in enumerate(zip(truths, prices, strict=True))
        ]
    )


def forecast(forecaster: str, number: int, p_yes: float | None, **facts: Any) -> dict[str, Any]:
    """Return one row of benchmark/forecasts. Without `p_yes` it states a reason."""
    answer = None if p_yes is None else "yes" if p_yes >= 0.5 else "no"
    row: dict[str, Any] = {
        **STAMP,
        "forecaster": forecaster,
        "question_id": f"kalshi:M{number}",
        "sample": 0,
        "as_of": CUTOFF + timedelta(days=number, hours=6),
        "answer": answer,
        "confidence": None if p_yes is None else p_yes if answer == "yes" else 1 - p_yes,
        "p_yes": p_yes,
        "combine": "mean",
        "error": None if p_yes is not None else "it took too long",
        "failure": None if p_yes is not None else "timeout",
        "could_know": False,
    }
    return row | facts


def model_forecast(forecaster: str, number: int, p_yes: float | None, **facts: Any) -> dict[str, Any]:
    """Return a forecast of a language model with the fields of its call."""
    answer = (
        None
        if p_yes is None
        else f"<answer>{'yes' if p_yes >= 0.5 else 'no'}</answer><confidence>{max(p_yes, 1 - p_yes) * 100:g}</confidence>"
    )
    call = {
        "model": f"openai/{forecaster}",
        "elicitation": "tags/1",
        "prompt_hash": f"{number:016x}",
        "raw_response": answer,
        "reasoning": "because",
        "finish_reason": "stop",
        "parsed_by": "tag" if answer else None,
        "repaired": False,
        "input_tokens": 200 + number,
        "output_tokens": 50,
        "reasoning_tokens": 10,
        "cost": Decimal("0.001234"),
        "cost_source": "price_list",
        "price_map": "1.103/abc",
        "latency": 0.5 + number / 8,
        "attempts": 1,
        "call_key": f"{forecaster}-{number}",
        "knowledge_cutoff": CUTOFF - timedelta(days=30),
        "days_from_cutoff": 30.0 + number,
    }
    return forecast(forecaster, number, p_yes, **(call | facts))


def forecasts(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return FORECASTS.validate(FORECASTS.frame(rows))


def inputs(questions: pl.DataFrame, forecasts: pl.DataFrame, **about: Any) -> ReportInputs:
    """Return the inputs of a report of these questions and forecasts, scored as in the benchmark."""
    from bellwether.calibration.scores import compare_forecasters, comparison_table, leaderboard, reliability, score

    kinds = {name: "language_model" if rows["call_key"].count() else "constant" for (name,), rows in forecasts.group_by("forecaster")}
    comparison = compare_forecasters(Answers.of(forecasts, questions))
    scores = score(forecasts, questions, replicates=200)
    return ReportInputs(
        questions=questions,
        forecasts=forecasts,
        scores=scores,
        reliability=reliability(forecasts, questions),
        leaderboard=leaderboard(scores, kinds, comparison=comparison),
        comparisons=comparison_table(comparison, release="q", known_at=KNOWN),
        dataset_analysis=analyse(questions).frame(),
        **about,
    )


@cache
def tiny() -> ReportInputs:
    """Four questions and one model that answered them."""
    return inputs(release(4), forecasts([model_forecast("m", number, 0.25 + number / 8) for number in range(4)]))


@cache
def example(good: str = "good/model") -> ReportInputs:
    """A release with two language models, `good` and one with failures, two samples and outcomes it could have known, and a constant."""
    asked_of = release(24)
    generator = np.random.default_rng(5)
    truths = (asked_of["ground_truth"] == "yes").to_list()
    rows = [forecast("always-half", number, 0.5) for number in range(24)]
    for number, truth in enumerate(truths):
        p = float(np.clip(0.35 + 0.3 * truth + generator.normal(0, 0.15), 0.02, 0.98))
        rows.append(model_forecast(good, number, round(p, 2)))
        fails = number % 12 == 7
        knows = number < 2
        for sample in range(2):
            wild = None if fails else round(float(generator.random()), 2)
            facts: dict[str, Any] = {"contradiction": "two answers"} if number == 3 else {}
            if fails:
                facts |= {"cost": None, "raw_response": None}
            rows.append(model_forecast("wild", number, wild, sample=sample, combine="median", could_know=knows, **facts))
    return inputs(asked_of, forecasts(rows))


def predictions_of(inputs: ReportInputs, forecaster: str) -> Predictions:
    """Return the predictions of one forecaster."""
    return predictions(forecaster, Answers.of(inputs.forecasts, inputs.questions), inputs.forecasts, inputs.questions)
