"""The interface for plain arrays: losses, weights, odd samples, labels of clusters, and invalid arguments."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.calibration import METRICS, Inference, compare, evaluate
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.forecasts import Forecasts
from bellwether.errors import ScoringError


def test_without_clusters_there_is_no_interval_and_a_reason() -> None:
    scores = evaluate([0.8, 0.3, 0.4], [1, 0, 1])
    assert all(one.lower is None and one.reason == "no clusters were given" for one in scores.values())
    assert scores.n_clusters == 0


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
    for name in ("ece", "smece", "murphy_reliability", "corp_miscalibration", "base_rate", "average_confidence"):
        assert scores[name].value is not None, name
    for name in ("accuracy", "f1_yes", "macro_f1", "roc_auc", "brier_yes", "confidence_when_wrong"):
        assert scores[name].value is None, name


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


@pytest.mark.parametrize("arguments", [{"replicates": -1}, {"replicates": 5}, {"level": 1.0}, {"level": 0.0}])
def test_inference_that_makes_no_sense_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ScoringError, match="inference"):
        Inference(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ScoringError, match="inference"):
        evaluate([0.5], [1], **arguments)  # type: ignore[arg-type]


def test_columns_of_any_numeric_kind_are_taken() -> None:
    one = Forecasts.of(np.array([0.25, 0.5], dtype=np.float32), [True, False])
    assert one.p.dtype == np.float64
    assert one.y.tolist() == [True, False]
    assert np.isnan(one.market).all()


def test_invalid_arguments_are_refused() -> None:
    forecasts: list[dict[str, Any]] = [
        {"p": [0.2, math.nan], "y": [0, 1]},
        {"p": [0.2, 1.2], "y": [0, 1]},
        {"p": [0.2, 1 + 1e-15], "y": [0, 1]},
        {"p": [-0.1, 0.2], "y": [0, 1]},
        {"p": [math.inf], "y": [0]},
        {"p": ["maybe"], "y": [0]},
        {"p": [[0.1]], "y": [0]},
        {"p": [0.2, 0.3], "y": [0, 2]},
        {"p": [0.2, 0.3], "y": [math.nan, 1]},
        {"p": [0.2], "y": [0, 1]},
        {"p": [0.2, 0.3], "y": [0, 1], "answer": ["yes"]},
        {"p": [0.2, 0.3], "y": [0, 1], "answer": ["yes", "maybe"]},
        {"p": [0.2, 0.3], "y": [0, 1], "market": [0.5, 1.5]},
        {"p": [0.2, 0.3], "y": [0, 1], "market": [0.5]},
    ]
    for columns in forecasts:
        with pytest.raises(ScoringError, match="column"):
            Forecasts.of(**columns)
        if columns.keys() == {"p", "y"}:
            with pytest.raises(ScoringError):
                evaluate(columns["p"], columns["y"])
    arguments: list[dict[str, Any]] = [{"clusters": ["a"]}, {"clusters": ["a", None]}, {"clusters": ["a", "b"], "asked": 1}]
    for options in arguments:
        with pytest.raises(ScoringError):
            evaluate([0.8, 0.3], [1, 0], **options)


@pytest.mark.parametrize(
    ("forecasts", "y", "options"),
    [
        ({"a": [0.5, 1.5]}, [0, 1], {}),
        ({"a": [0.5]}, [0, 1], {}),
        ({"a": [0.5, 0.5]}, [0, 2], {}),
        ({"a": [0.5, 0.5]}, [0, 1], {"clusters": [0, None]}),
        ([[0.5, 0.5]], [0, 1], {}),
        ({"a": [0.5, 0.5]}, [0, 1], {"loss": "accuracy"}),
    ],
)
def test_invalid_comparisons_are_refused(forecasts: Any, y: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ScoringError):
        compare(forecasts, y, **{"clusters": [0, 1], **options})


def test_one_label_per_forecast_is_taken_in_any_container() -> None:
    import pandas as pd

    containers: list[Any] = [
        ["b", "a", "b"],
        np.array([2.5, 1.0, 2.5]),
        pl.DataFrame({"series": ["b", "a", "b"]}),
        pd.DataFrame({"series": ["b", "a", "b"]}),
        [datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
        [("x", 1), ("y", 2), ("x", 1)],
    ]
    for labels in containers:
        clusters = Clusters.of(labels, 3)
        (way,) = clusters.ways
        assert way.count == clusters.count == 2
        assert way.index[0] == way.index[2] != way.index[1]


@pytest.mark.parametrize(
    "labels",
    [
        (["a", "a", "b", "b"], [1, 2, 1, 1]),
        pl.DataFrame({"question": ["a", "a", "b", "b"], "date": [1, 2, 1, 1]}),
        np.array([[0, 1], [0, 2], [5, 1], [5, 1]]),
    ],
)
def test_two_labels_per_forecast_make_two_ways(labels: Any) -> None:
    clusters = Clusters.of(labels, 4)
    assert [way.count for way in clusters.ways] == [2, 2]
    assert clusters.both is not None
    assert clusters.both.count == 3
    assert clusters.both.index[2] == clusters.both.index[3]


def test_a_part_of_the_forecasts_has_the_clusters_that_are_in_it() -> None:
    clusters = Clusters.of((["a", "b", "c", "a"], [1, 1, 2, 2]), 4).take(np.array([0, 3]))
    assert [way.count for way in clusters.ways] == [1, 2]
    assert clusters.count == 1


def test_labels_that_are_missing_or_mixed_are_refused() -> None:
    import pandas as pd

    refused: list[Any] = [
        ["a", None],
        [float("nan"), 1.0],
        pd.Series(["a", pd.NA]),
        pd.Series([pd.NaT, pd.Timestamp("2026-01-01")]),
        pl.Series([1.0, float("nan")]),
        {"question": ["a", "b"], "date": [1, None]},
        ["a"],
        ["a", 1],
        {"a": [1, 2], "b": [1, 2], "c": [1, 2]},
    ]
    for labels in refused:
        with pytest.raises(ScoringError, match="cluster"):
            Clusters.of(labels, 2)
