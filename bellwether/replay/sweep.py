"""Sweeps of many backtests: every episode or portfolio with every agent and parameter set, in processes, threads or on a Dask cluster.

Local workers are forked once from a server process with the compiled engine in memory; tapes are read from the memory-mapped cache. Agents
with compiled decisions hold no Python lock and run in threads of this process instead. `dask_sweep` runs the same batches on a cluster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bellwether.replay.agents.agent import CompiledAgent
from bellwether.replay.backtest import BacktestSettings
from bellwether.replay.batches import (
    SERVER,
    Batch,
    BatchResult,
    Candidate,
    Source,
    SweepPlan,
    build_worker_error,
    prepare_source,
    run_batch,
)
from bellwether.replay.dask_sweep import run_on_dask
from bellwether.replay.isolation import Confinement, Isolation

if TYPE_CHECKING:
    import polars as pl
    from distributed import Client

    from bellwether.replay.results.reality_check import RealityCheck

#: Batches per worker: enough to keep all workers busy until the end, few enough that few workers open the same episode.
_BATCHES_PER_WORKER = 4


@dataclass(frozen=True)
class Sweep:
    """Rows of all runs, by episode and candidate in the given order, and their cost.

    rows: metrics of each run, a row of replay/backtests, with the candidate's label as `agent`. cpu: CPU seconds of all processes from
    their start (on Dask of this process and of the batches). busy: CPU seconds of engine and agents. confinements: of isolated agents.
    """

    rows: list[Mapping[str, Any]]
    cpu: float
    busy: float
    confinements: frozenset[Confinement] = frozenset()

    def frame(self) -> pl.DataFrame:
        """Return the rows as a frame of replay/backtests."""
        from bellwether.tables.replay import BACKTESTS

        return BACKTESTS.validate(BACKTESTS.frame(self.rows))

    def reality_check(self, *, unsettled: bool = False) -> RealityCheck:
        """Compute the probability that luck alone makes the best candidate look this good."""
        from bellwether.replay.results.reality_check import reality_check

        return reality_check(self.frame(), unsettled=unsettled)


def run_sweep(
    sources: Sequence[Source],
    candidates: Sequence[Candidate],
    settings: BacktestSettings,
    *,
    cache: Path | None = None,
    jobs: int = 1,
    client: Client | None = None,
    batch: int | None = None,
    isolated: Isolation | None = None,
    out: Path | None = None,
    unsettled: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Sweep:
    """Run every candidate in every episode or portfolio; rows do not depend on the workers.

    sources: folders of episodes, and tuples of folders, each traded as one portfolio. cache: folder of tapes shared by local workers. jobs:
    number of local workers. client: of a Dask cluster that runs everything instead; its workers must have the folders at the same paths,
    and keep tapes below their own BELLWETHER_HOME. batch: runs per batch on Dask; default: about two seconds of work. isolated: run each
    agent in its own process, which alone loads it. out: folder for the tables of all runs and the reality check; until the sweep ends,
    finished batches are files in its `backtests.parts`. unsettled: count unsettled episodes in the reality check. progress: called with the
    number of runs of each finished batch. Raises `ConfigError` for an invalid candidate or portfolio and `SchemaError` for a refused
    episode: before the first run, on Dask when a worker opens it.
    """
    kinds = [candidate.check(settings, isolated) for candidate in candidates]
    plan = SweepPlan(sources, candidates, settings, cache, isolated, tables=out is not None)
    if client is None:
        for source in sources:
            prepare_source(source, settings, cache)
        compiled = all(kind is not None and issubclass(kind, CompiledAgent) for kind in kinds)
        results = _run_here(_batches(plan, jobs), jobs, threads=compiled)
    else:
        results = run_on_dask(plan, client, batch)
    rows: list[Mapping[str, Any]] = [{}] * len(plan)
    cpu: dict[int, float] = {}
    busy = other = 0.0
    confinements: frozenset[Confinement] = frozenset()
    with nullcontext() if out is None else _tables(out, candidates, unsettled=unsettled) as keep:
        for done in results:
            rows[done.first : done.first + len(done.rows)] = done.rows
            busy += done.busy
            confinements |= done.confinements
            if client is None:
                cpu[done.worker], other = max(done.cpu, cpu.get(done.worker, 0.0)), done.server
            else:
                other += done.spent
            if keep is not None:
                keep(done.first, done.tables)
            if progress is not None:
                progress(len(done.rows))
    cpu[os.getpid()] = time.process_time()
    return Sweep(rows, sum(cpu.values()) + other, busy, confinements)


def _tables(
    out: Path, candidates: Sequence[Candidate], *, unsettled: bool
) -> AbstractContextManager[Callable[[int, Mapping[str, pl.DataFrame]], None]]:
    from bellwether.replay.results.folder import table_writer

    return table_writer(out, [{"agent": one.label, **one.varied} for one in candidates], unsettled=unsettled)


def _batches(plan: SweepPlan, jobs: int) -> list[Batch]:
    """Split all runs into batches of one episode each."""
    pieces = max(1, -(-jobs * _BATCHES_PER_WORKER // max(1, len(plan.sources))))
    width = len(plan.candidates)
    length = max(1, -(-width // pieces))
    return [
        plan.batch(start, min(length, first + width - start))
        for first in range(0, len(plan), width or 1)
        for start in range(first, first + width, length)
    ]


def _run_here(batches: Sequence[Batch], jobs: int, *, threads: bool) -> Iterator[BatchResult]:
    if jobs == 1:
        yield from map(run_batch, batches)
        return
    with _workers(min(jobs, len(batches)), threads=threads) as pool:
        futures = {pool.submit(run_batch, batch): batch for batch in batches}
        try:
            for future in as_completed(list(futures)):
                yield future.result()
                del futures[future]
        except BrokenExecutor:
            raise build_worker_error(list(futures.values())[:jobs]) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _workers(count: int, *, threads: bool) -> Iterator[Executor]:
    if threads:
        with ThreadPoolExecutor(count) as pool:
            yield pool
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([SERVER])
    # Ctrl-C in a terminal reaches workers as well; this process ends them.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with _without_main(), ProcessPoolExecutor(count, mp_context=context, initializer=signal.signal, initargs=ignore) as processes:
        yield processes


@contextmanager
def _without_main() -> Iterator[None]:
    """Start workers without the main module of this process; importing it would cost each of them more than its tasks."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program
