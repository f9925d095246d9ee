"""Leaks of a release: questions that reveal each other's outcomes, and documents that state an outcome before its forecast."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.corpus import Corpus
from bellwether.corpus.documents import Document
from bellwether.forecasting import forecasters
from bellwether.forecasting.language_model import LanguageModel
from bellwether.forecasting.tools import open_sources
from bellwether.journal.journal import Journal
from bellwether.models.model import Model
from bellwether.questions.question_text import QuestionText, read_question
from bellwether.questions.siblings import WordWeights, find_siblings
from bellwether.questions.stored_searches import StoredSearches
from bellwether.settings import settings
from bellwether.tables.benchmark import LEAKS

#: Version of the rules: raise it with every change of a row.
RULES = "leaks/3"
#: Documents per question that are read, and characters of the evidence.
MOST_DOCUMENTS, EVIDENCE = 20, 300
#: Minimum weight of the words of a question in a sentence and its title, as a share.
_COVERED = 0.6
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
#: Statements of an outcome as yes or no, which stand beside the question itself.
_STATED = re.compile(
    r"\b(?:answer|outcome|result|verdict)\s+(?:was|is)\s+(?:a\s+|clearly\s+)?(yes|no)\b|\bafter the (yes|no)\b"
    r"|\b(?:resolved|settled|decided|determined|paid out)\b.{0,30}\b(yes|no)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:won|lost|beat|defeated|clinched|finished|ended|closed|settled|resolved|passed|failed|approved|rejected|signed|vetoed|announced|confirmed|"
    r"elected|reelected|named|chosen|appointed|reached|hit|fell|rose|climbed|dropped|exceeded|surpassed|topped|missed|resigned|quit|stepped down|"
    r"released|launched|published|died|qualified|relegated|eliminated|convicted|acquitted|sentenced|raised|cut|held|left|became|struck|invaded)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:will|would|may|might|could|can|should|if|whether|unless|chances?|likely|unlikely|odds|expect\w*|forecast\w*|predict\w*|projected|polls?|"
    r"ahead of|before|until|preview|hopes?|plans?|aims?|yet to|not yet|scheduled)\b|\?",
    re.IGNORECASE,
)


@contextmanager
def open_corpora(names: Iterable[str], path: Path | None = None) -> Iterator[dict[str, Corpus | StoredSearches]]:
    """Open the corpora that some forecasters search and the results of their search services, by name, or instead the corpus of a file.

    names: of the forecasters.

    Raises `ConfigError` for a missing or invalid corpus.
    """
    with ExitStack() as stack:
        if path is not None:
            yield {path.name: stack.enter_context(Corpus.open(path, settings().cache_path / "corpora"))}
            return
        models = _find_models(names)
        corpora: dict[str, Corpus | StoredSearches] = {}
        for name, model in {model.corpus: model for model in models}.items():
            documents = None if name is None else stack.enter_context(open_sources(model)).documents
            if name is not None and isinstance(documents, Corpus):
                corpora[name] = documents
        corpora |= stack.enter_context(open_searches(names))
        yield corpora


@contextmanager
def open_searches(names: Iterable[str]) -> Iterator[dict[str, StoredSearches]]:
    """Open the stored results of the search services that some forecasters use, by service. names: of the forecasters."""
    services = {model.search_service for model in _find_models(names) if model.search_service is not None}
    with Journal.of(settings()) as journal:
        yield {service: StoredSearches(journal, service) for service in sorted(services)}


def _find_models(names: Iterable[str]) -> list[Model]:
    """Return the registered models among some forecasters, in the order of their names."""
    registered = forecasters()
    entries = (registered.get(name) for name in sorted(names))
    return [entry.model for entry in entries if isinstance(entry, LanguageModel)]


def find_leaks(
    questions: pl.DataFrame, instants: Mapping[str, Sequence[datetime]], corpora: Mapping[str, Corpus | StoredSearches]
) -> pl.DataFrame:
    """Find the leaks of a release: rows of benchmark/leaks.

    Args:
        questions: rows of one release in benchmark/questions.
        instants: times of the forecasts of each question, the latest last. Other questions are not searched for in documents.
        corpora: from `open_corpora`.
    """
    rows = [*_find_events(questions), *_find_siblings(questions), *_find_documents(questions, instants, corpora)]
    stamp = {"release": questions["release"].first(), "known_at": questions["known_at"].max(), "rules": RULES}
    return LEAKS.validate(LEAKS.frame([stamp | row for row in rows]).sort(LEAKS.order))


def _find_events(questions: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a row for each question whose event has others in the release."""
    shared = questions.filter(pl.len().over("source", "event_id") > 1, pl.col("event_id") != pl.col("market_id"))
    for question, source, event in shared.select("id", "source", "event_id").iter_rows():
        yield {"question_id": question, "kind": "event", "source": source, "other": event, "similarity": 1.0}


def _find_siblings(questions: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield two rows for each pair of siblings, one for each question."""
    texts = questions.select("id", "source", "question").rows()
    for found in find_siblings(questions):
        for own, other in ((found.first, found.second), (found.second, found.first)):
            yield {
                "question_id": texts[own][0],
                "kind": found.relation,
                "source": texts[other][1],
                "other": texts[other][0],
                "similarity": found.similarity,
                "evidence": texts[other][2][:EVIDENCE],
            }


def _find_documents(
    questions: pl.DataFrame, instants: Mapping[str, Sequence[datetime]], corpora: Mapping[str, Corpus | StoredSearches]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each document that states the outcome and was visible before a question's latest forecast, or returned for any of them."""
    if not corpora:
        return
    columns = questions.select("id", "question", "open_time", "close_time", "ground_truth").rows()
    texts = [read_question(text, closes) for _, text, _, closes, _ in columns]
    weights = WordWeights.of(texts)
    for (question, text, opens, closes, outcome), parts in zip(columns, texts, strict=True):
        for name, corpus in corpora.items() if question in instants else ():
            for document in _read_best(corpus, text, instants[question]):
                if document.published_at is None or (opens is not None and document.published_at < opens):
                    continue
                found = find_statement(document, parts, closes, outcome, weights)
                if found is not None:
                    sentence, share = found
                    other = document.id if isinstance(corpus, Corpus) else document.url
                    row = {"question_id": question, "kind": "document", "source": name, "other": other, "similarity": share}
                    yield row | {"evidence": sentence[:EVIDENCE], "published_at": document.published_at}


def _read_best(corpus: Corpus | StoredSearches, text: str, instants: Sequence[datetime]) -> list[Document]:
    """Return the documents that fit a text best: of a corpus before the last of the instants, of a service those returned at any of them."""
    found: dict[str, Document | None] = {}
    for instant in instants[-1:] if isinstance(corpus, Corpus) else instants:
        found |= {hit.id: corpus.find(hit.id, instant) for hit in corpus.search(text, instant, MOST_DOCUMENTS)}
    return [document for document in found.values() if document is not None]


def find_statement(
    document: Document, question: QuestionText, closes: datetime, outcome: str, weights: WordWeights
) -> tuple[str, float] | None:
    """Return the first sentence of a document that states the outcome of a question, with the share of the question's words in it and the title.

    The sentence speaks of the past and not of a chance or the future, unless it states yes or no. With the title it has the names of the question, and
    its dates and numbers do not differ; next to yes or no there are no other numbers. None without such a sentence. A document that has the question
    itself and states the opposite of `outcome` is about another event.
    """
    for sentence in (document.title, *_SENTENCE_END.split(document.text)):
        stated = _STATED.search(sentence)
        if stated is None and (not _PAST.search(sentence) or _OPEN.search(sentence)):
            continue
        found = read_question(f"{document.title} . {sentence}", closes)
        if stated is not None and stated[stated.lastindex or 0].lower() != outcome and _is_quoted(question, found):
            continue
        known, missing = question.split_names(found)
        share = weights.total(set(question.words) & set(found.words)) / (weights.total(question.words) or 1.0)
        has_numbers = question.numbers <= found.numbers if stated is None else question.numbers == found.numbers
        if (
            question.agrees_in_date(found)
            and has_numbers
            and share >= _COVERED
            and weights.total_of_names(missing) <= 0.5 * weights.total_of_names(known)
        ):
            return sentence, round(share, 4)
    return None


def _is_quoted(question: QuestionText, text: QuestionText) -> bool:
    """Return True if a text has all words of a question next to each other in their order."""
    return f" {' '.join(question.words)} " in f" {' '.join(text.words)} "
