"""Resource of the folder of reports and exported datasets, and pictures in asset metadata, which Dagster stores in the event of a materialization.

Not here: the content of reports (bellwether/report, bellwether/publish).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from bellwether.lake.storage import open_storage
from bellwether.places import place

#: Maximum size of a picture in an event, which Dagster keeps for long.
MOST_BYTES = 100_000


def picture_metadata(pngs: Mapping[str, bytes]) -> dict[str, dg.MarkdownMetadataValue]:
    """Embed PNGs in Markdown metadata. pngs: by title; those larger than `MOST_BYTES` are left out."""
    return {
        title: dg.MetadataValue.md(f"![figure](data:image/png;base64,{base64.b64encode(png).decode()})")
        for title, png in pngs.items()
        if len(png) <= MOST_BYTES
    }


def chart_metadata(charts: Mapping[str, Any]) -> dict[str, dg.MarkdownMetadataValue]:
    """Render charts of `bellwether.figures` and embed them in Markdown metadata. charts: by title."""
    from bellwether.figures.canvas import png

    return picture_metadata({title: png(chart) for title, chart in charts.items()})


class ReportsResource(dg.ConfigurableResource):
    """Folder, local or in an object store, that contains a folder per report and per exported dataset."""

    uri: str = Field(description="folder or object-store URL")

    def pictures(self, report: str, stamp: str, figures: Iterable[str]) -> dict[str, dg.MarkdownMetadataValue]:
        """Read a report's figures as metadata, by title; figures that were not written are left out. stamp: suffix of their file names."""
        from bellwether.report.writer import safe_name

        files = {f"{safe_name(report)}/{name}_{stamp}.png": name.replace("_", " ") for name in figures}
        pngs = open_storage(self.uri).read(list(files))
        return picture_metadata({files[file]: png for file, png in pngs.items()})

    def folder(self, kind: str, name: str) -> Path:
        """Return the folder for `name` within the subfolder `kind`, such as datasets."""
        from bellwether.report.writer import safe_name

        return place(self.uri) / kind / safe_name(name)
