"""Contamination: questions of a release whose outcome a forecaster could have known, and its scores on them.

A question counts for a forecaster only if it closed and was settled strictly after the forecaster's knowledge cutoff. The rule is defined in
`bellwether.tables.knowledge`; this module applies it to releases and their forecasts.
"""

from __future__ import annotations

from datetime import datetime

import polars as pl

from bellwether.calibration.answers import Answers
from bellwether.tables.benchmark import QUESTIONS
from bellwether.tables.knowledge import knowledge_columns
from bellwether.tables.schema import TIME

_NOBODY = pl.DataFrame(
    schema={
        "forecaster": pl.String(),
        "knowledge_cutoff": TIME,
        "n_questions": pl.Int64(),
        "could_know": pl.Int64(),
        "could_know_share": pl.Float64(),
        "opened_before_cutoff": pl.Int64(),
        "brier": pl.Float64(),
        "brier_could_know": pl.Float64(),
    }
)


def exposure(questions: pl.DataFrame, cutoff: datetime | None) -> pl.DataFrame:
    """Return for each question of a release whether a forecaster with this knowledge cutoff could have known the outcome: one row per
    question, in the given order.

    Columns id, open_time, close_time, settled_at, could_know, opened_after_cutoff (null without an opening time) and days_from_cutoff (days from
    the cutoff to the resolution, the later of close and settlement). A question that opened before the cutoff may have been discussed in training
    data, though its outcome was not. Without a cutoff nothing could be known, and the last two columns are null.
    """
    opened_after = pl.col("open_time") > pl.lit(cutoff, TIME)
    facts = knowledge_columns(cutoff)
    return QUESTIONS.validate(questions).select(
        "id",
        "open_time",
        "close_time",
        "settled_at",
        could_know=facts["could_know"],
        opened_after_cutoff=opened_after,
        days_from_cutoff=facts["days_from_cutoff"],
    )


def contamination(forecasts: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Return how many questions each forecaster could have known, with Brier scores on these and on the other questions: one row per
    forecaster, sorted by name.

    Columns forecaster, knowledge_cutoff, n_questions, could_know, could_know_share, opened_before_cutoff (questions that count and opened at
    or before the cutoff), brier (over the questions that count) and brier_could_know (over the others, for information: a much lower value
    suggests remembered outcomes). Null where undefined. Errors as in `scores.score`.
    """
    answers = Answers.of(forecasts, questions)
    error = (pl.col("p") - pl.col("y").cast(pl.Float64)) ** 2
    opened_before = ~pl.col("could_know") & (pl.col("open_time") <= pl.col("knowledge_cutoff"))
    summaries = [
        answers.sheet(name).select(
            forecaster=pl.lit(name),
            knowledge_cutoff=pl.col("knowledge_cutoff").first(),
            n_questions=pl.len().cast(pl.Int64),
            could_know=pl.col("could_know").sum().cast(pl.Int64),
            could_know_share=pl.col("could_know").mean(),
            opened_before_cutoff=opened_before.sum().cast(pl.Int64),
            brier=error.filter(~pl.col("could_know")).mean(),
            brier_could_know=error.filter("could_know").mean(),
        )
        for name in answers.names
    ]
    return pl.concat([_NOBODY, *summaries])
