"""Notes on an examination's numbers for readers, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.kalshibench.recomputation import NO_LABELS, RecomputationStatus

#: Maximum of names that a sentence lists before it counts the others.
_LISTED = 12


def build_notes(examination: Examination) -> Iterator[str]:
    """Yield the notes of an examination, the most important first."""
    yield from _notes_on_numbers(examination)
    yield from _notes_on_ties(examination.models)
    yield from _notes_on_labels(examination)
    yield from (f"{sentence}." for sentence in [*examination.results.left_out, *examination.results.damaged])


def format_names(names: list[str]) -> str:
    """Join names for a sentence; a long list is shortened and ends with the number of names left out."""
    return ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED} more"


def _notes_on_numbers(examination: Examination) -> Iterator[str]:
    numbers = examination.numbers()
    counts = examination.counts().row(0, named=True)
    exactly = "up to rounding" if any(model.result.is_ours for model in examination.models) else "to the last bit"
    yield (
        f"{counts['equal']} of {counts['total']} published numbers come out equal {exactly}; {counts['differs']} differ, "
        f"{counts['ties']} depend on the sort of ties, {counts['not recomputed']} are not recomputed."
    )
    differing = numbers.filter(pl.col("status") == RecomputationStatus.DIFFERS)
    if differing.height:
        first = differing.row(0, named=True)
        yield (
            f"{differing.height} differ, first {first['metric']} of {first['model']}: {first['published']!r} published, "
            f"{first['recomputed']!r} recomputed ({first['source']})."
        )
    without = numbers.filter(pl.col("status") == RecomputationStatus.NOT_RECOMPUTED)
    for (needs,), rows in without.partition_by("needs", as_dict=True, maintain_order=True).items():
        first = rows.row(0, named=True)
        where = "" if rows["reason"].n_unique() == 1 else f" for lack of {needs}; first {first['metric']} of {first['model']}"
        yield f"{rows.height} are not recomputed{where}: {first['reason']}."


def _notes_on_ties(models: Sequence[ModelExamination]) -> Iterator[str]:
    varying = [model for model in models if model.recomputation.ace_varies and "ace" in model.result.published]
    if varying:
        equal = sum(model.recomputed["ace"] == model.result.published["ace"] for model in varying)
        yield (
            f"The published ACE of {format_names([model.name for model in varying])} depends on how the machine that computed it sorted tied forecasts; "
            f"with this machine's sort {equal} of {len(varying)} come out equal. Labels with a column ace_bin settle it; the corrected ACE "
            "averages over ties."
        )


def _notes_on_labels(examination: Examination) -> Iterator[str]:
    if examination.labels is None:
        yield f"Nothing is corrected: it {NO_LABELS}."
        return
    alike: dict[str, list[str]] = {}
    for model in examination.models:
        sentence = _note_on_label(model)
        if sentence is not None:
            alike.setdefault(sentence, []).append(model.name)
    yield from (f"{format_names(names)}: {sentence}." for sentence, names in alike.items())


def _note_on_label(model: ModelExamination) -> str | None:
    """Return a note on a model whose labels come from another question set or are missing; None if it has its own, or if no model has
    labels.
    """
    if model.borrowed:
        return (
            f"the labels are of another sample of questions. The outcome of {model.labelled} of {model.entries.height} entries is certain "
            "all the same, because that sample has both questions of their series, with one outcome; corrected scores are over these alone"
        )
    return None if model.unlabelled == NO_LABELS else model.unlabelled
