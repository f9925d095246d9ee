"""Resources of language models and of the journal of their calls.

Not here: calls, payment and limits of models (bellwether/models), or what a call's journal row guarantees (bellwether/journal).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from bellwether.models.keys import endpoints
from bellwether.settings import settings
from resources.venues import WorldResource

if TYPE_CHECKING:
    from bellwether.journal.journal import Journal
    from bellwether.models.client import Limits, ModelClient


class JournalResource(dg.ConfigurableResource):
    """Journal of this world, on SQLite or Postgres."""

    url: str | None = Field(
        default=None,
        repr=False,
        description="database URL; BELLWETHER_JOURNAL when left out, which keeps a password out of Dagster's configuration",
    )

    _journal: "Journal | None" = PrivateAttr(default=None)

    @property
    def journal(self) -> "Journal":
        """The journal. Each process opens it once."""
        if self._journal is None:
            from bellwether.journal.journal import Journal

            self._journal = Journal(self.url) if self.url else Journal.of(settings())
        return self._journal

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close the connections of the journal."""
        if self._journal is not None:
            self._journal.close()


#: Tags of runs with a shared budget: of a backfill, and of the runs of one command.
BACKFILL, PAID_BY = "dagster/backfill", "bellwether/paid_by"


def payer(run: dg.DagsterRun) -> str:
    """Return the name of the budget that pays for a run: that of its backfill or of its command, else of the run that it retries, else its own."""
    return run.tags.get(BACKFILL) or run.tags.get(PAID_BY) or run.root_run_id or run.run_id


def limits(dollars: float | None, dollars_per_model: Decimal | None = None) -> "Limits":
    """Create the limits on a run's model calls. dollars: budget (None: BELLWETHER_BUDGET). dollars_per_model: of each model."""
    from bellwether.models.client import Limits

    return Limits(settings().budget if dollars is None else Decimal(str(dollars)), dollars_per_model)


class ModelsResource(dg.ConfigurableResource):
    """Language models of the registry. Every call is recorded in the journal."""

    world: dg.ResourceDependency[WorldResource]
    journal: dg.ResourceDependency[JournalResource]

    def of_run(self, run: str, limits: "Limits") -> "ModelsOfRun":
        """Return the models as a run may use them. run: name of the budget that pays for the calls."""
        return ModelsOfRun(self, run, limits)


@dataclass(frozen=True)
class ModelsOfRun:
    """Language models, used within the limits of one run. run: name of the budget that pays."""

    models: ModelsResource
    run: str
    limits: "Limits"

    @asynccontextmanager
    async def client(self) -> "AsyncIterator[ModelClient]":
        """Open a client that calls the models. In the sandbox, this process also answers the calls."""
        from bellwether.models.client import ModelClient
        from bellwether.models.transport import ProviderWire

        with self.models.world.addresses(served=False) as venues:
            wire, journal = ProviderWire(sandbox=venues.transport), self.models.journal.journal
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self.run, limits=self.limits, wire=wire) as client:
                yield client
