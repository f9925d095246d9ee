"""The trading pages' order of agents and their order statistics."""

from __future__ import annotations

from decimal import Decimal

import polars as pl

from bellwether.site import trading
from bellwether.tables import table
from tests.site.world import rows


def test_slippage_without_a_taker_fill_is_no_number() -> None:
    declared = table("replay/backtests")
    runs = pl.concat(rows(declared.name, 1, episode=name, agent="maker", slippage=None, fees=Decimal(1)) for name in "ab")
    facts = dict(trading._order_statistics(runs).rows)
    assert (facts["Slippage"].text, facts["Fees"].text) == ("–", "$2.00")
    part = runs.with_columns(slippage=pl.when(pl.col("episode") == "a").then(pl.lit("0.5")).cast(declared.schema["slippage"]))
    assert dict(trading._order_statistics(part).rows)["Slippage"].text == "$0.50"


def test_agents_of_equal_pnl_are_in_the_order_of_their_names() -> None:
    runs = pl.DataFrame({"agent": ["b", "c", "a"], "pnl": [0, 1, 0]})
    assert trading._rank(runs)["agent"].to_list() == ["c", "a", "b"]
