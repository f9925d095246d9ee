"""Commands that are imported when they are called, so that `bellwether --help` is quick."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from bellwether.domains import LazyCommand, PlatformCommand, resolve_reference
from bellwether.extras import advice, missing_module

GROUP = "bellwether.commands"


class Lazy(click.Command):
    """A command that is imported when it is called. declared: its name, its place and its line in the help."""

    def __init__(self, declared: LazyCommand) -> None:
        super().__init__(declared.name, short_help=declared.short_help)
        self.declared = declared
        self.of_platform = isinstance(declared, PlatformCommand)

    def load(self) -> click.Command:
        """The command itself. Raises `click.ClickException` with what to install where it needs the extra `platform`, which is missing."""
        if self.of_platform and (module := missing_module()):
            raise click.ClickException(advice(f"bellwether {self.name}", module))
        command: click.Command = resolve_reference(self.declared.home)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """The context of the command itself, which click then invokes.

        The platform gets one thread of linear algebra unless the environment sets another number: its sums are small, more threads wait for each other
        in a loop, and the last digit would depend on their number.
        """
        if self.of_platform:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return self.load().make_context(info_name, args, parent, **extra)


class Plugin(Lazy):
    """A command of another package. Only the help imports it uncalled, for its line."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(LazyCommand(point.name, point.value, ""))
        self.point = point
        self.called = f"the entry point {point.name!r} ({point.group}) of {point.dist.name if point.dist else point.value}"

    def load(self) -> click.Command:
        """The command itself. Raises `click.ClickException` that names the entry point where it cannot be loaded."""
        try:
            command = self.point.load()
        except (Exception, SystemExit) as error:
            first = (str(error).splitlines() or [""])[0]
            raise click.ClickException(f"{self.called} cannot be loaded: {type(error).__name__}: {first}") from error
        if not isinstance(command, click.Command):
            raise click.ClickException(f"{self.called} cannot be loaded: {self.point.value} is no click command")
        return command

    def get_short_help_str(self, limit: int = 45) -> str:
        """Its line in the help; a warning goes to standard error where the command cannot be loaded."""
        try:
            return self.load().get_short_help_str(limit)
        except click.ClickException as error:
            click.echo(f"Warning: {error.format_message()}", err=True)
            return "(cannot be loaded)"


def plugins() -> dict[str, Plugin]:
    """The single commands that other packages add with an entry point of the group `bellwether.commands`, by name."""
    return {point.name: Plugin(point) for point in entry_points(group=GROUP)}
