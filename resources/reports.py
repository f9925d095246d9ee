"""Resource of the folder of reports and exported datasets.

Not here: the content of reports (bellwether/report, bellwether/publish).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from bellwether.places import place


class ReportsResource(dg.ConfigurableResource):
    """Folder, local or in an object store, that contains a folder per report and per exported dataset."""

    uri: str = Field(description="folder or object-store URL")

    def folder(self, kind: str, name: str) -> Path:
        """Return the folder for `name` within the subfolder `kind`, such as datasets."""
        from bellwether.report.writer import safe_name

        return place(self.uri) / kind / safe_name(name)
