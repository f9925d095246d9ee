"""The journal of model calls as a resource.

Not here: what it guarantees and how (bellwether/journal).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.journal import Journal


class JournalResource(dg.ConfigurableResource):
    """Model calls of this world, on SQLite or Postgres."""

    url: str | None = Field(
        default=None,
        repr=False,
        description="database URL; BELLWETHER_JOURNAL when left out, which keeps a password out of Dagster's configuration",
    )

    _journal: Journal | None = PrivateAttr(default=None)

    @property
    def journal(self) -> Journal:
        """The journal itself, one per process, as code without Dagster uses it."""
        if self._journal is None:
            from bellwether.journal import Journal

            self._journal = Journal(self.url) if self.url else Journal.of(settings())
        return self._journal

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close its connections."""
        if self._journal is not None:
            self._journal.close()
