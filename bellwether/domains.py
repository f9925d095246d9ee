"""Domains: the subject areas of the platform, such as benchmark and arena. A new domain is an entry of `DOMAINS` (docs/design.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Domain:
    """Subject area of the platform: its tables, rules and Dagster definitions.

    name: of the domain. tables: modules, each with a tuple `TABLES` of
    `bellwether.tables.Table`, from which definitions, warehouse, data dictionary and Dagster's column metadata follow. rules: module with
    `RULES` (rules by table name) and optionally `LAKE_CHECKS` (checks of the whole lake). definitions: module with `definitions(config)`, which
    returns the assets, jobs, schedules, sensors and resources as `dagster.Definitions`. partitions: dynamic partitions by name, each with the
    function (`module:function`) that returns their keys. demo: function (`module:function`) of a `Runner` and a number of days that runs the domain's part of
    `bellwether demo`. It returns the result of each step that may fail without stopping the others, by name: None or the error. results:
    function (`module:function`) that prints the results of that part.
    """

    name: str
    tables: tuple[str, ...] = ()
    rules: str = ""
    definitions: str = ""
    partitions: Mapping[str, str] = field(default_factory=dict)
    demo: str = ""
    results: str = ""

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


VENUES = Domain(
    "venues",
    tables=("bellwether.tables.raw", "bellwether.tables.clean"),
    rules="bellwether.checks.venues",
    definitions="assets.raw.jobs",
    demo="assets.raw.runs:demo",
)


BENCHMARK = Domain(
    "benchmark",
    tables=("bellwether.tables.benchmark",),
    rules="bellwether.checks.benchmark",
    definitions="assets.benchmark.jobs",
    partitions={"release": "assets.benchmark.partitions:release_names", "forecaster": "assets.benchmark.partitions:forecasters"},
    demo="assets.benchmark.runs:demo",
    results="assets.benchmark.results:print_demo_leaderboard",
)


REPLAY = Domain(
    "replay",
    tables=("bellwether.tables.replay",),
    rules="bellwether.checks.replay",
    definitions="assets.replay.jobs",
    partitions={"agent": "bellwether.replay.registry:agents", "episode": "assets.replay.assets:stored_episodes"},
    demo="assets.replay.runs:demo",
    results="assets.replay.runs:print_comparison",
)


ARENA = Domain(
    "arena",
    tables=("bellwether.tables.arena", "bellwether.tables.arena_rankings"),
    rules="bellwether.arena.checks",
    definitions="assets.arena.jobs",
    demo="assets.arena.runs:demo",
    results="assets.arena.queries:print_rankings",
)


WAREHOUSE = Domain(
    "warehouse",
    definitions="assets.summary.jobs",
    demo="assets.summary.runs:demo",
)


#: At the end the warehouse, which publishes the tables of the others.
DOMAINS = (VENUES, BENCHMARK, REPLAY, ARENA, WAREHOUSE)
