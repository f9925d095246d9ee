"""Table of the arena's lineups: which model release represented each family in a cohort."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import LARGE_MONEY, TEXT, UTC, Column, Table

_FAMILY = Column("family", TEXT, "family, a competitor over the years")
_TITLE = Column("title", TEXT, "display name of the family")

RELEASES = Table(
    name="arena/releases",
    row="One release of a family, as used by cohorts; rules have none.",
    columns=(
        Column("reconstructed", pl.Boolean(), "whether its cohorts are reconstructed"),
        _FAMILY,
        _TITLE,
        Column("control", pl.Boolean(), "whether the family is a control, whose release never changes"),
        Column("model", TEXT, "model of the release"),
        Column("model_id", TEXT, "model id (provider/id) in its latest cohort", nullable=True),
        Column("released", pl.Date(), "release date of the provider; null if unknown", UTC, nullable=True),
        Column("input_price", LARGE_MONEY, "price per million input tokens in its latest cohort", "dollars", nullable=True),
        Column("output_price", LARGE_MONEY, "price per million output tokens in its latest cohort", "dollars", nullable=True),
        Column("first_cohort", pl.Date(), "first cohort in which it represents the family", UTC),
        Column("last_cohort", pl.Date(), "latest cohort in which it represents the family", UTC),
        Column("cohorts", pl.Int32(), "number of cohorts in which it represents the family"),
        Column("previous", TEXT, "previous release; null for the first", nullable=True),
    ),
    key=("reconstructed", "family", "model"),
    mart=True,
)

TABLES = (RELEASES,)
