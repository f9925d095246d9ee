"""Pictures as asset metadata, stored in the event."""

from __future__ import annotations

import base64

import dagster as dg

#: Maximum size of a picture in an event, which Dagster keeps for long.
MOST_BYTES = 100_000


def picture(png: bytes) -> dg.MarkdownMetadataValue:
    """Embed a PNG of at most 100 kB in Markdown. Raises `ValueError` for a larger one."""
    if len(png) > MOST_BYTES:
        raise ValueError(f"the picture has {len(png)} bytes; at most {MOST_BYTES} belong into an event")
    return dg.MetadataValue.md(f"![figure](data:image/png;base64,{base64.b64encode(png).decode()})")
