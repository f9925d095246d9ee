"""Interpretation of published predictions: the number that a model stated, and the probability of yes that agrees with its answer.

The prompt of KalshiBench asks for the confidence that the answer is yes; its parser takes the number as confidence in the given answer. A "no"
with a number below 50 followed the prompt, but the parser inverted its probability. The answer-consistent reading takes each number in the
sense that agrees with its answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from bellwether.forecasting.parsing import compat, published

FLAGS = ("inverted", "unflipped", "yes_below_half", "certain", "misread")

#: Two readings of the same number may differ by the last bits of `1 - c / 100`.
_SAME = 1e-12


def interpret_entries(predictions: pl.DataFrame, *, ambiguous: bool = True) -> pl.DataFrame:
    """Add interpretations and flags of scoring defects to a model's `predictions` (one row per entry).

    Adds stated (the number / 100, null without an answer), path (how the published rules find the answer; null without a raw response),
    p_consistent (answer-consistent probability of yes), and flags of defects: inverted (a "no" with a number below 50, which was inverted),
    unflipped (a "no" found without a tag, whose number was not subtracted from 1), yes_below_half ("yes" with a number below 50), certain
    (exactly 1, in no published bin) and misread (the published rules read the raw response differently from the stored values).
    ambiguous: False if the prompt has only one meaning; the stored probability is then used unchanged.
    """
    if not ambiguous:
        unread = {"stated": pl.lit(None, pl.Float64), "path": pl.lit(None, pl.String)}
        return predictions.with_columns(p_consistent="p_yes", **unread, **dict.fromkeys(FLAGS, pl.lit(False)))
    read = [None if text is None else compat.read(text) for text in predictions["raw_output"]]
    columns = {"path": "path", "read_answer": "answer", "read_stated": "confidence", "read_p": "p_yes"}
    parsed = pl.DataFrame(
        {column: [reading and getattr(reading, field) for reading in read] for column, field in columns.items()},
        schema={"path": pl.String(), "read_answer": pl.String(), "read_stated": pl.Float64(), "read_p": pl.Float64()},
    )
    answer, p_yes, stored = pl.col("predicted_answer"), pl.col("p_yes"), pl.col("predicted_answer").is_not_null()
    same_p = ~stored | ((p_yes - pl.col("read_p")).abs() <= _SAME)
    agrees = pl.col("path").is_not_null() & answer.eq_missing(pl.col("read_answer")) & same_p
    from_stored = pl.when(answer == "no").then(1 - p_yes).otherwise(p_yes)
    rows = (
        pl.concat([predictions, parsed], how="horizontal")
        .with_columns(agrees=agrees.fill_null(False))
        .with_columns(stated=pl.when(stored).then(pl.when("agrees").then("read_stated").otherwise(from_stored)))
    )
    no, yes, stated = answer == "no", answer == "yes", pl.col("stated")
    flags = {
        "inverted": no & (stated < 0.5) & ((p_yes - (1 - stated)).abs() <= _SAME),
        "unflipped": no & (stated != 0.5) & ((p_yes - stated).abs() <= _SAME),
        "yes_below_half": yes & (stated < 0.5),
        "certain": p_yes == 1,
        "misread": pl.col("path").is_not_null() & ~pl.col("agrees"),
    }
    return rows.with_columns(_consistent(rows), **{name: flag.fill_null(False) for name, flag in flags.items()}).drop(
        "read_answer", "read_stated", "read_p", "agrees"
    )


def _consistent(rows: pl.DataFrame) -> pl.Series:
    pairs = zip(rows["predicted_answer"], rows["stated"], strict=True)
    # the number as it was written: c / 100 * 100 is not always c
    read = [published.answer_consistent(answer, None if stated is None else round(100 * stated, 9)) for answer, stated in pairs]
    return pl.Series("p_consistent", read, dtype=pl.Float64)


@dataclass(frozen=True, slots=True)
class DefectCounts:
    """Counts of the defects in the published scoring of one model. A count that needs labels is None without labels.

    unparsed: entries without an answer, left out of every metric. fallback: answers found without a tag.
    inverted, unflipped, yes_below_half, certain, misread: entries with these flags of `interpret_entries`.
    shared_ids: ids of several entries. overwritten: entries scored with another entry's outcome. wrong_labels: overwritten entries whose own
    outcome is known to differ. unknown_labels: entries whose own outcome is unknown.
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


def count_defects(entries: pl.DataFrame, *, labelled: bool) -> DefectCounts:
    """Count the defects in entries with the columns of `interpret_entries`, true (own outcome) and scored (outcome that scoring used).
    labelled: True if any entry has a label.
    """
    answered = entries["predicted_answer"].count()
    fallback = entries.filter(pl.col("predicted_answer").is_not_null() & (pl.col("path") != compat.PATHS[0]).fill_null(False)).height
    last = entries["question_id"].is_last_distinct()
    own = entries.filter(~last & pl.col("true").is_not_null() & pl.col("scored").is_not_null())
    flags = {name: int(entries[name].sum()) for name in FLAGS}
    return DefectCounts(
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
