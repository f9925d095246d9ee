"""Do simulated weeks of the arena get more expensive as weeks accumulate? Eight agents in the sandbox, with up to 500 markets.

The ratio is the mean cost of the second half of the weeks divided by that of the first half, once five cohorts decide in each week. `python -m
benchmarks.arena_year [WEEKS [TICKS]]` prints all figures as JSON, by default of 52 weeks with 1,008 marks (ten-minute prices of positions) each.
Fewer marks cover the first hours of each week.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from bellwether import concurrency
from bellwether.arena.frames import universe_frame
from bellwether.arena.identity import week_of
from bellwether.arena.results import Facts, compute_results
from bellwether.arena.weekly import rows
from bellwether.arena.weekly.context import WeekContext
from bellwether.arena.weekly.decisions import decide_week
from bellwether.arena.weekly.evidence import FactRows, build_evidence_rows, list_due_markets
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.journal.journal import Journal
from bellwether.lake import Lake
from bellwether.models.client import Limits, ModelClient
from bellwether.models.keys import endpoints
from bellwether.settings import Settings
from bellwether.tables import table
from bellwether.venues.http.client import ClobClient, GammaClient, RateLimit
from bellwether.worlds import addresses

#: The first week, when the sandbox has had its markets for a while.
START = datetime(2025, 7, 6, 0, 10, tzinfo=UTC)
WEEKS, TICKS = 13, 24
WEEK, TICK, DAY, LOOK = timedelta(days=7), timedelta(minutes=10), timedelta(days=1), timedelta(hours=6)
#: Weeks until as many cohorts decide as ever will.
GROWING = 5
#: Second half over first half of the weeks after those: 1 where a week takes the same.
MOST_GROWTH = 1.5
FAMILIES = {
    **{name: f"sandbox-{name}" for name in ("calibrated", "overconfident", "noisy", "failing")},
    **{name: f"rule/{name}" for name in ("favourite", "hold", "proportional", "random")},
}
LINEUP = '[eight]\ntitle = "four models and the four rules"\nworlds = ["sandbox"]\n\n[eight.families]\n' + "".join(
    f'{family} = "{member}"\n' for family, member in FAMILIES.items()
)


@dataclass(frozen=True)
class Year:
    """Costs of each week, as lists with an entry per week, and what the year contains at its end.

    CPU seconds of decisions (deciding), observations of resolutions (looking), marks (marking) and results (folding); peaks: peak memory in MB;
    lake, journal: bytes at the end of the week. ticks: marks per week. facts: rows by table. violations: violated invariants at the end of the
    year.
    """

    weeks: int
    ticks: int
    seconds: float
    deciding: list[float] = field(default_factory=list)
    looking: list[float] = field(default_factory=list)
    marking: list[float] = field(default_factory=list)
    folding: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    lake: list[int] = field(default_factory=list)
    journal: list[int] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


class Sandbox:
    """Arena over a sandbox whose clock (`now`) the benchmark advances. home: folder of journal, lake and registry."""

    def __init__(self, home: Path) -> None:
        self.home, self.now = home, START
        (home / "registry").mkdir(parents=True)
        (home / "registry" / "lineups.toml").write_text(LINEUP)
        self.lake = Lake(str(home / "lake"))

    @property
    def config(self) -> Settings:
        """Settings at the present time of the simulation."""
        return Settings(sandbox_now=self.now, home=self.home)

    def journal(self) -> Journal:
        """Open the journal, which the caller must close."""
        return Journal(f"sqlite:///{self.home / 'journal.db'}")

    def world(self, journal: Journal) -> WeekContext:
        """Create the context in which a week's functions work on the arena."""
        return WeekContext(
            journal, self.lake, {"polymarket": self._ask}, _Models(self, journal), lambda: self.now, "year", "eight", self.home / "registry"
        )

    def _ask(self, work: Callable[[Polymarket], Awaitable[Any]]) -> Any:
        async def session() -> Any:
            with addresses(self.config, served=False) as found:
                how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": found.transport}
                async with GammaClient(found.gamma, **how) as gamma, ClobClient(found.clob, **how) as clob:
                    return await work(Polymarket(gamma, clob))

        return concurrency.run(session())

    def write(self, name: str, frame: Any, *partition: str) -> None:
        """Store rows of a table."""
        self.lake.write(table(name), partition, frame, run_id="year")


class _Models:
    def __init__(self, sandbox: Sandbox, journal: Journal) -> None:
        self._sandbox, self._journal = sandbox, journal

    def client(self) -> AbstractAsyncContextManager[ModelClient]:
        return _client(self._sandbox, self._journal)


@asynccontextmanager
async def _client(sandbox: Sandbox, journal: Journal) -> AsyncIterator[ModelClient]:
    with addresses(sandbox.config) as site:
        async with ModelClient(journal, endpoint=endpoints(site.models), run="year", limits=Limits()) as client:
            yield client


def simulate(home: Path, weeks: int = WEEKS, ticks: int = TICKS) -> Year:
    """Simulate weeks: decisions on Sunday, marks every ten minutes, observations every six hours, and results every day.

    Marks are stored in the first `ticks` intervals of a week. Observations and results end with the marks, and are repeated at the end of the week.
    """
    sandbox, year, begun = Sandbox(home), Year(weeks, ticks, 0.0), time.perf_counter()
    for number in range(weeks):
        sunday = sandbox.now = START + number * WEEK
        timed = dict.fromkeys(("deciding", "looking", "marking", "folding"), 0.0)

        def step(name: str, work: Callable[[Sandbox, WeekContext], None], timed: dict[str, float] = timed) -> None:
            started = time.process_time()
            with sandbox.journal() as journal:
                work(sandbox, sandbox.world(journal))
            timed[name] += time.process_time() - started

        step("deciding", _decide)
        for tick in range(ticks):
            sandbox.now = sunday + tick * TICK
            step("marking", lambda _, world: store_tick(world) and None)
            if tick and not tick * TICK % LOOK:
                step("looking", _look)
            if tick and not tick * TICK % DAY:
                step("folding", _fold)
        sandbox.now = sunday + WEEK - timedelta(minutes=20)
        step("looking", _look)
        step("folding", _fold)
        _vacuum(sandbox)
        for name, seconds in timed.items():
            getattr(year, name).append(round(seconds, 3))
        year.peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        year.lake.append(_bytes(home / "lake"))
        year.journal.append((home / "journal.db").stat().st_size)
    facts = Facts.load(sandbox.lake)
    with sandbox.journal() as journal:
        found = compute_results(facts, sandbox.world(journal).rules)
    sizes = {name: getattr(facts, name).height for name in Facts.__dataclass_fields__}
    broken = [f"{one.rule}: {one.where}: {one.found}" for one in found.violations]
    return replace(year, seconds=round(time.perf_counter() - begun, 1), facts=sizes, violations=broken)


def _decide(sandbox: Sandbox, world: WeekContext) -> None:
    """Start the week's cohort, make all decisions, and store their rows."""
    week = sandbox.now.date()
    done = decide_week(world, week, forced=False)
    decisions, versions = rows.build_decisions_rows(world, done)
    made = {
        "universe": universe_frame(week, done.universe),
        "agents": rows.build_agents_rows(world, done.cohort),
        "refusals": rows.build_refusals_rows(world, done),
        "trades": rows.build_trades_rows(done),
        "decision_versions": versions,
        "decisions": decisions,
    }
    for name, frame in made.items():
        sandbox.write(f"arena/{name}", frame, week.isoformat())


def _look(sandbox: Sandbox, world: WeekContext) -> None:
    """Observe the resolutions of markets that are due, and store the evidence."""
    if list_due_markets(world):
        week = week_of(sandbox.now)
        sandbox.write("arena/evidence", build_evidence_rows(world, week, FactRows.load(world)), week.isoformat())


def _fold(sandbox: Sandbox, world: WeekContext) -> None:
    """Compute the results of all weeks, and store their tables."""
    for name, frame in compute_results(Facts.load(sandbox.lake), world.rules).frames.items():
        sandbox.write(name, frame)


def _vacuum(sandbox: Sandbox) -> None:
    """Remove superseded files at once, as if their grace period were over."""
    later = datetime.now(UTC) + timedelta(days=8)
    Lake(sandbox.lake.uri, clock=lambda: later).vacuum(timedelta(days=7))


def growth(figures: Sequence[float], first: int = GROWING) -> float:
    """Return the mean of the later half of the figures divided by the mean of the earlier half.

    figures: one per week. The weeks before number `first` are left out.
    """
    steady = figures[first:]
    half = len(steady) // 2
    return (sum(steady[half:]) / (len(steady) - half)) / (sum(steady[:half]) / half)


def added(totals: Sequence[int]) -> list[int]:
    """Return by how much a total grows in each week. totals: at the end of each week."""
    return [after - before for before, after in pairwise([0, *totals])]


def run() -> list[dict[str, Any]]:
    """Measure how much the cost of a week grows, in a separate process. Returns [{name, ratio, target, detail}]."""
    command = [sys.executable, "-m", "benchmarks.arena_year", str(WEEKS), str(TICKS)]
    year = Year(**json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    if year.violations:
        raise AssertionError(year.violations[:3])
    figures = {
        "CPU of decisions": (year.deciding, "s"),
        "CPU of a mark": ([1000 * seconds / year.ticks for seconds in year.marking], "ms"),
        "bytes of the lake": ([one / 1e6 for one in added(year.lake)], "MB"),
        "bytes of the journal": ([one / 1e6 for one in added(year.journal)], "MB"),
        "peak memory": (year.peaks, "MB"),
    }
    said = f"{WEEKS} weeks of {len(FAMILIES)} agents, {year.facts['trades']} trades, {year.facts['prices']} prices in {year.seconds:.0f} s"
    return [
        {
            "name": f"an arena week: {name}, second half of {WEEKS} over first",
            "ratio": growth(values),
            "target": MOST_GROWTH,
            "detail": f"{values[GROWING]:.3g} {unit}, then {values[-1]:.3g} {unit}; {said}",
        }
        for name, (values, unit) in figures.items()
    ]


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(weeks: int = 52, ticks: int = 7 * 144) -> None:
    """Simulate weeks, and print their costs as JSON. ticks: marks per week."""
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(simulate(Path(folder) / "arena", weeks, ticks))))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
