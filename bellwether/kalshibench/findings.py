"""Counts of what the published scoring did to the entries of one model."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from bellwether.forecasting.parsing import compat

#: How the published rules name the path of an answer that has its tag.
_BY_TAG = compat.PATHS[0]


@dataclass(frozen=True, slots=True)
class Findings:
    """Counts of what the published scoring did to one model's entries; None where labels would be needed.

    unparsed: without an answer, left out of every metric. fallback: answers found without a tag.
    inverted: "no" with a number below 50, turned round. unflipped: "no" without a tag, its number not turned. yes_below_half: "yes" with a
    number below 50. certain: exactly 1, in no bin. misread: the published rules read the raw response otherwise than the file says.
    shared_ids: ids of several entries. overwritten: entries scored with another entry's outcome. wrong_labels: of those, the ones whose own
    outcome is known to differ. unknown_labels: entries without a known outcome of their own.
    """

    entries: int
    answered: int
    unparsed: int
    no_answers: int
    fallback: int
    inverted: int
    unflipped: int
    yes_below_half: int
    certain: int
    misread: int
    shared_ids: int
    overwritten: int
    wrong_labels: int | None
    unknown_labels: int | None


def find(entries: pl.DataFrame, *, labelled: bool) -> Findings:
    """Count them in `entries` with their readings and the labels true and scored; `labelled` where any entry has one."""
    answered = entries["predicted_answer"].count()
    fallback = entries.filter(pl.col("predicted_answer").is_not_null() & (pl.col("path") != _BY_TAG).fill_null(False)).height
    last = entries["question_id"].is_last_distinct()
    own = entries.filter(~last & pl.col("true").is_not_null() & pl.col("scored").is_not_null())
    flags = {name: int(entries[name].sum()) for name in ("inverted", "unflipped", "yes_below_half", "certain", "misread")}
    return Findings(
        entries=entries.height,
        answered=answered,
        unparsed=entries.height - answered,
        no_answers=int((entries["predicted_answer"] == "no").sum()),
        fallback=fallback,
        shared_ids=entries.filter(pl.col("question_id").is_duplicated())["question_id"].n_unique(),
        overwritten=entries.height - int(last.sum()),
        wrong_labels=int((own["true"] != own["scored"]).sum()) if labelled else None,
        unknown_labels=entries["true"].null_count() if labelled else None,
        **flags,
    )
