"""What is on a figure."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from bellwether.report.plots_canvas import MOST_BYTES


def picture(png: bytes) -> Image.Image:
    """The figure, which must be small."""
    assert png.startswith(b"\x89PNG")
    assert len(png) < MOST_BYTES
    return Image.open(io.BytesIO(png)).convert("RGB")


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(picture(png))


def colours(png: bytes) -> set[object]:
    drawn = picture(png)
    return {colour for _, colour in drawn.getcolors(drawn.width * drawn.height) or ()}
