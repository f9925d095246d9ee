"""Resource of the journal of model calls.
Concept: https://docs.dagster.io/guides/build/external-resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.journal import Journal


class JournalResource(dg.ConfigurableResource):
    """Journal of this world, on SQLite or Postgres."""

    url: str | None = Field(
        default=None,
        repr=False,
        description="database URL; BELLWETHER_JOURNAL when left out, which keeps a password out of Dagster's configuration",
    )

    _journal: Journal | None = PrivateAttr(default=None)

    @property
    def journal(self) -> Journal:
        """The journal. Each process opens it once."""
        if self._journal is None:
            from bellwether.journal import Journal

            self._journal = Journal(self.url) if self.url else Journal.of(settings())
        return self._journal

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close the connections of the journal."""
        if self._journal is not None:
            self._journal.close()
