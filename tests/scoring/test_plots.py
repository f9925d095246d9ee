"""Plots draw on the axis that they are given, or on a new one, and show the numbers of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bellwether.calibration import reliability_bins
from bellwether.errors import ScoringError
from bellwether.scoring import ScoreResult, overlays, plot_differences, plot_reliability, plot_scores, score
from tests.scoring.conftest import Row
from tests.scoring.test_command import HOSTILE, named


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def result(rows: Sequence[Row]) -> ScoreResult:
    return score(list(rows), replicates=0)


def sample() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    p = generator.random(80)
    return p, (generator.random(80) < p).astype(float)


def drawn(axes: Axes, position: int) -> list[list[float]]:
    """X and y of the line at a position."""
    return [np.asarray(values, dtype=float).tolist() for values in axes.lines[position].get_data()]


def test_a_new_axis_is_made_and_a_given_one_is_drawn_on(result: ScoreResult) -> None:
    p, y = sample()
    for draw in (
        lambda ax: plot_reliability(p, y, ax=ax),
        lambda ax: plot_scores(result, ax=ax),
        lambda ax: plot_differences(result, ax=ax),
    ):
        assert isinstance(draw(None), Axes)
        given = Figure().subplots()
        assert draw(given) is given
        assert given.lines and given.get_xlabel()
        given.figure.canvas.draw()


def test_points_of_the_diagram_are_the_reliability_table() -> None:
    p, y = sample()
    axes = plot_reliability(p, y, range(80), label="mine", ax=Figure().subplots())
    expected = reliability_bins(p, y).drop_nulls("mean_forecast")
    assert drawn(axes, 1) == [expected["mean_forecast"].to_list(), expected["yes_rate"].to_list()]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["perfect calibration", "mine"]


def test_a_second_forecaster_is_laid_over_the_first_in_another_colour() -> None:
    p, y = sample()
    axes = plot_reliability(p, y, label="one", ax=Figure().subplots())
    plot_reliability(1 - p, y, label="two", curve=True, ax=axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["perfect calibration", "two", "one"]
    colours = {line.get_color() for line in axes.lines if line.get_label() != "perfect calibration"}
    assert len(colours) >= 2


def test_weights_move_the_band_as_they_move_the_points() -> None:
    p, y = np.tile([0.12, 0.18], 100), np.tile([0.0, 1.0], 100)
    weights = np.tile([1.0, 9.0], 100)
    axes = plot_reliability(p, y, range(200), weights=weights, ax=Figure().subplots())
    (path,) = axes.collections[-1].get_paths()
    assert path.vertices[:, 0].max() == pytest.approx(0.174)  # (0.12 + 9 * 0.18) / 10
    assert drawn(axes, 1)[0] == [pytest.approx(0.174)]


def test_scores_stand_best_first_with_their_intervals(result: ScoreResult) -> None:
    axes = plot_scores(result, "brier_skill", ax=Figure().subplots())
    rows = result.scores.filter(result.scores["metric"] == "brier_skill").sort("value", descending=True)
    assert [label.get_text() for label in axes.get_yticklabels()] == rows["forecaster"].to_list()
    assert drawn(axes, 0)[0] == rows["value"].to_list()
    with pytest.raises(ScoringError, match="there is no metric 'briar'"):
        plot_scores(result, "briar")


def test_differences_are_those_of_the_pairs(result: ScoreResult) -> None:
    axes = plot_differences(result, ax=Figure().subplots())
    assert drawn(axes, 0)[0] == result.pairs["difference"].to_list()
    assert len(axes.get_yticklabels()) == result.pairs.height == 3


def test_names_are_drawn_as_they_are(rows: Sequence[Row], tmp_path: Path) -> None:
    result = score(named(rows, HOSTILE[6:10], questions=12), replicates=0)
    assert len(result.write_figures(tmp_path)) == 3
    axes = plot_scores(result, ax=Figure().subplots())
    assert set(HOSTILE[6:10]) <= {label.get_text() for label in axes.get_yticklabels()}


def test_bands_are_drawn_once_for_the_figures_and_the_page(rows: Sequence[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, calls = score(list(rows), replicates=0), []
    real = overlays.bands_and_curve
    monkeypatch.setattr(overlays, "bands_and_curve", lambda *values, **options: calls.append(1) or real(*values, **options))
    told: list[tuple[int, int, str]] = []
    result.write_figures(tmp_path, progress=lambda *step: told.append(step))
    result.write_html(tmp_path / "page.html")
    assert len(calls) == len(result.forecasters) == 3
    assert told[0] == (0, 3, f"consistency bands of {result.forecasters[0]}") and told[-1][:2] == (3, 3)


def test_a_result_that_is_gone_leaves_no_bands(rows: Sequence[Row]) -> None:
    import gc

    gc.collect()
    before = len(overlays._DRAWN)
    result = score([row for row in rows if row["model"] == "sharp"][:12], replicates=0)
    overlays.bands_and_curves(result)
    assert len(overlays._DRAWN) == before + 1
    del result
    gc.collect()
    assert len(overlays._DRAWN) == before
