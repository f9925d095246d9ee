"""Pictures as asset metadata: inline in the event, so that they are seen where the run is seen."""

from __future__ import annotations

import base64

import dagster as dg

#: Events are kept for ever in Dagster's storage: a larger picture belongs into a file.
MOST_BYTES = 100_000


def picture(png: bytes) -> dg.MarkdownMetadataValue:
    """A PNG of at most 100 kB as Markdown with a data address; raises `ValueError` when it is larger."""
    if len(png) > MOST_BYTES:
        raise ValueError(f"the picture has {len(png)} bytes; at most {MOST_BYTES} belong into an event")
    return dg.MetadataValue.md(f"![figure](data:image/png;base64,{base64.b64encode(png).decode()})")
