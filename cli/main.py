"""The command `bellwether`. Its help lists commands without importing them. Known errors are printed as one line instead of a traceback."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click
import cloup

from bellwether import __version__
from bellwether.errors import BellwetherError
from bellwether.places import failures

#: Commands that need no home, or finish its restoration.
_WITHOUT_HOME = frozenset({"restore", "sandbox", "score"})


class Lazy(click.Command):
    """Command that is imported only when it is called. home: `module:attribute` of its click command. short_help: line in the help."""

    def __init__(self, name: str, home: str, short_help: str, *, hidden: bool = False) -> None:
        super().__init__(name, short_help=short_help, hidden=hidden)
        self.home = home

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.home.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        """Import the command, and create its context.

        Linear algebra gets one thread unless the environment states a number: its operands are small, and the last digit depends on the number.
        """
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return self.load().make_context(info_name, args, parent, **extra)


SECTIONS: dict[str, tuple[Lazy, ...]] = {
    "Start": (
        Lazy("demo", "cli.admin:demo", "Run everything in the sandbox and print the leaderboards."),
        Lazy("doctor", "cli.admin:doctor", "Check the installation."),
        Lazy("ui", "cli.admin:ui", "Serve Dagster's UI and run its daemon."),
        Lazy("worker", "cli.admin:worker", "Execute runs of a Celery fleet.", hidden=True),
        Lazy("sandbox", "cli.admin:sandbox", "Serve the sandbox on 127.0.0.1 until interrupted.", hidden=True),
    ),
    "Data": (
        Lazy("pull", "cli.data:pull", "Pull, clean and check the markets of some days."),
        Lazy("record", "cli.data:record", "Record order books and trades of events; list events."),
        Lazy("query", "cli.data:query", "Run SQL on the published warehouse, read-only."),
        Lazy("warehouse", "cli.data:warehouse", "Publish the warehouse; write a self-contained copy."),
    ),
    "Benchmark": (
        Lazy("models", "cli.models:models", "List language models and baselines, with keys and prices."),
        Lazy("release", "cli.benchmark:release", "Build releases, score and rank; list them."),
        Lazy("evaluate", "cli.benchmark:evaluate", "Evaluate language models on a release."),
        Lazy("submit", "cli.benchmark:submit", "Submit a file of forecasts."),
        Lazy("leaderboard", "cli.leaderboard:leaderboard", "Show the leaderboards of releases and of the arena."),
        Lazy("audit", "cli.benchmark:audit", "Find leaks of a release, and score without them."),
        Lazy("export", "cli.bridges:export", "Write a release or a cohort for another tool."),
        Lazy("import", "cli.bridges:import_", "Submit forecasts in a file of another tool."),
        Lazy("metaculus", "cli.bridges:metaculus", "Serve the questions of a release to a bot of Metaculus."),
        Lazy("journal", "cli.journal:journal", "Show model calls: states, costs and failures."),
    ),
    "Forecasts in files": (Lazy("score", "cli.score:score", "Score forecasts in CSV, Parquet or JSON files."),),
    "Replay": (
        Lazy("agents", "cli.backtest:agents", "List the agents that can trade; write a new one."),
        Lazy("episode", "cli.episode:episode", "List, build, import and export episodes."),
        Lazy("backtest", "cli.backtest:backtest", "Run agents in recorded episodes; show their results."),
    ),
    "Arena": (Lazy("arena", "cli.arena:arena", "Run and explain weeks of the arena."),),
    "Publication and backup": (
        Lazy("site", "cli.site:site", "Build the static site of the warehouse; serve it."),
        Lazy("backup", "cli.admin:backup", "Back up this world; remove older backups."),
        Lazy("restore", "cli.admin:restore", "Restore a backup into an empty home."),
    ),
}


class Commands(cloup.Group):
    """Click group of all commands. Known errors are printed as one line instead of a traceback."""

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


@cloup.group(
    cls=Commands,
    sections=[cloup.Section(title, commands) for title, commands in SECTIONS.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__)
def main() -> None:
    """Measure how well models forecast and trade on prediction markets.

    Start with `bellwether demo`: it needs no key and no network. Settings are BELLWETHER_* variables or lines of an .env file
    (.env.example lists them). BELLWETHER_WORLD chooses sandbox or live.
    """
