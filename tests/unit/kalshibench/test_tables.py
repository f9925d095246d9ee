"""Tables and figures of nine and twelve models: each model is named once, and omitted models are named."""

from __future__ import annotations

import io
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bellwether.console import shortened
from bellwether.kalshibench import Examination, examine, figures, read_labels, read_results
from bellwether.kalshibench.figures import write_figures
from bellwether.kalshibench.text_tables import print_examination
from tests.figures.chart_contents import chart_texts
from tests.reference.kalshibench import TIERS, A, B, World, world

NAMES = [name for _, models in TIERS.values() for name in models]
TITLES = ("As published", "Corrected", "What the published scoring did", "What became of the published numbers")


@pytest.fixture(scope="module")
def original() -> World:
    """Twelve models in three tiers, as KalshiBench publishes them."""
    return world()


@pytest.fixture(scope="module")
def twelve(original: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all twelve models."""
    return original.write(tmp_path_factory.mktemp("twelve"))


@pytest.fixture(scope="module")
def examined(original: World, twelve: Path, tmp_path_factory: pytest.TempPathFactory) -> Examination:
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    pl.DataFrame(original.labels(A, B)).write_csv(path)
    return examine(read_results(twelve), read_labels(path), replicates=0)


def printed(examination: Examination, width: int) -> str:
    output = io.StringIO()
    print_examination(Console(file=output, width=width), examination, in_full=False)
    return output.getvalue()


def first_cells(output: str, title: str) -> list[str]:
    """Return the names in the rows of the table with this title."""
    table = output[output.index(f"\n{title}" if not output.startswith(title) else title) :].split("\n\n", maxsplit=1)[0]
    rows = table.split("─\n", 1)[1].splitlines()
    return [re.split(r"\s", row)[0] for row in rows if re.match(r"\S+\s.*\d", row)]


@pytest.mark.parametrize("width", [80, 132])
def test_every_table_names_twelve_models_apart(examined: Examination, width: int) -> None:
    output = printed(examined, width)
    assert all(len(line) <= width for line in output.splitlines() if not line.startswith("- "))
    for title in TITLES:
        rows = [cell for cell in first_cells(output, title) if cell in {*NAMES} or "…" in cell]
        assert len(rows) == len(set(rows)) == 12, title
        assert not any(line.rstrip().endswith("…") for line in output.splitlines())


def test_shortened_names_are_explained_and_a_wide_terminal_shows_full_ones(examined: Examination) -> None:
    narrow, wide = printed(examined, 80), printed(examined, 200)
    legend = narrow[: narrow.index("\n\n")].replace("\n", " ")
    assert re.search(r"GPT-\S*…\S+ = GPT-5.2-XHigh(;|$)", legend)
    assert "…" not in wide
    assert "Qwen3-235B-Thinking" in first_cells(wide, "Corrected")


@given(st.lists(st.text("ab-", min_size=1, max_size=30), unique=True, max_size=12), st.integers(1, 30))
def test_shortened_names_are_distinct_and_fit(names: list[str], width: int) -> None:
    short = shortened(names, width)
    assert list(short) == names
    assert len(set(short.values())) == len(names)
    assert all(len(one) <= max(width, 5) for one in short.values())


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


def test_a_picture_names_the_models_that_are_not_in_it(drawn: dict[str, Written]) -> None:
    for name, written in drawn["nine models"].items():
        if name != "kalshibench-reading.png":
            assert f"Not drawn: {', '.join(OF_B)} (" in " ".join(written), name
