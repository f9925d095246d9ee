"""`bellwether models`: forecasters with their keys, knowledge cutoffs and prices."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from bellwether.console import console
from bellwether.forecasting.listing import list_forecasters

if TYPE_CHECKING:
    from bellwether.forecasting.listing import ListedForecaster


#: Readiness as the table shows it.
_SHORT = {"key missing": "no key", "extra not installed": "no extra"}


@click.command()
def models() -> None:
    """List models and baselines with provider, knowledge cutoff, key and price.

    Keys are read from the environment and never shown. Prices are from the registry or LiteLLM's price map. docs/models.md explains how to add a model.
    """
    entries = list_forecasters()
    console().print(_models_table(entries, console().width))
    console().print(_caption(entries), markup=False, soft_wrap=True)


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
        identity = (entry.kind, entry.provider, entry.model or "") if wide else (entry.provider,)
        key = Text("ready" if entry.ready else _SHORT.get(entry.readiness, entry.readiness), style="green" if entry.ready else "yellow")
        prices = (_dollars(entry.input_price), _dollars(entry.output_price))
        table.add_row(Text(entry.name), *(Text(text) for text in identity), entry.knowledge_cutoff or "", key, *prices)
    return table


def _caption(chosen: list[ListedForecaster]) -> str:
    missing = list(dict.fromkeys(entry.key_variable for entry in chosen if entry.key_variable and not entry.ready))
    lines = [f"{len(chosen)} forecasters, {sum(entry.ready for entry in chosen)} ready here. A missing price is unknown."]
    if missing:
        lines.append(f"Missing keys: {', '.join(missing)}.")
    return "\n".join(lines)


def _dollars(price: Decimal | None) -> str:
    return "" if price is None else f"{price:f}"
