"""The arena's rankings on the site."""

from __future__ import annotations

import polars as pl
import pytest

from bellwether.site.arena_rankings import Ranking, leader_tiles


@pytest.mark.parametrize(
    ("primary", "expected"),
    [
        ("return", [("Its return", "12.3 %", "95 %: −5.0 % to 30.0 %")]),
        (
            "brier_size",
            [("Its size-implied Brier score", "0.250", "95 %: 0.200 to 0.300"), ("Its return", "12.3 %", "95 %: −5.0 % to 30.0 %")],
        ),
    ],
)
def test_the_leader_has_its_primary_metric_and_its_return(primary: str, expected: list[tuple[str, str, str]]) -> None:
    estimates = pl.DataFrame(
        [("a", "return", 0.123, -0.05, 0.3, 1), ("a", "brier_size", 0.25, 0.2, 0.3, 1), ("b", "return", 0.5, 0.1, 0.6, 2)],
        schema=["family", "metric", "value", "lower", "upper", "rank"],
        orient="row",
    )
    none = estimates.clear()
    leader, *tiles = leader_tiles(Ranking("v2", False, False, (primary, "return"), estimates, none, none, none))
    assert (leader[1].text, leader[2]) == ("a", "of 2 families")
    spaced = [tuple(words.replace("\xa0", " ") for words in (name, cell.text, note)) for name, cell, note in tiles]
    assert spaced == expected
