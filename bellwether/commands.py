"""Every command of `bellwether`: those of its domains, and those that belong to none. None is imported before it is called.

A domain's commands stand in its declaration (bellwether/domains). Another package adds a single command with an entry point
`bellwether.commands`: the name of the command, and the click command as its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points

import click

from bellwether.domains import BUILT_IN, Domain, domains
from bellwether.domains.warehouse import WAREHOUSE
from bellwether.errors import ConfigError
from bellwether.lazy_commands import LazyCommand, PlatformCommand, PluginCommand

GROUP = "bellwether.commands"


def plugins() -> dict[str, PluginCommand]:
    """The commands of other packages, by name."""
    return {point.name: PluginCommand(point) for point in entry_points(group=GROUP)}


#: Commands of the whole, not of a domain.
OF_NO_DOMAIN: Sequence[LazyCommand] = (
    PlatformCommand("backup", "bellwether.backup.commands:backup", "Back up lake, journal and registry; keep older backups by tiers."),
    PlatformCommand("restore", "bellwether.backup.commands:restore", "Restore a backup into an empty home."),
    PlatformCommand("demo", "orchestration.commands:demo", "Run everything in the sandbox and print the leaderboards."),
    PlatformCommand("doctor", "bellwether.doctor_commands:doctor", "Check the installation and say what is wrong with it."),
    PlatformCommand("journal", "bellwether.journal.commands:journal", "Show the calls of models: how they stand, what they cost."),
    PlatformCommand("models", "bellwether.forecasting.commands:models", "List language models and baselines, with keys and prices."),
    PlatformCommand("sandbox", "bellwether.sandbox.commands:sandbox", "Serve the sandbox on 127.0.0.1 until interrupted."),
    PlatformCommand("ui", "orchestration.commands:ui", "Serve Dagster's UI and run its daemon."),
)


def _domains() -> tuple[Domain, ...]:
    """All domains; those of this package, with a warning, where another cannot be loaded: what needs it says so again."""
    try:
        return domains()
    except ConfigError as error:
        click.echo(f"Warning: {error}", err=True)
        return (*BUILT_IN, WAREHOUSE)


def _commands() -> Iterator[LazyCommand]:
    names: set[str | None] = set()
    for command in (*OF_NO_DOMAIN, *(command for domain in _domains() for command in domain.commands)):
        if command.name in names:
            click.echo(f"Warning: two domains declare the command {command.name!r}; the second is left out", err=True)
            continue
        names.add(command.name)
        yield command


_ALL = sorted(_commands(), key=lambda command: command.name or "")
CORE: Sequence[LazyCommand] = tuple(command for command in _ALL if not isinstance(command, PlatformCommand))
PLATFORM: Sequence[LazyCommand] = tuple(command for command in _ALL if isinstance(command, PlatformCommand))
