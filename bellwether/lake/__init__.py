"""The lake: the rows of every table as Parquet, one file per partition. The DuckDB warehouse is published from these files."""

from bellwether.lake.catalog import Manifest
from bellwether.lake.lake import Lake
from bellwether.lake.slices import Slice

__all__ = ["Lake", "Manifest", "Slice"]
