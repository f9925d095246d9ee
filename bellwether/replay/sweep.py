"""Many backtests at once: every episode or portfolio with every agent and parameter set, on several processes or threads.

A task is many runs of one episode. Workers are forked once, from a server process that has the compiled engine loaded; tapes are read from the
memory-mapped cache. Agents whose decisions are compiled hold no lock of Python and run in threads of this process instead.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from bellwether.replay.agents.agent import Agent, CompiledAgent
from bellwether.replay.agents.load import make_agent
from bellwether.replay.backtest import BacktestSettings, run
from bellwether.replay.episode import load
from bellwether.replay.isolation import AgentSource, Isolation
from bellwether.replay.preparation import prepare
from bellwether.replay.prepared import Prepared
from bellwether.replay.results.metrics import metrics

#: Folder of an episode, or folders of those of a portfolio.
Source = Path | tuple[Path, ...]

#: Tasks for each worker: enough that none is idle for long at the end, few enough that an episode is opened by few workers.
_TASKS_PER_WORKER = 4
#: What the server of the worker processes imports.
_SERVER = "bellwether.replay.warm"
#: Episodes that a worker keeps open.
_OPEN_EPISODES = 16


@dataclass(frozen=True)
class Candidate:
    """An agent with its parameters. agent: `module:Class` or `file.py:Class`. name: what seeds call it. label: what results call it, different for each.

    params: all arguments of the class. varied: those that the grid varies. cadence: between decisions, ns; None: that of the settings. isolated: always in
    a process of its own.
    """

    agent: str
    name: str
    label: str
    params: Mapping[str, Any] = field(default_factory=dict)
    varied: Mapping[str, Any] = field(default_factory=dict)
    cadence: int | None = None
    title: str = ""
    isolated: bool = False

    def limits(self, asked: Isolation | None) -> Isolation | None:
        """Those of its process, `asked` for all agents or for this one alone; None where it runs in this process."""
        return asked or (Isolation() if self.isolated else None)

    def make(self) -> Agent:
        """A new agent."""
        return make_agent(self.agent, self.params, self.name)

    def source(self) -> AgentSource:
        """Where another process loads it from."""
        return AgentSource(self.agent, self.params, self.name)

    def settings(self, settings: BacktestSettings) -> BacktestSettings:
        """The settings of its runs."""
        return settings if self.cadence is None else replace(settings, cadence=self.cadence)


@dataclass(frozen=True)
class Sweep:
    """Rows of all runs, by episode and candidate in the order given, and what they took.

    rows: the metrics of each run, a row of replay/backtests, with `agent` the candidate's label. cpu, busy: CPU seconds of all processes from their start, and of those in engine and agents.
    """

    rows: list[Mapping[str, Any]]
    cpu: float
    busy: float


@dataclass(frozen=True)
class _Task:
    """Runs of one episode or portfolio. first: place of its first row among all rows."""

    first: int
    source: Source
    candidates: Sequence[Candidate]
    settings: BacktestSettings
    cache: Path | None
    isolated: Isolation | None


@dataclass(frozen=True)
class _Done:
    first: int
    rows: list[dict[str, Any]]
    worker: int
    cpu: float
    server: float
    busy: float


def sweep(
    sources: Sequence[Source],
    candidates: Sequence[Candidate],
    settings: BacktestSettings,
    *,
    cache: Path | None = None,
    jobs: int = 1,
    isolated: Isolation | None = None,
    progress: Callable[[int], None] | None = None,
) -> Sweep:
    """Run every candidate in every episode or portfolio; rows do not depend on `jobs`.

    sources: folders of episodes, and tuples of folders that are traded as one portfolio each. cache: folder of tapes, by which workers share them. jobs: workers. isolated: each agent in a process of its own, which alone
    loads it. progress: told of the runs that each finished task held.
    Raises `ConfigError` for a candidate or a portfolio that cannot be made and `SchemaError` for an episode that is refused, before anything runs.
    """
    made = [candidate.make() for candidate in candidates if candidate.limits(isolated) is None]
    for source in sources:
        open_source(source, settings, cache)
    tasks = [replace(task, isolated=isolated) for task in _tasks(sources, candidates, settings, cache, jobs)]
    rows: list[Mapping[str, Any]] = [{}] * (len(sources) * len(candidates))
    cpu: dict[int, float] = {}
    busy = server = 0.0
    for done in _carry_out(tasks, jobs, threads=len(made) == len(candidates) and all(isinstance(agent, CompiledAgent) for agent in made)):
        rows[done.first : done.first + len(done.rows)] = done.rows
        cpu[done.worker] = max(done.cpu, cpu.get(done.worker, 0.0))
        busy, server = busy + done.busy, done.server
        if progress is not None:
            progress(len(done.rows))
    cpu[os.getpid()] = time.process_time()
    return Sweep(rows, sum(cpu.values()) + server, busy)


def _tasks(
    sources: Sequence[Source], candidates: Sequence[Candidate], settings: BacktestSettings, cache: Path | None, jobs: int
) -> Iterator[_Task]:
    pieces = max(1, -(-jobs * _TASKS_PER_WORKER // max(1, len(sources))))
    length = max(1, -(-len(candidates) // pieces))
    for place, source in enumerate(sources):
        for start in range(0, len(candidates), length):
            yield _Task(place * len(candidates) + start, source, candidates[start : start + length], settings, cache, None)


def _carry_out(tasks: Sequence[_Task], jobs: int, *, threads: bool) -> Iterator[_Done]:
    if jobs == 1:
        yield from map(_runs, tasks)
        return
    with _workers(min(jobs, len(tasks)), threads=threads) as pool:
        futures = [pool.submit(_runs, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
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
    context.set_forkserver_preload([_SERVER])
    with _without_main(), ProcessPoolExecutor(count, mp_context=context) as processes:
        yield processes


@contextmanager
def _without_main() -> Iterator[None]:
    """Start workers without the program that this process runs: they need none of it, and importing it would cost each of them more than its tasks."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _runs(task: _Task) -> _Done:
    """All runs of a task, in a worker."""
    prepared = open_source(task.source, task.settings, task.cache)
    rows, busy = [], 0.0
    for candidate in task.candidates:
        limits = candidate.limits(task.isolated)
        agent = candidate.source() if limits else candidate.make()
        settings = candidate.settings(task.settings)
        begun = time.thread_time()
        backtest = run(prepared, agent, settings, isolated=limits or False)
        backtest.digest  # noqa: B018 - the engine's part of the row: worked out here, and kept
        busy += time.thread_time() - begun
        rows.append({**metrics(backtest), "agent": candidate.label})
    server = getattr(sys.modules.get(_SERVER), "CPU", 0.0)
    return _Done(task.first, rows, os.getpid(), time.process_time(), server, busy)


def open_source(source: Source, settings: BacktestSettings, cache: Path | None) -> Prepared:
    """An episode or a portfolio made ready under these settings; those opened last are kept."""
    if isinstance(source, tuple):
        return _portfolio(source, settings.rules, settings.bankroll, settings.execution, cache)
    return _episode(source, settings.rules, cache)


@lru_cache(maxsize=_OPEN_EPISODES)
def _episode(folder: Path, rules: str | None, cache: Path | None) -> Prepared:
    return prepare(load(folder, cache=cache), rules, cache=cache)


@lru_cache(maxsize=1)
def _portfolio(folders: tuple[Path, ...], rules: str | None, bankroll: int | None, execution: str | None, cache: Path | None) -> Prepared:
    parts = [prepare(load(folder, cache=cache), rules, cache=cache) for folder in folders]
    return prepare(parts, bankroll=bankroll, execution=execution)
