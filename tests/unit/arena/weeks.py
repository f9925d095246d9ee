"""A small arena in the sandbox for tests of whole weeks: own journal and lake, a settable clock, and a lineup of two models and the rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from bellwether import concurrency
from bellwether.arena.frames import universe_frame
from bellwether.arena.results import Facts, Results, compute_results
from bellwether.arena.weekly import rows
from bellwether.arena.weekly.context import WeekContext
from bellwether.arena.weekly.decisions import WeekDecisions, decide_week
from bellwether.arena.weekly.evidence import FactRows, build_evidence_rows
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.models.client import Limits, ModelClient
from bellwether.models.keys import endpoints
from bellwether.settings import Settings
from bellwether.tables import arena as tables
from bellwether.tables import table
from bellwether.tables.arena_messages import MESSAGES
from bellwether.venues.http.client import RateLimit
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.worlds import addresses

#: A Sunday, and a time in the sandbox long after it.
WEEK = date(2026, 4, 19)
LATER = datetime(2026, 7, 1, tzinfo=UTC)
SEVEN = timedelta(days=7)

REGISTRY = {
    "methodologies.toml": '[small]\nlike = "v1"\ntitle = "v1 with few markets"\nuniverse = 25\n',
    "lineups.toml": (
        '[tiny]\ntitle = "two models and the rules"\nmethodology = "small"\nworlds = ["sandbox"]\n\n[tiny.families]\n'
        'calibrated = "sandbox-calibrated"\nmalformed = "sandbox-failing"\nfavourite = "rule/favourite"\nhold = "rule/hold"\nrandom = "rule/random"\n\n'
        '[few]\ntitle = "the rules"\nmethodology = "small"\n\n[few.families]\nproportional = "rule/proportional"\nrandom = "rule/random"\n'
    ),
}


@dataclass
class Arena:
    """Arena below a folder. `calls`: every model call that was really sent."""

    home: Path
    now: datetime = LATER
    lineup: str = "tiny"
    calls: list[str] = field(default_factory=list)
    breaks: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.registry = self.home / "registry"
        self.registry.mkdir(parents=True, exist_ok=True)
        for name, text in REGISTRY.items():
            (self.registry / name).write_text(text)
        self.lake = Lake(str(self.home / "lake"))

    def journal(self) -> Journal:
        return Journal(f"sqlite:///{self.home / 'journal.db'}")

    def world(self, journal: Journal, run: str = "r") -> WeekContext:
        return WeekContext(journal, self.lake, self._ask, _Models(self, journal, run), lambda: self.now, run, self.lineup, self.registry)

    @property
    def config(self) -> Settings:
        return Settings(sandbox_now=self.now, home=self.home)

    def transport(self, inner: httpx.AsyncBaseTransport | None) -> httpx.AsyncBaseTransport | None:
        """Return the transport to the venue."""
        return inner

    def _ask(self, work: Callable[[GammaClient, ClobClient], Awaitable[Any]]) -> Any:
        self.breaks()

        async def session() -> Any:
            with addresses(self.config, served=False) as venues:
                how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": self.transport(venues.transport)}
                async with GammaClient(venues.gamma, **how) as gamma, ClobClient(venues.clob, **how) as clob:
                    return await work(gamma, clob)

        return concurrency.run(session())

    def decide(self, week: date = WEEK, run: str = "r", **more: Any) -> WeekDecisions:
        """Decide a week and store its rows."""
        with self.journal() as journal:
            decisions = decide_week(self.world(journal, run), week, **more)
            self.store(journal, week, decisions)
        return decisions

    def store(self, journal: Journal, week: date, week_decisions: WeekDecisions) -> None:
        world, partition = self.world(journal), (week.isoformat(),)
        decisions, versions = rows.build_decisions_rows(world, week_decisions)
        frames = {
            tables.UNIVERSE: universe_frame(week, *week_decisions.universes.values()),
            tables.AGENTS: rows.build_agents_rows(world, week_decisions.cohort),
            tables.DECISION_VERSIONS: versions,
            tables.DECISIONS: decisions,
            tables.REFUSALS: rows.build_refusals_rows(world, week_decisions),
            tables.TRADES: rows.build_trades_rows(week_decisions),
            MESSAGES: rows.build_messages_rows(world, week_decisions, decisions, versions),
        }
        for declared, frame in frames.items():
            self.lake.write(declared, partition, frame, run_id="test")

    def evidence(self, week: date) -> pl.DataFrame:
        """Collect evidence of a week and store it."""
        with self.journal() as journal:
            world = self.world(journal)
            evidence = build_evidence_rows(world, week, FactRows.load(world))
        self.lake.write(tables.EVIDENCE, (week.isoformat(),), evidence, run_id="test")
        return evidence

    def read(self, declared: Any) -> pl.DataFrame:
        return self.lake.slice(declared, missing="skip").read()

    def results(self) -> Results:
        names = ("agents", "decisions", "refusals", "trades", "evidence", "prices")
        facts = Facts(**{name: self.read(getattr(tables, name.upper())) for name in names})
        with self.journal() as journal:
            return compute_results(facts, self.world(journal).rules)

    def books(self) -> None:
        """Compute results from the facts and store them."""
        for name, frame in self.results().frames.items():
            self.lake.write(table(name), (), frame, run_id="test")

    def stored(self) -> dict[str, pl.DataFrame]:
        """Return the rows of a week's tables."""
        return {one.name: self.read(one) for one in (tables.UNIVERSE, tables.AGENTS, tables.DECISIONS, tables.REFUSALS, tables.TRADES)}


@dataclass
class _Models:
    arena: Arena
    journal: Journal
    run: str

    def client(self) -> AbstractAsyncContextManager[ModelClient]:
        return _Client(self)


class _Client(AbstractAsyncContextManager[ModelClient]):
    def __init__(self, models: _Models) -> None:
        self._models = models

    async def __aenter__(self) -> ModelClient:
        arena = self._models.arena
        self._site = addresses(arena.config)
        located = endpoints(self._site.__enter__().models)
        self._inner = _Counting(arena, self._models.journal, endpoint=located, run=self._models.run, limits=Limits())
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)
        self._site.__exit__(*error)


class _Counting(ModelClient):
    """Client that records every call it sends."""

    def __init__(self, arena: Arena, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._arena = arena

    async def ask(self, model: Any, messages: Any, **terms: Any) -> Any:
        answer = await super().ask(model, messages, **terms)
        if not answer.reused:
            self._arena.calls.append(f"{terms['scope']} {terms['sample']}")
        return answer
