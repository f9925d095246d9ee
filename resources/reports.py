"""Resource of the folder of reports and exported datasets.

Not here: their content (bellwether/report, bellwether/publish).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from pydantic import Field

from bellwether.lake.storage import open_storage
from bellwether.places import place


class ReportsResource(dg.ConfigurableResource):
    """Folder or object store with a folder per release."""

    uri: str = Field(description="folder or object-store URL")

    def pngs(self, release: str, names: Sequence[str]) -> dict[str, bytes]:
        """Read figures of a report, by name."""
        from bellwether.report.writer import safe_name

        folder = safe_name(release)
        found = open_storage(self.uri).read([f"{folder}/{name}" for name in names])
        return {location.removeprefix(f"{folder}/"): png for location, png in found.items()}

    def folder(self, kind: str, name: str) -> Path:
        """Return the folder of `name` of a kind, such as datasets."""
        from bellwether.report.writer import safe_name

        return place(self.uri) / kind / safe_name(name)
