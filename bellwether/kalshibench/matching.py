"""Assignment of labels (outcomes) to the entries (predictions) of a model.

KalshiBench's ids are series tickers. An id alone does not identify a question: the data set keeps up to two questions of a series, and a sample
may contain one or both. The published scoring looked outcomes up by id, so that the outcome of an id's last entry was used for all its entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

T = TypeVar("T")

#: Questions of one series that the data set keeps at most.
PER_SERIES = 2

#: Beginning of the ids of questions without a series, of which the data set keeps any number.
_NO_SERIES = "kalshi_"


@dataclass(frozen=True, slots=True, eq=False)
class EntryLabels:
    """Labels of one model's entries (predictions), a row each: category, series, family, true (own outcome), scored (outcome that scoring
    used) and ace_bin; null if unknown.

    question_set: question set of the labels; None if they come from another set, so that only certain ones apply to these entries.
    """

    rows: pl.DataFrame
    question_set: str | None


@dataclass(frozen=True, slots=True, eq=False)
class LabelMatch:
    """Labels in the order of a model's entries: category, series, true, scored, ace_bin. in_order: True if they were matched by position,
    False if by id.
    """

    rows: pl.DataFrame
    in_order: bool


@dataclass(frozen=True, slots=True)
class _Label:
    """Label of one entry, with the columns of `LabelMatch`; None if unknown."""

    category: str | None = None
    series: str | None = None
    true: str | None = None
    scored: str | None = None
    ace_bin: int | None = None


_SCHEMA = {"category": pl.String(), "series": pl.String(), "true": pl.String(), "scored": pl.String(), "ace_bin": pl.Int64()}


def build_empty_labels(questions: Sequence[str] | pl.Series) -> EntryLabels:
    """Build labels without outcomes, one for each question id. Each id counts as its own series and family."""
    own = pl.Series("series", questions, dtype=pl.String)
    rows = pl.DataFrame([_Label()] * len(own), schema=_SCHEMA).with_columns(own, family=own)
    return EntryLabels(rows, None)


def match_labels(questions: Sequence[str], labels: pl.DataFrame, *, indexed: bool, named: bool) -> LabelMatch | None:
    """Match the labels of a question set to a model's entries. Returns None unless labels and entries certainly belong to the same question
    set.

    questions: ids of the entries' questions. Any of these is sufficient: the ids are equal and in the same order; the file is `indexed` and each
    row's entry_index is an entry with its id; both have the same ids; the labels have more than half of the entries' ids and no others; the labels
    name the model (`named`) and share an id; or the labels have all ids of the entries and more, like the whole data set. Two samples share about
    half of their ids, so labels of another sample meet none of these conditions.
    """
    labelled = labels["question_id"].to_list()
    rows = [_Label(*row) for row in labels.select(*_SCHEMA).iter_rows()]
    if labelled == list(questions):
        return LabelMatch(_complete(questions, rows), True)
    places = labels["entry_index"].to_list()
    if indexed and all(
        0 <= place < len(questions) and questions[place] == question for place, question in zip(places, labelled, strict=True)
    ):
        at = dict(zip(places, rows, strict=True))
        return LabelMatch(_complete(questions, [at.get(place, _Label()) for place in range(len(questions))]), True)
    ours, theirs = set(questions), set(labelled)
    pool = ours < theirs
    part = theirs < ours and 2 * len(theirs) > len(ours)
    if not (ours == theirs or pool or part or (named and ours & theirs)):
        return None
    return LabelMatch(_complete(questions, _by_id(questions, labelled, rows, ordered=not indexed and not pool)), False)


def borrow_labels(questions: Sequence[str], sets: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the labels that other question sets determine with certainty, with the columns of `LabelMatch.rows`.

    questions: ids of the entries' questions. sets: labels of other samples of the data set, which keeps at most two questions of a series. If a
    sample contains both with the same outcome, every entry of the series has that outcome. One question alone determines nothing, because the
    entry may be the other question.
    """
    agreed: dict[str, list[_Label]] = defaultdict(list)
    for labels in sets:
        labelled = labels["question_id"].to_list()
        complete = _complete(labelled, [_Label(*row) for row in labels.select(*_SCHEMA).iter_rows()])
        for question, both in _grouped(labelled, [_Label(*row) for row in complete.iter_rows()]).items():
            if len(both) == PER_SERIES and not question.startswith(_NO_SERIES):
                agreed[question].append(_agreed(both))
    certain = {question: _agreed(labels) for question, labels in agreed.items()}
    rows = [certain.get(question, _Label()) for question in questions]
    return pl.DataFrame([replace(label, scored=label.true, ace_bin=None) for label in rows], schema=_SCHEMA)


def _by_id(questions: Sequence[str], labelled: Sequence[str], rows: Sequence[_Label], *, ordered: bool) -> list[_Label]:
    """Match labels to entries by id. ordered: several labels of an id are in the order of its entries, and a single label belongs to its
    last entry, which scoring used.
    """
    of = _grouped(labelled, rows)
    entries = [_Label()] * len(questions)
    for question, places in _grouped(questions, range(len(questions))).items():
        labels = of.get(question, [])
        if len(labels) == len(places) and (ordered or len(labels) == 1):
            for place, label in zip(places, labels, strict=True):
                entries[place] = replace(label, ace_bin=None)
        elif len(labels) == 1 and ordered:
            entries[places[-1]] = replace(labels[0], ace_bin=None)
        elif labels:
            agreed = _agreed(labels)
            every = len(labels) >= len(places)
            for place in places:
                entries[place] = agreed if every else _Label(series=agreed.series, scored=agreed.scored)
    return entries


def _agreed(labels: Sequence[_Label]) -> _Label:
    """Return a label with the values on which all `labels` agree."""
    values = {name: {getattr(label, name) for label in labels} for name in ("category", "series", "true", "scored")}
    return _Label(**{name: next(iter(found)) for name, found in values.items() if len(found) == 1})


def _complete(questions: Sequence[str], labels: Sequence[_Label]) -> pl.DataFrame:
    """Fill in the outcomes that follow from the published scoring, which used the outcome of an id's last entry for all entries with this
    id.
    """
    entries = list(labels)
    for places in _grouped(questions, range(len(questions))).values():
        last = places[-1]
        stated = [entries[place].scored for place in places if entries[place].scored is not None]
        scored = stated[-1] if stated else entries[last].true
        for place in places:
            entries[place] = replace(entries[place], scored=entries[place].scored or scored)
        entries[last] = replace(entries[last], true=entries[last].true or entries[last].scored)
    return pl.DataFrame(entries, schema=_SCHEMA)


def _grouped(keys: Iterable[str], values: Iterable[T]) -> Mapping[str, list[T]]:
    groups: dict[str, list[T]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups
