"""Declaration of a domain. Modules and functions are named in it as text, so that they are imported only when needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class LazyCommand:
    """Command of the command line whose module is imported when the command is called.

    name: of the command. home: `module:attribute` of its click command. short_help: its line in `bellwether --help`.
    """

    name: str
    home: str
    short_help: str


@dataclass(frozen=True)
class Domain:
    """Subject area of the platform: its tables, rules, Dagster definitions and commands.

    name: of the domain. groups: asset groups with their descriptions, shown by `bellwether ui`. tables: modules, each with a tuple `TABLES` of
    `bellwether.tables.Table`, from which definitions, warehouse, data dictionary and Dagster's column metadata follow. rules: module with
    `RULES` (rules by table name) and optionally `LAKE_CHECKS` (checks of the whole lake). definitions: module with `definitions(config)`, which
    returns the assets, jobs, schedules, sensors and resources as `dagster.Definitions`. partitions: dynamic partitions by name, each with the
    function (`module:function`) that returns their keys. waiting: function (`module:function`) that returns the partitions that cannot be
    materialized yet, with reasons. demo: function (`module:function`) of a `Runner` and a number of days that runs the domain's part of
    `bellwether demo`. It returns the result of each step that may fail without stopping the others, by name: None or the error. results:
    function (`module:function`) of `as_json` that shows the results of that part, or returns them for `--json`. commands: commands under the
    domain's heading; those of the built-in domains are in `cli.main`.
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
        """Import the modules that declare the domain's tables, and return them."""
        return tuple(import_module(name) for name in self.tables)

    def rules_module(self) -> ModuleType | None:
        """Import the module with the domain's rules, and return it; None for a domain without rules."""
        return import_module(self.rules) if self.rules else None


def resolve_reference(reference: str) -> Any:
    """Import and return the object that `module:attribute` names."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
