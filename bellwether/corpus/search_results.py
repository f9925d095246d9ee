"""Documents in the responses of search services, and their withholding by the rules of a corpus.

A service may be wrong about dates, or ignore the instant that it was given; so its results are checked like the documents of a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from bellwether.corpus.documents import LONGEST_TEXT, Document
from bellwether.corpus.index import Hit, extract_passage, find_visible_instant, split_terms
from bellwether.errors import ConfigError
from bellwether.formatting import replace_surrogates

#: Version of the reading: raise it with every change.
VERSION = "2"
#: A day has ended everywhere on Earth 36 hours after it began in UTC.
_WHOLE_DAY = timedelta(hours=36)


class SearchResults:
    """Documents that a search service returned, by query. Searched and opened like a `Corpus`."""

    def __init__(self) -> None:
        self._by_query: dict[str, list[Document]] = {}
        self._by_id: dict[str, Document] = {}

    def add(self, query: str, documents: Iterable[Document]) -> None:
        """Add the results of a search, in the order of the service."""
        self._by_query[query] = list(documents)
        self._by_id |= {document.id: document for document in self._by_query[query]}

    def search(self, query: str, as_of: datetime, limit: int = 10) -> list[Hit]:
        """Return the results of a search that are visible before `as_of`, in the order of the service."""
        terms = split_terms(query)
        found = (document for document in self._by_query.get(query, ()) if find_withholding(document, as_of) is None)
        return [to_hit(document, terms) for document, _ in zip(found, range(limit), strict=False)]

    def find(self, document_id: str, as_of: datetime) -> Document | None:
        """Return a result of any of the searches by its id; None if it is unknown or not visible before `as_of`."""
        found = self._by_id.get(document_id)
        return None if found is None or find_withholding(found, as_of) is not None else found


def find_withholding(document: Document, as_of: datetime) -> str | None:
    """Return why a document is withheld, as `Corpus.count_withheld` names it; None if it is visible before `as_of`."""
    visible = find_visible_instant(document)
    if visible is None or document.published_at is None:
        return "undated"
    if visible < as_of:
        return None
    if document.published_at >= as_of:
        return "later"
    return "revised" if document.revised_at is not None and document.revised_at >= as_of else "mentions"


def to_hit(document: Document, terms: Iterable[str]) -> Hit:
    """Return a visible document as the result of a search for some terms."""
    assert document.published_at is not None
    passage = extract_passage(document.text, terms)
    return Hit(document.id, document.title, document.url, document.published_at, 0.0, passage)


def read_results(service: str, body: bytes) -> list[Document]:
    """Return the documents in the body of a service's response, in its order. Results without an address are left out.

    Raises `ConfigError` for a response without a list of results.
    """
    try:
        results = json.loads(body.decode("utf-8", "replace"), strict=False)["results"]
        found = [result for result in results if isinstance(result, Mapping) and _clean(result.get("url"))]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ConfigError(f"reading a search with {service}: the response has no list of results; restore the journal") from None
    return [_READERS[service](result) for result in found]


def _read_exa(result: Mapping[str, Any]) -> Document:
    """Read a result of Exa. Without the time at which its copy was stored nothing proves its age, and it counts as undated."""
    stored = result.get("snapshotAt")
    return _build_document(result, result.get("text"), result.get("publishedDate") if stored else None, stored)


def _read_perplexity(result: Mapping[str, Any]) -> Document:
    return _build_document(result, result.get("snippet"), result.get("date"), result.get("last_updated"))


def _read_parallel(result: Mapping[str, Any]) -> Document:
    excerpts = result.get("excerpts")
    text = "\n\n".join(map(_clean, excerpts)) if isinstance(excerpts, list) else ""
    return _build_document(result, text, result.get("publish_date"), None)


_READERS = {"exa": _read_exa, "perplexity": _read_perplexity, "parallel": _read_parallel}


def _build_document(result: Mapping[str, Any], text: Any, published: Any, revised: Any) -> Document:
    """Build a document from a result. A day of publication counts as a revision at its end; a document with an unreadable date as undated."""
    url = _clean(result["url"])
    first, last = _read_time(published), _read_time(revised)
    is_dated = first is not None and (last is not None or revised is None)
    return Document(
        id=hashlib.sha256(url.encode()).hexdigest()[:16],
        url=url[:4_000],
        title=_clean(result.get("title")),
        text=_clean(text)[:LONGEST_TEXT],
        published_at=first[0] if first is not None and is_dated else None,
        revised_at=max((span[1] for span in (first, last) if span is not None), default=None),
    )


def _clean(value: Any) -> str:
    """Return a text without lone surrogates; "" for another value."""
    return replace_surrogates(value) if isinstance(value, str) else ""


def _read_time(value: Any) -> tuple[datetime, datetime] | None:
    """Return the first and last instant (UTC) that a date or time may mean; None if it cannot be read.

    A time at midnight or without an offset is known only to its day, in an unknown time zone.
    """
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        if moment.tzinfo is not None and moment.time() != time():
            return (moment.astimezone(UTC),) * 2
        begins = datetime.combine(moment.date(), time(), UTC)
        return begins, begins + _WHOLE_DAY
    except (ValueError, OverflowError):
        return None
