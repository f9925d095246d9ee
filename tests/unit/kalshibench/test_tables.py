"""Tables of twelve models at common terminal widths, and names shortened in the middle."""

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
from bellwether.kalshibench import Examination, examine, read_labels, read_results
from bellwether.kalshibench.text_tables import print_examination
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
