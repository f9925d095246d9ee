"""What all figures are drawn on: a figure of its own, one style, untrusted text without markup, and the same bytes each time."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

#: Larger pictures do not belong into an event of the pipeline.
MOST_BYTES = 100_000

#: More panels or lines than this are left out, with a note that says how many.
MOST_PANELS = 12
MOST_LINES = 40

INK, GREY, RULE = "#22303c", "#7a8691", "#d5dbe0"
BLUE, ORANGE, PALE, BAND = "#1f5a91", "#e08a4f", "#a9bccd", "#d9e0e6"

#: Level of zlib: the highest takes seven times as long as this one and saves a tenth of the bytes.
_COMPRESSION = 6

#: Told apart by people who see colours differently, and by their lightness in print.
COLOURS = ("#1f5a91", "#c2562e", "#3d8361", "#7a5aa6", "#a8862b", "#4c9aa8", "#9c4a6d", "#5f6b76")

LEGEND: dict[str, Any] = {"fontsize": 7.5, "frameon": False, "labelcolor": INK}


class Sheet:
    """A figure in inches with a title, outside of the plotting library's global state."""

    def __init__(self, width: float, height: float, title: str) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure: Figure = Figure(figsize=(width, height), facecolor="white")
        where = (0.15 / width, 1 - 0.12 / height)
        self.figure.text(
            *where,
            line(title, int(10 * width)),
            ha="left",
            va="top",
            fontsize=11.5,
            color=INK,
            fontweight="bold",
            parse_math=False,
        )

    def note(self, left_out: int) -> None:
        """Say how many are not shown, if any."""
        if left_out > 0:
            self.figure.text(0.98, 0.005, f"and {left_out} more", ha="right", va="bottom", fontsize=7, color=GREY)

    def legend(self, handles: Sequence[Any], labels: Sequence[str], **where: Any) -> None:
        """A legend whose labels are drawn as they are."""
        legend = self.figure.legend(handles, [line(label, 48) for label in labels], **(LEGEND | where))
        for entry in legend.get_texts():
            entry.set_parse_math(False)

    def png(self) -> bytes:
        """The figure in 128 colours, each of its own kept, at the highest resolution that stays below the limit; the same figure gives the same bytes."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        canvas = FigureCanvasAgg(self.figure)
        self._spare_layout()
        picture = b""
        for dpi in (130, 100, 80, 60):
            self.figure.set_dpi(dpi)
            canvas.draw()
            buffer = io.BytesIO()
            Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(128, method=Image.Quantize.MAXCOVERAGE).save(
                buffer, format="png", compress_level=_COMPRESSION
            )
            picture = buffer.getvalue()
            if len(picture) < MOST_BYTES:
                break
        return picture

    def _spare_layout(self) -> None:
        """Let no label without text look for its place: it would measure all tick labels of its axis each time it is drawn."""
        for axes in self.figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                if not axis.get_label_text():
                    axis.set_label_coords(0, 0)


class Panels(Sheet):
    """A sheet of small panels of one kind, one per name."""

    def __init__(self, names: Sequence[str], title: str, *, alone: tuple[float, float], each: tuple[float, float]) -> None:
        self.names = list(names[:MOST_PANELS]) or [""]
        self.alone = len(self.names) == 1
        self.columns = min(math.ceil(math.sqrt(len(self.names))), 4)
        self.rows = math.ceil(len(self.names) / self.columns)
        size = alone if self.alone else (each[0] * self.columns + 0.3, each[1] * self.rows + (1.05 if self.columns < 3 else 0.8))
        super().__init__(*size, title)

    def cells(self, *, hspace: float = 0.36, wspace: float = 0.22) -> Iterator[tuple[str, SubplotSpec, bool, bool]]:
        """Per name: the cell of the grid, whether it stands at the left, and whether nothing stands below it."""
        grid = self.figure.add_gridspec(
            self.rows,
            self.columns,
            left=0.65 / self.width,
            right=1 - 0.25 / self.width,
            top=1 - (0.55 if self.alone else 0.85) / self.height,
            bottom=(1.15 if self.columns < 3 else 0.9) / self.height,
            hspace=hspace,
            wspace=wspace,
        )
        for index, name in enumerate(self.names):
            cell = grid[index // self.columns, index % self.columns]
            yield name, cell, index % self.columns == 0, index + self.columns >= len(self.names)

    def head(self, axes: Axes, name: str, *, multiplied: bool = False) -> None:
        """The name above its panel; a single panel has the sheet's title alone.

        multiplied: the name keeps clear of a power of ten above the axis. Looking for one means to lay out all tick labels once more.
        """
        if not self.alone:
            axes.set_title(line(name, 32), y=None if multiplied else 1.0, fontsize=9, color=INK, loc="left", pad=5, parse_math=False)

    def key(self, axes: Axes) -> None:
        """The legend of the panels' marks, below them."""
        handles, labels = axes.get_legend_handles_labels()
        self.legend(handles, labels, loc="lower center", ncols=2 if self.columns < 3 else 3)


def dress(axes: Axes) -> None:
    """The style of all axes."""
    axes.tick_params(labelsize=7.5, colors=GREY, length=2.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(RULE)


def empty(axes: Axes, text: str) -> None:
    """Say in the middle of empty axes why they are."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=9, color=GREY, backgroundcolor="white")


def line(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters, control characters as spaces."""
    single = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return single if len(single) <= most else single[: most - 1] + "…"


def short(count: int) -> str:
    """A count in at most four characters up to a billion: 999, 12k, 3.4M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit if count < 10 * size else f"{count // size}{unit}"
    return str(count)
