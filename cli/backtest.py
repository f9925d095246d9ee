"""Commands for agents that trade recorded episodes: agents, backtest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from bellwether.console import console, emit, output_to_stderr, shown
from bellwether.errors import ConfigError
from bellwether.formatting import counted
from bellwether.replay.agents.template import write_agent
from bellwether.replay.registry import agents as registered
from bellwether.replay.results.text_tables import agent_tables, comparison_table, print_table
from cli.options import AS_JSON

if TYPE_CHECKING:
    from bellwether.replay.sweep import Sweep

_MOST_SHOWN = 20
_NOTICE = "Compiling the simulator, which takes about a minute; the result is kept for all later runs."


@cloup.command()
@cloup.option_group(
    "Agents and episodes",
    cloup.option("--agent", "agents", multiple=True, metavar="NAME|FILE.py[:CLASS]", help="Agent; repeatable."),
    cloup.option("--replay", "replays", multiple=True, metavar="FILE", help="Trajectory of a model, repeated without the model."),
    cloup.option(
        "--episode",
        "episodes",
        multiple=True,
        required=True,
        metavar="ID|FOLDER[+ID…]",
        help="Episode, or several joined with + that are traded together, with one bankroll and one clock; repeatable.",
    ),
    cloup.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the agents; repeatable."),
    cloup.option("--grid", multiple=True, metavar="NAME=VALUES", help="Parameter grid: a,b,c or 1..10 or 1..3:0.5; repeatable."),
    cloup.option("--seed", default=0, show_default=True, help="Seed of the agents' random numbers."),
)
@cloup.option_group(
    "Rules of the market",
    cloup.option("--rules", help="Rule set.  [default: that of the episode, or of its venue and day]"),
    cloup.option(
        "--queue",
        metavar="MODEL",
        help="Queue model: trade_only, proportional, proportional:EXPONENT, optimistic, or sampled:HISTORY.  [default: proportional]",
    ),
    cloup.option(
        "--queues",
        type=click.IntRange(0, 10_000),
        metavar="N",
        help="Sampled queue histories in which each run is repeated.  [default: 20 for agents that ship with Bellwether and compiled ones, else 0]",
    ),
    cloup.option(
        "--bankroll",
        type=str,
        metavar="DOLLARS",
        help="Initial cash of a run.  [default: that of the episode]",
    ),
)
@cloup.option_group(
    "Time",
    cloup.option("--cadence", type=click.FloatRange(0, min_open=True), help="Seconds between decisions.  [default: the agent's, or 300]"),
    cloup.option(
        "--latency",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Milliseconds from a decision to the arrival of its orders.",
    ),
    cloup.option(
        "--data-latency", default=0.0, show_default=True, type=click.FloatRange(0), help="Milliseconds from an event to the agent."
    ),
)
@cloup.option_group(
    "Limits of agents",
    cloup.option("--isolated", is_flag=True, help="Run each agent in a separate process without tape, network and files."),
    cloup.option(
        "--limits",
        default="",
        metavar="NAME=VALUE,...",
        help="Limits of a decision (decision=60s, calls=100 of a language model) and of an isolated agent (run=1h, memory=2GiB).",
    ),
)
@cloup.option_group(
    "Results",
    cloup.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Number of worker processes."),
    cloup.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write all tables and the reality check into this folder.",
    ),
    cloup.option("--html", type=click.Path(file_okay=False, path_type=Path), help="Write a tear sheet of each backtest into this folder."),
)
@AS_JSON
def backtest(agents: tuple[str, ...], episodes: tuple[str, ...], jobs: int, as_json: bool, **options: Any) -> None:
    """Run agents in recorded episodes, and show their results.

    The command exits with 1 if an agent failed, after all results are written.
    --grid runs every combination of parameters in every episode, with a reality check of the best one:
    `bellwether backtest --agent market-maker --grid spread_cents=1..10 --grid size=1,5,10 --episode ID --jobs 2`.

    Episodes joined with + are traded together: `bellwether backtest --agent market-maker --episode FIRST+SECOND`.

    Use --isolated for code that you did not write: an agent that cheats, hangs or crashes fails alone.
    """
    if not agents and not options["replays"]:
        raise click.UsageError("No agent: add --agent NAME, or --replay FILE for the trajectory of a model.")
    from bellwether.replay.request import parse_request

    with output_to_stderr():
        sweep = parse_request(agents, episodes, options)
    for option in ("out", "html"):
        if options[option] is not None:
            _create_folder(options[option], f"--{option}")
    with _compile_notice():
        frame = _run(sweep, jobs, options["out"], as_json=as_json)
    if frame["failure"].count():
        click.get_current_context().exit(1)


def _say(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def _compile_notice() -> Iterator[None]:
    """Print `_NOTICE`, at most once, when numba starts to compile a function of the simulator within the block."""
    from numba.core import event

    class Listener(event.Listener):
        is_shown = False

        def on_start(self, event: event.Event) -> None:
            compiled = event.data["dispatcher"].py_func.__module__ if event.data else ""
            if not self.is_shown and compiled.startswith("bellwether.replay."):
                self.is_shown = True
                _say(_NOTICE)

        def on_end(self, event: event.Event) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield


def _create_folder(folder: Path, option: str) -> None:
    """Create the folder that an option names. Raises `ConfigError` if that fails, or if the folder of --out cannot be replaced as a whole."""
    if option == "--out" and (Path.cwd().is_relative_to(folder.resolve()) or folder.is_mount()):
        raise ConfigError(f"writing into {folder}: --out replaces a folder as a whole; name one below it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"making the folder {folder}: {error.strerror}; name another with {option}") from error


def _run(sweep: Sweep, jobs: int, out: Path | None, *, as_json: bool) -> pl.DataFrame:
    """Run every agent in every episode; print and write the results. Returns a row per run."""
    total = len(sweep.sources) * len(sweep.candidates)
    with output_to_stderr(), shown() as progress, progress.stage("backtests", total) as advance:
        results = sweep.run(jobs=jobs, out=out, progress=advance)
    if sweep.html is not None:
        _say(f"wrote {counted(total, 'tear sheet')} into {sweep.html}")
    frame, is_grid = results.frame(), _is_grid(sweep)
    check = results.reality_check()
    if as_json:
        emit({"backtests": frame.to_dicts(), "reality_check": check.row()} if is_grid else frame.to_dicts())
    else:
        _show_results(frame, sweep)
        if is_grid:
            console().print(Text(check.meaning()))
    for row, failure in zip(results.rows, results.failures, strict=True):
        if failure is not None and failure.traceback and not is_grid:
            _say(f"{row['agent']} in {row['episode']}, decision {failure.step}:\n{failure.traceback}")
    return frame


def _is_grid(sweep: Sweep) -> bool:
    return len(sweep.candidates) > 1 and any(candidate.varied for candidate in sweep.candidates)


def _show_results(frame: pl.DataFrame, sweep: Sweep) -> None:
    """Print a table for each agent without a grid, and a comparison if there are several agents. frame: a row per run."""
    if not _is_grid(sweep):
        for lines in agent_tables(frame, _summarise(frame), sweep.titles()):
            print_table(lines)
    if len(sweep.candidates) > 1:
        _show_summary(frame, sweep)


def _summarise(backtests: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of replay/summary for rows of replay/backtests."""
    from bellwether.lake.sql import run_sql
    from bellwether.tables.replay import SUMMARY

    return run_sql(SUMMARY, {"backtests": backtests})


def _show_summary(frame: pl.DataFrame, sweep: Sweep) -> None:
    """Print a comparison of the agents, the best first, and the first failure of a run. frame: a row per run."""
    print_table(comparison_table(_summarise(frame), sweep.titles()), most=_MOST_SHOWN)
    failed = frame.filter(frame["failure"].is_not_null())
    if failed.height:
        first = failed.row(0, named=True)
        click.echo(
            f"{failed.height} of {frame.height} ended early, the first: {first['agent']} in {first['episode']}: {first['failure']}",
            err=True,
        )


@click.group(invoke_without_command=True)
@click.pass_context
def agents(ctx: click.Context) -> None:
    """List the built-in agents and those of agents.toml in your registry folder."""
    if ctx.invoked_subcommand is not None:
        return

    entries = registered().values()
    table = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("agent", "what it does", "parameters"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        table.add_row(Text(entry.name), Text(entry.description), Text(", ".join(f"{name}={value}" for name, value in entry.params.items())))
    console().print(table)


@agents.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a working agent and its test, as a start.

    For example `bellwether agents new my-maker` writes my_maker.py here. Existing files are not overwritten.
    """
    agent, test = write_agent(name)
    click.echo(f"wrote {agent.name} and {test.name}; try them:")
    click.echo(f"    bellwether backtest --agent {agent.name} --episode ID")
    if find_spec("pytest"):
        click.echo(f"    python -m pytest {test.name}")
