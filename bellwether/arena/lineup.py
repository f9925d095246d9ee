"""Families (`registry/families.toml`): the arena's competitors over the years, each represented by successive models (releases). Lineups
(`registry/lineups.toml`): the model or rule that represents each family in a cohort, which keeps its lineup.

`current_terms` returns the terms that a cohort keeps of its models: exact model, parameters, knowledge cutoff and prices. `build_release_rows` builds
arena/releases: the releases used by cohorts, by family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator, model_validator

from bellwether import registry
from bellwether.arena.methodology import load_methodology as methodology_of
from bellwether.arena.methodology import methodologies
from bellwether.arena.rule_agents import RULES
from bellwether.errors import ConfigError, suggestion
from bellwether.lake.sql import run_sql
from bellwether.models.model import Model, models
from bellwether.models.prices import price, price_list
from bellwether.settings import World
from bellwether.tables.arena_rankings import RELEASES

FILE, FAMILIES_FILE, MODELS_FILE = "lineups.toml", "families.toml", "models.toml"
#: Prefix that distinguishes rules from models.
RULE = "rule/"
_MILLION = 1_000_000


class Family(BaseModel):
    """Competitor of the arena, represented over the years by successive models (releases).

    control: the family always has one release; every lineup with models needs a control. releases: date of the provider's release by the name of
    the model in the registry, oldest first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    title: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    control: StrictBool = False
    releases: Annotated[dict[StrictStr, Annotated[date, Field(strict=True)]], Field(min_length=1)]

    @field_validator("releases")
    @classmethod
    def _sort_releases(cls, value: dict[str, date]) -> dict[str, date]:
        return dict(sorted(value.items(), key=lambda item: (item[1], item[0])))

    @model_validator(mode="after")
    def _check_control(self) -> Self:
        if self.control and len(self.releases) > 1:
            raise ValueError(f"a control has exactly one release; this one has {', '.join(self.releases)}")
        return self


def load_families(models: Mapping[str, Model], folder: Path | None = None) -> Mapping[str, Family]:
    """Load all families by name: the built-in ones, then those of `families.toml` in `folder`, where releases may also be added to built-in
    families.

    models: models of the registry by name. Raises `ConfigError` naming file, entry, field and value, also for a release without a model and for
    one that belongs to another family.
    """
    families: dict[str, Family] = {}
    owners: dict[str, str] = {}
    for entry in _merge_entries(folder):
        families[entry.name] = _parse_family(entry, models, owners)
    return MappingProxyType(families)


def find_prices(model: Model) -> tuple[Decimal, Decimal, str] | None:
    """Return (input price, output price, name of the price list), prices in dollars per million tokens; None if the prices are unknown.

    Sources in order: the model's entry, and LiteLLM's price map for a short prompt.
    """
    if model.input_price is not None and model.output_price is not None:
        return model.input_price, model.output_price, "registry"
    listed = price(model, 0)
    return None if listed is None else (listed.prompt * _MILLION, listed.completion * _MILLION, price_list(model))


def _merge_entries(folder: Path | None) -> list[registry.Entry]:
    """Return one entry per family. Releases in the user's file that belong to a built-in family are added to the built-in entry."""
    entries: dict[str, registry.Entry] = {}
    for entry in registry.entries(FAMILIES_FILE, folder):
        first = entries.get(entry.name)
        if first is None:
            entries[entry.name] = entry
            continue
        for name in set(entry.fields) - {"releases"}:
            raise entry.error(name, f"the family is already defined in {first.file}", "rename it, or give only releases")
        own, added = first.fields.get("releases"), entry.fields.get("releases")
        if not isinstance(own, dict) or not isinstance(added, dict):
            raise entry.error("releases", "must be a table", f"write [{entry.name}.releases] and a line per model")
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


class Lineup(BaseModel):
    """Lineup of the registry: which model or rule represents each family in new cohorts.

    methodology: of new cohorts. worlds: settings in which it can be used. families: representative of each family: the name of a model of the
    registry, or `rule/` and the name of a rule. Rules that are not listed also compete, each as a family of its own name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    title: Annotated[StrictStr, Field(min_length=1)]
    methodology: StrictStr = "v1"
    worlds: Annotated[tuple[World, ...], Field(min_length=1)] = tuple(World)
    families: Annotated[dict[StrictStr, StrictStr], Field(min_length=1)]

    @field_validator("families")
    @classmethod
    def _check_families(cls, value: dict[str, str]) -> dict[str, str]:
        for family, member in value.items():
            if not registry.NAME.fullmatch(family):
                raise ValueError(f"{family!r} cannot be a family; {registry.NAME_RULE}")
            if rule_name(member) not in (None, *RULES):
                raise ValueError(f"{family} is {member!r}: unknown rule; choose from {', '.join(RULE + name for name in RULES)}")
        for family, member in value.items():
            if family in RULES and member != RULE + family and RULE + family not in value.values():
                raise ValueError(f"{family} is {member!r}, but the rule {family} competes under this name; rename the family")
        if len(set(value.values())) < len(value):
            twice = sorted(member for member in set(value.values()) if list(value.values()).count(member) > 1)
            raise ValueError(f"{twice[0]!r} represents two families; give each its own model or rule")
        return value

    @property
    def members(self) -> dict[str, str]:
        """Model or rule by family: those in `families`, and the built-in rules that `families` does not contain."""
        others = {name: RULE + name for name in RULES if RULE + name not in self.families.values()}
        return {**self.families, **others}

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the lineup's models, without rules."""
        return tuple(member for member in self.families.values() if rule_name(member) is None)


def rule_name(member: str) -> str | None:
    """Return NAME if the member of a lineup is a rule, written `rule/NAME`; None if the member is a model."""
    return member.removeprefix(RULE) if member.startswith(RULE) else None


def load_lineup(name: str, folder: Path | None = None) -> Lineup:
    """Load a lineup by name. Raises `ConfigError` for an unknown name, suggesting close matches, and for an invalid entry.

    Errors of other lineups have no effect.
    """
    entries, registered = registry.read(FILE, folder), models(folder)
    families = load_families(registered, folder)
    if name in entries:
        return _parse_lineup(entries[name], registered, families, folder)
    raise ConfigError(f"choosing a lineup: {name!r:.80} does not exist; {suggestion(name, entries)}")


def require_registered(name: str, methodology: str | None, folder: Path | None = None) -> None:
    """Raise `ConfigError` unless the lineup and the methodology (default: the lineup's) exist and are valid for new cohorts."""
    load_lineup(name, folder)
    if methodology is not None:
        methodology_of(methodology, folder)


def _parse_lineup(entry: registry.Entry, models: Mapping[str, Model], families: Mapping[str, Family], folder: Path | None) -> Lineup:
    lineup = entry.parse(Lineup)
    rules = methodologies(folder)
    if lineup.methodology not in rules:
        raise entry.error("methodology", "unknown methodology", f"choose from {', '.join(rules)}")
    for family, member in lineup.families.items():
        if rule_name(member) is None:
            _check_model(entry, lineup, family, models, families)
    if lineup.models and not any(member in families and families[member].control for member in lineup.families):
        controls = ", ".join(
            f'{candidate.name} = "{next(iter(candidate.releases))}"' for candidate in families.values() if candidate.control
        )
        raise entry.error("families", "models compete without a control", f"add a family that never changes: {controls}")
    return lineup


def _check_model(entry: registry.Entry, lineup: Lineup, family: str, models: Mapping[str, Model], families: Mapping[str, Family]) -> None:
    """Raise `ConfigError` unless a family's model exists, supports the lineup's worlds, is a release of the family and has a price."""
    name, field = lineup.families[family], f"families.{family}"
    if name not in models:
        close = get_close_matches(name, models, n=3, cutoff=0.5)
        raise entry.error(field, f"unknown model {name!r}", f"did you mean {' or '.join(close)}?" if close else f"add it to {MODELS_FILE}")
    lacking = [str(world) for world in lineup.worlds if world not in models[name].worlds]
    if lacking:
        raise entry.error(field, f"{name} is not available in the world {lacking[0]}", "remove it, or correct worlds")
    owner = next((candidate for candidate in families.values() if name in candidate.releases), None)
    if owner is not None and owner.name != family:
        raise entry.error(field, f"is a release of the family {owner.name}", "choose a release of this family")
    if owner is None and family in families:
        listed = ", ".join(families[family].releases)
        raise entry.error(field, f"is not a release of {family}; its releases are {listed}", "add the release to families.toml")
    if find_prices(models[name]) is None:
        raise entry.error(field, f"{name} has no known price", f"set input_price and output_price in {MODELS_FILE}")


def load_registered_families(folder: Path | None = None) -> Mapping[str, Family]:
    """Load the families of the registry by name."""
    return load_families(models(folder), folder)


def build_release_rows(agents: pl.DataFrame, families: Mapping[str, Family]) -> pl.DataFrame:
    """Build rows of arena/releases, the models that represented each family in cohorts. agents: rows of arena/agents. families: of the registry,
    for titles and dates. Rules are omitted.
    """
    titles = pl.DataFrame(
        [(family.name, family.title, family.control) for family in families.values()],
        schema={"family": str, "title": str, "control": bool},
        orient="row",
    )
    dated = pl.DataFrame(
        [(family.name, model, released) for family in families.values() for model, released in family.releases.items()],
        schema={"family": pl.String(), "model": pl.String(), "released": pl.Date()},
        orient="row",
    )
    return run_sql(RELEASES, {"agents": agents, "families": titles, "dated": dated}, {"rule": RULE})


#: Fields of a model's entry that affect its answers. Endpoints and rate limits may change.
_ASKED = ("model", "temperature", "max_tokens", "reasoning_effort", "parameters", "elicitation")
_REGISTRY = "registry"


@dataclass(frozen=True)
class Terms:
    """Settings and prices of one model that a cohort keeps, even if the registry changes.

    input_price, output_price: dollars per million tokens for a short prompt. price_list: their source. asked: fields of the model's entry that
    affect its answers, as JSON; `model` is the provider's id.
    """

    input_price: Decimal
    output_price: Decimal
    price_list: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    released: date | None = None
    knowledge_cutoff: datetime | None = None

    @property
    def model_id(self) -> str:
        """Id of the model at its provider, in the form provider/id."""
        return str(self.asked["model"])

    def apply_to(self, model: Model) -> Model:
        """Return a registry model with these settings and prices.

        Prices that came from a price list are read from that list again, which also has prices of caches and long prompts.
        """
        priced = {"input_price": self.input_price, "output_price": self.output_price} if self.price_list == _REGISTRY else {}
        return model.model_copy(update={**self.asked, **priced})


def current_terms(lineup: Lineup, folder: Path | None = None) -> dict[str, Terms]:
    """Return the registry's current settings and prices of a lineup's models, by family. Families with a rule are omitted. folder: the user's
    registry.
    """
    if not lineup.models:
        return {}
    registered = models(folder)
    families = load_families(registered, folder)
    terms: dict[str, Terms] = {}
    for family, name in lineup.families.items():
        if name not in lineup.models:
            continue
        released = families[family].releases[name] if family in families else None
        priced = find_prices(registered[name])
        if priced is None:
            raise ConfigError(
                f"freezing the lineup {lineup.name}: {name} has no known price; set input_price and output_price in models.toml"
            )
        fields = registered[name].model_dump(mode="json", include=set(_ASKED))
        terms[family] = Terms(*priced, fields, released, registered[name].knowledge_cutoff)
    return terms
