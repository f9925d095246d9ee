"""Assets that publish a release: its report, and its questions as a dataset."""

from typing import Any

import dagster as dg
import polars as pl

from assets.benchmark.partitions import RELEASE
from bellwether.errors import BellwetherError, ConfigError
from bellwether.lake import Slice
from bellwether.questions import release
from bellwether.report.inputs import ReportInputs, add_registry
from bellwether.settings import settings
from bellwether.tables.schema import external_table
from orchestration.asset_declarations import FOLLOW_INPUTS, key, site_link
from resources import LakeResource
from resources.io_manager import record_inputs
from resources.reports import ReportsResource, chart_metadata

REPORTED = ("questions", "forecasts", "scores", "reliability", "leaderboard", "comparisons", "dataset_analysis")


@dg.asset(
    key=["benchmark", "report"],
    group_name="benchmark",
    description="The report of a release: a page in Markdown with figures, and JSON with every metric and every prediction of every forecaster.\n\n"
    "Written to the folder `reports`; `bellwether report RELEASE --to FOLDER` copies it.",
    kinds={"markdown", "json"},
    metadata={"page": site_link("benchmark/index.html"), **FOLLOW_INPUTS},
    ins={name: dg.AssetIn(key(f"benchmark/{name}")) for name in REPORTED},
    partitions_def=RELEASE,
)
def report(context: dg.AssetExecutionContext, reports: ReportsResource, lake: LakeResource, **tables: Slice) -> dg.MaterializeResult:
    """Write the report of a release."""
    from bellwether.report.figures import release_figures
    from bellwether.report.writer import write_report

    if not tables["leaderboard"].files:
        raise ConfigError(f"reporting release {context.partition_key}: it has not been ranked; materialize benchmark/leaderboard first")
    ranked = tables["leaderboard"].scan().select("forecaster").collect()["forecaster"].implode()
    frames: dict[str, Any] = {
        name: rows.scan().filter(pl.col("forecaster").is_in(ranked)).collect() if "forecaster" in rows.table.names else rows.read()
        for name, rows in tables.items()
    }
    inputs = add_registry(ReportInputs(**frames))
    files = write_report(inputs, reports.uri)
    record_inputs(lake.lake, context, external_table("benchmark/report", "release"), tables)
    page = next(file for file in files if file.endswith(".md"))
    pictures = reports.pictures(inputs.release, inputs.stamp, [figure.name for figure in release_figures(inputs)])
    return dg.MaterializeResult(metadata={"page": dg.MetadataValue.path(page), "files": len(files), **pictures})


class ExportConfig(dg.Config):
    """Configuration of the upload of a dataset."""

    upload: str | None = None
    """Dataset of the Hugging Face Hub (OWNER/NAME); HF_TOKEN contains the key. No upload when left out."""
    private: bool = False
    """Make the uploaded dataset private."""
    license_id: str = "mit"
    """Licence in the spelling of the Hub."""


@dg.asset(
    key=["benchmark", "export"],
    group_name="benchmark",
    description="The questions of a release as a dataset folder for Hugging Face: Parquet and a card; uploaded on request.\n\n"
    "Written to the folder `reports/datasets`; `bellwether export RELEASE --to FOLDER` copies it.",
    kinds={"huggingface", "parquet"},
    metadata={"page": site_link("benchmark/index.html")},
    ins={"questions": dg.AssetIn(key("benchmark/questions"))},
    partitions_def=RELEASE,
)
def export(context: dg.AssetExecutionContext, config: ExportConfig, questions: Slice, reports: ReportsResource) -> dg.MaterializeResult:
    """Write the questions of a release as a dataset, and upload it on request."""
    from bellwether.figures.bars import count_bars
    from bellwether.publish import export as write
    from bellwether.publish import upload

    name, frame = context.partition_key, questions.read()
    try:
        written = write(frame, reports.folder("datasets", name), world=settings().world, recipe=release(name), license_id=config.license_id)
        where = upload(written.folder, config.upload, private=config.private) if config.upload else None
    except BellwetherError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    metadata: dict[str, Any] = {
        "folder": dg.MetadataValue.path(str(written.folder)),
        "questions": written.rows,
        **chart_metadata({"categories": count_bars(frame["category"], f"Questions by category: {name}")}),
    }
    return dg.MaterializeResult(metadata=metadata | ({"published at": dg.MetadataValue.url(where)} if where else {}))
