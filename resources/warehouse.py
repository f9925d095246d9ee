"""The published warehouse as a resource: written whole by one publisher, read by anyone.

Not here: what is in it and how it is replaced (bellwether/lake/warehouse.py).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from dagster_duckdb import DuckDBResource
from pydantic import Field

from bellwether.lake import Lake, warehouse
from bellwether.lake.warehouse import Publication

if TYPE_CHECKING:
    import duckdb


#: Between complete publications, others look at the tables that were written since the last one.
COMPLETE_EVERY = timedelta(days=1)


class WarehouseResource(DuckDBResource):
    """The DuckDB file that users query: a `DuckDBResource` whose connections are read-only, and which one publisher writes as a whole.

    `database` is a local path or an `s3://` URL.
    """

    lock_timeout: float = Field(default=60.0, gt=0, description="seconds to wait for another publisher")

    def publish(self, lake: Lake, *, complete: bool = False) -> Publication:
        """Publish the current lake as a whole. Once a day, or if `complete`, every partition is looked at."""
        return warehouse.publish(
            lake, self.database, complete_every=timedelta(0) if complete else COMPLETE_EVERY, lock_timeout=self.lock_timeout
        )

    @contextmanager
    def get_connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection to the latest publication, closed also when the body fails.

        Raises:
            LakeError: nothing has been published, or the file is no warehouse.
        """
        with warehouse.connect(self.database) as connection:
            yield connection
