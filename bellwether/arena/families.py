"""Families (`registry/families.toml`): the arena's competitors over the years, each represented by successive models (releases) with release
dates and prices.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator, model_validator

from bellwether import registry
from bellwether.models.model import Dollars
from bellwether.models.prices import price, price_list

if TYPE_CHECKING:
    from bellwether.models.model import Model


FILE = "families.toml"
_MILLION = 1_000_000


class FamilyRelease(BaseModel):
    """Release of a family: a model that represents the family. In `Family.releases` the key is the model's name in the registry.

    released: date of the provider's release. input_price, output_price: dollars per million tokens; default: the model's own prices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    released: dt.date
    input_price: Dollars | None = None
    output_price: Dollars | None = None

    @field_validator("released", mode="before")
    @classmethod
    def _check_date(cls, value: object) -> object:
        if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
            raise ValueError("must be a date such as 2025-12-11, without quotes")
        return value

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        if (self.input_price is None) != (self.output_price is None):
            missing = "output_price" if self.output_price is None else "input_price"
            raise ValueError(f"{missing} is missing; give both prices or neither")
        return self


class Family(BaseModel):
    """Competitor of the arena, represented over the years by successive models (releases).

    control: the family always has one release; every lineup with models needs a control. releases: by the name of the model, oldest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    title: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    control: StrictBool = False
    releases: Annotated[dict[StrictStr, FamilyRelease], Field(min_length=1)]

    @field_validator("releases")
    @classmethod
    def _sort_releases(cls, value: dict[str, FamilyRelease]) -> dict[str, FamilyRelease]:
        return dict(sorted(value.items(), key=lambda item: (item[1].released, item[0])))

    @model_validator(mode="after")
    def _check_control(self) -> Self:
        if self.control and len(self.releases) > 1:
            raise ValueError(f"a control has exactly one release; this one has {', '.join(self.releases)}")
        return self


def load_families(models: Mapping[str, Model], folder: Path | None = None) -> Mapping[str, Family]:
    """Load all families by name: the built-in ones, then those of `families.toml` in `folder`, where releases may also be added to built-in
    families.

    models: models of the registry by name. Raises `ConfigError` naming file, entry, field and value, also for a release without a model and for
    one that belongs to another family. Prices are only required where a lineup uses a release.
    """
    families: dict[str, Family] = {}
    owners: dict[str, str] = {}
    for entry in _merge_entries(folder):
        families[entry.name] = _parse_family(entry, models, owners)
    return MappingProxyType(families)


def find_prices(release: FamilyRelease | None, model: Model) -> tuple[Decimal, Decimal, str] | None:
    """Return (input price, output price, name of the price list), prices in dollars per million tokens; None if the prices are unknown.

    Sources in order: the release, the model's entry, and LiteLLM's price map for a short prompt.
    """
    if release is not None and release.input_price is not None and release.output_price is not None:
        return release.input_price, release.output_price, "registry"
    if model.input_price is not None and model.output_price is not None:
        return model.input_price, model.output_price, "registry"
    listed = price(model, 0)
    return None if listed is None else (listed.prompt * _MILLION, listed.completion * _MILLION, price_list(model))


def _merge_entries(folder: Path | None) -> list[registry.Entry]:
    """Return one entry per family. Releases in the user's file that belong to a built-in family are added to the built-in entry."""
    entries: dict[str, registry.Entry] = {}
    for entry in registry.entries(FILE, folder):
        first = entries.get(entry.name)
        if first is None:
            entries[entry.name] = entry
            continue
        for field in set(entry.fields) - {"releases"}:
            raise entry.error(field, f"the family is already defined in {first.file}", "rename it, or give only releases")
        own, added = first.fields.get("releases"), entry.fields.get("releases")
        if not isinstance(own, dict) or not isinstance(added, dict):
            raise entry.error("releases", "must be a table", f'write [{entry.name}.releases."<model>"]')
        for name in added:
            if name in own:
                raise entry.error(f"releases.{name}", f"is already a release in {first.file}", "a release is never changed; add another")
        entries[entry.name] = registry.Entry(entry.file, entry.name, {**first.fields, "releases": {**own, **added}})
    return list(entries.values())


def _parse_family(entry: registry.Entry, models: Mapping[str, Model], owners: dict[str, str]) -> Family:
    family = entry.parse(Family)
    for name in family.releases:
        field = f"releases.{name}"
        if name in owners:
            raise entry.error(field, f"is a release of the family {owners[name]}", "a model represents one family")
        if name not in models:
            raise entry.error(field, "no model has this name", "add it to models.toml")
        owners[name] = family.name
    return family
