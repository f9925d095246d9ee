"""Resources of the lake and of the published warehouse, and column schemas of tables for Dagster.

Not here: how rows are stored (bellwether/lake) or how assets' outputs reach it (io_manager.py).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field, PrivateAttr

from bellwether.lake import Lake, warehouse
from bellwether.lake.build import Publication
from bellwether.lake.duckdb_connection import sql_type
from bellwether.settings import Settings, settings
from bellwether.tables import Column, Table

if TYPE_CHECKING:
    import duckdb


class LakeResource(dg.ConfigurableResource):
    """Lake of Parquet files below one folder or object-store URL."""

    uri: str = Field(description="folder, or URL such as s3://bucket/prefix")
    durable: bool = Field(default=True, description="whether writes to a folder survive a loss of power")
    catalog: str | None = Field(default=None, description="SQLite file of the catalog; next to the lake's folder when left out")
    shared: bool = Field(default=False, description="whether the catalog is in the journal's Postgres")

    _lake: Lake | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, config: Settings) -> LakeResource:
        """Create the resource from settings."""
        catalog = None if config.shares_limits else str(config.catalog)
        return cls(uri=config.lake_uri, durable=config.durable, catalog=catalog, shared=config.shares_limits)

    @property
    def lake(self) -> Lake:
        """Lake of the resource."""
        if self._lake is None:
            catalog = settings().catalog if self.shared else Path(self.catalog) if self.catalog else None
            self._lake = Lake(self.uri, durable=self.durable, catalog=catalog)
        return self._lake


def table_schema(table: Table) -> dg.TableSchema:
    """Return Dagster's column schema of a table: DuckDB types, descriptions, units and key."""
    return dg.TableSchema(
        columns=[_column(table, column) for column in table.columns],
        constraints=dg.TableConstraints(other=[f"unique: {', '.join(table.key)}"]),
    )


def _column(table: Table, column: Column) -> dg.TableColumn:
    return dg.TableColumn(
        name=column.name,
        type=sql_type(column.dtype),
        description=f"{column.description} [{column.unit}]" if column.unit else column.description,
        constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=table.key == (column.name,)),
        tags={"unit": column.unit} if column.unit else {},
    )


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
