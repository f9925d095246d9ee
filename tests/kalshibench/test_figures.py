"""The figures with nine and twelve models: no name lies on another, and models that are not drawn are named in the picture."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from bellwether.calibration import Bootstrap
from bellwether.kalshibench import examine, figures, read_labels, read_results
from bellwether.kalshibench.figures import spread, write_figures
from bellwether.report.plots_canvas import Sheet
from tests.kalshibench.original import TIERS, A, B, World

OF_A = [name for cutoff, models in TIERS.values() if cutoff == A for name in models]
OF_B = [name for cutoff, models in TIERS.values() if cutoff == B for name in models]

Draw = Callable[..., dict[str, Sheet]]


@pytest.fixture
def draw(original: World, twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Draws the figures with the labels of some samples; returns the sheets by title."""
    sheets: dict[str, Sheet] = {}

    class Kept(Sheet):
        def __init__(self, width: float, height: float, title: str) -> None:
            super().__init__(width, height, title)
            sheets[title] = self

    monkeypatch.setattr(figures, "Sheet", Kept)

    def draw(*cutoffs: str) -> dict[str, Sheet]:
        path = tmp_path / "labels.csv"
        pl.DataFrame(original.labels(*cutoffs)).write_csv(path)
        write_figures(examine(read_results(twelve), read_labels(path), bootstrap=Bootstrap(50)), tmp_path / "figures")
        return sheets

    return draw


def texts(sheet: Sheet) -> list[tuple[str, Any]]:
    """The visible texts of a figure with their boxes in pixels."""
    canvas = FigureCanvasAgg(sheet.figure)
    canvas.draw()
    found = [one for one in sheet.figure.findobj(Text) if one.get_visible() and one.get_text().strip()]
    return [(one.get_text(), Text.get_window_extent(one, canvas.get_renderer())) for one in found]  # without the arrow of an annotation


@pytest.mark.parametrize("cutoffs", [(A,), (A, B)])
def test_no_name_lies_on_another_and_all_are_within_the_picture(draw: Draw, cutoffs: tuple[str, ...]) -> None:
    for title, sheet in draw(*cutoffs).items():
        drawn = texts(sheet)
        names = [(text, box) for text, box in drawn if any(name in text for name in OF_A + OF_B) and "Not drawn" not in text]
        assert len(names) >= 9, title
        for (one, first), (other, second) in combinations(names, 2):
            assert not first.overlaps(second), (title, one, other)
        width, height = sheet.figure.bbox.width, sheet.figure.bbox.height
        assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for _, box in names), title


def test_every_model_of_the_questions_is_named_in_each_figure(draw: Draw) -> None:
    sheets = draw(A)
    for title in ("Brier score: published and corrected", "What the published Brier score measured"):
        assert set(OF_A) <= {text for text, _ in texts(sheets[title])}


def test_a_picture_names_the_models_that_are_not_in_it(draw: Draw) -> None:
    for title, sheet in draw(A).items():
        notes = " ".join(text for text, _ in texts(sheet))
        assert f"Not drawn: {', '.join(OF_B)} (" in notes, title


def test_a_picture_names_the_models_that_answered_other_questions(draw: Draw) -> None:
    sheet = draw(A, B)["Brier score: published and corrected"]
    assert f"On other questions ({B}): {', '.join(OF_B)}." in {text for text, _ in texts(sheet)}


def test_labels_are_spread_in_their_order() -> None:
    values = np.array([0.5, 0.1, 0.52, 0.51, 0.98, 0.99])
    places = spread(values, 0.05, 0.0, 1.0)
    assert np.argsort(places).tolist() == np.argsort(values).tolist()
    assert np.diff(np.sort(places)).min() >= 0.05 - 1e-12
    assert places.max() <= 1.0
    assert spread(np.array([0.2, 0.8]), 0.1, 0.0, 1.0).tolist() == [0.2, 0.8]
