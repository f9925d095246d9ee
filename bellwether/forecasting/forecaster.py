"""Interface of forecasters, and the fields common to their registry entries."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from bellwether.registry import KnowledgeCutoff
from bellwether.tables.benchmark import FORECASTS
from bellwether.tables.knowledge import knowledge_columns
from bellwether.tables.schema import TEXT

if TYPE_CHECKING:
    from bellwether.models.client import ModelClient

NO_ERROR = pl.lit(None, TEXT)
KNOWN_AT = pl.col("known_at")

#: Kind of failure of a forecaster that lacks the data for a forecast.
NO_BASIS = "no_basis"


class Models(Protocol):
    """Source of model clients with the keys, limits and budget of an evaluation."""

    def client(self) -> AbstractAsyncContextManager[ModelClient]:
        """Open a model client, which is closed at the end of the `async with` block."""
        ...


class Forecaster(Protocol):
    """Interface of a forecaster: a model or baseline that answers questions."""

    @property
    def name(self) -> str:
        """Name of the forecaster in the registry."""
        ...

    @property
    def kind(self) -> str:
        """Method of forecasting, such as base_rate or language_model."""
        ...

    @property
    def description(self) -> str:
        """Description in one sentence."""
        ...

    @property
    def knowledge_cutoff(self) -> datetime | None:
        """Time until which the forecaster may know outcomes; None if it knows none."""
        ...

    @property
    def version(self) -> str:
        """Hash of everything that determines the forecasts."""
        ...

    @property
    def automatic(self) -> bool:
        """True if the forecaster takes part in every release without being named."""
        ...

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """Return one row of benchmark/forecasts per question and sample: a forecast, or the reason why it is missing.

        questions: rows of benchmark/questions of one release. models: for forecasters that query one.
        """
        ...


class Registered(BaseModel, ABC):
    """Base class of the baselines in the registry, with the fields that all entries have. Each kind of baseline adds its parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Version of the kind's method; raise it when forecasts change for the same parameters.
    method: ClassVar[str] = "1"

    name: StrictStr
    kind: StrictStr
    description: StrictStr = Field(min_length=1)
    knowledge_cutoff: KnowledgeCutoff = None

    @property
    def version(self) -> str:
        """Hash of the method and its parameters."""
        parameters = self.model_dump_json(exclude={"name", "description", "knowledge_cutoff"})
        return hashlib.sha256(f"{self.method}:{parameters}".encode()).hexdigest()[:12]

    @property
    def automatic(self) -> bool:
        """True: baselines cost nothing and always take part."""
        return True

    @abstractmethod
    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`."""


def forecast_rows(
    forecaster: Forecaster,
    questions: pl.DataFrame,
    *,
    p_yes: pl.Expr | pl.Series,
    as_of: pl.Expr,
    error: pl.Expr = NO_ERROR,
    known_at: pl.Expr = KNOWN_AT,
) -> pl.DataFrame:
    """Build one row of benchmark/forecasts per question; the arguments are expressions over `questions`.

    p_yes: float64 probability of yes, null without a forecast; `error` is then the reason. known_at: by default that of
    the question. The answer is yes from p_yes = 0.5 on; the confidence is the probability of the answer.
    """
    stated = questions.with_columns(
        p_yes=p_yes, as_of=as_of, error=error, known_at=known_at, **knowledge_columns(forecaster.knowledge_cutoff)
    )
    stated = stated.with_columns(answer=pl.when(pl.col("p_yes") >= 0.5).then(pl.lit("yes")).when(pl.col("p_yes") < 0.5).then(pl.lit("no")))
    rows = stated.select(
        release="release",
        forecaster=pl.lit(forecaster.name),
        question_id="id",
        sample=pl.lit(0, pl.Int32),
        as_of="as_of",
        answer="answer",
        confidence=pl.when(pl.col("answer") == "yes").then("p_yes").otherwise(1.0 - pl.col("p_yes")),
        p_yes="p_yes",
        error="error",
        failure=pl.when(pl.col("error").is_not_null()).then(pl.lit(NO_BASIS)),
        knowledge_cutoff="knowledge_cutoff",
        days_from_cutoff="days_from_cutoff",
        could_know="could_know",
        known_at="known_at",
        rules=pl.lit(forecaster.version),
    )
    not_asked = [pl.lit(None, column.dtype).alias(column.name) for column in FORECASTS.columns if column.name not in rows.columns]
    return FORECASTS.validate(rows.with_columns(not_asked)).sort(FORECASTS.order)
