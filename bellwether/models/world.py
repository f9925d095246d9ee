"""Source of model clients in this process's world, for callers without Dagster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING

from bellwether.models.keys import endpoints
from bellwether.settings import settings
from bellwether.worlds import addresses

if TYPE_CHECKING:
    from bellwether.models.client import ModelClient


class WorldModels:
    """Source of model clients that use the journal of this process's world. run: name under which costs are counted. dollars: their maximum."""

    def __init__(self, run: str, dollars: Decimal) -> None:
        self._run, self._dollars = run, dollars

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        """Open a model client, which is closed at the end of the `async with` block."""
        from bellwether.journal.journal import Journal
        from bellwether.models.client import Limits, ModelClient
        from bellwether.models.transport import ProviderWire

        config, limits = settings(), Limits(dollars=self._dollars)
        with addresses(config, served=False) as venues, Journal.of(config) as journal:
            wire = ProviderWire(sandbox=venues.transport)
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self._run, limits=limits, wire=wire) as client:
                yield client
