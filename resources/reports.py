"""Resource of the folder of reports and exported datasets.

Not here: their content (bellwether/report, bellwether/publish).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import dagster as dg
from pydantic import Field

from bellwether.lake.storage import open_storage
from bellwether.places import place
from resources.pictures import picture_metadata


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
