"""Tables of earlier publications of the warehouse, which each publication continues. They are stored in the lake, without assets."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import TEXT, TIME, UTC, Column, Table

NAMES = Table(
    name="meta/names",
    row="One forecaster, agent or family; charts choose its colour and dash by its number.",
    columns=(
        Column("name", TEXT, "name of the forecaster, agent or family"),
        Column("number", pl.Int32(), "order of first publication, from 0; a name keeps its number in later publications"),
    ),
    key=("name",),
    sort=("number",),
    mart=True,
)

STANDINGS = Table(
    name="meta/standings",
    row="One place on a leaderboard, in the present results or in the last published ones whose places or values differ.",
    columns=(
        Column("published_at", TIME, "when the place was first published", UTC),
        Column("current", pl.Boolean(), "whether the place is that of the present results"),
        Column("area", TEXT, "benchmark, trading or arena"),
        Column("board", TEXT, "the release, rule set, or group of cohorts"),
        Column("metric", TEXT, "metric that ranks"),
        Column("name", TEXT, "the forecaster, agent or family"),
        Column("place", pl.Int32(), "its rank"),
        Column("value", pl.Float64(), "its value of the metric", nullable=True),
    ),
    key=("current", "area", "board", "metric", "name"),
    sort=("current", "area", "board", "metric", "place", "name"),
    mart=True,
)

HISTORY = (NAMES, STANDINGS)
