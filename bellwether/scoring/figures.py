"""The figures of a result as PNG files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bellwether.files import atomic_file
from bellwether.report.plots import reliability_diagram
from bellwether.scoring.overlays import bands_and_curves
from bellwether.scoring.plotting import plot_differences, plot_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bellwether.scoring.score import Progress, ScoreResult

#: Inches of a row, of the margins, and of the whole width.
_ROW, _AROUND, _WIDTH = 0.3, 1.1, 8.0


def write_figures(result: ScoreResult, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Write reliability.png, scores.png and, of several forecasters, differences.png, each file whole. Returns their paths."""
    bands, curves = bands_and_curves(result, progress)
    pictures = {
        "reliability.png": reliability_diagram(result.reliability, "Reliability", bands=bands, curves=curves, level=result.plan.level),
        "scores.png": _picture(lambda axes: plot_scores(result, ax=axes), len(result.forecasters)),
    }
    if drawn := result.pairs["difference"].count():
        pictures["differences.png"] = _picture(lambda axes: plot_differences(result, ax=axes), drawn)
    for name, png in pictures.items():
        with atomic_file(folder / name) as draft:
            draft.write_bytes(png)
    return [folder / name for name in pictures]


def _picture(draw: Callable[[Axes], object], rows: int) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _ROW * rows + _AROUND), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots())
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    return buffer.getvalue()
