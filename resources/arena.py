"""Dagster resource of the arena: what its runs need.

Not here: weeks (bellwether/arena/weekly).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import dagster as dg
from pydantic import Field

from bellwether import concurrency
from bellwether.settings import Settings, settings
from resources.lake import LakeResource
from resources.models import JournalResource, ModelsResource, limits
from resources.venues import KalshiVenue, PolymarketVenue, WorldResource

if TYPE_CHECKING:
    from bellwether.arena.weekly.context import WeekContext
    from bellwether.arena.weekly.kalshi import Kalshi
    from bellwether.arena.weekly.polymarket import Polymarket

T = TypeVar("T")


class ArenaResource(dg.ConfigurableResource):
    """Resource for runs of the arena: lake, journal, venues, models, and the defaults of new cohorts."""

    lake: dg.ResourceDependency[LakeResource]
    journal: dg.ResourceDependency[JournalResource]
    polymarket: dg.ResourceDependency[PolymarketVenue]
    kalshi: dg.ResourceDependency[KalshiVenue]
    models: dg.ResourceDependency[ModelsResource]
    lineup: str = Field(description="lineup of new cohorts")
    methodology: str | None = Field(default=None, description="methodology of new cohorts; that of their lineup when left out")

    @classmethod
    def of(cls, config: Settings) -> "ArenaResource":
        """Create the resource, and the resources on which it depends, from settings."""
        world, journal = WorldResource.of(config), JournalResource()
        return cls(
            lake=LakeResource.of(config),
            journal=journal,
            polymarket=PolymarketVenue(world=world),
            kalshi=KalshiVenue(world=world, tokens_per_second=config.kalshi_tokens_per_second),
            models=ModelsResource(world=world, journal=journal),
            lineup=config.arena_lineup,
            methodology=config.methodology,
        )

    def world(self, run: str, *, dollars: float | None = None, lineup: str | None = None, methodology: str | None = None) -> "WeekContext":
        """Create the context (lake, journal, venues, models, clock, budgets) in which a run works on the arena.

        run: name of the run, which pays for its model calls. dollars: budget of the run, by default BELLWETHER_BUDGET. lineup, methodology: for new
        cohorts.
        """
        from bellwether.arena.weekly.context import WeekBudgets, WeekContext

        config = settings()
        return WeekContext(
            journal=self.journal.journal,
            lake=self.lake.lake,
            venues={"polymarket": self._query_polymarket, "kalshi": self._query_kalshi},
            models=self.models.of_run(run, limits(dollars)),
            now=config.now,
            run=run,
            lineup=lineup or self.lineup,
            registry=config.registry,
            methodology=methodology or self.methodology,
            budgets=WeekBudgets(config.week_budget, config.week_model_budget),
        )

    def _query_polymarket(self, work: "Callable[[Polymarket], Awaitable[T]]") -> T:
        from bellwether.arena.weekly.polymarket import Polymarket

        async def session() -> T:
            async with self.polymarket.clients() as (gamma, clob):
                return await work(Polymarket(gamma, clob))

        return concurrency.run(session())

    def _query_kalshi(self, work: "Callable[[Kalshi], Awaitable[T]]") -> T:
        from bellwether.arena.weekly.kalshi import Kalshi

        async def session() -> T:
            async with self.kalshi.clients() as (client,):
                return await work(Kalshi(client))

        return concurrency.run(session())
