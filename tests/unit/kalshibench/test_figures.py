"""Figures of nine and twelve models: each model is named once, and omitted models are named in the picture."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bellwether.kalshibench import examine, figures, read_labels, read_results
from bellwether.kalshibench.figures import write_figures
from tests.figures.chart_contents import chart_texts
from tests.reference.kalshibench import TIERS, A, B, World

OF_A = [name for cutoff, models in TIERS.values() if cutoff == A for name in models]
OF_B = [name for cutoff, models in TIERS.values() if cutoff == B for name in models]

#: Labels of sample A, and of both samples.
GIVEN = {"nine models": (A,), "twelve models": (A, B)}

#: Visible texts by file name.
Written = dict[str, list[str]]


@pytest.fixture(scope="module")
def drawn(original: World, twelve: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    """Return the texts of the figures with each set of labels."""
    return {case: draw(original, twelve, tmp_path_factory.mktemp("figures"), cutoffs) for case, cutoffs in GIVEN.items()}


def draw(original: World, folder: Path, to: Path, cutoffs: tuple[str, ...]) -> Written:
    pl.DataFrame(original.labels(*cutoffs)).write_csv(to / "labels.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "png", lambda chart, _: "\n".join(chart_texts(chart)).encode())
        files, _ = write_figures(examine(read_results(folder), read_labels(to / "labels.csv"), replicates=0), to)
    return {file.name: file.read_text().split("\n") for file in files}


@pytest.mark.parametrize("name", ["kalshibench-scores.png", "kalshibench-inversion.png"])
def test_every_model_of_the_questions_is_named_once_in_a_figure(drawn: dict[str, Written], name: str) -> None:
    assert [drawn["nine models"][name].count(model) for model in OF_A] == [1] * 9


def test_pairs_are_named_with_their_tests(drawn: dict[str, Written]) -> None:
    written = drawn["nine models"]["kalshibench-pairs.png"]
    assert sum(" – " in text for text in written) == 36
    assert sum(text.startswith(("p = ", "p < ", "<")) for text in written) == 36


def test_a_picture_names_the_models_that_are_not_in_it(drawn: dict[str, Written]) -> None:
    for name, written in drawn["nine models"].items():
        if name != "kalshibench-reading.png":
            assert f"Not drawn: {', '.join(OF_B)} (" in " ".join(written), name


def test_a_picture_names_the_models_that_answered_other_questions(drawn: dict[str, Written]) -> None:
    assert f"On other questions ({B}): {', '.join(OF_B)}." in " ".join(drawn["twelve models"]["kalshibench-scores.png"])
