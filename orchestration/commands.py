"""Commands of `bellwether` that run the graph: demo, run, pull and ui.

Not here: commands that only read (bellwether/lake/commands.py). Dagster is imported inside the commands: `--help` and wrong options need none.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from bellwether.console import AS_JSON, console, emit, leaderboard_table
from bellwether.errors import BellwetherError, ConfigError
from bellwether.progress import shown
from bellwether.settings import World, settings
from bellwether.text_tables import visible

if TYPE_CHECKING:
    from orchestration.runner import Runner

DAY = click.DateTime(formats=["%Y-%m-%d"])


@contextmanager
def runner(*, venues: bool = True) -> Iterator[Runner]:
    """A runner on this world's DAGSTER_HOME that shows what it is doing where a person would wait.

    venues: whether it will ask the venues, which must then answer. Ctrl-C and SIGTERM end the run under way as canceled, and say what is kept.
    """
    from orchestration.home import prepare, storage_errors

    if venues and settings().world is World.LIVE:
        _require_venues()
    prepare(settings())
    import dagster as dg

    from orchestration.definitions import defs
    from orchestration.runner import Runner

    _spare_the_collector()
    with storage_errors(settings().dagster_home), dg.DagsterInstance.get() as instance, _terminated_as_interrupted(), shown() as progress:
        work = Runner(defs, instance, progress)
        try:
            yield work
        except KeyboardInterrupt:
            ended = work.tally.runs - work.tally.interrupted
            click.echo(
                f"\nStopped at: {work.doing}. Kept: {ended} finished {'run' if ended == 1 else 'runs'}, and what the one under way had stored. "
                "The same command goes on from there.",
                err=True,
            )
            raise
        finally:
            work.close()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@cache
def _spare_the_collector() -> None:
    """Modules and definitions live as long as the process: the garbage collector need not look at them again and again."""
    gc.freeze()


def _require_venues() -> None:
    """Without this a person without a network would wait for all retries of a pull."""
    from bellwether.doctor import ask_venues

    for found in ask_venues(settings()):
        if found.status != "ok":
            raise ConfigError(f"{found.found}. {found.advice}")


def _require_days(first: date, last: date) -> None:
    """Raise `click.BadParameter` for days that this world does not have."""
    begin, end = settings().first_day.date(), settings().now().date() - timedelta(days=1)
    for day in (first, last):
        if not begin <= day <= end:
            earlier = "; BELLWETHER_FIRST_DAY moves its first" if day < begin else ""
            raise click.BadParameter(f"{day} is no complete day of the world {settings().world}, which has {begin} to {end}{earlier}")


def _last_days(count: int) -> tuple[date, date]:
    today = settings().now().date()
    first = max(today - timedelta(days=count), settings().first_day.date())
    return first, today - timedelta(days=1)


def _pull(work: Runner, first: date, last: date, *, archive: bool, refresh: bool = False) -> None:
    work.series()
    if archive:
        work.archive()
    work.days(first, last, refresh=refresh)


def answer(work: Runner, releases: Sequence[str], chosen: Sequence[str] = ()) -> dict[str, BellwetherError | None]:
    """Build, answer and rank: how each ended. One forecaster that fails stops no other, and no other release.

    chosen: forecasters; those that take part unasked when none is named.
    """
    from bellwether.forecasting import competitors

    forecasters = list(chosen or competitors())
    return {f"{name} on {one}": end for one in releases for name, end in work.release(one, forecasters).items()}


def publish(work: Runner, ends: Mapping[str, BellwetherError | None]) -> None:
    """Publish what there is; then raise the first failure."""
    work.publish()
    require_success(ends)


def _replay(work: Runner) -> dict[str, BellwetherError | None]:
    """Record what the sandbox's latest settled events were like, and let every agent that costs nothing trade them."""
    from bellwether.recordings.generating import generate_recordings
    from bellwether.replay.agents.registry import competitors
    from bellwether.sandbox import GeneratedWorld

    config = settings()
    generate_recordings(config.recordings_path, GeneratedWorld(config.sandbox_seed), now=config.now())
    return work.replay(list(competitors()))


def require_success(ends: Mapping[str, BellwetherError | None]) -> None:
    """Raise the first failure among how evaluations of forecasters ended; the others are named."""
    failed = {name: error for name, error in ends.items() if error is not None}
    if failed:
        first = next(iter(failed.values()))
        others = f" Also failed: {', '.join(list(failed)[1:])}." if len(failed) > 1 else ""
        raise type(first)(f"{first}.{others}") if others else first


def close(
    work: Runner, releases: tuple[str, ...], as_json: bool, *, stopped: Mapping[str, str] = MappingProxyType({}), replays: bool = False
) -> None:
    """Say what was done: leaderboards of `releases`, counts, where to look; and whose evaluation stopped, with the reason.

    replays: also what agents earned in all backtests.
    """
    from bellwether.lake.warehouse import query

    config = settings()
    rows = {
        name: query(
            config.warehouse_path,
            "SELECT * FROM benchmark.leaderboard WHERE release = $r ORDER BY rank NULLS LAST, forecaster",
            {"r": name},
        )
        for name in releases
    }
    summary = {"warehouse": str(config.warehouse_path), "lake": config.lake_uri, "runs": work.tally.runs, "fresh": work.tally.fresh}
    if as_json:
        emit(
            {
                **summary,
                "seconds": work.tally.by_job,
                "leaderboards": {name: frame.to_dicts() for name, frame in rows.items()},
                "stopped": dict(stopped),
            }
        )
        return
    for name, frame in rows.items():
        console().print(leaderboard_table(name, frame))
    if replays:
        from bellwether.replay.results.lines import comparison_table
        from bellwether.replay.results.show import show
        from bellwether.report.trading_inputs import titles

        show(comparison_table(query(config.warehouse_path, "FROM replay.summary"), titles()))
    console().print(f"{work.tally.runs} runs, {work.tally.fresh} partitions were fresh.")
    console().print(f"Warehouse  {config.warehouse_path}", soft_wrap=True)
    command = sys.argv[0] if Path(sys.argv[0]).name == "bellwether" else "bellwether"
    console().print(f'Query it   {command} query "FROM benchmark.leaderboard", or any DuckDB client: it is never locked', soft_wrap=True)
    console().print("See it     make ui, then http://127.0.0.1:3000")
    for name, reason in stopped.items():
        console().print(f"Not done   {name}: {reason}", style="red", markup=False, soft_wrap=True)


ARCHIVE = click.option(
    "--archive/--no-archive",
    default=False,
    show_default=True,
    help="Scan the venue's archive first: needed for days before its cutoff (about 3 months back).",
)


@click.command()
@click.option("--days", default=180, show_default=True, type=click.IntRange(1, 2000), help="Days to pull, up to the sandbox's present.")
@AS_JSON
def demo(days: int, as_json: bool) -> None:
    """Run everything in the sandbox: pull, clean, check, ask, score, rank, replay recorded markets, publish.

    Needs no key and no network. What is fresh is not made again. Ends with the leaderboard, and with what agents earned.
    """
    if settings().world is not World.SANDBOX:
        raise ConfigError(
            f"bellwether demo: BELLWETHER_WORLD is {settings().world}; the demo runs in the sandbox. Use `bellwether run` here"
        )
    with runner() as work:
        _pull(work, *_last_days(days), archive=True)
        publish(work, answer(work, ("sandbox-2026",)) | _replay(work))
    close(work, ("sandbox-2026",), as_json, replays=True)


@click.command()
@click.option("--days", default=3, show_default=True, type=click.IntRange(1, 2000), help="Complete UTC days to pull, up to yesterday.")
@click.option("--release", "releases", multiple=True, required=True, help="Release to build and score; may be repeated.")
@ARCHIVE
@AS_JSON
def run(days: int, releases: tuple[str, ...], archive: bool, as_json: bool) -> None:
    """Pull the last days of this world, build releases from all that is there, score every forecaster, publish."""
    with runner() as work:
        _pull(work, *_last_days(days), archive=archive)
        publish(work, answer(work, releases))
    close(work, releases, as_json)


@click.command()
@click.argument("first", type=DAY, metavar="FIRST")
@click.argument("last", type=DAY, required=False, metavar="[LAST]")
@click.option("--refresh", is_flag=True, help="Ask the venue again although everything is stored and final.")
@ARCHIVE
@AS_JSON
def pull(first: datetime, last: datetime | None, refresh: bool, archive: bool, as_json: bool) -> None:
    """Pull, clean and check the markets that closed on the UTC days FIRST to LAST (YYYY-MM-DD).

    An interrupted pull goes on where it stopped; days that are complete cost nothing.
    """
    until = (last or first).date()
    if until < first.date():
        raise click.BadParameter(f"LAST ({until}) is before FIRST ({first.date()})")
    _require_days(first.date(), until)
    with runner() as work:
        _pull(work, first.date(), until, archive=archive, refresh=refresh)
        work.publish()
    _tally(work, as_json)


def _tally(work: Runner, as_json: bool) -> None:
    summary: dict[str, Any] = {"runs": work.tally.runs, "fresh": work.tally.fresh, "seconds": work.tally.by_job}
    emit(summary) if as_json else console().print(f"{work.tally.runs} runs, {work.tally.fresh} partitions were fresh.")


@click.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port on 127.0.0.1.")
def ui(port: int) -> None:
    """Serve Dagster's UI and run its daemon (schedules, sensors, backfills) on 127.0.0.1 until interrupted."""
    from orchestration.serve import serve

    code = serve(settings(), port, lambda text: click.echo(visible(text, "\n"), err=True))
    if code:
        sys.exit(code)
