"""The markets that forecasts can be submitted on: those of the lake, closed or open, and the weeks of the arena that list them."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bellwether.arena.methodology import Methodology
from bellwether.arena.submitted import listed, weeks
from bellwether.lake import Lake
from bellwether.submissions.weeks import Weeks
from bellwether.tables import table
from bellwether.tables.schema import TIME

_SCHEMA = {"venue": pl.String, "market_id": pl.String, "open_time": TIME, "close_time": TIME}


def known_markets(uri: str) -> pl.DataFrame:
    """venue, market_id, open_time and close_time of every market of clean/markets and arena/universe; times are null where they are not known."""
    lake = Lake(uri)
    closed = lake.slice(table("clean/markets"), missing="skip").query(lambda rows: rows.select(*_SCHEMA))
    shown = lake.slice(table("arena/universe"), missing="skip").query(
        lambda rows: rows.select("venue", "market_id", open_time=pl.lit(None, TIME), close_time="closes_at")
    )
    return pl.concat([closed, shown])


def known_weeks(uri: str, rules: Mapping[str, Methodology]) -> Weeks:
    """The weeks of the arena with the markets of their universes. rules: the methodologies by name."""
    markets = listed(Lake(uri).slice(table("arena/universe"), missing="skip").read())
    return Weeks(markets, weeks(markets, rules), rules)


def arena_families(uri: str) -> list[str]:
    """The families of every cohort."""
    return Lake(uri).slice(table("arena/agents"), missing="skip").read()["family"].unique().sort().to_list()
