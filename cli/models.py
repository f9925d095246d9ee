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
from bellwether.forecasting.listing import competitors
from cli.options import AS_JSON

if TYPE_CHECKING:
    from bellwether.forecasting.listing import Competitor


#: Why a model is not ready, in the words of the table.
_SHORT = {"key missing": "no key", "extra not installed": "no extra"}


@click.command()
@click.option("--provider", help="Only those of one provider, such as openai or sandbox.")
@click.option("--ready", is_flag=True, help="Only those that can be asked here and now.")
@AS_JSON
def models(provider: str | None, ready: bool, as_json: bool) -> None:
    """List every model and baseline: provider, id, knowledge cutoff, key, price.

    Keys are looked for in the environment and never shown. Prices are those of the registry or of LiteLLM's price map. docs/models.md explains
    how to add a model.
    """
    everyone = competitors()
    known = list(dict.fromkeys(one.provider for one in everyone))
    if provider is not None and provider not in known:
        raise ConfigError(f"listing models: no model is of the provider {provider!r}; there are {', '.join(known)}")
    chosen = [one for one in everyone if provider in (None, one.provider) and (one.ready or not ready)]
    if as_json:
        emit([asdict(one) for one in chosen])
        return
    console().print(_table(chosen, console().width))
    console().print(_caption(chosen), markup=False, soft_wrap=True)


def _table(chosen: list[Competitor], width: int) -> Grid:
    """A table for a terminal of so many characters; where it is narrow, a model's kind and id are left to the JSON."""
    wide = width >= 130
    table = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True)
    for name in ("kind", "provider", "asked as") if wide else ("provider",):
        table.add_column(name, overflow="fold", no_wrap=not wide)
    for name in ("knows until", "key"):
        table.add_column(name, no_wrap=True)
    for name in ("$/M in", "$/M out"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in chosen:
        what = (one.kind, one.provider, one.model or "") if wide else (one.provider,)
        key = Text("ready" if one.ready else _SHORT.get(one.readiness, one.readiness), style="green" if one.ready else "yellow")
        prices = (_dollars(one.input_price), _dollars(one.output_price))
        table.add_row(Text(one.name), *(Text(word) for word in what), one.knowledge_cutoff or "", key, *prices)
    return table


def _caption(chosen: list[Competitor]) -> str:
    missing = list(dict.fromkeys(one.key_variable for one in chosen if one.key_variable and not one.ready))
    lines = [f"{len(chosen)} forecasters, {sum(one.ready for one in chosen)} ready here. A price that is missing is not known."]
    if missing:
        lines.append(f"Keys that are not set: {', '.join(missing)}.")
    lines.append("--json tells more: the ids, where each cutoff is stated, and who takes part without being named.")
    return "\n".join(lines)


def _dollars(price: Decimal | None) -> str:
    return "" if price is None else f"{price:f}"
