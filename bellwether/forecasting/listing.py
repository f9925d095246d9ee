"""Overview of all forecasters with keys, knowledge cutoffs and prices, for `bellwether models`."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from bellwether.forecasting.forecaster import Forecaster
from bellwether.forecasting.language_model import LanguageModel
from bellwether.forecasting.registry import forecasters
from bellwether.models.keys import status
from bellwether.models.model import Model
from bellwether.models.prices import price
from bellwether.registry import last_day


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedForecaster:
    """Line of the overview. Prices are dollars per million tokens, None if unknown. automatic: the forecaster takes part in every release
    without being named.
    """

    name: str
    title: str
    kind: str
    provider: str
    model: str | None = None
    family: str | None = None
    knowledge_cutoff: str | None
    cutoff_source: str | None = None
    readiness: str = "no key needed"
    key_variable: str | None = None
    ready: bool = True
    input_price: Decimal | None = Decimal(0)
    output_price: Decimal | None = Decimal(0)
    automatic: bool = True
    description: str


def list_forecasters() -> list[ListedForecaster]:
    """List all forecasters: the language models, then the baselines."""
    entries = forecasters().values()
    models = [_model(entry.model, entry.kind) for entry in entries if isinstance(entry, LanguageModel)]
    return models + [_baseline(entry) for entry in entries if not isinstance(entry, LanguageModel)]


def _model(model: Model, kind: str) -> ListedForecaster:
    key, prices = status(model), price(model, 0)
    return ListedForecaster(
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
        input_price=_per_million(prices.prompt) if prices else None,
        output_price=_per_million(prices.completion) if prices else None,
        automatic=model.automatic,
        description=model.description,
    )


def _baseline(forecaster: Forecaster) -> ListedForecaster:
    cutoff = forecaster.knowledge_cutoff
    return ListedForecaster(
        name=forecaster.name,
        title=forecaster.name,
        kind=forecaster.kind,
        provider="baseline",
        knowledge_cutoff=last_day(cutoff) if cutoff else None,
        description=forecaster.description,
    )


def _per_million(dollars: Decimal) -> Decimal:
    return (dollars * 1_000_000).normalize() + 0
