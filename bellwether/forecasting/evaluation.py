"""Evaluation of several language models on one release, concurrently. Answers are in the journal, so that a repeated evaluation continues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import polars as pl

from bellwether.errors import BellwetherError
from bellwether.forecasting.elicitation_run import NOT_ASKED, run_elicitation
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal import Outcome
from bellwether.models.client import ModelClient

#: Failures without a response of the model, which count against the server.
_ON_THE_WAY = (Outcome.PROVIDER_ERROR.value, Outcome.TIMEOUT.value, Outcome.RATE_LIMIT.value)
#: Reasons of `MALFORMED` for responses that come from no model; empty answers and reasoning alone come from the model.
_NO_ANSWER = r"^HTTP |\(finish reason: none\)$"

#: Progress callback, called after each sample with the model and its completed and total numbers of samples.
Progress = Callable[[str, int, int], None]


async def evaluate_models(
    forecasters: Sequence[LanguageModel], questions: pl.DataFrame, client: ModelClient, progress: Progress
) -> dict[str, BellwetherError | None]:
    """Evaluate all models on all questions concurrently. Returns for each model by name the error that stopped it, or None.

    The other models continue. A model whose requests all failed at the server counts as stopped.
    """

    async def run(forecaster: LanguageModel) -> BellwetherError | None:
        try:
            rows = await run_elicitation(forecaster, questions, client, lambda done, total: progress(forecaster.name, done, total))
        except BellwetherError as error:
            return error
        return _server_failure(forecaster.name, rows)

    errors = await asyncio.gather(*(run(forecaster) for forecaster in forecasters))
    return dict(zip((forecaster.name for forecaster in forecasters), errors, strict=True))


def _server_failure(name: str, rows: pl.DataFrame) -> BellwetherError | None:
    """Return an error with the most frequent reason if every request of a model failed at the server, else None. Requests that the server
    rejected do not count as failures.
    """
    sent = rows.filter(pl.col("failure").is_null() | (pl.col("failure") != NOT_ASKED))
    unspoken = (pl.col("output_tokens").fill_null(0) == 0) & pl.col("error").str.contains(_NO_ANSWER)
    refused = (pl.col("failure") == Outcome.PROVIDER_ERROR.value) & pl.col("error").str.starts_with("HTTP 4")
    failed = pl.col("failure").is_in(_ON_THE_WAY) & ~refused
    lost = sent.filter(failed | ((pl.col("failure") == Outcome.MALFORMED.value) & unspoken))
    if lost.is_empty() or lost.height < sent.height:
        return None
    errors = lost["error"]
    return BellwetherError(f"calling {name}: all {len(errors)} calls failed: {errors.mode().sort()[0]}; repeat when that is fixed")
