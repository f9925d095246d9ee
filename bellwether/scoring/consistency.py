"""What several rows on one question must agree on."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from bellwether.scoring.columns import option
from bellwether.scoring.sheet import Part
from bellwether.scoring.values import refuse


def check_duplicates(frame: pl.DataFrame, parts: Sequence[Part]) -> None:
    """Raise `ScoringError` where a forecaster has two rows on a question."""
    again = frame.filter(~pl.struct("forecaster", "question").is_first_distinct())
    if again.is_empty():
        return
    row = again.row(0, named=True)
    same = (pl.col("forecaster") == row["forecaster"]) & (pl.col("question") == row["question"])
    before = frame.filter(same).row(0, named=True)
    part, other = parts[row["file"]], parts[before["file"]]
    column, *_ = part.columns.question
    apart = _tells_apart(part, other, row["row"], before["row"])
    also = "".join(f" {option('question', name)}" for name in (*part.columns.question, apart)) if apart else ""
    advice = f", or give{also}, because {apart!r} tells them apart" if apart else ""
    refuse(
        part.table,
        row["row"],
        column,
        f"{row['question']!r} has a forecast of {row['forecaster']!r} before, in {_place(other, before['row'], part)}; keep one row{advice}",
    )


def check_questions(frame: pl.DataFrame, parts: Sequence[Part]) -> None:
    """Raise `ScoringError` where rows on one question differ in its outcome, its weight or its clusters."""
    names = ["outcome", "weight", *(name for name in frame.columns if name.startswith("cluster_"))]
    firsts = frame.unique("question", keep="first", maintain_order=True).select(
        "question", *(pl.col(name).alias(f"first_{name}") for name in (*names, "file", "row"))
    )
    if firsts.height == frame.height:
        return
    whole = frame.join(firsts, on="question", how="left", maintain_order="left")
    for name in names:
        differing = whole.filter(pl.col(name) != pl.col(f"first_{name}"))
        if differing.is_empty():
            continue
        row = differing.row(0, named=True)
        part, other = parts[row["file"]], parts[row["first_file"]]
        column = _column(part, name)
        refuse(
            part.table,
            row["row"],
            column,
            f"{_text(row[name])} on question {row['question']!r}, but {_place(other, row['first_row'], part)} has {_text(row[f'first_{name}'])}; "
            "correct one, or check that the question is named in full (--question)",
        )


def _column(part: Part, name: str) -> str:
    if name.startswith("cluster_"):
        return part.columns.cluster[int(name.removeprefix("cluster_"))]
    return str(part.columns.outcome if name == "outcome" else part.columns.weight)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _place(part: Part, row: int, here: Part) -> str:
    place = part.table.place(row)
    return place if part is here else f"{part.table.source}, {place}"


def _tells_apart(part: Part, other: Part, row: int, before: int) -> str | None:
    """A column, of none but text or dates, in which two rows of one table differ."""
    if part is not other:
        return None
    used = {column for columns in part.columns.used().values() for column in columns}
    for name, dtype in part.table.frame.schema.items():
        values = part.table.frame[name]
        if name not in used and not dtype.is_float() and values[row] is not None and values[row] != values[before]:
            return name
    return None
