"""`bellwether models`: forecasters with their keys, knowledge cutoffs and prices."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from bellwether.console import console, emit
from bellwether.errors import ConfigError
from bellwether.forecasting.listing import list_forecasters
from cli.options import AS_JSON

if TYPE_CHECKING:
    from bellwether.forecasting.listing import ListedForecaster


#: Readiness as the table shows it.
_SHORT = {"key missing": "no key", "extra not installed": "no extra"}


@click.command()
@click.option("--provider", help="Only models of this provider, such as openai or sandbox.")
@click.option("--ready", is_flag=True, help="Only models that can be called now.")
@AS_JSON
def models(provider: str | None, ready: bool, as_json: bool) -> None:
    """List models and baselines with provider, knowledge cutoff, key and price.

    Keys are read from the environment and never shown. Prices are from the registry or LiteLLM's price map. docs/models.md explains how to add a model.
    """
    everyone = list_forecasters()
    known = list(dict.fromkeys(one.provider for one in everyone))
    if provider is not None and provider not in known:
        raise ConfigError(f"listing models: unknown provider {provider!r}; known are {', '.join(known)}")
    chosen = [one for one in everyone if provider in (None, one.provider) and (one.ready or not ready)]
    if as_json:
        emit([asdict(one) for one in chosen])
        return
    console().print(_table(chosen, console().width))
    console().print(_caption(chosen), markup=False, soft_wrap=True)


def _table(chosen: list[ListedForecaster], width: int) -> Grid:
    """Build a table for a terminal of `width` characters; a narrow one omits kind and id."""
    wide = width >= 130
    table = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True)
    for name in ("kind", "provider", "model id") if wide else ("provider",):
        table.add_column(name, overflow="fold", no_wrap=not wide)
    for name in ("cutoff", "key"):
        table.add_column(name, no_wrap=True)
    for name in ("$/M in", "$/M out"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in chosen:
        what = (one.kind, one.provider, one.model or "") if wide else (one.provider,)
        key = Text("ready" if one.ready else _SHORT.get(one.readiness, one.readiness), style="green" if one.ready else "yellow")
        prices = (_dollars(one.input_price), _dollars(one.output_price))
        table.add_row(Text(one.name), *(Text(word) for word in what), one.knowledge_cutoff or "", key, *prices)
    return table


def _caption(chosen: list[ListedForecaster]) -> str:
    missing = list(dict.fromkeys(one.key_variable for one in chosen if one.key_variable and not one.ready))
    lines = [f"{len(chosen)} forecasters, {sum(one.ready for one in chosen)} ready here. A missing price is unknown."]
    if missing:
        lines.append(f"Missing keys: {', '.join(missing)}.")
    lines.append("--json adds ids, sources of cutoffs, and which forecasters run by default.")
    return "\n".join(lines)


def _dollars(price: Decimal | None) -> str:
    return "" if price is None else f"{price:f}"
