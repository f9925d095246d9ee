"""Runs of a sweep: candidates, their runs in batches, and the execution of a batch in a worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.load import make_agent
from bellwether.replay.backtest import BacktestSettings, run
from bellwether.replay.episode import load
from bellwether.replay.isolation import AgentSource, Isolation
from bellwether.replay.preparation import prepare
from bellwether.replay.prepared import Prepared
from bellwether.replay.results.metrics import metrics

#: Folder of an episode, or folders of those of a portfolio.
Source = Path | tuple[Path, ...]
#: What the server of the worker processes imports.
SERVER = "bellwether.replay.warm"
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
class Batch:
    """Consecutive runs. first: place of the first one's row among all rows."""

    first: int
    runs: Sequence[tuple[Source, Candidate]]
    settings: BacktestSettings
    cache: Path | None
    isolated: Isolation | None


@dataclass(frozen=True)
class SweepPlan:
    """All runs of a sweep: every candidate in the first source, then in the second, and so on."""

    sources: Sequence[Source]
    candidates: Sequence[Candidate]
    settings: BacktestSettings
    cache: Path | None
    isolated: Isolation | None

    def __len__(self) -> int:
        return len(self.sources) * len(self.candidates)

    def batch(self, first: int, length: int) -> Batch:
        """At most `length` runs from `first` on."""
        width = len(self.candidates)
        places = range(first, min(first + length, len(self)))
        runs = [(self.sources[place // width], self.candidates[place % width]) for place in places]
        return Batch(first, runs, self.settings, self.cache, self.isolated)


@dataclass(frozen=True)
class BatchResult:
    """Rows of a batch. cpu, server: CPU seconds of the worker's process so far, and of the process that forked it. spent, busy: of the
    batch, and of that in engine and agents. seconds: wall time of the batch.
    """

    first: int
    rows: list[dict[str, Any]]
    worker: int
    cpu: float
    server: float
    spent: float
    busy: float
    seconds: float


def run_batch(batch: Batch) -> BatchResult:
    """All runs of a batch, in a worker."""
    begun, clock, rows, busy = time.thread_time(), time.perf_counter(), [], 0.0
    for source, candidate in batch.runs:
        prepared = open_source(source, batch.settings, batch.cache)
        limits = candidate.limits(batch.isolated)
        agent = candidate.source() if limits else candidate.make()
        start = time.thread_time()
        backtest = run(prepared, agent, candidate.settings(batch.settings), isolated=limits or False)
        backtest.digest  # noqa: B018 - cached here, so that its cost counts as the engine's
        busy += time.thread_time() - start
        rows.append({**metrics(backtest), "agent": candidate.label})
    server = getattr(sys.modules.get(SERVER), "CPU", 0.0)
    spent, seconds = time.thread_time() - begun, time.perf_counter() - clock
    return BatchResult(batch.first, rows, os.getpid(), time.process_time(), server, spent, busy, seconds)


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
