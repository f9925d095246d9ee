"""The client of language models as a resource.

Not here: calls, payment and limits of models (bellwether/models), or what a call's journal row guarantees (bellwether/journal).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import dagster as dg

from bellwether.models.keys import endpoints
from bellwether.settings import settings
from resources.journal import JournalResource
from resources.venues import WorldResource

if TYPE_CHECKING:
    from bellwether.models.client import Limits, ModelClient


#: Tags of runs that have one budget: Dagster's of a backfill, and that of the runs among which a command divides its partitions.
BACKFILL, PAID_BY = "dagster/backfill", "bellwether/paid_by"


def payer(run: dg.DagsterRun) -> str:
    """Name under which a run's spending is counted: that of its backfill or of the command that divided its work, else the run that it repeats or itself."""
    return run.tags.get(BACKFILL) or run.tags.get(PAID_BY) or run.root_run_id or run.run_id


def limits(dollars: float | None, **others: Any) -> "Limits":
    """Limits of a run that may spend so many dollars; BELLWETHER_BUDGET when None. others: as in `Limits`."""
    from bellwether.models.client import Limits

    return Limits(dollars=settings().budget if dollars is None else Decimal(str(dollars)), **others)


class ModelsResource(dg.ConfigurableResource):
    """Language models of the registry, asked over the journal: the sandbox's own there, everybody's with the user's keys elsewhere."""

    world: dg.ResourceDependency[WorldResource]
    journal: dg.ResourceDependency[JournalResource]

    def of_run(self, run: str, limits: "Limits") -> "ModelsOfRun":
        """Models within the limits of one run; its budget counts what was spent under the name `run`."""
        return ModelsOfRun(self, run, limits)


@dataclass(frozen=True)
class ModelsOfRun:
    """Access of a forecaster to models: a client for as long as it is open."""

    models: ModelsResource
    run: str
    limits: "Limits"

    @asynccontextmanager
    async def client(self) -> "AsyncIterator[ModelClient]":
        """A client on this world; the sandbox runs as long as it is open."""
        from bellwether.models.client import ModelClient
        from bellwether.models.transport import ProviderWire

        with self.models.world.addresses(served=False) as venues:
            wire, journal = ProviderWire(sandbox=venues.transport), self.models.journal.journal
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self.run, limits=self.limits, wire=wire) as client:
                yield client
