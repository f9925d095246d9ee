"""Families of competitors and their releases, as data (`registry/families.toml`): which model represents a family since when, at which prices."""

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

_Fragment = Annotated[StrictStr, Field(min_length=1, pattern=r"^[^A-Z]+$")]


class Release(BaseModel):
    """A release of a family: the model of the registry that has its name.

    released: when the provider released it. input_price, output_price: dollars per million tokens; the model's own when left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    released: dt.date
    input_price: Dollars | None = None
    output_price: Dollars | None = None

    @field_validator("released", mode="before")
    @classmethod
    def _is_a_date(cls, value: object) -> object:
        if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
            raise ValueError("must be a date such as 2025-12-11, without quotes")
        return value

    @model_validator(mode="after")
    def _prices_come_together(self) -> Self:
        if (self.input_price is None) != (self.output_price is None):
            missing = "output_price" if self.output_price is None else "input_price"
            raise ValueError(f"{missing} is missing; give both prices or neither")
        return self


class Family(BaseModel):
    """A competitor over the years.

    control: it has one release for ever, and every lineup that asks models has such a family. provider: that of its models' ids. has, without:
    fragments that the id of a later release has, and has not. releases: by the name of the model, the oldest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    title: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    control: StrictBool = False
    provider: Annotated[StrictStr, Field(min_length=1)] | None = None
    has: tuple[_Fragment, ...] = ()
    without: tuple[_Fragment, ...] = ()
    releases: Annotated[dict[StrictStr, Release], Field(min_length=1)]

    @field_validator("releases")
    @classmethod
    def _oldest_first(cls, value: dict[str, Release]) -> dict[str, Release]:
        return dict(sorted(value.items(), key=lambda item: (item[1].released, item[0])))

    @model_validator(mode="after")
    def _controls_stay(self) -> Self:
        if self.control and len(self.releases) > 1:
            raise ValueError(f"a control has one release, and this one has {', '.join(self.releases)}")
        if bool(self.has) != (self.provider is not None):
            raise ValueError("provider and has are given both or neither")
        return self


def families(models: Mapping[str, Model], folder: Path | None = None) -> Mapping[str, Family]:
    """Every family by name: the built-in ones, then those of `families.toml` in `folder`, which may add releases to a built-in one.

    models: of the registry, by name. Raises `ConfigError` that names file, entry, field and value, also for a release that no model has the name of
    or that is another family's already. Whether a price is known matters where a lineup uses a release.
    """
    known: dict[str, Family] = {}
    owners: dict[str, str] = {}
    for entry in _merged(folder):
        known[entry.name] = _checked(entry, models, owners)
    return MappingProxyType(known)


def prices(release: Release | None, model: Model) -> tuple[Decimal, Decimal, str] | None:
    """Dollars per million tokens of prompt and of answer, and the price list that they are from; None when no price is known.

    In this order: those of the release, of the model's entry, and of LiteLLM's price map for a short prompt.
    """
    if release is not None and release.input_price is not None and release.output_price is not None:
        return release.input_price, release.output_price, "registry"
    if model.input_price is not None and model.output_price is not None:
        return model.input_price, model.output_price, "registry"
    found = price(model, 0)
    return None if found is None else (found.put_in * _MILLION, found.out * _MILLION, price_list(model))


def _merged(folder: Path | None) -> list[registry.Entry]:
    """The entries of all files, the releases that the user's file adds to a built-in family among its own."""
    found: dict[str, registry.Entry] = {}
    for entry in registry.entries(FILE, folder):
        first = found.get(entry.name)
        if first is None:
            found[entry.name] = entry
            continue
        for field in set(entry.fields) - {"releases"}:
            raise entry.error(field, f"the family is already defined in {first.file}", "here it can be given releases alone; rename it")
        own, added = first.fields.get("releases"), entry.fields.get("releases")
        if not isinstance(own, dict) or not isinstance(added, dict):
            raise entry.error("releases", "must be a table", f'write [{entry.name}.releases."<model>"]')
        for name in added:
            if name in own:
                raise entry.error(f"releases.{name}", f"is already a release in {first.file}", "a release is never changed; add another")
        found[entry.name] = registry.Entry(entry.file, entry.name, {**first.fields, "releases": {**own, **added}})
    return list(found.values())


def _checked(entry: registry.Entry, models: Mapping[str, Model], owners: dict[str, str]) -> Family:
    found = entry.parse(Family)
    for name in found.releases:
        field = f"releases.{name}"
        if name in owners:
            raise entry.error(field, f"is a release of the family {owners[name]}", "a model represents one family")
        if name not in models:
            raise entry.error(field, "no model has this name", "add it to models.toml")
        owners[name] = found.name
    return found
