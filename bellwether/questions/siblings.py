"""Siblings: pairs of questions whose texts ask about the same, so that each outcome tells something about the other.

Texts are similar by TF-IDF over their words and over n-grams of characters. Names, numbers and dates decide whether similar texts have one subject:
questions from a template, such as the same statistic of two countries, do not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import sparse

from bellwether.questions.question_text import QuestionText, read_question

#: Minimum similarity of texts that are compared at all, and of siblings: with a common name and a common word besides, with two common names alone,
#: with fewer, and with other numbers or deadlines.
_COMPARED, _SIMILAR, _NO_COMMON_WORD, _NO_COMMON_NAMES, _OTHER_THRESHOLD = 0.38, 0.38, 0.5, 0.6, 0.55
#: Minimum weight of the words of a question that a bundle contains, as a share.
_CONTAINED = 0.8
#: Maximum weight, relative to the common names, of names that both questions have alone.
_NAMES_OF_BOTH = 0.4
#: Maximum weights relative to all that is common: of further words that both have alone, and of names that only one has, if the other has further
#: words and if it has none.
_WORDS_OF_BOTH, _NAMES_OF_ONE, _NAMES_ADDED = 1.3, 0.6, 3
#: Similarity from which texts differ by a few words alone, and the maximum weight of these, with and without a common name.
_NEARLY_SAME, _OTHER_WORD, _OTHER_WORD_ALONE = 0.75, 9, 7
#: Number of similar texts from which a question is of a template.
_TEMPLATE = 4
#: Number of texts that are compared with all others at once.
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class Siblings:
    """Two questions by their index, first < second.

    relation: paraphrase, negation (one asks for the opposite), threshold (they differ in a number or deadline) or bundle (one contains the other).
    similarity: of their texts, 0 to 1.
    """

    first: int
    second: int
    relation: str
    similarity: float


def find_siblings(questions: pl.DataFrame) -> list[Siblings]:
    """Find the siblings among the questions of a release. questions: rows of benchmark/questions, whose index the result states.

    Questions of one event are left out: they are siblings whatever their texts. So are those of one series without a date, which ask the same at
    another time.
    """
    texts = [read_question(text, closes) for text, closes in questions.select("question", "close_time").iter_rows()]
    weights = WordWeights.of(texts)
    keys = questions.select("source", "event_id", "series_ticker", "close_time").rows()
    similar = list(_compare(texts))
    counts = Counter(index for first, second, _ in similar for index in (first, second))
    found = []
    for first, second, similarity in similar:
        (source, event, series, closes), (other_source, other_event, other_series, other_closes) = keys[first], keys[second]
        is_undated = not texts[first].dates and not texts[second].dates
        if source == other_source and (event == other_event or (series == other_series and is_undated and closes != other_closes)):
            continue
        is_template = min(counts[first], counts[second]) >= _TEMPLATE
        relation = _relate(texts[first], texts[second], weights, similarity, is_template=is_template)
        if relation is not None:
            found.append(Siblings(first, second, relation, similarity))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class WordWeights:
    """Inverse document frequencies of words among some texts. unknown: weight of a word in none of them."""

    weights: dict[str, float]
    unknown: float

    @classmethod
    def of(cls, texts: Sequence[QuestionText]) -> WordWeights:
        """Count the words of texts."""
        counts = Counter(word for text in texts for word in set(text.words))
        return cls({word: _weigh(count, len(texts)) for word, count in counts.items()}, _weigh(1, len(texts)))

    def total(self, words: Collection[str]) -> float:
        """Return the sum of the weights of distinct words."""
        return math.fsum(self.weights.get(word, self.unknown) for word in set(words))

    def total_of_names(self, names: Collection[frozenset[str]]) -> float:
        """Return the sum of the weights of names, each that of its rarest word."""
        return math.fsum(max(self.weights.get(word, self.unknown) for word in name) for name in names)


def _weigh(count: int, total: int) -> float:
    return math.log((1 + total) / (1 + count)) + 1


def _compare(texts: Sequence[QuestionText]) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of similar texts in order with their similarity: the mean cosine of words and of n-grams of characters."""
    vectors = [_vectorize(texts, list), _vectorize(texts, _grams)]
    for start in range(0, len(texts), _BLOCK):
        block = np.mean([(matrix[start : start + _BLOCK] @ matrix.T).toarray() for matrix in vectors], axis=0)
        for row, second in np.argwhere(block >= _COMPARED).tolist():
            if start + row < second:
                yield start + row, second, round(float(block[row, second]), 4)


def _vectorize(texts: Sequence[QuestionText], split: Callable[[Sequence[str]], list[str]]) -> sparse.csr_array:
    """Return the TF-IDF vectors of texts as rows of unit length. split: returns the features of words."""
    counted = [Counter(split(text.words)) for text in texts]
    frequencies = Counter(feature for counts in counted for feature in counts)
    column_of = {feature: column for column, feature in enumerate(frequencies)}
    values: list[float] = []
    columns: list[int] = []
    starts = [0]
    for counts in counted:
        weights = [(1 + math.log(count)) * _weigh(frequencies[feature], len(texts)) for feature, count in counts.items()]
        length = math.hypot(*weights)
        values += [weight / length for weight in weights]
        columns += [column_of[feature] for feature in counts]
        starts.append(len(columns))
    return sparse.csr_array(
        (np.array(values), np.array(columns, dtype=np.int64), np.array(starts)), shape=(len(texts), max(len(column_of), 1))
    )


def _grams(words: Sequence[str]) -> list[str]:
    """Return the n-grams of three and four characters of words with their borders."""
    return [f" {word} "[start : start + size] for word in words for size in (3, 4) for start in range(len(word) + 3 - size)]


def _relate(first: QuestionText, second: QuestionText, weights: WordWeights, similarity: float, *, is_template: bool) -> str | None:
    """Return the relation of two texts; None if they are no siblings. is_template: the words outside of names are those of many questions."""
    matched, alone = zip(first.split_names(second), second.split_names(first), strict=True)
    common = max(weights.total_of_names([name for name in names if not _is_count(name)]) for names in matched)
    names = [weights.total_of_names(set(side) - {own.opening}) for side, own in zip(alone, (first, second), strict=True)]
    words = [weights.total(own.predicate - frozenset(other.words)) for own, other in ((first, second), (second, first))]
    has_other_names = min(weights.total_of_names(side) for side in alone) > _NAMES_OF_BOTH * common
    has_other_word = similarity >= _NEARLY_SAME and min(words) > (_OTHER_WORD if common else _OTHER_WORD_ALONE)
    if has_other_names or has_other_word:
        return None
    needed = _NO_COMMON_WORD if max(map(len, matched)) > 1 else _NO_COMMON_NAMES
    if common and _shares_predicate(first, second):
        needed = _SIMILAR
    if not is_template:
        common += weights.total(first.predicate & second.predicate)
    if common and min(words) > _WORDS_OF_BOTH * common:
        return None
    if not first.agrees_in_date(second) or not first.agrees_in_numbers(second):
        is_nested = first.agrees_in_date(second) or (first.has_one_deadline and second.has_one_deadline)
        return "threshold" if is_nested and similarity >= max(needed, _OTHER_THRESHOLD) and _adds_little(names, words, common) else None
    if max(names) and _contains(first, second, weights):
        return "bundle"
    if similarity < needed or not (first.joins != second.joins or _adds_little(names, words, common)):
        return None
    return "paraphrase" if first.is_negative == second.is_negative else "negation"


def _is_count(name: frozenset[str]) -> bool:
    """Return True for names such as `30-day`, which say little about the subject."""
    return any(word[0].isdigit() for word in name)


def _shares_predicate(first: QuestionText, second: QuestionText) -> bool:
    return not first.predicate or not second.predicate or bool(first.predicate & second.predicate)


def _contains(first: QuestionText, second: QuestionText, weights: WordWeights) -> bool:
    """Return True if one of two questions joins several and has the words of the other."""
    part, whole = sorted((first, second), key=lambda text: len(text.words))
    contained = weights.total(set(part.words) & set(whole.words))
    return whole.joins and not part.joins and contained >= _CONTAINED * weights.total(part.words)


def _adds_little(names: Sequence[float], words: Sequence[float], common: float) -> bool:
    """Return False if one question has many names that the other lacks, such as a team where the other asks about any team.

    names, words: weights of the names and further words that each question has alone. common: weight of all that both have.
    """
    if max(names) <= _NAMES_OF_ONE * common:
        return True
    bare = 0 if names[0] < names[1] else 1
    return max(names) <= _NAMES_ADDED * common and not words[bare]
