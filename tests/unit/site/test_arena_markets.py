"""The list of the arena's markets on the site."""

from __future__ import annotations

import polars as pl

from bellwether.site.arena_markets import sort_markets


def test_markets_of_one_volume_are_in_the_order_of_their_ids_whatever_the_order_of_rows() -> None:
    rows = [("c", None, 5), ("a", None, 5), ("b", None, 5), ("d", 2, 1), ("e", None, None)]
    schema = {"market_id": pl.String, "trades": pl.Int64, "volume": pl.Int64}
    for shift in range(len(rows)):
        listed = pl.DataFrame(rows[shift:] + rows[:shift], schema=schema, orient="row")
        assert sort_markets(listed)["market_id"].to_list() == ["d", "a", "b", "c", "e"]
