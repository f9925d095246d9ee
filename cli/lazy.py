"""Commands that are imported only when they are called, so that `bellwether --help` is fast."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from bellwether.domains import LazyCommand, PlatformCommand, resolve_reference
from bellwether.extras import advice, missing_module

GROUP = "bellwether.commands"


class Lazy(click.Command):
    """Command that is imported only when it is called. declared: name, module, and line in the help."""

    def __init__(self, declared: LazyCommand) -> None:
        super().__init__(declared.name, short_help=declared.short_help)
        self.declared = declared
        self.of_platform = isinstance(declared, PlatformCommand)

    def load(self) -> click.Command:
        """Import the command. Raises `click.ClickException` if the command needs the extra `platform` and this is not installed."""
        if self.of_platform and (module := missing_module()):
            raise click.ClickException(advice(f"bellwether {self.name}", module))
        command: click.Command = resolve_reference(self.declared.home)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """Import the command, and create its context.

        Linear algebra gets one thread unless the environment states a number: its operands are small, and the last digit depends on the number.
        """
        if self.of_platform:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return self.load().make_context(info_name, args, parent, **extra)


class Plugin(Lazy):
    """Command of another package. The help must import it to show its line."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(LazyCommand(point.name, point.value, ""))
        self.point = point
        self.label = f"the entry point {point.name!r} ({point.group}) of {point.dist.name if point.dist else point.value}"

    def load(self) -> click.Command:
        """Import the command. If that fails, raises `click.ClickException`, which names the entry point."""
        try:
            command = self.point.load()
        except (Exception, SystemExit) as error:
            line = (str(error).splitlines() or [""])[0]
            raise click.ClickException(f"{self.label} cannot be loaded: {type(error).__name__}: {line}") from error
        if not isinstance(command, click.Command):
            raise click.ClickException(f"{self.label} cannot be loaded: {self.point.value} is not a click command")
        return command

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the command's line in the help. If the command cannot be loaded, prints a warning on standard error."""
        try:
            return self.load().get_short_help_str(limit)
        except click.ClickException as error:
            click.echo(f"Warning: {error.format_message()}", err=True)
            return "(cannot be loaded)"


def plugins() -> dict[str, Plugin]:
    """Return by name the commands that other packages declare as entry points of the group `bellwether.commands`."""
    return {point.name: Plugin(point) for point in entry_points(group=GROUP)}
