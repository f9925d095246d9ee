"""Where reports and exported datasets are written, as a resource.

Not here: what is in them (bellwether/report, bellwether/publish).
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
    """A folder or an object store; each release has a folder in it."""

    uri: str = Field(description="folder or object-store URL")

    def pngs(self, release: str, names: Sequence[str]) -> dict[str, bytes]:
        """Figures of a report that was written, by name."""
        from bellwether.report.writer import safe_name

        folder = safe_name(release)
        found = open_storage(self.uri).read([f"{folder}/{name}" for name in names])
        return {location.removeprefix(f"{folder}/"): png for location, png in found.items()}

    def folder(self, kind: str, name: str) -> Path:
        """The folder of `name` among those of one kind, such as datasets, local or in the object store."""
        from bellwether.report.writer import safe_name

        return place(self.uri) / kind / safe_name(name)
