"""Tables of the arena's lineups: which model release represented each family in a cohort, and what the last review of the model catalogue found."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import LARGE_MONEY, TEXT, TIME, UTC, Column, Table

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

REVIEW = Table(
    name="arena/review",
    row="One family with recognisable releases, in the latest review of the lineups.",
    columns=(
        _FAMILY,
        _TITLE,
        Column("competes", pl.Boolean(), "whether the family is in the lineup of new cohorts"),
        Column("model", TEXT, "model of the present release"),
        Column("model_id", TEXT, "model id (provider/id) of the present release"),
        Column("state", TEXT, "unchanged, upgrade (one later release, with prices), needs_review or dismissed"),
        Column("offers", pl.List(pl.String()), "ids of later releases; empty without any"),
        Column("input_price", LARGE_MONEY, "price per million input tokens of an upgrade; null otherwise", "dollars", nullable=True),
        Column("output_price", LARGE_MONEY, "price per million output tokens of an upgrade; null otherwise", "dollars", nullable=True),
        Column("reason", TEXT, "explanation of the state"),
        Column("catalogue", TEXT, "version of the price map"),
        Column("known_at", TIME, "time of the review", UTC),
    ),
    key=("family",),
    mart=True,
)

TABLES = (RELEASES, REVIEW)
