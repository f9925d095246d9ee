"""The markets that forecasts can be submitted on: those of the lake, closed or open."""

from __future__ import annotations

import polars as pl

from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.tables.schema import TIME

_SCHEMA = {"venue": pl.String, "market_id": pl.String, "open_time": TIME, "close_time": TIME}


def known_markets(uri: str) -> pl.DataFrame:
    """venue, market_id, open_time and close_time of every market of clean/markets and arena/universe; times are null where they are not known."""
    lake = Lake(uri)
    closed = lake.slice(table("clean/markets"), missing="skip").scan().select(*_SCHEMA)
    shown = (
        lake.slice(table("arena/universe"), missing="skip")
        .scan()
        .select(venue=pl.lit("polymarket"), market_id="market_id", open_time=pl.lit(None, TIME), close_time="closes_at")
    )
    return pl.concat([closed, shown]).collect()
