"""Declaration of a domain, by name, so that it imports nothing that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class LazyCommand:
    """A command of the command line that is imported when it is called.

    name: of the command. home: `module:attribute` of its click command. short_help: its line in `bellwether --help`.
    """

    name: str
    home: str
    short_help: str


class PlatformCommand(LazyCommand):
    """A command that needs the extra `platform`."""


@dataclass(frozen=True)
class Domain:
    """A subject of the platform: its tables, their rules, what Dagster runs for it, and its commands.

    name: of the domain. groups: the groups of its assets, each with what it holds, which `bellwether ui` shows.
    tables: modules, each with a tuple `TABLES` of `bellwether.tables.Table`. Definitions, warehouse, data dictionary and Dagster's Columns
    tab follow from them.
    rules: module with `RULES`, the rules of each table by its name, and optionally `LAKE_CHECKS`, questions about the lake as a whole.
    definitions: module with `definitions(config)`, which returns the assets, jobs, schedules, sensors and resources as `dagster.Definitions`.
    partitions: names of dynamic partitions, each with the function (`module:function`) whose names become partitions automatically.
    waiting: function (`module:function`) that returns the partitions that cannot be made yet, each with the reason.
    demo: function (`module:function`) of a `Runner` and a number of days that makes the domain's part of `bellwether demo`. It returns by
    name how each step ended that may fail without stopping the others: None, or the error.
    results: function (`module:function`) of `as_json` that shows what the demo's part came to, or returns what `--json` adds.
    commands: of the command line, under a heading with the domain's name; those of the built-in domains are in `cli.main`.
    """

    name: str
    groups: Mapping[str, str]
    tables: tuple[str, ...] = ()
    rules: str = ""
    definitions: str = ""
    partitions: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""
    demo: str = ""
    results: str = ""
    commands: tuple[LazyCommand, ...] = ()

    def table_modules(self) -> tuple[ModuleType, ...]:
        """The modules that declare its tables."""
        return tuple(import_module(name) for name in self.tables)

    def rules_module(self) -> ModuleType | None:
        """The module of its rules; None when it has none."""
        return import_module(self.rules) if self.rules else None


def resolve_reference(reference: str) -> Any:
    """The object that `module:attribute` names."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
