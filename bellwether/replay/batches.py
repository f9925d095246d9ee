"""Candidates (agents with parameters) of a sweep, their runs in batches, and the execution of a batch in a worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.errors import BellwetherError
from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.loader import AgentReference, load_agent_class
from bellwether.replay.backtest import Backtest, BacktestSettings, run
from bellwether.replay.episode import load
from bellwether.replay.isolation import AgentSource, Confinement, Isolation
from bellwether.replay.preparation import prepare
from bellwether.replay.prepared import Prepared
from bellwether.replay.results.metrics import metrics

if TYPE_CHECKING:
    import polars as pl

#: Folder of an episode, or folders of those of a portfolio.
Source = Path | tuple[Path, ...]
#: Module imported by the server of the worker processes.
SERVER = "bellwether.replay.preload"
#: Maximum number of episodes that a worker keeps open.
_OPEN_EPISODES = 16
#: Maximum number of agents named in an error.
_MOST_NAMED = 5


@dataclass(frozen=True)
class Candidate:
    """Competitor in a sweep: an agent with one set of parameters.

    Attributes:
        agent: `module:Class` or `file.py:Class`.
        name: Name in seeds.
        label: Unique name in results.
        params: All arguments of the class.
        varied: Arguments varied by the grid.
        cadence: Time between decisions, ns. Default: that of the settings.
        title: Name in tables. Default: `name`.
        isolated: Limits of an agent that always runs in its own process.
    """

    agent: str
    name: str
    label: str
    params: Mapping[str, Any] = field(default_factory=dict)
    varied: Mapping[str, Any] = field(default_factory=dict)
    cadence: int | None = None
    title: str = ""
    isolated: Isolation | None = None

    def check(self, settings: BacktestSettings, isolated: Isolation | None) -> type[Agent] | None:
        """Raise `ConfigError` if the agent's class cannot be loaded or refuses the parameters, or if a built-in class cannot be isolated.
        Returns the class; None for an isolated agent, whose own process loads it.

        isolated: run the agent in its own process with these limits.
        """
        if isolated or self.isolated:
            if self.agent.startswith("bellwether."):
                AgentSource.of(load_agent_class(self.agent))
            return None
        return self.reference().check(settings.seconds_per_step)

    def reference(self) -> AgentReference:
        """Return the reference from which a run creates the agent."""
        return AgentReference(self.agent, self.params, self.name)

    def run(self, prepared: Prepared, settings: BacktestSettings, isolated: Isolation | None) -> Backtest:
        """Run a backtest of the candidate; in the result the agent has the candidate's label as name. isolated: run the agent in its own
        process with these limits.
        """
        own = settings if self.cadence is None else replace(settings, cadence=self.cadence)
        backtest = run(prepared, self.reference(), own, isolated=isolated or self.isolated or False)
        return replace(backtest, agent=self.label)


def varied_parameters(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return a row per candidate: the label, as `agent`, and the parameters that the grid varies."""
    return [{"agent": candidate.label, **candidate.varied} for candidate in candidates]


@dataclass(frozen=True)
class Batch:
    """Consecutive runs of a sweep, executed in one worker. first: index of the batch's first run among all runs. tables: return all tables
    of the runs, not only metrics.
    """

    first: int
    runs: Sequence[tuple[Source, Candidate]]
    settings: BacktestSettings
    cache: Path | None
    isolated: Isolation | None
    tables: bool


@dataclass(frozen=True)
class SweepPlan:
    """All runs of a sweep in order: every candidate in the first source (episode or portfolio), then every candidate in the second, and so on."""

    sources: Sequence[Source]
    candidates: Sequence[Candidate]
    settings: BacktestSettings
    cache: Path | None
    isolated: Isolation | None
    tables: bool = False

    def __len__(self) -> int:
        return len(self.sources) * len(self.candidates)

    def batch(self, first: int, length: int) -> Batch:
        """Return the batch of at most `length` runs that begins with run number `first`."""
        width = len(self.candidates)
        places = range(first, min(first + length, len(self)))
        runs = [(self.sources[place // width], self.candidates[place % width]) for place in places]
        return Batch(first, runs, self.settings, self.cache, self.isolated, self.tables)


@dataclass(frozen=True)
class BatchResult:
    """Metrics of the runs of a batch, their tables if requested, and the time that the batch took.

    first: index of its first run among all runs. rows: metrics of each run. tables: tables of the runs by name, if requested. worker: id of
    the worker process. cpu: CPU seconds of this process so far; server: of the process that forked it; spent: of the batch; busy: of the
    engine and the agents in the batch. seconds: wall time of the batch. confinements: protections against isolated agents.
    """

    first: int
    rows: list[dict[str, Any]]
    tables: Mapping[str, pl.DataFrame]
    worker: int
    cpu: float
    server: float
    spent: float
    busy: float
    seconds: float
    confinements: frozenset[Confinement]


def build_worker_error(batches: Sequence[Batch], where: str = "") -> BellwetherError:
    """Build the error of a sweep whose worker process ended during one of these batches. where: place of the worker, for the message."""
    labels = list(dict.fromkeys(candidate.label for batch in batches for _, candidate in batch.runs))
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return BellwetherError(
        f"running a sweep{where}: the process ended in a run of {', '.join(labels[:_MOST_NAMED])}{more}: ended by the agent, or out of memory; "
        "run each agent in its own process with --isolated"
    )


def run_batch(batch: Batch) -> BatchResult:
    """Run all backtests of a batch in this worker."""
    begun, clock, rows, busy = time.thread_time(), time.perf_counter(), [], 0.0
    confinements: set[Confinement] = set()
    parts: list[dict[str, pl.DataFrame]] = []
    for source, candidate in batch.runs:
        prepared = prepare_source(source, batch.settings, batch.cache)
        start = time.thread_time()
        backtest = candidate.run(prepared, batch.settings, batch.isolated)
        backtest.digest  # noqa: B018 - cached here, so that its cost counts as the engine's
        busy += time.thread_time() - start
        rows.append(metrics(backtest))
        if backtest.confinement is not None:
            confinements.add(backtest.confinement)
        if batch.tables:
            from bellwether.replay.results.frames import details

            parts.append(details(backtest))
    server = getattr(sys.modules.get(SERVER), "CPU", 0.0)
    tables = _concatenate(parts, rows) if batch.tables else {}
    spent, seconds = time.thread_time() - begun, time.perf_counter() - clock
    used = os.getpid(), time.process_time(), server, spent, busy, seconds
    return BatchResult(batch.first, rows, tables, *used, frozenset(confinements))


def _concatenate(parts: Sequence[Mapping[str, pl.DataFrame]], rows: Sequence[Mapping[str, Any]]) -> dict[str, pl.DataFrame]:
    import polars as pl

    from bellwether.tables.replay import BACKTESTS

    return {BACKTESTS.name: BACKTESTS.frame(rows), **{name: pl.concat([part[name] for part in parts]) for name in parts[0]}}


def prepare_source(source: Source, settings: BacktestSettings, cache: Path | None) -> Prepared:
    """Prepare an episode or a portfolio for a replay with these settings. The results of the most recent calls are cached."""
    if isinstance(source, tuple):
        names = ("rules", "fees", "bankroll", "execution")
        return _prepare_portfolio(source, cache, **{name: getattr(settings, name) for name in names})
    return _prepare_episode(source, settings.rules, settings.fees, cache)


@lru_cache(maxsize=_OPEN_EPISODES)
def _prepare_episode(folder: Path, rules: str | None, fees: str | None, cache: Path | None) -> Prepared:
    return prepare(load(folder, cache=cache), rules, cache=cache, fees=fees)


@lru_cache(maxsize=1)
def _prepare_portfolio(folders: tuple[Path, ...], cache: Path | None, **settings: Any) -> Prepared:
    return prepare([load(folder, cache=cache) for folder in folders], cache=cache, **settings)
