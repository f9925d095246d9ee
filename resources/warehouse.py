"""Resource of the published warehouse.

Not here: its content and replacement (bellwether/lake/warehouse.py).
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


#: Interval of complete publications; others only check tables written since the last one.
COMPLETE_EVERY = timedelta(days=1)


class WarehouseResource(DuckDBResource):
    """Published DuckDB file, opened read-only. One publisher at a time replaces the file as a whole.

    `database` is a local path or an `s3://` URL.
    """

    lock_timeout: float = Field(default=60.0, gt=0, description="seconds to wait for another publisher")

    def publish(self, lake: Lake, *, complete: bool = False) -> Publication:
        """Publish the lake. Only tables written since the last publication are checked for changes; all partitions once a day, or if `complete`."""
        return warehouse.publish(
            lake, self.database, complete_every=timedelta(0) if complete else COMPLETE_EVERY, lock_timeout=self.lock_timeout
        )

    @contextmanager
    def get_connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a read-only connection to the latest publication.

        Raises:
            LakeError: nothing has been published, or the file is no warehouse.
        """
        with warehouse.connect(self.database) as connection:
            yield connection
