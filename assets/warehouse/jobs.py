"""The job that publishes the warehouse."""

from __future__ import annotations

import dagster as dg

from orchestration.declare import select

#: The published DuckDB file.
PUBLISH = dg.define_asset_job("publish", select("summary/warehouse"), description="Publish the warehouse.")
