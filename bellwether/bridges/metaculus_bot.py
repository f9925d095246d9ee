"""A forecaster of the registry as a bot of `forecasting-tools`, for binary questions. Requires the package `forecasting-tools`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl
from forecasting_tools import BinaryQuestion, ForecastBot, MetaculusQuestion, ReasonedPrediction

from bellwether.bridges.metaculus import HIGHEST, LOWEST, VENUE, describe
from bellwether.concurrency import in_thread
from bellwether.errors import BellwetherError
from bellwether.forecasting import forecaster as registered
from bellwether.models.client import WorldModels
from bellwether.settings import settings
from bellwether.tables.benchmark import HORIZONS, QUESTIONS


class ForecasterBot(ForecastBot):
    """Bot that asks a forecaster of the registry, without research of its own.

    A model is asked with our prompts, its calls are in the journal, and their costs count against BELLWETHER_BUDGET. Only binary
    questions are accepted.
    """

    def __init__(self, forecaster: str, **options: Any) -> None:
        """Create the bot. forecaster: name in the registry. options: of `ForecastBot`. Raises `ConfigError` for an unknown name."""
        self.forecaster = registered(forecaster)
        super().__init__(**{"enable_summarize_research": False, "llms": dict.fromkeys(self._llm_config_defaults()), **options})

    async def run_research(self, question: MetaculusQuestion) -> str:
        """Return no research."""
        return ""

    async def _run_forecast_on_binary(self, question: BinaryQuestion, research: str) -> ReasonedPrediction[float]:
        row = build_row(question, datetime.now(UTC))
        models = WorldModels(f"metaculus-{self.forecaster.name}", settings().budget)
        (answer,) = (await in_thread(self.forecaster.forecast, row, models)).iter_rows(named=True)
        if answer["p_yes"] is None:
            raise BellwetherError(f"asking {self.forecaster.name} about post {question.id_of_post}: {answer['error']}")
        reasoning = answer["reasoning"] or answer["raw_response"] or self.forecaster.description
        return ReasonedPrediction(prediction_value=min(max(answer["p_yes"], LOWEST), HIGHEST), reasoning=reasoning)

    async def _run_forecast_on_multiple_choice(self, question: MetaculusQuestion, research: str) -> Any:
        raise _refusal(question)

    async def _run_forecast_on_numeric(self, question: MetaculusQuestion, research: str) -> Any:
        raise _refusal(question)

    async def _run_forecast_on_date(self, question: MetaculusQuestion, research: str) -> Any:
        raise _refusal(question)


def _refusal(question: MetaculusQuestion) -> BellwetherError:
    return BellwetherError(f"forecasting post {question.id_of_post}: it is no binary question; select binary questions")


def build_row(question: BinaryQuestion, now: datetime) -> pl.DataFrame:
    """Build a row of benchmark/questions with `now` as the time of the forecast, and the community prediction at loading as its price."""
    price = question.community_prediction_at_access_time
    values: dict[str, Any] = {
        "release": VENUE,
        "id": f"{VENUE}:{question.id_of_question}",
        "market_id": str(question.id_of_question),
        "source": VENUE,
        "question": question.question_text,
        "description": describe(question.resolution_criteria, question.fine_print, question.background_info),
        "open_time": now,
        "close_time": now,
        "known_at": now,
        "ordinal": 0,
        **({f"price_{name}": price for name in HORIZONS} | {f"price_{name}_at": now for name in HORIZONS} if price is not None else {}),
    }
    columns = [pl.lit(values.get(column.name)).cast(column.dtype).alias(column.name) for column in QUESTIONS.columns]
    return pl.DataFrame().select(columns)
