"""A small arena of whole weeks: own journal and lake, a settable clock, a venue of literal markets, two scripted models and the rules."""

from __future__ import annotations

import json
import re
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
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.journal.journal import Journal
from bellwether.lake import Lake
from bellwether.models.client import ModelClient
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from bellwether.models.scheduler import Retry
from bellwether.models.transport import ModelCall
from bellwether.tables import arena as tables
from bellwether.tables import table
from bellwether.tables.arena import MESSAGES
from bellwether.venues.http.client import ClobClient, GammaClient, RateLimit
from tests.unit.arena.venue import Venue
from tests.unit.models.scripted_client import FakeWire, make_result

#: A Sunday, and a time long after its markets were resolved.
WEEK = date(2026, 4, 19)
LATER = datetime(2026, 7, 1, tzinfo=UTC)
SEVEN = timedelta(days=7)

REGISTRY = {
    "methodologies.toml": '[small]\nlike = "v1"\ntitle = "v1 with few markets"\nuniverse = 10\n',
    "models.toml": "".join(f'[{name}]\nmodel = "acme/{name}"\ninput_price = 1\noutput_price = 1\n\n' for name in ("oracle", "mute")),
    "families.toml": '[mute]\ntitle = "Mute"\ncontrol = true\n[mute.releases]\nmute = 2026-01-01\n',
    "lineups.toml": (
        '[tiny]\ntitle = "two models and the rules"\nmethodology = "small"\n\n[tiny.families]\n'
        'oracle = "oracle"\nmute = "mute"\nfavourite = "rule/favourite"\nhold = "rule/hold"\nrandom = "rule/random"\n\n'
        '[few]\ntitle = "the rules"\nmethodology = "small"\n\n[few.families]\nproportional = "rule/proportional"\nrandom = "rule/random"\n'
    ),
}


def answer(call: ModelCall) -> Any:
    """Return the answer of a scripted model: `oracle` bets on YES in the first three binary markets, `mute` gives no decision."""
    if call.model.name == "mute":
        return make_result("no idea")
    listed = re.findall(r'^- market_id "(\d+)" .*\| binary \|', call.messages[1]["content"], flags=re.MULTILINE)
    bets = [{"market_id": name, "side": "YES", "amount": 300, "probability": 0.6} for name in listed[:3]]
    return make_result(json.dumps({"action": "BET", "bets": bets, "reasoning": "because"}))


@dataclass
class Arena:
    """Arena below a folder. `calls`: every model call that was really sent. `entries`: models of these calls, by decision. `script`: their answers."""

    home: Path
    now: datetime = LATER
    lineup: str = "tiny"
    calls: list[str] = field(default_factory=list)
    entries: dict[str, Model] = field(default_factory=dict)
    script: Callable[[ModelCall], Any] = answer

    def __post_init__(self) -> None:
        self.registry = self.home / "registry"
        self.registry.mkdir(parents=True, exist_ok=True)
        for name, text in REGISTRY.items():
            if not (self.registry / name).exists():
                (self.registry / name).write_text(text)
        self.lake = Lake(str(self.home / "lake"))
        self.venue = Venue(lambda: self.now)

    def journal(self) -> Journal:
        return Journal(f"sqlite:///{self.home / 'journal.db'}")

    def world(self, journal: Journal, run: str = "r") -> WeekContext:
        return WeekContext(
            journal, self.lake, {"polymarket": self.query}, _Models(self, journal, run), lambda: self.now, run, self.lineup, self.registry
        )

    def query(self, work: Callable[[Polymarket], Awaitable[Any]]) -> Any:
        """Run requests to the venue."""

        async def session() -> Any:
            how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": httpx.MockTransport(self.venue)}
            async with GammaClient("http://gamma", **how) as gamma, ClobClient("http://clob", **how) as clob:
                return await work(Polymarket(gamma, clob))

        return concurrency.run(session())

    def client(self, journal: Journal, run: str) -> AbstractAsyncContextManager[ModelClient]:
        return CountingClient(
            self, journal, endpoint=lambda model: Endpoint(None), run=run, wire=FakeWire(self.script), retry=Retry(attempts=1)
        )

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

    def tick(self) -> tuple[date, int]:
        """Mark what is held."""
        with self.journal() as journal:
            return store_tick(self.world(journal))


@dataclass
class _Models:
    arena: Arena
    journal: Journal
    run: str

    def client(self) -> AbstractAsyncContextManager[ModelClient]:
        return self.arena.client(self.journal, self.run)


class CountingClient(ModelClient):
    """Client that records every call it sends."""

    def __init__(self, arena: Arena, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._arena = arena

    async def ask(self, model: Any, messages: Any, **terms: Any) -> Any:
        answer = await super().ask(model, messages, **terms)
        if not answer.reused:
            self._arena.calls.append(f"{terms['scope']} {terms['sample']}")
            self._arena.entries[terms["scope"]] = model
        return answer
