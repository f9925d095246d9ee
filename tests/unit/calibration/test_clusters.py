"""Accepted and refused labels of clusters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bellwether.calibration.clusters import Clusters
from bellwether.errors import ScoringError


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b"],
        np.array([2.5, 1.0, 2.5]),
        pl.DataFrame({"series": ["b", "a", "b"]}),
        pd.DataFrame({"series": ["b", "a", "b"]}),
        [datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
        [("x", 1), ("y", 2), ("x", 1)],
    ],
)
def test_one_label_per_forecast_is_taken_in_any_container(labels: Any) -> None:
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


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None], r"column clusters has no label at index 1; label every forecast"),
        ([float("nan"), 1.0], "no label at index 0"),
        (pd.Series(["a", pd.NA]), "no label at index 1"),
        (pd.Series([pd.NaT, pd.Timestamp("2026-01-01")]), "no label at index 0"),
        (pl.Series([1.0, float("nan")]), "no label at index 1"),
        ({"question": ["a", "b"], "date": [1, None]}, "column clusters 'date' has no label at index 1"),
        (["a"], "column clusters has 1 values and p has 2"),
        (["a", 1], "mixes text with int, first 1 at index 1"),
        ({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, "3 columns"),
    ],
)
def test_labels_that_are_missing_or_mixed_are_named(labels: Any, message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        Clusters.of(labels, 2)
