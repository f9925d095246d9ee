"""Terms: what a cohort keeps of the releases of its lineup: the exact model, how it is asked, what it knows and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.arena.families import families, prices
from bellwether.arena.lineup import Lineup
from bellwether.errors import ConfigError
from bellwether.models.registry import models

if TYPE_CHECKING:
    from bellwether.models.model import Model

#: Fields of a model's entry that decide what it answers. Where it is reached, and how fast, may change.
_ASKED = ("model", "temperature", "max_tokens", "reasoning_effort", "parameters", "elicitation")
_REGISTRY = "registry"


@dataclass(frozen=True)
class Terms:
    """The terms of one model in a cohort.

    input_price, output_price: dollars per million tokens, for a short prompt. price_list: what they are from. asked: fields of the model's entry that
    decide what it answers, as JSON holds them; of them `model` is the provider's id.
    """

    input_price: Decimal
    output_price: Decimal
    price_list: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    released: date | None = None
    knowledge_cutoff: datetime | None = None

    @property
    def model_id(self) -> str:
        """The model's id, provider/id."""
        return str(self.asked["model"])

    def applied(self, model: Model) -> Model:
        """The registry's model of today on these terms.

        Prices that the registry stated stay; those of a price list are that list's, with its prices for caches and long prompts.
        """
        priced = {"input_price": self.input_price, "output_price": self.output_price} if self.price_list == _REGISTRY else {}
        return model.model_copy(update={**self.asked, **priced})


def terms_of(chosen: Lineup, folder: Path | None = None) -> dict[str, Terms]:
    """The terms in force of a lineup's models, by family; rules have none. folder: the user's registry."""
    if not chosen.models:
        return {}
    known = models(folder)
    competing = families(known, folder)
    found: dict[str, Terms] = {}
    for family, name in chosen.families.items():
        if name not in chosen.models:
            continue
        release = competing[family].releases[name] if family in competing else None
        priced = prices(release, known[name])
        if priced is None:
            raise ConfigError(
                f"freezing the lineup {chosen.name}: no price of {name} is known; give input_price and output_price in models.toml"
            )
        asked = known[name].model_dump(mode="json", include=set(_ASKED))
        found[family] = Terms(*priced, asked, release.released if release else None, known[name].knowledge_cutoff)
    return found
