"""The domain of the warehouse: the published DuckDB file over the tables of all domains, and the static site that shows it."""

from __future__ import annotations

from bellwether.domains.domain import Domain
from bellwether.lazy_commands import PlatformCommand

WAREHOUSE = Domain(
    "warehouse",
    groups={"summary": "the published DuckDB file, and the static site that shows it"},
    definitions="assets.warehouse.definitions",
    demo="assets.warehouse.runs:demo",
    commands=(
        PlatformCommand("query", "bellwether.lake.commands:query", "Run SQL on the published warehouse, read-only."),
        PlatformCommand("site", "bellwether.site.commands:site", "Build the static site of the warehouse; serve it."),
        PlatformCommand("verify", "bellwether.lake.commands:verify", "Compare the lake's files with their checksums."),
        PlatformCommand("warehouse", "bellwether.lake.commands:warehouse", "Publish the warehouse; write a self-contained copy."),
    ),
)
