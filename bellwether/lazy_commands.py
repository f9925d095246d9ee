"""Click commands that are imported when they are called, so that the list of commands is quick."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

import click

from bellwether.extras import advice, missing_module


class LazyCommand(click.Command):
    """A command that is imported when it is called. home: `module:attribute` of the click command. short_help: its line in the list."""

    def __init__(self, name: str, home: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.home = home

    def load(self) -> click.Command:
        """The command itself."""
        module, _, attribute = self.home.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """The context of the command itself, which click then invokes."""
        return self.load().make_context(info_name, args, parent, **extra)


class PlatformCommand(LazyCommand):
    """A command that needs the extra `platform`."""

    def load(self) -> click.Command:
        """The command itself. Raises `click.ClickException` with what to install where the extra is not installed."""
        if module := missing_module():
            raise click.ClickException(advice(f"bellwether {self.name}", module))
        return super().load()

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """As `LazyCommand`, with one thread of linear algebra unless the environment says otherwise.

        The sums of the graph are small: more threads wait for each other in a loop, and the last digit would depend on how many there are.
        """
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return super().make_context(info_name, args, parent, **extra)


class PluginCommand(LazyCommand):
    """A command of another package. Only the list of commands imports it unasked, for its line."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(point.name, point.value, "")
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
        """Its line in the list; a warning goes to standard error where the command cannot be loaded."""
        try:
            return self.load().get_short_help_str(limit)
        except click.ClickException as error:
            click.echo(f"Warning: {error.format_message()}", err=True)
            return "(cannot be loaded)"
