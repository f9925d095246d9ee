"""The `bellwether` command: a group that lists its commands without importing them, and says every error in one line."""

from __future__ import annotations

from collections.abc import Mapping

import click

from bellwether import __version__
from bellwether.commands import CORE, PLATFORM, PlatformCommand, plugins
from bellwether.errors import BellwetherError
from bellwether.extras import advice, missing_from, missing_module

#: Commands that read nothing of a home, or finish its restoration.
_WITHOUT_HOME = frozenset({"restore", "sandbox", "score", "compat"})


class Commands(click.Group):
    """A group that ends every error of ours in one line instead of a traceback, and lists what needs the extra `platform` apart."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BellwetherError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            from bellwether.files import home_error

            if (message := home_error(error)) is None:
                raise
            raise click.ClickException(message) from error
        except ModuleNotFoundError as error:
            if (module := missing_from(error)) is None:
                raise
            raise click.ClickException(advice(f"bellwether {ctx.invoked_subcommand}", module)) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *plugins()})

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name not in _WITHOUT_HOME:
            from bellwether.files import require_whole_home
            from bellwether.settings import settings

            require_whole_home(settings())
        return name, command, rest

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.commands.get(cmd_name) or plugins().get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        platform = {name: command for name, command in self.commands.items() if isinstance(command, PlatformCommand)}
        core = {name: command for name, command in self.commands.items() if name not in platform}
        others = plugins()
        for name in sorted(others.keys() & self.commands.keys()):
            click.echo(f"Warning: {others.pop(name).called} is left out: a command of Bellwether has its name", err=True)
        install = "; to install it: pip install 'bellwether[platform]'" if missing_module() else ""
        _section(formatter, "Commands", core)
        _section(formatter, f"Commands of the platform{install}", platform)
        _section(formatter, "Commands of other packages", others)


def _section(formatter: click.HelpFormatter, title: str, commands: Mapping[str, click.Command]) -> None:
    rows = [(name, command.get_short_help_str(formatter.width)) for name, command in sorted(commands.items())]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


@click.group(
    cls=Commands,
    commands={command.name or "": command for command in (*CORE, *PLATFORM)},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__)
def main() -> None:
    """Measure how well models forecast and trade on prediction markets.

    Start with `bellwether demo`: it needs no key and no network. Settings are BELLWETHER_* variables or an .env file
    (.env.example lists them); BELLWETHER_WORLD chooses sandbox, playback or live.
    """
