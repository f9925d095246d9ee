"""The small arena of whole weeks on the sandbox's two venues and its models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from bellwether import concurrency
from bellwether.arena.weekly.context import WeekContext
from bellwether.arena.weekly.kalshi import Kalshi
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.journal.journal import Journal
from bellwether.models.client import ModelClient
from bellwether.models.keys import endpoints
from bellwether.settings import Settings
from bellwether.venues.http.client import ClobClient, GammaClient, KalshiClient, RateLimit
from bellwether.worlds import addresses
from tests.unit.arena.weeks import Arena, CountingClient

REGISTRY = {
    "methodologies.toml": """
[small]
like = "v1"
title = "v1 with few markets"
universe = 25

[small-kalshi]
like = "v1-kalshi"
title = "v1 with few markets of Kalshi, with fees"
universe = 60
fees = "venue"

[small-bets-kalshi]
like = "v2-kalshi"
title = "filled from the book, with small bets"
universe = 60
bet_fraction = "0.02"
""",
    "lineups.toml": """
[tiny]
title = "a model and the rules"
methodology = "small"
worlds = ["sandbox"]

[tiny.families]
calibrated = "sandbox-calibrated"
favourite = "rule/favourite"
hold = "rule/hold"
random = "rule/random"

[few]
title = "the rules"
methodology = "small"

[few.families]
proportional = "rule/proportional"
random = "rule/random"
""",
}


@dataclass
class SandboxArena(Arena):
    """Arena on the sandbox. `methodology`: of new cohorts; None for that of the lineup."""

    methodology: str | None = None
    seed: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("models.toml", "families.toml"):
            (self.registry / name).unlink(missing_ok=True)
        for name, text in REGISTRY.items():
            (self.registry / name).write_text(text)

    @property
    def config(self) -> Settings:
        return Settings(sandbox_now=self.now, home=self.home, sandbox_seed=self.seed)

    def world(self, journal: Journal, run: str = "r") -> WeekContext:
        venues = {"polymarket": self.query, "kalshi": self.query_kalshi}
        return replace(super().world(journal, run), venues=venues, methodology=self.methodology)

    def transport(self, inner: httpx.AsyncBaseTransport | None) -> httpx.AsyncBaseTransport | None:
        """Return the transport to the venues."""
        return inner

    @contextmanager
    def _venues(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        with addresses(self.config, served=False) as venues:
            yield venues, {"limits": RateLimit(tokens_per_second=1e9), "transport": self.transport(venues.transport)}

    def query(self, work: Callable[[Polymarket], Awaitable[Any]]) -> Any:
        async def session() -> Any:
            with self._venues() as (venues, how):
                async with GammaClient(venues.gamma, **how) as gamma, ClobClient(venues.clob, **how) as clob:
                    return await work(Polymarket(gamma, clob))

        return concurrency.run(session())

    def query_kalshi(self, work: Callable[[Kalshi], Awaitable[Any]]) -> Any:
        async def session() -> Any:
            with self._venues() as (venues, how):
                async with KalshiClient(venues.kalshi, **how) as client:
                    return await work(Kalshi(client))

        return concurrency.run(session())

    def client(self, journal: Journal, run: str) -> AbstractAsyncContextManager[ModelClient]:
        return self._model_client(journal, run)

    @asynccontextmanager
    async def _model_client(self, journal: Journal, run: str) -> Any:
        with addresses(self.config) as site:
            async with CountingClient(self, journal, endpoint=endpoints(site.models), run=run) as client:
                yield client


@dataclass
class KalshiArena(SandboxArena):
    """Arena whose new cohorts bet on Kalshi."""

    methodology: str | None = "small-kalshi"
