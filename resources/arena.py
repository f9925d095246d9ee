"""The arena as a resource: what running its weeks needs of the world.

Not here: what a week is (bellwether/arena/weekly).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import dagster as dg
from pydantic import Field

from bellwether import interruptible
from bellwether.settings import settings
from resources.journal import JournalResource
from resources.lake import LakeResource
from resources.models import ModelsResource, limits
from resources.venues import PolymarketVenue

if TYPE_CHECKING:
    from bellwether.arena.weekly.means import World
    from bellwether.venues.polymarket.client import ClobClient, GammaClient

T = TypeVar("T")


class ArenaResource(dg.ConfigurableResource):
    """Lake, journal, venue and models of the arena, and the lineup of new cohorts."""

    lake: dg.ResourceDependency[LakeResource]
    journal: dg.ResourceDependency[JournalResource]
    polymarket: dg.ResourceDependency[PolymarketVenue]
    models: dg.ResourceDependency[ModelsResource]
    lineup: str = Field(description="lineup of the cohorts that are started")

    def world(self, run: str, *, dollars: float | None = None, lineup: str | None = None) -> "World":
        """What a run runs the arena in. dollars: the most that its calls may cost; BELLWETHER_BUDGET when left out."""
        from bellwether.arena.weekly.means import World

        config = settings()
        allowed = limits(dollars)
        return World(
            journal=self.journal.journal,
            lake=self.lake.lake,
            venue=self._ask,
            models=self.models.of_run(run, allowed),
            now=config.now,
            run=run,
            lineup=lineup or self.lineup,
            registry=config.registry,
        )

    def _ask(self, work: "Callable[[GammaClient, ClobClient], Awaitable[T]]") -> T:
        async def session() -> T:
            async with self.polymarket.clients() as (gamma, clob):
                return await work(gamma, clob)

        return interruptible.run(session())
