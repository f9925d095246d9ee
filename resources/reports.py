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
    """Folder or object store of reports, which has a folder per report."""

    uri: str = Field(description="folder or object-store URL")

    def pictures(self, report: str, stamp: str, figures: Iterable[str]) -> dict[str, dg.MarkdownMetadataValue]:
        """Return the written figures of a report as metadata, by name; missing ones are left out."""
        from bellwether.report.writer import safe_name

        files = {f"{safe_name(report)}/{name}_{stamp}.png": name.replace("_", " ") for name in figures}
        pngs = open_storage(self.uri).read(list(files))
        return picture_metadata({files[file]: png for file, png in pngs.items()})

    def folder(self, kind: str, name: str) -> Path:
        """Return the folder of `name` in the subfolder `kind`, such as datasets."""
        from bellwether.report.writer import safe_name

        return place(self.uri) / kind / safe_name(name)
