"""What cannot be scored is named: column, index and value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bellwether.calibration.forecasts import Forecasts
from bellwether.errors import ScoringError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": [0.2, math.nan], "y": [0, 1]}, r"column p holds .*nan.* at index 1"),
        ({"p": [0.2, 1.2], "y": [0, 1]}, r"column p holds .*1\.2.* at index 1"),
        ({"p": [-0.1, 0.2], "y": [0, 1]}, r"column p holds .*-0\.1.* at index 0"),
        ({"p": [math.inf], "y": [0]}, r"column p holds .*inf.* at index 0"),
        ({"p": ["maybe"], "y": [0]}, r"column p is not numeric"),
        ({"p": [[0.1]], "y": [0]}, r"column p has 2 dimensions"),
        ({"p": [0.2, 0.3], "y": [0, 2]}, r"column y holds .*2.* at index 1"),
        ({"p": [0.2, 0.3], "y": [math.nan, 1]}, r"column y holds .*nan.* at index 0"),
        ({"p": [0.2], "y": [0, 1]}, r"column y has 2 values and p has 1"),
        ({"p": [0.2, 0.3], "y": [0, 1], "answer": ["yes"]}, r"column answer has 1 values and p has 2"),
        ({"p": [0.2, 0.3], "y": [0, 1], "answer": ["yes", "maybe"]}, r"column answer holds 'maybe' at index 1"),
        ({"p": [0.2, 0.3], "y": [0, 1], "market": [0.5, 1.5]}, r"column market holds .*1\.5.* at index 1"),
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
