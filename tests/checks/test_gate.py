"""Rows that break a blocking rule go no further."""

from __future__ import annotations

import polars as pl
import pytest

from bellwether.checks import CheckOutcome, gate, require
from bellwether.errors import QualityError
from tests.clean.rows import market, markets, price, prices


def test_sound_rows_pass() -> None:
    require("clean/markets", markets(market("A"), market("B")).lazy())
    require("clean/prices", prices(price(1), price(2)).lazy())


def test_a_broken_blocking_rule_is_named_with_its_rows() -> None:
    bad = markets(market("A", outcome="yes", status="closed"), market("B"))
    with pytest.raises(QualityError, match="outcome_only_when_settled") as refused:
        require("clean/markets", bad.lazy())
    assert "1 of 2 rows" in str(refused.value)
    assert "A" in str(refused.value)


def test_a_broken_rule_that_does_not_block_is_left_to_the_checks() -> None:
    crossed = prices(price(1)).with_columns(bid=pl.lit("0.9").cast(pl.Decimal(10, 6)), ask=pl.lit("0.1").cast(pl.Decimal(10, 6)))
    require("clean/prices", crossed.lazy())


def test_a_rule_that_cannot_be_evaluated_refuses_the_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(declared, frame, rules):  # type: ignore[no-untyped-def]
        return [CheckOutcome("unique_key", "…", True, None, frame.height, crashed="MemoryError")]

    monkeypatch.setattr(gate, "validate", crash)
    with pytest.raises(QualityError, match="could not be evaluated: MemoryError"):
        require("clean/markets", markets(market()).lazy())
