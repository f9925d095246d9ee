"""Charts of a result show its numbers and are written atomically."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.calibration import reliability_bins
from bellwether.errors import ScoringError
from bellwether.scoring import ScoreResult, plot_reliability, plot_scores, plotting, score
from tests.figures.chart_contents import chart_rows as drawn
from tests.unit.scoring.forecast_rows import Row


@pytest.fixture(scope="module")
def result(rows: Sequence[Row]) -> ScoreResult:
    return score(list(rows), replicates=0)


def sample() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    p = generator.random(80)
    return p, (generator.random(80) < p).astype(float)


def named_rows(chart: Any, name: str) -> list[dict[str, Any]]:
    return [row for row in drawn(chart) if row.get("name") == name]


def test_points_of_the_diagram_are_the_reliability_table() -> None:
    p, y = sample()
    found = named_rows(plot_reliability(p, y, range(80), label="mine"), "mine")
    expected = reliability_bins(p, y, list(range(80))).drop_nulls("mean_forecast")
    for field, column in (("forecast", "mean_forecast"), ("observed", "yes_rate"), ("lower", "yes_rate_lower"), ("n", "n")):
        assert [row[field] for row in found] == expected[column].to_list()


@pytest.mark.parametrize("curve", [False, True])
def test_no_rows_are_refused(curve: bool) -> None:
    with pytest.raises(ScoringError, match="plotting reliability: there are no rows; give forecasts"):
        plot_reliability([], [], curve=curve)


def test_weights_move_the_band_as_they_move_the_points() -> None:
    p, y = np.tile([0.12, 0.18], 100), np.tile([0.0, 1.0], 100)
    weights = np.tile([1.0, 9.0], 100)
    (point,) = named_rows(plot_reliability(p, y, range(200), weights=weights, label="mine"), "mine")
    assert point["forecast"] == pytest.approx(0.174)  # (0.12 + 9 × 0.18) / 10
    assert point["low"] < 0.174 < point["high"]


def test_scores_are_best_first_with_their_intervals(result: ScoreResult) -> None:
    expected = result.scores.filter(result.scores["metric"] == "brier_skill").sort("value", descending=True)
    found = [row for row in drawn(plot_scores(result, "brier_skill")) if "value" in row]
    for field, column in (("name", "forecaster"), ("value", "value"), ("lower", "lower"), ("upper", "upper")):
        assert [row[field] for row in found] == expected[column].to_list()
    with pytest.raises(ScoringError, match="there is no metric 'briar'"):
        plot_scores(result, "briar")


def test_bands_are_drawn_once_for_the_figures_and_the_page(rows: Sequence[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, calls = score(list(rows), replicates=0), []
    real = plotting.bands_and_curve
    monkeypatch.setattr(plotting, "bands_and_curve", lambda *values, **options: calls.append(1) or real(*values, **options))
    told: list[tuple[int, int, str]] = []
    result.write_figures(tmp_path, progress=lambda *step: told.append(step))
    result.write_html(tmp_path / "page.html")
    assert len(calls) == len(result.forecasters) == 3
    assert told[0] == (0, 3, f"consistency bands of {result.forecasters[0]}") and told[-1][:2] == (3, 3)


def test_a_result_that_is_gone_leaves_no_bands(rows: Sequence[Row]) -> None:
    import gc

    gc.collect()
    before = len(plotting._BANDS)
    result = score([row for row in rows if row["model"] == "sharp"][:12], replicates=0)
    plotting.bands_and_curves(result)
    assert len(plotting._BANDS) == before + 1
    del result
    gc.collect()
    assert len(plotting._BANDS) == before
