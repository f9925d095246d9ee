"""Resource of the lake, and column schemas of tables for Dagster.

Not here: how rows are stored (bellwether/lake) or how assets' outputs reach it (io_manager.py).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from bellwether.lake import Lake
from bellwether.lake.duckdb_connection import sql_type
from bellwether.settings import Settings
from bellwether.tables import Column, Table


class LakeResource(dg.ConfigurableResource):
    """Lake of Parquet files below one folder or object-store URL."""

    uri: str = Field(description="folder, or URL such as s3://bucket/prefix")
    storage_options: dict[str, str] = Field(
        default_factory=dict,
        description="aws_access_key_id, aws_secret_access_key, aws_session_token, aws_region, aws_endpoint_url; defaults come from the environment",
    )

    durable: bool = Field(default=True, description="whether writes to a folder survive a loss of power")

    cache: str | None = Field(default=None, description="folder for copies of files in an object store; one per process when left out")

    @classmethod
    def of(cls, config: Settings) -> LakeResource:
        """Create the resource from settings."""
        cache = str(config.world_home / "cache" / "lake") if "://" in config.lake_uri else None
        return cls(uri=config.lake_uri, durable=config.durable, cache=cache)

    @property
    def lake(self) -> Lake:
        """Lake of the resource."""
        return Lake(self.uri, self.storage_options, durable=self.durable, cache=Path(self.cache) if self.cache else None)


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
