"""Commands that are imported only when they are called, so that `bellwether --help` is fast."""

from __future__ import annotations

import os
from typing import Any

import click

from bellwether.domains import LazyCommand, resolve_reference


class Lazy(click.Command):
    """Command that is imported only when it is called. declared: name, module, and line in the help."""

    def __init__(self, declared: LazyCommand) -> None:
        super().__init__(declared.name, short_help=declared.short_help)
        self.declared = declared

    def load(self) -> click.Command:
        """Import the command."""
        command: click.Command = resolve_reference(self.declared.home)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """Import the command, and create its context.

        Linear algebra gets one thread unless the environment states a number: its operands are small, and the last digit depends on the number.
        """
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return self.load().make_context(info_name, args, parent, **extra)
