"""`bellwether agents`: list the agents, write a new one."""

from __future__ import annotations

from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from bellwether.console import AS_JSON, console, emit


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def agents(ctx: click.Context, as_json: bool) -> None:
    """List the agents that can trade: the built-in ones, and those of agents.toml in your registry folder."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"--json is of the list; leave it out before {ctx.invoked_subcommand}.")
        return
    from bellwether.replay.registry import agents as registered

    found = registered().values()
    if as_json:
        emit([one.model_dump() for one in found])
        return
    table = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("agent", "what it does", "parameters"):
        table.add_column(name, overflow="fold")
    for one in found:
        table.add_row(Text(one.name), Text(one.description), Text(", ".join(f"{name}={value}" for name, value in one.params.items())))
    console().print(table)


@agents.command()
@click.argument("name")
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The agent's file; NAME.py when left out.")
def new(name: str, to: Path | None) -> None:
    """Write an agent that runs at once, and a test of it in a file next to it, to change both: `bellwether agents new my-maker`.

    Nothing that is there is overwritten.
    """
    from bellwether.replay.agents.template import write_agent

    written = write_agent(name, to)
    shown = written.agent.name if to is None else to
    click.echo(f"wrote {shown} and {written.test.name}; try them:")
    click.echo(f"    bellwether backtest --agent {shown}:{written.name} --episode ID")
    click.echo(f"    python -m pytest {written.test.name if to is None else to.with_name(written.test.name)}")
