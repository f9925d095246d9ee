"""The command `bellwether`. Its help lists commands without importing them. Known errors are printed as one line instead of a traceback.

Other packages add commands with a domain (bellwether/domains.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import click
import cloup

from bellwether import __version__
from bellwether.domains import LazyCommand, load_domains, resolve_reference
from bellwether.errors import BellwetherError, ConfigError
from bellwether.places import failures

#: Commands that need no home, or finish its restoration.
_WITHOUT_HOME = frozenset({"restore", "sandbox", "score"})

SECTIONS: dict[str, tuple[LazyCommand, ...]] = {
    "Start": (
        LazyCommand("demo", "cli.admin:demo", "Run everything in the sandbox and print the leaderboards."),
        LazyCommand("doctor", "cli.admin:doctor", "Check the installation."),
        LazyCommand("ui", "cli.admin:ui", "Serve Dagster's UI and run its daemon."),
        LazyCommand("worker", "cli.admin:worker", "Execute runs of a Celery fleet.", hidden=True),
        LazyCommand("sandbox", "cli.admin:sandbox", "Serve the sandbox on 127.0.0.1 until interrupted.", hidden=True),
    ),
    "Data": (
        LazyCommand("pull", "cli.data:pull", "Pull, clean and check the markets of some days."),
        LazyCommand("events", "cli.data:events", "List and search the events that can be recorded now."),
        LazyCommand("record", "cli.data:record", "Record the order books and trades of events."),
        LazyCommand("recordings", "cli.data:recordings", "List and import recordings of order books and trades."),
        LazyCommand("query", "cli.data:query", "Run SQL on the published warehouse, read-only."),
        LazyCommand("warehouse", "cli.data:warehouse", "Publish the warehouse; write a self-contained copy."),
    ),
    "Benchmark": (
        LazyCommand("models", "cli.models:models", "List language models and baselines, with keys and prices."),
        LazyCommand("release", "cli.benchmark:release", "Build releases, score and rank; list them."),
        LazyCommand("evaluate", "cli.benchmark:evaluate", "Evaluate language models on a release."),
        LazyCommand("submit", "cli.benchmark:submit", "Submit a file of forecasts."),
        LazyCommand("leaderboard", "cli.benchmark:leaderboard", "Show the leaderboards of releases."),
        LazyCommand("report", "cli.benchmark:report", "Write the report of a release."),
        LazyCommand("export", "cli.benchmark:export", "Write a release as a Hugging Face dataset."),
        LazyCommand("journal", "cli.journal:journal", "Show model calls: their states and costs."),
    ),
    "Forecasts in files": (LazyCommand("score", "cli.score:score", "Score forecasts in CSV, Parquet or JSON files."),),
    "Replay": (
        LazyCommand("agents", "cli.backtest:agents", "List the agents that can trade; write a new one."),
        LazyCommand("episode", "cli.episode:episode", "List, build, import and check episodes."),
        LazyCommand("backtest", "cli.backtest:backtest", "Run agents in recorded episodes; show their results."),
    ),
    "Arena": (LazyCommand("arena", "cli.arena:arena", "Run and explain weeks of the arena; rank families."),),
    "Publication and backup": (
        LazyCommand("site", "cli.site:site", "Build the static site of the warehouse; serve it."),
        LazyCommand("backup", "cli.admin:backup", "Back up this world; remove older backups by tiers."),
        LazyCommand("restore", "cli.admin:restore", "Restore a backup into an empty home."),
    ),
}


class Lazy(click.Command):
    """Command that is imported only when it is called. declared: name, module, and line in the help."""

    def __init__(self, declared: LazyCommand) -> None:
        super().__init__(declared.name, short_help=declared.short_help, hidden=declared.hidden)
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


class Commands(cloup.Group):
    """Click group of all commands, including those of other packages. Known errors are printed as one line instead of a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BellwetherError as error:
            raise click.ClickException(str(error)) from error
        except failures() as error:
            from bellwether.files import home_error

            if (message := home_error(error)) is None:
                raise
            raise click.ClickException(message) from error

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name not in _WITHOUT_HOME:
            from bellwether.files import require_whole_home
            from bellwether.settings import settings

            require_whole_home(settings())
        return name, command, rest


def _external_domains() -> Iterable[tuple[str, tuple[LazyCommand, ...]]]:
    """Return the headings and commands of domains. If a domain cannot be loaded, prints a warning and returns none."""
    try:
        return [(f"Commands of {domain.name}", domain.commands) for domain in load_domains() if domain.commands]
    except ConfigError as error:
        click.echo(f"Warning: {error}", err=True)
        return []


def sections() -> list[cloup.Section]:
    """Return the sections of the help with their commands. If two domains declare a command of the same name, prints a warning and omits the
    second.
    """
    names: set[str] = set()
    headings = []
    for title, declared in (*SECTIONS.items(), *_external_domains()):
        commands = []
        for command in declared:
            if command.name in names:
                click.echo(f"Warning: two domains declare the command {command.name!r}; the second is left out", err=True)
                continue
            names.add(command.name)
            commands.append(Lazy(command))
        if commands:
            headings.append(cloup.Section(title, commands))
    return headings


@cloup.group(cls=Commands, sections=sections(), context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__)
def main() -> None:
    """Measure how well models forecast and trade on prediction markets.

    Start with `bellwether demo`: it needs no key and no network. Settings are BELLWETHER_* variables or lines of an .env file
    (.env.example lists them). BELLWETHER_WORLD chooses sandbox or live.
    """
