"""The published DuckDB file as a resource: written whole by one publisher, read by anyone.

Not here: what is in it and how it is replaced (bellwether/lake/warehouse.py).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from bellwether.lake import Lake, warehouse
from bellwether.lake.warehouse import Published

if TYPE_CHECKING:
    import duckdb


#: Between complete publications, others look at the tables that were written since the last one.
COMPLETE_EVERY = timedelta(days=1)


class WarehouseResource(dg.ConfigurableResource):
    """The DuckDB file that users query."""

    path: str = Field(description="the file; its folder is made when it is first published")
    lock_timeout: float = Field(default=60.0, gt=0, description="seconds to wait for another publisher")

    def publish(self, lake: Lake, *, complete: bool = False) -> Published:
        """Bring the file up to date with the lake as it is now and put it in place, whole. Once a day, or if `complete`, it looks at every partition."""
        return warehouse.publish(
            lake, self.path, complete_every=timedelta(0) if complete else COMPLETE_EVERY, lock_timeout=self.lock_timeout
        )

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection, closed also when the body fails."""
        with warehouse.connect(self.path) as connection:
            yield connection
