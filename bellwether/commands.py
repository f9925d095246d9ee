"""Every command of `bellwether`: its name, where it is, and its line in `bellwether --help`. None is imported before it is called.

A further command is a further line of `CORE`, or of `PLATFORM` if it needs the extra of that name. Another package adds a command with an entry
point `bellwether.commands`: the name of the command, and the click command as its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from bellwether.extras import advice, missing_module

GROUP = "bellwether.commands"


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


class PluginCommand(LazyCommand):
    """A command of another package. Only the list of commands imports it unasked, for its line."""

    def __init__(self, point: EntryPoint) -> None:
        super().__init__(point.name, point.value, "")
        self.point = point
        self.called = f"the entry point {point.name!r} ({GROUP}) of {point.dist.name if point.dist else point.value}"

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


def plugins() -> dict[str, PluginCommand]:
    """The commands of other packages, by name."""
    return {point.name: PluginCommand(point) for point in entry_points(group=GROUP)}


CORE: Sequence[LazyCommand] = (
    LazyCommand("agents", "bellwether.replay.agent_commands:agents", "List the agents that can trade; write a new one."),
    LazyCommand("backtest", "bellwether.replay.backtest_commands:backtest", "Let agents trade recorded episodes; show what they earned."),
    LazyCommand("compat", "bellwether.kalshibench.commands:compat", "Recompute and correct published KalshiBench results."),
    LazyCommand("episode", "bellwether.replay.episode_commands:episode", "Make, import, list and check episodes."),
    LazyCommand("recordings", "bellwether.recordings.commands:recordings", "List and import recordings of order books and trades."),
    LazyCommand("score", "bellwether.scoring.commands:score", "Score forecasts in CSV, Parquet or JSON files."),
    LazyCommand("trading", "bellwether.replay.results_commands:trading", "Show the tables of all backtests; write their report."),
)

PLATFORM: Sequence[LazyCommand] = (
    PlatformCommand("demo", "orchestration.commands:demo", "Run everything in the sandbox and print the leaderboards."),
    PlatformCommand("doctor", "bellwether.doctor_commands:doctor", "Check the installation and say what is wrong with it."),
    PlatformCommand("evaluate", "orchestration.evaluation:evaluate", "Let language models answer a release; score and rank them."),
    PlatformCommand("export", "bellwether.publish.commands:export", "Write a release as a Hugging Face dataset."),
    PlatformCommand("journal", "bellwether.journal.commands:journal", "Show the calls of models: how they stand, what they cost."),
    PlatformCommand("leaderboard", "bellwether.lake.commands:leaderboard", "Show the leaderboards of releases."),
    PlatformCommand("models", "bellwether.models.commands:models", "List language models and baselines, with keys and prices."),
    PlatformCommand("pull", "orchestration.commands:pull", "Pull, clean and check the markets of some days."),
    PlatformCommand("query", "bellwether.lake.commands:query", "Run SQL on the published warehouse, read-only."),
    PlatformCommand("record", "bellwether.recordings.commands:record", "Record the order books and trades of events."),
    PlatformCommand("release", "orchestration.releases:release", "Build releases, let forecasters answer them, score and rank."),
    PlatformCommand("report", "bellwether.report.commands:report", "Write the report of a release."),
    PlatformCommand("run", "orchestration.commands:run", "Pull the last days, build releases, score and publish."),
    PlatformCommand("sandbox", "bellwether.sandbox.commands:sandbox", "Serve the sandbox on 127.0.0.1 until interrupted."),
    PlatformCommand("ui", "orchestration.commands:ui", "Serve Dagster's UI and run its daemon."),
    PlatformCommand("verify", "bellwether.lake.commands:verify", "Compare the lake's files with their checksums."),
    PlatformCommand("warehouse", "bellwether.lake.commands:warehouse", "Publish the warehouse; write a self-contained copy."),
)
