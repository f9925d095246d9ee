"""Tables of the arena's lineups: the releases that cohorts used, and what the last review of the catalogue found."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import MONEY, TEXT, TIME, UTC, Column, Table

_FAMILY = Column("family", TEXT, "family: the competitor over the years")
_TITLE = Column("title", TEXT, "what people call the family")

RELEASES = Table(
    name="arena/releases",
    row="One release of a family, as the cohorts of its family used it; rules have none.",
    columns=(
        Column("reconstructed", pl.Boolean(), "of reconstructed cohorts; of live ones otherwise"),
        _FAMILY,
        _TITLE,
        Column("control", pl.Boolean(), "the family is a control: its release never changes"),
        Column("model", TEXT, "the release: name of its model"),
        Column("model_id", TEXT, "the model's id, provider/id, in its newest cohort", nullable=True),
        Column("released", pl.Date(), "when the provider released it; null where the registry does not say", UTC, nullable=True),
        Column("input_price", MONEY, "per million tokens of prompt, in its newest cohort", "dollars", nullable=True),
        Column("output_price", MONEY, "per million tokens of answer, in its newest cohort", "dollars", nullable=True),
        Column("first_cohort", pl.Date(), "its first cohort: from here on it stands for the family", UTC),
        Column("last_cohort", pl.Date(), "its newest cohort", UTC),
        Column("cohorts", pl.Int32(), "cohorts in which it stood for the family"),
        Column("previous", TEXT, "the release before it; null of the first", nullable=True),
    ),
    key=("reconstructed", "family", "model"),
    mart=True,
)

REVIEW = Table(
    name="arena/review",
    row="One family whose releases the price map may have, as the last review of the lineups found it.",
    columns=(
        _FAMILY,
        _TITLE,
        Column("competes", pl.Boolean(), "it is in the lineup of new cohorts"),
        Column("model", TEXT, "its release now: name of the model"),
        Column("model_id", TEXT, "the model's id now, provider/id"),
        Column("state", TEXT, "unchanged, upgrade (one later release, with prices), needs_review or dismissed"),
        Column("offers", pl.List(pl.String()), "ids of the later releases; empty when there is none"),
        Column("input_price", MONEY, "per million tokens of prompt, of an upgrade; null otherwise", "dollars", nullable=True),
        Column("output_price", MONEY, "per million tokens of answer, of an upgrade; null otherwise", "dollars", nullable=True),
        Column("reason", TEXT, "the state in words"),
        Column("catalogue", TEXT, "version of the price map that was read"),
        Column("known_at", TIME, "when it was reviewed", UTC),
    ),
    key=("family",),
    mart=True,
)

TABLES = (RELEASES, REVIEW)
