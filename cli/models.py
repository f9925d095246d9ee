"""`bellwether models`: forecasters with their keys, knowledge cutoffs and prices."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from bellwether.console import console
from bellwether.forecasting import forecasters
from bellwether.forecasting.language_model import LanguageModel
from bellwether.models.keys import status
from bellwether.models.prices import price
from bellwether.registry import last_day

if TYPE_CHECKING:
    from bellwether.forecasting import Forecaster


@dataclass(frozen=True, slots=True)
class ListedForecaster:
    """Line of the overview. Prices are dollars per million tokens, None if unknown. variable: environment variable of the key, if one is needed."""

    name: str
    kind: str
    provider: str
    model: str
    knowledge_cutoff: str
    key: str
    is_ready: bool
    variable: str | None
    input_price: Decimal | None
    output_price: Decimal | None


@click.command()
def models() -> None:
    """List models and baselines with provider, knowledge cutoff, key and price.

    Keys are read from the environment and never shown. Prices are from the registry or LiteLLM's price map. docs/models.md explains how to add a model.
    """
    entries = list_forecasters()
    console().print(_models_table(entries, console().width))
    console().print(_caption(entries), markup=False, soft_wrap=True)


def list_forecasters() -> list[ListedForecaster]:
    """List all forecasters: the language models, then the baselines."""
    entries = forecasters().values()
    models = [entry for entry in entries if isinstance(entry, LanguageModel)]
    return [_describe_model(entry) for entry in models] + [_describe_baseline(entry) for entry in entries if entry not in models]


def _describe_model(entry: LanguageModel) -> ListedForecaster:
    model, key, prices = entry.model, status(entry.model), price(entry.model, 0)
    return ListedForecaster(
        name=model.name,
        kind=entry.kind,
        provider="own" if model.api_base else model.provider,
        model=model.model,
        knowledge_cutoff=model.last_known_day or "",
        key="ready" if key.is_ready else "no key" if key.variable else key.readiness,
        is_ready=key.is_ready,
        variable=key.variable,
        input_price=_per_million(prices.prompt) if prices else None,
        output_price=_per_million(prices.completion) if prices else None,
    )


def _describe_baseline(entry: Forecaster) -> ListedForecaster:
    cutoff = last_day(entry.knowledge_cutoff) if entry.knowledge_cutoff else ""
    return ListedForecaster(entry.name, entry.kind, "baseline", "", cutoff, "ready", True, None, Decimal(0), Decimal(0))


def _per_million(dollars: Decimal) -> Decimal:
    return (dollars * 1_000_000).normalize() + 0


def _models_table(chosen: list[ListedForecaster], width: int) -> Grid:
    """Build the table of models. width: characters of the terminal; a narrow table has no kind and no model id."""
    wide = width >= 130
    table = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True)
    for name in ("kind", "provider", "model id") if wide else ("provider",):
        table.add_column(name, overflow="fold", no_wrap=not wide)
    for name in ("cutoff", "key"):
        table.add_column(name, no_wrap=True)
    for name in ("$/M in", "$/M out"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in chosen:
        identity = (entry.kind, entry.provider, entry.model) if wide else (entry.provider,)
        key = Text(entry.key, style="green" if entry.is_ready else "yellow")
        prices = (_dollars(entry.input_price), _dollars(entry.output_price))
        table.add_row(Text(entry.name), *(Text(text) for text in identity), entry.knowledge_cutoff, key, *prices)
    return table


def _caption(chosen: list[ListedForecaster]) -> str:
    missing = list(dict.fromkeys(entry.variable for entry in chosen if entry.variable and not entry.is_ready))
    lines = [f"{len(chosen)} forecasters, {sum(entry.is_ready for entry in chosen)} ready here. A missing price is unknown."]
    if missing:
        lines.append(f"Missing keys: {', '.join(missing)}.")
    return "\n".join(lines)


def _dollars(price: Decimal | None) -> str:
    return "" if price is None else f"{price:f}"
