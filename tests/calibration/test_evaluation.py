"""The one-line interface for plain arrays, and the registry of metrics."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.calibration import METRICS, Better, Bootstrap, evaluate
from bellwether.errors import ScoringError

ROOT = Path(__file__).resolve().parents[2]


def test_two_forecasts_are_scored_in_one_line() -> None:
    assert evaluate([0.8, 0.3], [1, 0])["brier"].value == pytest.approx((0.04 + 0.09) / 2)


def test_every_registered_metric_is_scored_and_no_other() -> None:
    assert list(evaluate([0.8, 0.3], [1, 0])) == list(METRICS)


def test_without_clusters_there_is_no_interval() -> None:
    assert all(one.lower is None for one in evaluate([0.8, 0.3, 0.4], [1, 0, 1]).values())


def test_with_clusters_the_interval_surrounds_the_value() -> None:
    scores = evaluate([0.8, 0.3, 0.4, 0.9], [1, 0, 1, 1], ["a", "b", "b", "c"], bootstrap=Bootstrap(500))
    brier = scores["brier"]
    assert scores.n_clusters == 3
    assert brier.replicates == 500
    assert brier.lower < brier.value < brier.upper  # type: ignore[operator]


def test_the_names_of_clusters_do_not_matter() -> None:
    p, y = [0.8, 0.3, 0.4, 0.9], [1, 0, 1, 1]
    by_name = evaluate(p, y, ["z", "a", "a", "m"], bootstrap=Bootstrap(200))
    by_number = evaluate(p, y, [0, 1, 1, 2], bootstrap=Bootstrap(200))
    assert by_name == by_number


def test_coverage_is_the_share_of_the_questions_asked() -> None:
    assert evaluate([0.8, 0.3], [1, 0], asked=8)["coverage"].value == 0.25
    assert evaluate([0.8, 0.3], [1, 0])["coverage"].value == 1.0
    assert evaluate([], [])["coverage"].value is None


def test_undefined_is_none_and_never_zero() -> None:
    scores = evaluate([0.8, 0.9], [1, 1])
    assert scores["precision_no"].value is None
    assert scores["brier_skill"].value is None
    assert scores["overconfidence_70"].value == 0.0


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
    scores = evaluate(p, y, clusters, bootstrap=Bootstrap(200))
    assert all(one.value is None or math.isfinite(one.value) for one in scores.values())
    for name, one in scores.items():
        for lower, upper in ((one.lower, one.upper), (one.bca_lower, one.bca_upper)):
            assert (lower is None) == (upper is None)
            assert lower is None or upper is None or lower <= upper, name
    assert (scores["brier"].value is None) == (not p)


def test_outcomes_of_one_class_have_no_uncertainty_and_nothing_to_tell_apart() -> None:
    scores = evaluate([0.3, 0.6, 0.1, 0.9], [1, 1, 1, 1])
    nothing = ("uncertainty", "murphy_resolution", "within_bin_covariance", "corp_discrimination", "yates_covariance", "yates_min_variance")
    assert {name: scores[name].value for name in nothing} == dict.fromkeys(nothing, 0.0)
    assert scores["corp_miscalibration"].value == pytest.approx(scores["brier"].value)


def test_a_misspelt_metric_suggests_the_right_one() -> None:
    with pytest.raises(KeyError, match="did you mean 'log_loss'"):
        evaluate([0.8], [1])["logloss"]


@pytest.mark.parametrize(
    ("clusters", "asked", "message"),
    [
        (["a"], None, "column clusters has 1 values"),
        (["a", None], None, "clusters holds None at index 1"),
        ([float("nan"), float("nan")], None, "clusters holds nan at index 0"),
        (["a", "b"], 1, "2 forecasts on 1 questions"),
    ],
)
def test_clusters_and_questions_that_do_not_fit_are_refused(clusters: list[Any], asked: int | None, message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        evaluate([0.8, 0.3], [1, 0], clusters, asked=asked)


def test_polars_columns_are_taken_as_they_are() -> None:
    frame = pl.DataFrame({"p": [0.8, 0.3], "won": [True, False], "series": ["a", "b"], "answer": ["yes", None]})
    scores = evaluate(frame["p"], frame["won"], frame["series"], answer=frame["answer"], bootstrap=Bootstrap(50))
    assert scores["accuracy"].value == 1.0
    frame = scores.frame()
    assert frame["metric"].to_list() == list(METRICS)
    brier = frame.row(by_predicate=pl.col("metric") == "brier", named=True)
    assert {name: brier[name] for name in ("lower", "bca_lower")} == {
        "lower": scores["brier"].lower,
        "bca_lower": scores["brier"].bca_lower,
    }


def test_only_descriptions_have_no_better_direction() -> None:
    assert {name for name, metric in METRICS.items() if metric.better is Better.NEITHER} == {
        "average_confidence",
        "confidence_when_correct",
        "base_rate",
        "uncertainty",
        "within_bin_variance",
        "within_bin_covariance",
        "yates_min_variance",
    }


def test_the_page_on_metrics_explains_every_metric() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert set(METRICS) - set(re.findall(r"`(\w+)`", page)) == set()


def test_importing_the_package_loads_no_heavy_library() -> None:
    modules = "bellwether.calibration.scores, bellwether.calibration.compat, bellwether.report.plots"
    heavy = "{'sklearn', 'scipy', 'matplotlib', 'pandas', 'great_expectations', 'dagster'}"
    code = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "set()"
