"""Pictures in asset metadata, which Dagster stores in the event of a materialization."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import dagster as dg

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
