"""Parameters as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.replay.grid import grid, label, parameters


def test_values_have_the_type_they_look_like() -> None:
    given = ["a=1", "b=0.5", "c=true", "d=none", "e=some text", "f=-2", "g = x=y "]
    assert parameters(given) == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "some text", "f": -2, "g": "x=y"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("s=1..4", [1, 2, 3, 4]),
        ("s=1,5,10", [1, 5, 10]),
        ("s=0.1..0.3:0.1", [0.1, 0.2, 0.3]),
        ("s=1..2:0.4", [1, 1.4, 1.8]),
        ("s=yes,no", ["yes", "no"]),
    ],
)
def test_a_range_holds_both_ends_and_is_exact(text: str, values: list[Any]) -> None:
    assert [combination["s"] for combination in grid([text])] == values


def test_a_grid_is_every_combination_in_order() -> None:
    assert grid(["a=1,2", "b=x,y"]) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert grid([]) == [{}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a"], "is not name=value"),
        (["a=3..1"], "holds no value"),
        (["a=1..x"], "is not first..last"),
        (["a=1..2:0"], "is not first..last"),
        (["a=1", "a=2"], "twice"),
        (["a=1..1000", "b=1..1000"], "1,000,000 combinations"),
        (["a=1..10000000"], "too many"),
    ],
)
def test_what_is_no_grid_is_refused_in_words(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grid(given)


def test_a_label_tells_combinations_apart() -> None:
    assert label("maker", {"size": 5, "spread": 0.5}) == "maker[size=5,spread=0.5]"
    assert label("maker", {}) == "maker"
