"""The interface for plain arrays, its errors, and the registry of metrics."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import METRICS, Inference, evaluate
from bellwether.calibration.forecasts import Forecasts
from bellwether.errors import ScoringError

ROOT = Path(__file__).resolve().parents[3]


def test_every_registered_metric_is_scored_and_no_other() -> None:
    assert list(evaluate([0.8, 0.3], [1, 0])) == list(METRICS)


def test_without_clusters_there_is_no_interval_and_a_reason() -> None:
    scores = evaluate([0.8, 0.3, 0.4], [1, 0, 1])
    assert all(one.lower is None and one.reason == "no clusters were given" for one in scores.values())
    assert scores.n_clusters == 0


def test_losses_are_per_forecast_in_the_order_given() -> None:
    scores = evaluate([0.8, 0.3], [1, 1])
    assert scores.losses["squared_error"] == pytest.approx([0.04, 0.49])
    assert scores.losses["log_loss"] == pytest.approx([-math.log(0.8), -math.log(0.3)])
    assert scores.losses["absolute_error"] == pytest.approx([0.2, 0.7])


def test_weights_count_as_repetitions() -> None:
    generator = np.random.default_rng(3)
    p, y, times = np.round(generator.random(40), 1), generator.random(40) < 0.5, generator.integers(1, 4, 40)
    weighted = evaluate(p, y, weights=times, market=np.clip(p, 0.1, 0.8))
    repeated = evaluate(np.repeat(p, times), np.repeat(y, times), market=np.repeat(np.clip(p, 0.1, 0.8), times))
    for name in METRICS:
        if "debiased" not in name:  # copies become pairs of different forecasts, weights do not
            assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-9), name


def test_fractional_outcomes_have_the_scores_that_allow_them() -> None:
    scores = evaluate([0.8, 0.3, 0.6], [0.9, 0.25, 0.5], range(3))
    assert scores["brier"].value == pytest.approx((0.01 + 0.0025 + 0.01) / 3)
    expected = -np.mean([y * math.log(p) + (1 - y) * math.log(1 - p) for p, y in ((0.8, 0.9), (0.3, 0.25), (0.6, 0.5))])
    assert scores["log_loss"].value == pytest.approx(expected)
    assert scores["brier_skill"].value == pytest.approx(1 - (0.0225 / 3) / np.var([0.9, 0.25, 0.5]))
    for name in ("ece", "smece", "murphy_reliability", "corp_miscalibration", "base_rate", "average_confidence", "yates_covariance"):
        assert scores[name].value is not None, name
    for name in ("accuracy", "f1_yes", "macro_f1", "roc_auc", "brier_yes", "confidence_when_wrong", "overconfidence_70"):
        assert scores[name].value is None, name


@pytest.mark.parametrize("bins", [20, [0, 0.05, 0.2, 0.8, 1]])
def test_the_bins_can_be_chosen(bins: Any) -> None:
    generator = np.random.default_rng(5)
    p = generator.random(300)
    y = generator.random(300) < p**2
    edges = np.linspace(0, 1, bins + 1) if isinstance(bins, int) else np.asarray(bins)
    which = np.minimum(np.searchsorted(edges, p, side="right") - 1, len(edges) - 2)
    gaps = [abs((p[which == index] - y[which == index]).sum()) for index in range(len(edges) - 1)]
    assert evaluate(p, y, bins=bins)["ece"].value == pytest.approx(sum(gaps) / 300)


@pytest.mark.parametrize("bins", [0, [0, 0.7, 0.3, 1], "many"])
def test_bins_that_are_none_are_refused(bins: Any) -> None:
    with pytest.raises(ScoringError, match="binning"):
        evaluate([0.5], [1], bins=bins)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("p", "y", "clusters"),
    [
        pytest.param([], [], [], id="no forecast"),
        pytest.param([0.3], [1], ["a"], id="one forecast"),
        pytest.param([0.3, 0.6, 1.0], [1, 0, 1], ["a", "b", "c"], id="fewer forecasts than bins"),
        pytest.param([0.3, 0.6, 0.0, 0.9], [1, 1, 1, 1], range(4), id="every outcome yes"),
        pytest.param([0.3, 0.6, 0.0, 0.9], [0, 0, 0, 0], range(4), id="every outcome no"),
        pytest.param([0.3, 0.6, 0.0, 0.9], [0, 1, 0, 1], ["a"] * 4, id="one cluster"),
        pytest.param([0.5] * 6, [0, 1, 0, 1, 1, 1], range(6), id="always the same"),
        pytest.param([0.0, 1.0] * 5, [0, 1] * 5, range(10), id="perfect"),
        pytest.param([1.0, 0.0] * 5, [0, 1] * 5, range(10), id="always wrong"),
    ],
)
def test_small_and_odd_samples_are_scored_without_a_warning(p: list[float], y: list[int], clusters: list[str]) -> None:
    scores = evaluate(p, y, clusters, replicates=200)
    assert all(one.value is None or math.isfinite(one.value) for one in scores.values())
    for name, one in scores.items():
        assert (one.lower is None) == (one.upper is None) == (one.reason is not None), name
        assert one.lower is None or one.upper is None or one.lower <= one.upper, name
    assert (scores["brier"].value is None) == (not p)


def test_a_misspelt_metric_suggests_the_right_one() -> None:
    with pytest.raises(KeyError, match="did you mean 'log_loss'"):
        evaluate([0.8], [1])["logloss"]


@pytest.mark.parametrize(
    ("clusters", "asked", "message"),
    [
        (["a"], None, "column clusters has 1 values"),
        (["a", None], None, "clusters has no label at index 1"),
        (["a", "b"], 1, "asked is 1 with 2 forecasts"),
    ],
)
def test_clusters_and_questions_that_do_not_fit_are_refused(clusters: list[Any], asked: int | None, message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        evaluate([0.8, 0.3], [1, 0], clusters, asked=asked)


def test_polars_columns_are_taken_as_they_are() -> None:
    frame = pl.DataFrame({"p": [0.8, 0.3], "won": [True, False], "series": ["a", "b"], "answer": ["yes", None]})
    scores = evaluate(frame["p"], frame["won"], frame["series"], answer=frame["answer"])
    assert scores["accuracy"].value == 1.0
    frame = scores.frame()
    assert frame["metric"].to_list() == list(METRICS)
    brier = frame.row(by_predicate=pl.col("metric") == "brier", named=True)
    assert brier["reason"] == scores["brier"].reason == "2 clusters; an interval needs 3"
    assert (brier["n"], brier["n_clusters"]) == (2, 2)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 37.5], "37.5 at index 1; give a probability in .*divide percentages by 100"),
        ([0.5, 1 + 1e-15], r"outside \[0, 1\] by a rounding error; clip it"),
        ([0.5, -3.0], r"-3.0 at index 1; give a probability in \[0, 1\]"),
        ([0.5, float("nan")], "nan at index 1; leave out questions without a forecast"),
    ],
)
def test_a_probability_that_is_none_gets_the_remedy_that_fits(p: list[float], message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        evaluate(p, [0, 1])


@pytest.mark.parametrize("arguments", [{"replicates": -1}, {"replicates": 5}, {"level": 1.0}, {"level": 0.0}])
def test_inference_that_makes_no_sense_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ScoringError, match="inference"):
        Inference(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ScoringError, match="inference"):
        evaluate([0.5], [1], **arguments)  # type: ignore[arg-type]


def test_the_page_on_metrics_explains_every_metric() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert set(METRICS) - set(re.findall(r"`(\w+)`", page)) == set()


def test_importing_the_package_loads_no_heavy_library() -> None:
    modules = "bellwether.calibration.scores, bellwether.calibration.compat, bellwether.report.figures"
    heavy = "{'sklearn', 'scipy', 'altair', 'pandas', 'great_expectations', 'dagster'}"
    code = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": [0.2, math.nan], "y": [0, 1]}, r"column p is .*nan.* at index 1"),
        ({"p": [0.2, 1.2], "y": [0, 1]}, r"column p is .*1\.2.* at index 1"),
        ({"p": [-0.1, 0.2], "y": [0, 1]}, r"column p is .*-0\.1.* at index 0"),
        ({"p": [math.inf], "y": [0]}, r"column p is .*inf.* at index 0"),
        ({"p": ["maybe"], "y": [0]}, r"column p is not numeric"),
        ({"p": [[0.1]], "y": [0]}, r"column p has 2 dimensions"),
        ({"p": [0.2, 0.3], "y": [0, 2]}, r"column y is .*2.* at index 1"),
        ({"p": [0.2, 0.3], "y": [math.nan, 1]}, r"column y is .*nan.* at index 0"),
        ({"p": [0.2], "y": [0, 1]}, r"column y has 2 values and p has 1"),
        ({"p": [0.2, 0.3], "y": [0, 1], "answer": ["yes"]}, r"column answer has 1 values and p has 2"),
        ({"p": [0.2, 0.3], "y": [0, 1], "answer": ["yes", "maybe"]}, r"column answer is 'maybe' at index 1"),
        ({"p": [0.2, 0.3], "y": [0, 1], "market": [0.5, 1.5]}, r"column market is .*1\.5.* at index 1"),
        ({"p": [0.2, 0.3], "y": [0, 1], "market": [0.5]}, r"column market has 1 values and p has 2"),
    ],
)
def test_a_misfit_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        Forecasts.of(**arguments)


def test_columns_of_any_numeric_kind_are_taken() -> None:
    one = Forecasts.of(np.array([0.25, 0.5], dtype=np.float32), [True, False])
    assert one.p.dtype == np.float64
    assert one.y.tolist() == [True, False]
    assert np.isnan(one.market).all()
