"""Lineups: which families compete in a cohort and who decides for each, as data (`registry/lineups.toml`). A cohort keeps its lineup for life."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictStr, field_validator

from bellwether import registry
from bellwether.arena.methodology import methodologies
from bellwether.arena.trivial import RULES
from bellwether.errors import ConfigError
from bellwether.settings import World

FILE = "lineups.toml"
MODELS_FILE = "models.toml"
_PREFIX = "rule/"


class Lineup(BaseModel):
    """One lineup.

    methodology: of the cohorts that it starts. worlds: in which it can be used. families: who decides for each family: the name of a model of the
    registry, or `rule/` and the name of a rule.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    title: Annotated[StrictStr, Field(min_length=1)]
    methodology: StrictStr = "v1"
    worlds: Annotated[tuple[World, ...], Field(min_length=1)] = tuple(World)
    families: Annotated[dict[StrictStr, StrictStr], Field(min_length=1)]

    @field_validator("families")
    @classmethod
    def _families_have_names(cls, value: dict[str, str]) -> dict[str, str]:
        for family, member in value.items():
            if not registry.NAME.fullmatch(family):
                raise ValueError(f"{family!r} cannot be a family; use 1 to 64 lower-case letters, digits, dots, hyphens and underscores")
            if rule_of(member) not in (None, *RULES):
                raise ValueError(f"{family} is {member!r}: there is no such rule; there are {', '.join(_PREFIX + name for name in RULES)}")
        if len(set(value.values())) < len(value):
            twice = sorted(member for member in set(value.values()) if list(value.values()).count(member) > 1)
            raise ValueError(f"{twice[0]!r} decides for two families; give each its own")
        return value

    @property
    def models(self) -> tuple[str, ...]:
        """The models among its members."""
        return tuple(member for member in self.families.values() if rule_of(member) is None)


def rule_of(member: str) -> str | None:
    """The rule that a member of a lineup is; None for a model."""
    return member.removeprefix(_PREFIX) if member.startswith(_PREFIX) else None


def lineups(folder: Path | None = None, *, worlds_of: Callable[[], Mapping[str, tuple[World, ...]]] | None = None) -> Mapping[str, Lineup]:
    """Every lineup by name: the built-in ones, then those of `lineups.toml` in `folder`.

    worlds_of: the models that there are, with the worlds in which each can be asked; those of the registry when left out. Raises `ConfigError` that
    names file, entry, field and value, also for a methodology or a model that there is not, or that another world has.
    """
    known = (worlds_of or _worlds_of(folder))()
    return MappingProxyType({name: _checked(entry, known, folder) for name, entry in registry.read(FILE, folder).items()})


def lineup(name: str, folder: Path | None = None) -> Lineup:
    """The lineup of that name; raises `ConfigError` when there is none, with the names that come close."""
    known = lineups(folder)
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"do you mean {', '.join(close)}?" if close else f"there are {', '.join(known)}"
    raise ConfigError(f"choosing a lineup: none is called {name!r:.80}; {hint}")


def _worlds_of(folder: Path | None) -> Callable[[], Mapping[str, tuple[World, ...]]]:
    from bellwether.models.registry import models

    return lambda: {name: model.worlds for name, model in models(folder).items()}


def _checked(entry: registry.Entry, models: Mapping[str, tuple[World, ...]], folder: Path | None) -> Lineup:
    found = entry.parse(Lineup)
    known = methodologies(folder)
    if found.methodology not in known:
        raise entry.error("methodology", "no such methodology", f"there are {', '.join(known)}")
    for name in found.models:
        if name not in models:
            close = get_close_matches(name, models, n=3, cutoff=0.5)
            raise entry.error(
                "families", f"no model is called {name!r}", f"do you mean {', '.join(close)}?" if close else f"add it to {MODELS_FILE}"
            )
        lacking = [str(world) for world in found.worlds if world not in models[name]]
        if lacking:
            raise entry.error("families", f"{name} cannot be asked in the world {lacking[0]}", "take it out, or correct worlds")
    return found
