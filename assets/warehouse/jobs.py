"""The jobs that publish the warehouse and build its site."""

from __future__ import annotations

import dagster as dg

from orchestration.declare import select

#: The published DuckDB file.
PUBLISH = dg.define_asset_job("publish", select("summary/warehouse"), description="Publish the warehouse.")

#: The static site of it.
SITE = dg.define_asset_job("site", select("summary/site"), description="Build the static site of the warehouse.")
