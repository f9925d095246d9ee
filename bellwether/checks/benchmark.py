"""Rules for the benchmark's questions and forecasts."""

from __future__ import annotations

import polars as pl

from bellwether.checks.rule import Rule, applies_to, holds, prices, unique, words
from bellwether.registry.model_names import named_as_requested
from bellwether.tables.benchmark import HORIZONS

#: Model of the sandbox that gives few usable answers.
FAILING = "sandbox-failing"

_QUESTION = (
    unique("release", "id"),
    Rule("not_empty", "the release has questions", None),
    holds(
        "id_names_the_market",
        "the id is the venue and the venue's own id of the market",
        pl.col("id") == pl.concat_str("source", "market_id", separator=":"),
        blocking=True,
    ),
    words("ground_truth_is_binary", "the outcome is yes or no", "ground_truth", "yes", "no", blocking=True),
    holds("question_has_text", "the question is not blank", pl.col("question").str.strip_chars() != "", blocking=True),
    holds(
        "question_names_the_market",
        "no other question of the event has the same text",
        ~pl.struct("release", "event_id", "question").is_duplicated(),
    ),
    holds("closed_after_cutoff", "the market closed after the cutoff", pl.col("close_time") > pl.col("cutoff"), blocking=True),
    holds("settled_after_cutoff", "the market was paid out after the cutoff", pl.col("settled_at") > pl.col("cutoff"), blocking=True),
    *(
        holds(
            f"price_{name}_in_time",
            f"the price for {name} before close is at least {hours} h older than the close and not older than the opening",
            (pl.col(f"price_{name}_at") <= pl.col("close_time") - pl.duration(hours=hours))
            & (pl.col(f"price_{name}_at") >= pl.col("open_time")).fill_null(True),
            blocking=True,
        )
        for name, hours in HORIZONS.items()
    ),
    *(
        holds(
            f"price_{name}_has_instant",
            f"the price for {name} before close comes with its instant",
            pl.col(f"price_{name}").is_null() == pl.col(f"price_{name}_at").is_null(),
            blocking=True,
        )
        for name in HORIZONS
    ),
    prices("market_probability", *(f"price_{name}" for name in HORIZONS)),
)

_FORECAST = (
    unique("release", "forecaster", "question_id", "sample"),
    holds("p_yes_is_probability", "a forecast lies between 0 and 1", pl.col("p_yes").is_between(0, 1), blocking=True),
    holds("confidence_is_probability", "a confidence lies between 0 and 1", pl.col("confidence").is_between(0, 1), blocking=True),
    words("answer_is_binary", "an answer is yes or no", "answer", "yes", "no", blocking=True),
    holds(
        "forecast_or_reason",
        "a row has either a forecast or a reason",
        pl.col("p_yes").is_null() == pl.col("error").is_not_null(),
        blocking=True,
    ),
    holds(
        "answer_agrees_with_forecast",
        "the answer is yes exactly when the forecast is at least 0.5",
        (pl.col("answer") == "yes") == (pl.col("p_yes") >= 0.5),
    ),
    holds(
        "served_model_is_requested",
        "the model that answered is the requested one, or a dated snapshot of it",
        named_as_requested(),
    ),
    holds(
        "one_served_model",
        "all answers of a forecaster on a release are of one model",
        pl.col("served_model").drop_nulls().n_unique().over("release", "forecaster") <= 1,
    ),
    holds(
        "coverage",
        f"nine questions of ten have a forecast; not required of {FAILING}, which fails on purpose",
        applies_to(pl.col("forecaster") != FAILING, pl.col("p_yes").is_not_null()),
        mostly=0.9,
    ),
)

RULES: dict[str, tuple[Rule, ...]] = {"benchmark/questions": _QUESTION, "benchmark/forecasts": _FORECAST}
