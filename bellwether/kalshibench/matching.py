"""Assignment of labels to the entries of a model.

KalshiBench's ids are series tickers, so an id alone does not identify a question: the data set keeps up to two questions of a series, and a sample
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
    """Labels of one model's entries, row by row: category, series, family, true, scored and ace_bin, null if unknown.

    question_set: question set of the labels; None if they come from another set, so that only certain ones apply to these entries.
    """

    rows: pl.DataFrame
    question_set: str | None


@dataclass(frozen=True, slots=True, eq=False)
class LabelMatch:
    """Labels of the entries in the order asked: category, series, true, scored and ace_bin. in_order: matched by position, not by id."""

    rows: pl.DataFrame
    in_order: bool


@dataclass(frozen=True, slots=True)
class _Label:
    category: str | None = None
    series: str | None = None
    true: str | None = None
    scored: str | None = None
    ace_bin: int | None = None


_SCHEMA = {"category": pl.String(), "series": pl.String(), "true": pl.String(), "scored": pl.String(), "ace_bin": pl.Int64()}


def build_empty_labels(asked: Sequence[str] | pl.Series) -> EntryLabels:
    """Build labels with unknown values; each id is its own series and family."""
    own = pl.Series("series", asked, dtype=pl.String)
    rows = pl.DataFrame([_Label()] * len(own), schema=_SCHEMA).with_columns(own, family=own)
    return EntryLabels(rows, None)


def match_labels(asked: Sequence[str], labels: pl.DataFrame, *, indexed: bool, named: bool) -> LabelMatch | None:
    """Match `labels` (one set, in order) to the entries `asked`; return None unless both certainly belong to the same question set.

    Any of these is sufficient: the ids are equal and in the same order; the file is `indexed` and each row's entry_index is an entry with its id;
    both have the same ids; the labels contain no other ids, and more than half of the ids asked; the labels name the model (`named`) and share
    an id; or the labels contain all ids asked and more, like the whole data set. Two samples share about half of their ids, so labels of another
    sample meet none of these conditions.
    """
    given = labels["question_id"].to_list()
    rows = [_Label(*row) for row in labels.select(*_SCHEMA).iter_rows()]
    if given == list(asked):
        return LabelMatch(_complete(asked, rows), True)
    places = labels["entry_index"].to_list()
    if indexed and all(0 <= place < len(asked) and asked[place] == question for place, question in zip(places, given, strict=True)):
        at = dict(zip(places, rows, strict=True))
        return LabelMatch(_complete(asked, [at.get(place, _Label()) for place in range(len(asked))]), True)
    ours, theirs = set(asked), set(given)
    pool = ours < theirs
    part = theirs < ours and 2 * len(theirs) > len(ours)
    if not (ours == theirs or pool or part or (named and ours & theirs)):
        return None
    return LabelMatch(_complete(asked, _by_id(asked, given, rows, ordered=not indexed and not pool)), False)


def borrow_labels(asked: Sequence[str], sets: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the labels of the entries `asked` that `sets` of other samples of the data set determine, as the rows of a `LabelMatch`.

    The data set keeps at most two questions of a series. If a sample contains both with the same outcome, every entry of the series has that
    outcome. One question alone determines nothing, because the entry may be the other question.
    """
    found: dict[str, list[_Label]] = defaultdict(list)
    for labels in sets:
        given = labels["question_id"].to_list()
        known = _complete(given, [_Label(*row) for row in labels.select(*_SCHEMA).iter_rows()])
        for question, both in _grouped(given, [_Label(*row) for row in known.iter_rows()]).items():
            if len(both) == PER_SERIES and not question.startswith(_NO_SERIES):
                found[question].append(_agreed(both))
    certain = {question: _agreed(labels) for question, labels in found.items()}
    rows = [_of_any_entry(certain.get(question, _Label())) for question in asked]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _of_any_entry(label: _Label) -> _Label:
    return replace(label, scored=label.true, ace_bin=None)


def _by_id(asked: Sequence[str], given: Sequence[str], rows: Sequence[_Label], *, ordered: bool) -> list[_Label]:
    """Match labels by id. ordered: labels of an id are in the order of its entries, and a single label belongs to the last, which scoring used."""
    of = _grouped(given, rows)
    entries = [_Label()] * len(asked)
    for question, places in _grouped(asked, range(len(asked))).items():
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
    """Return the label with the values on which all `labels` agree."""

    def common(values: set[str | None]) -> str | None:
        return next(iter(values)) if len(values) == 1 else None

    return _Label(
        category=common({one.category for one in labels}),
        series=common({one.series for one in labels}),
        true=common({one.true for one in labels}),
        scored=common({one.scored for one in labels}),
    )


def _complete(asked: Sequence[str], labels: Sequence[_Label]) -> pl.DataFrame:
    """Fill in implied outcomes: all entries of an id were scored with one outcome, the last entry's own."""
    entries = list(labels)
    for places in _grouped(asked, range(len(asked))).values():
        last = places[-1]
        given = [entries[place].scored for place in places if entries[place].scored is not None]
        scored = given[-1] if given else entries[last].true
        for place in places:
            entries[place] = replace(entries[place], scored=entries[place].scored or scored)
        entries[last] = replace(entries[last], true=entries[last].true or entries[last].scored)
    return pl.DataFrame(entries, schema=_SCHEMA)


def _grouped(keys: Iterable[str], values: Iterable[T]) -> Mapping[str, list[T]]:
    groups: dict[str, list[T]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups
