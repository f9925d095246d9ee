"""Table of the arena's messages: prompts and answers of decisions, verbatim."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import TEXT, TIME, UTC, Column, Table

MESSAGES = Table(
    name="arena/messages",
    row="One message of a decision: a part of its prompt, or an answer of the model.",
    columns=(
        Column("week", pl.Date(), "Sunday on which the week starts; the partition", UTC),
        Column("decision_id", TEXT, "cohort/family/week"),
        Column("number", pl.Int32(), "order of the messages, from 1"),
        Column("role", TEXT, "system, user or assistant"),
        Column("content", TEXT, "the text, without what looks like a key; untrusted"),
        Column("known_at", TIME, "as of when this row was known", UTC),
    ),
    key=("week", "decision_id", "number"),
    partitioned_by=("week",),
)

TABLES = (MESSAGES,)
