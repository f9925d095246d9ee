"""Resource of the published warehouse.

Not here: its content and replacement (bellwether/lake/warehouse.py).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dagster_duckdb import DuckDBResource
from pydantic import Field

from bellwether.lake import Lake, warehouse
from bellwether.lake.warehouse import Publication

if TYPE_CHECKING:
    import duckdb


class WarehouseResource(DuckDBResource):
    """Published DuckDB file, opened read-only. One publisher at a time replaces the file as a whole.

    `database` is a local path or an `s3://` URL.
    """

    lock_timeout: float = Field(default=60.0, gt=0, description="seconds to wait for another publisher")

    def publish(self, lake: Lake) -> Publication:
        """Publish the lake."""
        return warehouse.publish(lake, self.database, lock_timeout=self.lock_timeout)

    @contextmanager
    def get_connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a read-only connection to the latest publication.

        Raises:
            LakeError: nothing has been published, or the file is no warehouse.
        """
        with warehouse.connect(self.database) as connection:
            yield connection
