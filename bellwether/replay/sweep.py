"""Sweeps: backtests of every agent and parameter set in every episode or portfolio, in processes, in threads or on a Dask cluster.

Local worker processes are forked from a server process with the compiled engine in memory, and read tapes from the memory-mapped cache.
Compiled agents release the GIL and run in threads of this process instead. `dask_sweep` runs the same batches on a cluster.
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
    varied_parameters,
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
    """Metrics of all runs of a sweep, and the CPU time that they took.

    Attributes:
        rows: Row of replay/backtests for each run, by source and candidate in the given order, with the candidate's label as `agent`.
        cpu: CPU seconds of all processes from their start; on Dask, of this process and of the batches.
        busy: CPU seconds of the engine and the agents.
        confinements: Protections against isolated agents.
    """

    rows: list[Mapping[str, Any]]
    cpu: float
    busy: float
    confinements: frozenset[Confinement] = frozenset()

    def frame(self) -> pl.DataFrame:
        """Return the metrics of all runs as a frame, with the columns of replay/backtests."""
        from bellwether.tables.replay import BACKTESTS

        return BACKTESTS.validate(BACKTESTS.frame(self.rows))

    def reality_check(self, *, unsettled: bool = False) -> RealityCheck:
        """Compute White's reality check: the probability that the best of agents without an edge does as well as the best candidate did.
        unsettled: count unsettled episodes.
        """
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
    """Run every candidate in every episode or portfolio. Results do not depend on the number and kind of workers.

    Args:
        sources: Folders of episodes, and tuples of folders, each traded as one portfolio.
        candidates: Agents with their parameters.
        settings: Settings of all runs.
        cache: Folder of tapes, shared by local workers.
        jobs: Number of local workers.
        client: Client of a Dask cluster that runs all batches instead. Its workers need the folders at the same paths, and store tapes below
            their own BELLWETHER_HOME.
        batch: Runs per batch on Dask. Default: about two seconds of work.
        isolated: Run each agent in its own process, which alone loads it, with these limits.
        out: Folder for the tables of all runs and the reality check. Until the sweep ends, finished batches are in its `backtests.parts`.
        unsettled: Count unsettled episodes in the reality check.
        progress: Function that is called with the number of runs of each finished batch.

    Raises:
        ConfigError: A candidate or a portfolio is invalid. It is raised before the first run; for portfolios on Dask, when a worker opens one.
        SchemaError: An episode is invalid. It is raised before the first run; on Dask, when a worker opens the episode.
    """
    kinds = [candidate.check(settings, isolated) for candidate in candidates]
    plan = SweepPlan(sources, candidates, settings, cache, isolated, tables=out is not None)
    if client is None:
        for source in sources:
            prepare_source(source, settings, cache)
        compiled = all(kind is not None and issubclass(kind, CompiledAgent) for kind in kinds)
        results = _run_locally(_split_batches(plan, jobs), jobs, threads=compiled)
    else:
        results = run_on_dask(plan, client, batch)
    rows: list[Mapping[str, Any]] = [{}] * len(plan)
    cpu: dict[int, float] = {}
    busy = other = 0.0
    confinements: frozenset[Confinement] = frozenset()
    with nullcontext() if out is None else _open_tables(out, candidates, unsettled=unsettled) as add_tables:
        for result in results:
            rows[result.first : result.first + len(result.rows)] = result.rows
            busy += result.busy
            confinements |= result.confinements
            if client is None:
                cpu[result.worker], other = max(result.cpu, cpu.get(result.worker, 0.0)), result.server
            else:
                other += result.spent
            if add_tables is not None:
                add_tables(result.first, result.tables)
            if progress is not None:
                progress(len(result.rows))
    cpu[os.getpid()] = time.process_time()
    return Sweep(rows, sum(cpu.values()) + other, busy, confinements)


def _open_tables(
    out: Path, candidates: Sequence[Candidate], *, unsettled: bool
) -> AbstractContextManager[Callable[[int, Mapping[str, pl.DataFrame]], None]]:
    from bellwether.replay.results.folder import table_writer

    return table_writer(out, varied_parameters(candidates), unsettled=unsettled)


def _split_batches(plan: SweepPlan, jobs: int) -> list[Batch]:
    """Split all runs into batches for `jobs` workers. All runs of a batch are in the same episode or portfolio."""
    pieces = max(1, -(-jobs * _BATCHES_PER_WORKER // max(1, len(plan.sources))))
    width = len(plan.candidates)
    length = max(1, -(-width // pieces))
    return [
        plan.batch(start, min(length, first + width - start))
        for first in range(0, len(plan), width or 1)
        for start in range(first, first + width, length)
    ]


def _run_locally(batches: Sequence[Batch], jobs: int, *, threads: bool) -> Iterator[BatchResult]:
    if jobs == 1:
        yield from map(run_batch, batches)
        return
    with _start_workers(min(jobs, len(batches)), threads=threads) as pool:
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
def _start_workers(count: int, *, threads: bool) -> Iterator[Executor]:
    if threads:
        with ThreadPoolExecutor(count) as pool:
            yield pool
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([SERVER])
    # Ctrl-C in a terminal reaches workers as well; this process ends them.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with _hide_main_module(), ProcessPoolExecutor(count, mp_context=context, initializer=signal.signal, initargs=ignore) as processes:
        yield processes


@contextmanager
def _hide_main_module() -> Iterator[None]:
    """Hide the main module of this process within the block, so that workers do not import it, which would take longer than a batch."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program
