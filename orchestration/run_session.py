"""Session of a command that runs the graph: the command's runner, and the summary at the end.

Dagster is imported inside functions: `--help` and wrong options do not need it.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from bellwether.console import console, shown
from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import World, settings

if TYPE_CHECKING:
    from orchestration.runner import Runner

#: Query that commands suggest at their end.
FIRST_QUERY = "SELECT release, forecaster, brier FROM benchmark.leaderboard WHERE rank <= 3 ORDER BY release, rank"


@contextmanager
def runner(*, venues: bool = True) -> Iterator[Runner]:
    """Open a runner on this world's DAGSTER_HOME, which shows the progress of its runs, until the context ends.

    venues: whether runs send requests to the venues, which must then answer. Ctrl-C and SIGTERM cancel the current run.
    """
    from orchestration.home import prepare, storage_errors

    if venues:
        require_venues()
    prepare(settings())
    import dagster as dg

    from orchestration.definitions import defs
    from orchestration.runner import Runner

    _freeze_objects()
    with storage_errors(settings().dagster_home), dg.DagsterInstance.get() as instance, _interrupt_on_sigterm(), shown() as progress:
        work = Runner(defs, instance, progress)
        try:
            yield work
        except KeyboardInterrupt:
            ended = work.stats.runs
            sys.stderr.write(
                f"\nStopped at: {work.doing}. Kept: {ended} finished {'run' if ended == 1 else 'runs'}, and stored results of unfinished ones. "
                "The same command continues from there.\n"
            )
            raise
        finally:
            work.close()


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Raise `KeyboardInterrupt` when SIGTERM arrives while the context is open."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@cache
def _freeze_objects() -> None:
    """Exclude loaded modules and definitions from garbage collection, and collect less often.

    Runs create mostly JSON without cycles; the default threshold costs a twentieth of a pull.
    """
    gc.freeze()
    gc.set_threshold(250_000, 20, 100)


def require_venues() -> None:
    """Raise `ConfigError` if this is the live world and a venue does not answer."""
    from bellwether.doctor.installation import ask_venues

    if settings().world is not World.LIVE or settings().fleet is not None:  # a fleet's workers send the requests
        return
    for finding in ask_venues(settings()):
        if finding.status != "ok":
            raise ConfigError(f"{finding.found}; {finding.advice}")


def require_success(ends: Mapping[str, BellwetherError | None]) -> None:
    """Raise the first error in `ends`, with the names of all other failures. ends: error or None by name."""
    failed = {name: error for name, error in ends.items() if error is not None}
    if failed:
        first = next(iter(failed.values()))
        others = f" Also failed: {', '.join(list(failed)[1:])}." if len(failed) > 1 else ""
        raise type(first)(f"{first}.{others}") if others else first


def print_summary(work: Runner, *, stopped: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print at the end of a command the number of runs, the paths of the results, and what stopped. stopped: reasons by name."""
    config = settings()
    console().print(f"{work.stats.runs} runs, {work.stats.fresh} partitions up to date")
    console().print(f"Warehouse  {config.warehouse_uri}", soft_wrap=True)
    command = sys.argv[0] if Path(sys.argv[0]).name == "bellwether" else "bellwether"
    other = "" if "://" in config.warehouse_uri else ", or any DuckDB client: it is never locked"
    console().print(f'Query it   {command} query "{FIRST_QUERY}"{other}', soft_wrap=True)
    console().print(f"See it     {config.ui if config.fleet else 'make ui, then http://127.0.0.1:3000'}")
    for name, reason in stopped.items():
        console().print(f"Not done   {name}: {reason}", style="red", markup=False, soft_wrap=True)
