"""Sweeps: backtests of every agent and parameter set in every source of episodes, by joblib on this machine or on a Dask cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.errors import BellwetherError, ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent
from bellwether.replay.agents.builtin import Passive
from bellwether.replay.agents.limits import Failure
from bellwether.replay.agents.loader import AgentSource, load_agent_class
from bellwether.replay.backtest import Backtest, run
from bellwether.replay.engine.codes import ENGINE_VERSION
from bellwether.replay.episode.folder import load
from bellwether.replay.preparation import Prepared, prepare
from bellwether.replay.results.metrics import metrics
from bellwether.replay.settings import BacktestSettings

if TYPE_CHECKING:
    import polars as pl
    from distributed import Client

    from bellwether.replay.results.summary import RealityCheck

#: Folders of the episodes of a run, which are traded together.
Source = tuple[Path, ...]
#: Maximum number of sources that a process keeps open.
_OPEN_SOURCES = 16
#: Characters replaced in names of files.
_FOREIGN = re.compile(r"[^\w.=,-]+")


@dataclass(frozen=True)
class Candidate:
    """Competitor in a sweep: an agent with one set of parameters.

    Attributes:
        agent: Class of the agent, all of its arguments, and its name in seeds.
        label: Unique name in results.
        varied: Arguments varied by the grid.
        cadence: Time between decisions, ns. Default: that of the settings.
        title: Name in tables. Default: that of the agent.
        isolated: The agent always runs in its own process.
    """

    agent: AgentSource
    label: str
    varied: Mapping[str, Any] = field(default_factory=dict)
    cadence: int | None = None
    title: str = ""
    isolated: bool = False

    def check(self, settings: BacktestSettings, *, isolated: bool) -> type[Agent] | None:
        """Raise `ConfigError` if the agent's class cannot be loaded or refuses the parameters, or if a built-in class cannot be isolated.
        Returns the class; None for an isolated agent, whose own process loads it.

        isolated: run the agent in its own process.
        """
        if isolated or self.isolated:
            if self.agent.reference.startswith("bellwether."):
                AgentSource.of(load_agent_class(self.agent.reference))
            return None
        return self.agent.check(settings.limits.decision)

    def run(self, prepared: Prepared, settings: BacktestSettings, *, isolated: bool) -> Backtest:
        """Run a backtest of the candidate; in the result the agent has the candidate's label as name. isolated: run the agent in its own
        process.
        """
        own = settings if self.cadence is None else replace(settings, cadence=self.cadence)
        if self.varied and own.queues is None:
            own = replace(own, queues=0)
        backtest = run(prepared, self.agent, own, isolated=isolated or self.isolated)
        return replace(backtest, agent=self.label)


@dataclass(frozen=True)
class _Result:
    row: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    failure: Failure | None


@dataclass(frozen=True)
class SweepResults:
    """Results of all runs of a sweep, by source and candidate in their order.

    Attributes:
        rows: Row of replay/backtests for each run, with the candidate's label as `agent`.
        failures: Failure of each run's agent; None without one.
    """

    rows: list[Mapping[str, Any]]
    failures: list[Failure | None]

    def frame(self) -> pl.DataFrame:
        """Return the metrics of all runs as a frame, with the columns of replay/backtests."""
        from bellwether.tables.replay import BACKTESTS

        return BACKTESTS.validate(BACKTESTS.frame(self.rows))

    def reality_check(self) -> RealityCheck:
        """Compute White's reality check: the probability that the best of agents without an edge does as well as the best candidate did."""
        from bellwether.replay.results.summary import reality_check

        return reality_check(self.frame())


@dataclass(frozen=True)
class Sweep:
    """Backtests of every candidate in every source.

    Attributes:
        sources: Folders of the episodes of each run; several folders are traded together.
        candidates: Agents with their parameters.
        settings: Settings of all runs.
        isolated: Run each agent in its own process, which alone loads it.
        html: Folder for a tear sheet of each backtest.
    """

    sources: Sequence[Source]
    candidates: Sequence[Candidate]
    settings: BacktestSettings = field(default_factory=BacktestSettings)
    isolated: bool = False
    html: Path | None = None

    def titles(self) -> dict[str, str]:
        """Return the name of each candidate in tables, by label: the agent's title and the varied parameters, or only these if all
        candidates are variants of one agent.
        """
        several = len({candidate.agent.name for candidate in self.candidates}) > 1
        titles = {}
        for candidate in self.candidates:
            varied = ", ".join(f"{name}={value}" for name, value in candidate.varied.items())
            title = candidate.title or candidate.agent.name or candidate.label
            titles[candidate.label] = (f"{title}, {varied}" if several else varied) if varied else title
        return titles

    def run(
        self, *, jobs: int = 1, client: Client | None = None, out: Path | None = None, progress: Callable[[int], None] | None = None
    ) -> SweepResults:
        """Run all backtests. Results do not depend on the number and kind of workers.

        Args:
            jobs: Number of workers: processes, or threads if all agents are compiled. With 1, all runs are in this process.
            client: Client of a Dask cluster whose workers run all backtests instead. Episodes, files of agents, and the folder `html`
                must be at the same paths there.
            out: Folder for the tables of all runs and the reality check. Until the sweep ends, those of finished runs are in its
                `backtests.parts`.
            progress: Function that is called with 1 for each finished run, in their order.

        Raises:
            ConfigError: A candidate or a source is invalid. It is raised before the first run; for sources on Dask, when a worker opens one.
            SchemaError: An episode is invalid, likewise.
            BellwetherError: A worker ended.
        """
        kinds = [candidate.check(self.settings, isolated=self.isolated) for candidate in self.candidates]
        is_compiled = all(kind is not None and issubclass(kind, CompiledAgent) for kind in kinds)
        if client is None:
            for number, source in enumerate(self.sources):
                prepared = self._prepare(source)
                if jobs > 1 and not is_compiled and number == 0:
                    # Compiles the engine in this process; workers load it from numba's cache.
                    metrics(run(prepared, Passive(), self.settings))
        results = SweepResults([], [])
        tasks = ((source, candidate, ENGINE_VERSION, out is not None) for source in self.sources for candidate in self.candidates)
        with nullcontext() if out is None else self._open_tables(out) as add_tables:
            for result in _run_tasks(self.run_one, tasks, jobs=jobs, client=client, prefer="threads" if is_compiled else "processes"):
                results.rows.append(result.row)
                results.failures.append(result.failure)
                if add_tables is not None:
                    add_tables(result.row, result.tables)
                if progress is not None:
                    progress(1)
        return results

    def run_one(self, source: Source, candidate: Candidate, engine: str, tables: bool) -> _Result:
        """Run one candidate in one source. engine: required version of the engine. tables: whether to return the tables too."""
        if engine != ENGINE_VERSION:
            raise ConfigError(
                f"running a sweep: a worker has engine version {ENGINE_VERSION}, not {engine}; install one version everywhere"
            )
        backtest = candidate.run(self._prepare(source), self.settings, isolated=self.isolated)
        frames: Mapping[str, pl.DataFrame] = {}
        if tables:
            from bellwether.replay.results.frames import details

            frames = details(backtest)
        if self.html is not None:
            name = "-".join(_FOREIGN.sub("-", part) for part in (backtest.agent, backtest.episode))
            backtest.write_html(self.html / f"{name}.html")
        return _Result(metrics(backtest), frames, backtest.failure)

    def _prepare(self, source: Source) -> Prepared:
        return _prepare_source(source, self.settings.rules, self.settings.bankroll)

    def _open_tables(self, out: Path) -> AbstractContextManager[Callable[[Mapping[str, Any], Mapping[str, pl.DataFrame]], None]]:
        from bellwether.replay.results.folder import table_writer

        varied = [{"agent": candidate.label, **candidate.varied} for candidate in self.candidates]
        return table_writer(out, varied)


def _run_tasks(
    function: Callable[..., _Result], tasks: Iterable[tuple[Any, ...]], *, jobs: int, client: Client | None, prefer: str
) -> Iterator[_Result]:
    """Yield the results of a function for all tasks in order, each as soon as it and those before it have ended."""
    from joblib import Parallel, delayed, parallel_config

    workers = nullcontext() if client is None else parallel_config("dask", client=client)
    with workers:
        parallel = Parallel(return_as="generator", **({"n_jobs": jobs, "prefer": prefer} if client is None else {"n_jobs": -1}))
        try:
            yield from parallel(delayed(function)(*task) for task in tasks)
        except BrokenExecutor as error:
            raise BellwetherError(
                "running a sweep: a worker process ended, by an agent or out of memory; run each agent in its own process with --isolated"
            ) from error


@lru_cache(maxsize=_OPEN_SOURCES)
def _prepare_source(source: Source, rules: str | None, bankroll: int | None) -> Prepared:
    return prepare([load(folder) for folder in source], rules, bankroll=bankroll)
