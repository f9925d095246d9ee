"""Commands about agents that trade recorded episodes: agents, backtest, trading."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from bellwether.console import console, emit, output_to_stderr
from bellwether.errors import ConfigError
from bellwether.extras import require_platform
from bellwether.progress import shown
from bellwether.replay.agents.template import write_agent
from bellwether.replay.registry import agents as registered
from bellwether.replay.results.summary import results, summarise
from bellwether.replay.results.text_tables import agent_tables, comparison_table, interval_table, show
from bellwether.settings import settings
from cli.options import AS_JSON

if TYPE_CHECKING:
    from distributed import Client

    from bellwether.replay.backtest import Backtest
    from bellwether.replay.isolation import Confinement
    from bellwether.replay.request import Request

_MOST_SHOWN = 20

#: What a file's name does not take over from an agent's or an episode's.
_FOREIGN = re.compile(r"[^\w.=,-]+")


@cloup.command()
@cloup.option_group(
    "Agents and episodes",
    cloup.option("--agent", "agents", multiple=True, metavar="NAME|FILE.py[:CLASS]", help="Who trades; may be repeated."),
    cloup.option("--replay", "replays", multiple=True, metavar="FOLDER", help="Repeat a model's finished trajectory without the model."),
    cloup.option("--episode", "episodes", multiple=True, required=True, metavar="ID|FOLDER", help="What is replayed; may be repeated."),
    cloup.option("--portfolio", is_flag=True, help="Trade all episodes as one portfolio, of one bankroll and one clock."),
    cloup.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Parameter of the agents; may be repeated."),
    cloup.option("--grid", multiple=True, metavar="NAME=VALUES", help="Try all values: a,b,c or 1..10 or 1..3:0.5; may be repeated."),
    cloup.option("--seed", default=0, show_default=True, help="Seed of whatever the agents draw."),
)
@cloup.option_group(
    "Rules of the market",
    cloup.option("--rules", help="Rule set; that of the episode, else of its venue and day, when left out."),
    cloup.option("--fees", metavar="RULES|none", help="Fees of another rule set of the venue, or none."),
    cloup.option(
        "--execution", type=click.Choice(["maker_taker", "taker_only"]), help="Whether orders may rest; as the episode says when left out."
    ),
    cloup.option(
        "--queue",
        type=click.Choice(["trade_only", "reconciled", "proportional", "power", "log", "optimistic"]),
        help="Queue model; the rules' when left out.",
    ),
    cloup.option("--queue-exponent", default=3, show_default=True, type=click.IntRange(1, 100), help="Exponent of the queue model power."),
    cloup.option(
        "--band",
        default="auto",
        show_default=True,
        type=click.Choice(["auto", "fills", "rerun", "none"]),
        help="Band of the P&L: bounds of the fills of the same orders, or complete runs under the slowest and the fastest queue (three times as long); "
        "auto: rerun for an agent that reacts to its fills, except a language model.",
    ),
    cloup.option(
        "--bankroll",
        type=str,
        metavar="DOLLARS",
        help="Money at the start, in each episode or of the portfolio; the episode's when left out.",
    ),
)
@cloup.option_group(
    "Time",
    cloup.option(
        "--cadence", type=click.FloatRange(0, min_open=True), help="Seconds between decisions; the agent's own, else 300, when left out."
    ),
    cloup.option("--latency", default=0.0, show_default=True, type=click.FloatRange(0), help="Milliseconds until an order arrives."),
    cloup.option(
        "--data-latency", default=0.0, show_default=True, type=click.FloatRange(0), help="Milliseconds until the agent sees an event."
    ),
    cloup.option(
        "--response-latency",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Milliseconds until the agent learns what became of an order; no less than --data-latency.",
    ),
    cloup.option(
        "--latencies",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Recorded latencies of orders and answers: CSV or Parquet with time_ns, entry_ns, response_ns. Instead of --latency and --response-latency.",
    ),
)
@cloup.option_group(
    "Limits of agents",
    cloup.option("--calls", "calls_per_step", default=100, show_default=True, type=click.IntRange(1), help="Tool calls of a decision."),
    cloup.option(
        "--decision-seconds",
        default=60.0,
        show_default=True,
        type=click.FloatRange(0, min_open=True),
        help="Real seconds of a decision, and of loading an isolated agent.",
    ),
    cloup.option("--isolated", is_flag=True, help="Run each agent in a process of its own, without the tape, network and files."),
    cloup.option(
        "--isolation",
        type=click.Choice(["full", "partial"]),
        help="full: as --isolated. partial: also on a system without namespaces, which shows agents the names of files.",
    ),
    cloup.option("--memory", default=2048, show_default=True, type=click.IntRange(256), help="MB of memory of an isolated agent."),
    cloup.option(
        "--run-seconds",
        default=3600.0,
        show_default=True,
        type=click.FloatRange(0, min_open=True),
        help="Real seconds that all decisions of an isolated agent may take in an episode.",
    ),
)
@cloup.option_group(
    "Results",
    cloup.option("--unsettled", is_flag=True, help="Count episodes that left a position unsettled in totals, at its mark."),
    cloup.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Workers."),
    cloup.option("--on", metavar="tcp://HOST:PORT", help="Run on the Dask cluster with this scheduler."),
    cloup.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write all tables and the reality check into this folder.",
    ),
    cloup.option("--lake", is_flag=True, help="Keep the rows of a portfolio in the lake, beside the backtests that the graph makes."),
    cloup.option("--html", type=click.Path(file_okay=False, path_type=Path), help="Write a tear sheet of each backtest into this folder."),
)
@AS_JSON
def backtest(agents: tuple[str, ...], episodes: tuple[str, ...], jobs: int, on: str | None, as_json: bool, **options: Any) -> None:
    """Run agents in recorded episodes, and show their results.

    Each P&L has a band, which states how far the place in the queue can move it; --band chooses its source. The command exits with status 1, after
    all results are shown and written, when an agent failed. With --grid, every combination of parameters runs in every episode, and a reality check
    states how often luck alone makes the best look as good:
    `bellwether backtest --agent market-maker --grid spread_cents=1..10 --grid size=1,5,10 --episode ID --jobs 2`.

    With --portfolio an agent sees the markets of all episodes at once, of one venue or of several, and pays for them from one bankroll; the result is
    called after the episodes: `bellwether backtest --agent market-maker --portfolio --episode FIRST --episode SECOND`.

    With --isolated an agent that cheats, hangs or breaks off fails alone; use it for code that you did not write.
    """
    if not agents and not options["replays"]:
        raise click.UsageError("Say who trades: --agent NAME, or --replay FOLDER for the trajectory of a model.")
    from bellwether.replay.compile_notice import compile_notice
    from bellwether.replay.request import Request

    with output_to_stderr():
        request = Request.of(agents, episodes, options)
    out, html = options["out"], options["html"]
    sweeping = jobs > 1 or request.combinations > 1 or on is not None
    if html is not None and sweeping:
        raise click.UsageError("--html writes one page per backtest; leave out --grid, --jobs and --on.")
    if on is not None and jobs > 1:
        raise click.UsageError("--jobs is for this machine and --on for a cluster; leave one out.")
    if options["lake"]:
        _check_lake(portfolio=options["portfolio"], sweeping=sweeping)
    for option, folder in (("--out", out), ("--html", html)):
        if folder is not None:
            _make(folder, option)
    with compile_notice(_say), _deprecation_notes():
        frame = _sweep(request, jobs, on, out, as_json) if sweeping else _each(request, out, html, as_json, lake=options["lake"])
    if frame["failure"].count():
        click.get_current_context().exit(1)


def _say(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def _deprecation_notes() -> Iterator[None]:
    """Print each deprecation of an agent's interface once, as a note."""
    notes: set[str] = set()

    def note(message: Warning | str, *_: Any) -> None:
        if str(message) not in notes:
            notes.add(str(message))
            _say(f"Note: {message}")

    with warnings.catch_warnings():
        warnings.filterwarnings("always", "the agent ", DeprecationWarning)
        warnings.showwarning = note
        yield


def _make(folder: Path, option: str) -> None:
    """Create a folder to write into. Raises `ConfigError` if that is impossible, or `--out` cannot be replaced as a whole."""
    if option == "--out" and (Path.cwd().is_relative_to(folder.resolve()) or folder.is_mount()):
        raise ConfigError(f"writing into {folder}: --out replaces a folder as a whole; name one below it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"making the folder {folder}: {error.strerror}; name another with {option}") from error


def _each(request: Request, out: Path | None, html: Path | None, as_json: bool, *, lake: bool = False) -> pl.DataFrame:
    """Every agent in every episode, one after the other, with all that they did; a row of each."""
    from bellwether.replay.request import keep, write_runs
    from bellwether.replay.results.frames import backtests

    with output_to_stderr():
        runs = list(request.runs())
    frame = backtests(runs)
    if out is not None:
        write_runs(runs, out, request)
    if html is not None:
        _tear_sheets(runs, html)
    if lake:
        keep(runs)
        _say(f"kept {', '.join(dict.fromkeys(run.episode for run in runs))} in the lake; `bellwether warehouse` publishes it")
    if as_json:
        emit(frame.to_dicts())
    else:
        _show_results(frame, request)
    _say_confinements(one.confinement for one in runs if one.confinement is not None)
    for one in runs:
        if one.failure is not None and one.failure.traceback:
            _say(f"{one.agent} in {one.episode}, decision {one.failure.step}:\n{one.failure.traceback}")
    return frame


def _say_confinements(confinements: Iterable[Confinement]) -> None:
    for text in sorted({str(one) for one in confinements}):
        _say(f"Isolated agents: {text}")


def _tear_sheets(runs: list[Backtest], folder: Path) -> None:
    for run in runs:
        run.write_html(folder / f"{_FOREIGN.sub('-', run.agent)}-{_FOREIGN.sub('-', run.episode)}.html")
    _say(f"wrote {len(runs)} tear sheet{'' if len(runs) == 1 else 's'} into {folder}")


def _check_lake(*, portfolio: bool, sweeping: bool) -> None:
    if not portfolio or sweeping:
        raise click.UsageError("--lake keeps a --portfolio without --grid and --jobs; backtests of single episodes are the graph's.")
    require_platform("bellwether backtest --lake")


def _sweep(request: Request, jobs: int, on: str | None, out: Path | None, as_json: bool) -> pl.DataFrame:
    """Every combination in every episode; one row each."""
    from bellwether.replay.sweep import run_sweep

    total = len(request.sources) * len(request.candidates)
    with _client(on) as client, output_to_stderr(), shown() as progress, progress.stage("backtests", total) as advance:
        done = run_sweep(
            request.sources,
            request.candidates,
            request.settings,
            cache=request.cache,
            jobs=jobs,
            client=client,
            isolated=request.isolated,
            out=out,
            unsettled=request.unsettled,
            progress=advance,
        )
    frame, check = done.frame(), done.reality_check(unsettled=request.unsettled)
    _say_confinements(done.confinements)
    if as_json:
        emit({"backtests": frame.to_dicts(), "reality_check": check.row()} if request.combinations > 1 else frame.to_dicts())
        return frame
    _show_summary(frame, request)
    if check.agents > 1:
        console().print(Text(check.meaning()))
    share = f"{done.busy / done.cpu:.1%} of them" if done.cpu else "all"
    click.echo(f"{frame.height:,} backtests, {done.cpu:.1f} s of CPU, {share} in engine and agents", err=True)
    return frame


def _client(on: str | None) -> AbstractContextManager[Client | None]:
    if on is None:
        return nullcontext()
    from bellwether.replay.dask_sweep import connect

    return connect(on)


def _show_results(frame: pl.DataFrame, request: Request) -> None:
    for lines in agent_tables(results(frame, unsettled=request.unsettled), request.titles()):
        show(lines)
    if len(request.candidates) > 1:
        _show_summary(frame, request)


def _show_summary(frame: pl.DataFrame, request: Request) -> None:
    """The agents side by side, the best first."""
    show(comparison_table(summarise(frame, unsettled=request.unsettled), request.titles()), most=_MOST_SHOWN)
    failed = frame.filter(frame["failure"].is_not_null())
    if failed.height:
        first = failed.row(0, named=True)
        click.echo(
            f"{failed.height} of {frame.height} ended early, the first: {first['agent']} in {first['episode']}: {first['failure']}",
            err=True,
        )


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def agents(ctx: click.Context, as_json: bool) -> None:
    """List the agents that can trade: the built-in ones, and those of agents.toml in your registry folder."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError(f"--json is of the list; leave it out before {ctx.invoked_subcommand}.")
        return

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
    written = write_agent(name, to)
    shown = written.agent.name if to is None else to
    click.echo(f"wrote {shown} and {written.test.name}; try them:")
    click.echo(f"    bellwether backtest --agent {shown} --episode ID")
    if find_spec("pytest"):
        click.echo(f"    python -m pytest {written.test.name if to is None else to.with_name(written.test.name)}")


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--agent", "agents", multiple=True, help="Show only this agent; may be repeated.")
@click.option("--unsettled", is_flag=True, help="Count episodes that left a position unsettled in totals, at its mark.")
@click.option("--rules", help="Show only backtests under this rule set.")
@click.option(
    "--report", "to", metavar="FOLDER", help="Also write the trading report with its figures below this folder or object-store URL."
)
@click.option("--name", default="trading", show_default=True, help="Name of the report.")
@AS_JSON
def trading(
    folder: Path | None, *, agents: tuple[str, ...], rules: str | None, unsettled: bool, to: str | None, name: str, as_json: bool
) -> None:
    """Show the results of agents: a table per agent with its episodes, then a comparison of all agents.

    Backtests come from the published warehouse, or from FOLDER, which `bellwether backtest --out FOLDER` wrote. docs/trading-metrics.md defines
    each number.
    """
    from bellwether.report.trading_inputs import backtests_of, chosen, titles

    if folder is None:
        require_platform("bellwether trading without a FOLDER")
    found = chosen(backtests_of(folder, settings().warehouse_uri), agents, rules)
    lines, summary = results(found, unsettled=unsettled), summarise(found, unsettled=unsettled)
    if as_json:
        emit({"agents": summary.to_dicts(), "results": lines.to_dicts()})
    else:
        called = titles()
        for table in (*agent_tables(lines, called), comparison_table(summary, called), interval_table(summary, called)):
            show(table)
            console().print()
    if to is not None:
        for file in _report(folder, agents, rules, (to, name)):
            click.echo(f"wrote {file}", err=True)


def _report(folder: Path | None, agents: tuple[str, ...], rules: str | None, to: tuple[str, str]) -> list[str]:
    from bellwether.report.trading import write_trading_report
    from bellwether.report.trading_inputs import inputs_of_folder, inputs_of_warehouse, tapes_of

    config = settings()
    inputs = inputs_of_folder(folder, agents, rules) if folder else inputs_of_warehouse(config.warehouse_uri, agents, rules)
    tapes = tapes_of(inputs.backtests, config.episodes_path, config.tapes_path)
    reports, name = to
    return write_trading_report(replace(inputs, name=name, tapes=tapes), reports)
