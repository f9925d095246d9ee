"""The figures: PNG below 100 kB, the same bytes each time, untrusted text drawn as text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib import _pylab_helpers, rcParams
from matplotlib.figure import Figure
from PIL import Image

from bellwether.calibration import reliability_bins
from bellwether.report.plots import MOST_BYTES, reliability_diagram, score_comparison


def bins(*names: str, n: int = 400) -> pl.DataFrame:
    """Reliability rows of overconfident forecasters."""
    frames = []
    for seed, name in enumerate(names):
        generator = np.random.default_rng(seed)
        p = generator.random(n)
        frames.append(reliability_bins(p, generator.random(n) < 0.25 + 0.5 * p).with_columns(forecaster=pl.lit(name)))
    return pl.concat(frames)


def board(*lines: tuple[str, int | None, float | None]) -> pl.DataFrame:
    """Leaderboard rows: name, rank, Brier score."""
    rows = [
        {"release": "r1", "forecaster": name, "rank": rank, "kind": "constant", "brier": brier, "brier_lower": brier and brier - 0.02}
        | {"brier_upper": brier and brier + 0.02, "coverage": 1.0 if rank else 0.5}
        for name, rank, brier in lines
    ]
    floats = dict.fromkeys(("brier", "brier_lower", "brier_upper", "coverage"), pl.Float64())
    return pl.DataFrame(rows, schema={"release": pl.String(), "forecaster": pl.String(), "rank": pl.Int32(), "kind": pl.String(), **floats})


def pixels(png: bytes) -> np.ndarray:
    assert png.startswith(b"\x89PNG")
    assert len(png) < MOST_BYTES
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every text that is drawn, as matplotlib's own objects."""
    drawn: list[Any] = []
    original = Figure.draw

    def draw(self: Figure, renderer: Any) -> None:
        drawn.extend(self.findobj(lambda artist: hasattr(artist, "get_parse_math") and artist.get_text()))
        original(self, renderer)

    monkeypatch.setattr(Figure, "draw", draw)
    yield drawn


@pytest.mark.parametrize("names", [("one",), ("one", "two"), tuple(f"forecaster {index}" for index in range(13))])
def test_a_reliability_diagram_is_a_small_picture_with_something_on_it(names: tuple[str, ...]) -> None:
    picture = pixels(reliability_diagram(bins(*names), "Reliability"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


def test_a_wider_gap_changes_the_picture() -> None:
    p = np.linspace(0.02, 0.98, 49)
    calibrated, timid = (reliability_bins(np.repeat(p, 50), np.tile(np.arange(50), 49) < np.repeat(rate, 50) * 50) for rate in (p, p > 0.5))
    pictures = [reliability_diagram(frame.with_columns(forecaster=pl.lit("f")), "x") for frame in (calibrated, timid)]
    assert (pixels(pictures[0]) != pixels(pictures[1])).any()


def test_each_forecaster_has_a_panel_with_its_name_and_counts(texts: list[Any]) -> None:
    frame = bins("north", "south")
    reliability_diagram(frame, "Two of them")
    written = {text.get_text() for text in texts}
    assert {"north", "south", "Two of them"} <= written
    assert {str(count) for count in frame["n"]} <= written


def test_forecasters_beyond_the_last_panel_are_counted(texts: list[Any]) -> None:
    reliability_diagram(bins(*(f"f{index}" for index in range(15))), "Many")
    assert "and 3 more" in {text.get_text() for text in texts}


@pytest.mark.parametrize("untrusted", ["$\\frac{1}{0}$", "a $broken formula", "<script>alert(1)</script>", "_hidden", "x" * 100_000])
def test_untrusted_text_is_drawn_as_text(untrusted: str, texts: list[Any]) -> None:
    pixels(reliability_diagram(bins(untrusted, "b"), untrusted))
    pixels(score_comparison(board((untrusted, 1, 0.2)).with_columns(kind=pl.lit(untrusted), release=pl.lit(untrusted))))
    carrying = [text for text in texts if untrusted[:12] in text.get_text()]
    assert len(carrying) >= 4
    assert not any(text.get_parse_math() for text in carrying)
    assert all(len(text.get_text()) < 120 for text in carrying)


def test_control_characters_become_spaces(texts: list[Any]) -> None:
    reliability_diagram(bins("f"), "two\nlines\x00and\x1b[31mmore")
    assert "two lines and [31mmore" in {text.get_text() for text in texts}


def test_the_same_rows_give_the_same_bytes() -> None:
    assert reliability_diagram(bins("f", "g"), "x") == reliability_diagram(bins("f", "g"), "x")
    assert score_comparison(board(("a", 1, 0.2))) == score_comparison(board(("a", 1, 0.2)))


def test_nothing_to_draw_is_a_picture_that_says_so(texts: list[Any]) -> None:
    pixels(reliability_diagram(bins("f").clear(), "Nobody"))
    pixels(score_comparison(board()))
    written = {text.get_text() for text in texts}
    assert {"no forecast", "no forecaster"} <= written


def test_the_comparison_writes_scores_with_intervals_and_the_coverage_of_the_unranked(texts: list[Any]) -> None:
    pixels(score_comparison(board(("best", 1, 0.2), ("choosy", None, 0.1), ("silent", None, None))))
    written = {text.get_text() for text in texts}
    assert {
        "best",
        "0.2000  [0.180, 0.220]",
        "choosy (50% answered)",
        "0.1000  [0.080, 0.120]",
        "silent (50% answered)",
        "no score",
    } <= written


def test_plotting_leaves_no_global_state() -> None:
    before = dict(rcParams)
    reliability_diagram(bins("f"), "x")
    score_comparison(board(("a", 1, 0.2)))
    assert dict(rcParams) == before
    assert not _pylab_helpers.Gcf.figs
