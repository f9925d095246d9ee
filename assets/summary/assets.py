"""Assets that publish the lake: the DuckDB file, the static site, and Data Docs (Great Expectations' report about the tables)."""

from datetime import timedelta
from pathlib import Path

import dagster as dg

from bellwether.checks.data_docs import build_data_docs
from bellwether.settings import settings
from bellwether.tables import TABLES
from orchestration.asset_declarations import key, site_link
from resources import LakeResource, WarehouseResource
from resources.io_manager import format_size


class PublishConfig(dg.Config):
    """Configuration of a publication."""

    vacuum: bool = True
    """Remove superseded files. Automation does so once a day."""
    keep_superseded_days: int = 7
    """Days for which superseded files are kept, for readers of an older warehouse."""


@dg.asset(
    key=["summary", "warehouse"],
    group_name="summary",
    description="The published DuckDB file: views over the lake's files, marts as tables; replaced as a whole, never written in place.\n\n"
    "The file is `warehouse.duckdb`; `bellwether query SQL` queries it.",
    kinds={"duckdb"},
    metadata={"page": site_link("data/index.html")},
    deps=[key(name) for name in TABLES],
    pool="warehouse",
)
def warehouse(
    context: dg.AssetExecutionContext, config: PublishConfig, lake: LakeResource, warehouse: WarehouseResource
) -> dg.MaterializeResult:
    """Publish the warehouse, and remove superseded files."""
    published = warehouse.publish(lake.lake)
    for name, reason in published.damaged.items():
        context.log.error(f"left out {name}: {reason}")
    removed: tuple[str, ...] = ()
    if config.vacuum:
        removed = lake.lake.vacuum(timedelta(days=config.keep_superseded_days)).files
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.url(published.path) if "://" in published.path else dg.MetadataValue.path(published.path),
            "site": dg.MetadataValue.url(index_url(settings().site_path)),
            "tables": published.tables,
            "partitions": published.partitions,
            "rows": published.rows,
            "size": format_size(published.bytes),
            "outdated partitions left out": len(published.outdated),
            "damaged partitions left out": len(published.damaged),
            **({"damaged": dg.MetadataValue.json(dict(published.damaged))} if published.damaged else {}),
            "superseded files removed": len(removed),
        }
    )


@dg.asset(
    key=["summary", "site"],
    group_name="summary",
    description="The static site: every leaderboard, forecast, backtest, decision and market of the published warehouse as pages; replaced as a whole.\n\n"
    "`bellwether site` builds it, too.",
    kinds={"html"},
    metadata={"page": site_link("index.html")},
    deps=[warehouse],
    pool="site",
)
def site(warehouse: WarehouseResource) -> dg.MaterializeResult:
    """Build the static site."""
    from bellwether.site import build

    built = build(warehouse.database, settings().site_path)
    return dg.MaterializeResult(
        metadata={
            "pages": built.pages,
            "site": dg.MetadataValue.url(index_url(built.folder)),
            "files": built.files,
            "files written": built.written,
            "size": format_size(built.bytes),
        }
    )


@dg.asset(
    key=["summary", "data_docs"],
    group_name="summary",
    description="Data Docs: Great Expectations' validation of every published table against its rules; replaced as a whole.\n\n"
    "The folder `data-docs` is next to the site.",
    kinds={"great_expectations", "html"},
    metadata={"page": site_link("data/index.html")},
    deps=[warehouse],
    check_specs=[
        dg.AssetCheckSpec("rules_hold", asset=["summary", "data_docs"], description="Every published table meets all of its rules.")
    ],
    pool="site",
)
def data_docs(lake: LakeResource, warehouse: WarehouseResource) -> dg.MaterializeResult:
    """Validate the published tables with Great Expectations, and build its report."""
    with warehouse.get_connection() as connection:
        validated = build_data_docs(connection, lake.lake, settings().data_docs_path)
    return dg.MaterializeResult(
        metadata={
            "data docs": dg.MetadataValue.url(validated.index.as_uri()),
            "tables": len(validated.rows),
            "rows": sum(validated.rows.values()),
        },
        check_results=[
            dg.AssetCheckResult(
                check_name="rules_hold",
                passed=not validated.broken,
                severity=dg.AssetCheckSeverity.WARN,
                metadata={"broken rules": dg.MetadataValue.json({name: list(rules) for name, rules in validated.broken.items()})},
            )
        ],
    )


def index_url(folder: Path) -> str:
    """Return the address of the site's first page. folder: of the site."""
    return (folder / "index.html").as_uri()
