"""Warehouse domain: the published DuckDB file with the tables of all domains, and the static site made from it."""

from __future__ import annotations

from bellwether.domains.domain import Domain

WAREHOUSE = Domain(
    "warehouse",
    groups={"summary": "the published DuckDB file, and the static site based on it"},
    definitions="assets.warehouse.definitions",
    demo="assets.warehouse.runs:demo",
)
