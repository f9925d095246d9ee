"""Jobs that build the published warehouse, the site, and Data Docs (Great Expectations' report about the tables)."""

from __future__ import annotations

import dagster as dg

from orchestration.asset_declarations import select

#: The published DuckDB file.
PUBLISH = dg.define_asset_job("publish", select("summary/warehouse"), description="Publish the warehouse.")

#: The static site.
SITE = dg.define_asset_job("site", select("summary/site"), description="Build the static site of the warehouse.")

#: Great Expectations over the published tables.
DATA_DOCS = dg.define_asset_job("data_docs", select("summary/data_docs"), description="Validate the published tables and build Data Docs.")
