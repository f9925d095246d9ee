"""The place of the `bellwether` command up to 0.2, for scripts of installations that are older than the package `cli`."""

from cli.main import main

__all__ = ["main"]
