"""List of all forecasters with keys, knowledge cutoffs and prices."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from bellwether.forecasting.forecaster import Forecaster
from bellwether.forecasting.language_model import LanguageModel
from bellwether.forecasting.registry import forecasters
from bellwether.models.keys import status
from bellwether.models.model import Model
from bellwether.models.prices import price
from bellwether.registry.fields import last_day


@dataclass(frozen=True, slots=True)
class Competitor:
    """Row of the list. Prices are dollars per million tokens, None if unknown. automatic: takes part without being named."""

    name: str
    title: str
    kind: str
    provider: str
    model: str | None
    family: str | None
    knowledge_cutoff: str | None
    cutoff_source: str | None
    readiness: str
    key_variable: str | None
    ready: bool
    input_price: Decimal | None
    output_price: Decimal | None
    automatic: bool
    description: str


def competitors() -> list[Competitor]:
    """List all forecasters: the language models, then the baselines."""
    everyone = forecasters().values()
    models = [_model(one.model, one.kind) for one in everyone if isinstance(one, LanguageModel)]
    return models + [_baseline(one) for one in everyone if not isinstance(one, LanguageModel)]


def _model(model: Model, kind: str) -> Competitor:
    key, found = status(model), price(model, 0)
    return Competitor(
        name=model.name,
        title=model.title,
        kind=kind,
        provider="own" if model.api_base else model.provider,
        model=model.model,
        family=model.family,
        knowledge_cutoff=model.last_known_day,
        cutoff_source=model.cutoff_source,
        readiness=key.readiness,
        key_variable=key.variable,
        ready=key.is_ready,
        input_price=_per_million(found.prompt) if found else None,
        output_price=_per_million(found.completion) if found else None,
        automatic=model.automatic,
        description=model.description,
    )


def _baseline(forecaster: Forecaster) -> Competitor:
    cutoff = forecaster.knowledge_cutoff
    return Competitor(
        name=forecaster.name,
        title=forecaster.name,
        kind=forecaster.kind,
        provider="baseline",
        model=None,
        family=None,
        knowledge_cutoff=last_day(cutoff) if cutoff else None,
        cutoff_source=None,
        readiness="no key needed",
        key_variable=None,
        ready=True,
        input_price=Decimal(0),
        output_price=Decimal(0),
        automatic=True,
        description=forecaster.description,
    )


def _per_million(dollars: Decimal) -> Decimal:
    return (dollars * 1_000_000).normalize() + 0
