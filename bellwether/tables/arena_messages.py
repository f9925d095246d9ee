"""Table of the messages behind the arena's decisions: prompts and answers, verbatim."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import TEXT, TIME, UTC, Column, Table

MESSAGES = Table(
    name="arena/messages",
    row="One message of a decision: part of its prompt, or an answer of the model.",
    columns=(
        Column("week", pl.Date(), "first day (Sunday) of the week; partition", UTC),
        Column("decision_id", TEXT, "cohort/family/week"),
        Column("number", pl.Int32(), "position of the message, from 1"),
        Column("role", TEXT, "system, user or assistant"),
        Column("content", TEXT, "text without credentials; untrusted"),
        Column("known_at", TIME, "when the row became known", UTC),
    ),
    key=("week", "decision_id", "number"),
    partitioned_by=("week",),
)

TABLES = (MESSAGES,)
