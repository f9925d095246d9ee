"""Language model as a forecaster.

Related modules: calls (elicitation_run.py), prompts (prompt.py), parsing of answers (parsing/).
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

import polars as pl

from bellwether import concurrency
from bellwether.errors import ConfigError
from bellwether.forecasting.forecaster import Models
from bellwether.forecasting.parsing import VERSION as PARSER_VERSION
from bellwether.forecasting.prompt import VERSION as PROMPT_VERSION
from bellwether.models.model import Model

#: Version of the method in addition to prompt and parser: raise it when forecasts change for the same parameters.
METHOD = "1"


class LanguageModel:
    """Forecaster that calls a model of the registry."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """Name of the model in the registry."""
        return self.model.name

    @property
    def kind(self) -> str:
        """Method of forecasting: `tool_model` if the model may call tools, else `language_model`."""
        return "tool_model" if self.model.tools else "language_model"

    @property
    def description(self) -> str:
        """Description in one sentence."""
        return self.model.description

    @property
    def knowledge_cutoff(self) -> datetime | None:
        """Time until which the model may know outcomes; None if unknown."""
        return self.model.knowledge_cutoff

    @property
    def automatic(self) -> bool:
        """True if the model takes part in every release without being named."""
        return self.model.automatic

    @property
    def version(self) -> str:
        """Hash of everything that determines the forecasts: model, parameters, prompt, parser, tools with their corpus, and how samples are combined."""
        model = self.model
        how = (model.elicitation, model.samples, model.combine, model.horizon)
        parts = [METHOD, PROMPT_VERSION, PARSER_VERSION, model.model, model.request_parameters, how]
        if model.tools:
            from bellwether.forecasting.tools import describe_tools

            parts += describe_tools(model)
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def forecast(self, questions: pl.DataFrame, models: Models | None = None) -> pl.DataFrame:
        """See `Forecaster.forecast`. Raises `Interrupted` if the budget is spent, or if a key or credit is missing."""
        from bellwether.forecasting.elicitation_run import run_elicitation

        if models is None:
            raise ConfigError(f"calling {self.name}: a language model needs a model client; pass `models`")

        async def ask() -> pl.DataFrame:
            async with models.client() as client:
                return await run_elicitation(self, questions, client)

        return concurrency.run(ask())
