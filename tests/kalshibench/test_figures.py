"""The figures with nine and twelve models: no name lies on another, and models that are not drawn are named in the picture."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from bellwether.kalshibench import examine, figures, read_labels, read_results
from bellwether.kalshibench.figures import spread, write_figures
from bellwether.report.plots_canvas import Sheet
from tests.kalshibench.original import TIERS, A, B, World

OF_A = [name for cutoff, models in TIERS.values() if cutoff == A for name in models]
OF_B = [name for cutoff, models in TIERS.values() if cutoff == B for name in models]

#: Labels of sample A alone, and of both samples.
GIVEN = {"nine models": (A,), "twelve models": (A, B)}

#: A sheet, and its visible texts with their boxes in pixels.
Drawn = tuple[Sheet, list[tuple[str, Any]]]
Sheets = dict[str, Drawn]


@pytest.fixture(scope="module")
def drawn(original: World, twelve: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sheets]:
    """The sheets by title, of the figures with either labels."""
    return {case: draw(original, twelve, tmp_path_factory.mktemp("figures"), cutoffs) for case, cutoffs in GIVEN.items()}


def draw(original: World, folder: Path, to: Path, cutoffs: tuple[str, ...]) -> Sheets:
    sheets: dict[str, Sheet] = {}

    class Kept(Sheet):
        def __init__(self, width: float, height: float, title: str) -> None:
            super().__init__(width, height, title)
            sheets[title] = self

    pl.DataFrame(original.labels(*cutoffs)).write_csv(to / "labels.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "Sheet", Kept)
        write_figures(examine(read_results(folder), read_labels(to / "labels.csv"), replicates=0), to)
    return {title: (sheet, texts(sheet)) for title, sheet in sheets.items()}


def texts(sheet: Sheet) -> list[tuple[str, Any]]:
    canvas = FigureCanvasAgg(sheet.figure)
    canvas.draw()
    found = [one for one in sheet.figure.findobj(Text) if one.get_visible() and one.get_text().strip()]
    return [(one.get_text(), Text.get_window_extent(one, canvas.get_renderer())) for one in found]  # without the arrow of an annotation


@pytest.mark.parametrize("case", GIVEN)
def test_no_name_lies_on_another_and_all_are_within_the_picture(drawn: dict[str, Sheets], case: str) -> None:
    for title, (sheet, written) in drawn[case].items():
        names = [(text, box) for text, box in written if any(name in text for name in OF_A + OF_B) and "Not drawn" not in text]
        assert len(names) >= 9, title
        for (one, first), (other, second) in combinations(names, 2):
            assert not first.overlaps(second), (title, one, other)
        width, height = sheet.figure.bbox.width, sheet.figure.bbox.height
        assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for _, box in names), title


def test_every_model_of_the_questions_is_named_in_each_figure(drawn: dict[str, Sheets]) -> None:
    sheets = drawn["nine models"]
    for title in ("Brier score: published and corrected", "What the published Brier score measured"):
        assert set(OF_A) <= {text.split("  ")[-1] for text, _ in sheets[title][1]}


def test_a_picture_names_the_models_that_are_not_in_it(drawn: dict[str, Sheets]) -> None:
    for title, (_, written) in drawn["nine models"].items():
        notes = " ".join(text for text, _ in written)
        assert f"Not drawn: {', '.join(OF_B)} (" in notes, title


def test_a_picture_names_the_models_that_answered_other_questions(drawn: dict[str, Sheets]) -> None:
    _, written = drawn["twelve models"]["Brier score: published and corrected"]
    assert f"On other questions ({B}): {', '.join(OF_B)}." in {text for text, _ in written}


def test_labels_are_spread_in_their_order() -> None:
    values = np.array([0.5, 0.1, 0.52, 0.51, 0.98, 0.99])
    places = spread(values, 0.05, 0.0, 1.0)
    assert np.argsort(places).tolist() == np.argsort(values).tolist()
    assert np.diff(np.sort(places)).min() >= 0.05 - 1e-12
    assert places.max() <= 1.0
    assert spread(np.array([0.2, 0.8]), 0.1, 0.0, 1.0).tolist() == [0.2, 0.8]
