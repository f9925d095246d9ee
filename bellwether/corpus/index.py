"""Index of a corpus in one SQLite file, and the search in it as of an instant.

Documents are numbered by the instant from which they may be seen, so those that are visible at T are the numbers from 1 to N. A search reads no
other number: its candidates, statistics and order are the same in a corpus from which all later documents were removed. FTS5 only finds
candidates; its own ranking uses statistics of the whole table and is not used.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from bellwether.corpus.dates import find_last_past_date
from bellwether.corpus.documents import Document, read_documents
from bellwether.errors import ConfigError
from bellwether.files import atomic_file

#: Version of the index and of the ranking: raise it with every change of either.
VERSION = "3"
#: Maximum terms of a query, latest candidates of a term, candidates whose texts are compared, and characters of an excerpt.
MOST_TERMS, MOST_CANDIDATES, MOST_COMPARED, EXCERPT = 12, 1000, 30, 300
#: Parameters of BM25 (Robertson and Zaragoza 2009). The average length is fixed, because that of the corpus would be a statistic of it.
_K, _B, _AVERAGE_WORDS, _TITLE_WEIGHT = 1.2, 0.75, 500, 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be been but by did do does for from had has have he her his how if in into is it its of on or our she so that the "
        "their them then there these they this to was we were what when where which who will with would you your"
    )
)
_SCHEMA = """
CREATE TABLE documents (
  row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, url TEXT, title TEXT NOT NULL, text TEXT NOT NULL,
  published INTEGER, revised INTEGER, visible INTEGER
);
CREATE TABLE visible (number INTEGER PRIMARY KEY, row INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE VIRTUAL TABLE terms USING fts5(words, content='', detail=none, columnsize=0, tokenize='ascii');
"""
_FIND = "SELECT id, url, title, text, published, revised FROM documents WHERE id = ? AND visible < ?"
_PAGE = """
SELECT row, id, url, title, text, published, revised, visible FROM documents WHERE row > ? ORDER BY row LIMIT 1000
"""
_READ = """
SELECT id, url, title, text, published FROM visible JOIN documents USING (row) WHERE number IN (SELECT value FROM json_each(?))
"""
_COUNT_WITHHELD = """
SELECT CASE WHEN published IS NULL THEN 'undated' WHEN published >= ?1 THEN 'later' WHEN revised >= ?1 THEN 'revised' ELSE 'mentions' END, count(*)
FROM documents WHERE visible IS NULL OR visible >= ?1 GROUP BY 1 ORDER BY 1
"""
_NUMBER = """
INSERT INTO visible SELECT row_number() OVER (ORDER BY visible, id), row, visible FROM documents WHERE visible IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """Result of a search: a document with its score and an excerpt around the rarest term."""

    id: str
    title: str
    url: str | None
    published_at: datetime
    score: float
    excerpt: str


class Corpus:
    """Read-only corpus. Use it as a context manager; it may be used by several threads.

    Attributes:
        digest: hash of documents and ranking, the same for the same file on every machine.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.digest = digest
        self._lock = threading.Lock()
        self._database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)

    @classmethod
    def open(cls, path: Path, cache: Path) -> Self:
        """Open the corpus of a file, and index it first unless `cache`, a local folder, has the index of these contents.

        Raises `ConfigError` for a missing file, and that of `read_documents` for an invalid one.
        """
        digest = compute_digest(path)
        target = cache / f"{digest}.db"
        if not target.exists():
            build_index(path, target)
        return cls(target, digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def search(self, query: str, as_of: datetime, limit: int = 10) -> list[Hit]:
        """Return the documents visible before `as_of` that fit a query best: by score, then the latest first, then by id."""
        terms = _query_terms(query)
        with self._lock:
            newest = self._newest(as_of)
            if not terms or not newest:
                return []
            latest = {term: self._latest([term], newest) for term in terms}
            weights = {term: _weigh(numbers, newest) for term, numbers in latest.items() if numbers}
            found = self._read(self._candidates(latest, weights, newest))
        hits = [_compare(row, weights) for row in found]
        return sorted(hits, key=lambda hit: (-hit.score, _EPOCH - hit.published_at, hit.id))[:limit]

    def find(self, document_id: str, as_of: datetime) -> Document | None:
        """Return a document by its id; None if it is unknown or not visible before `as_of`."""
        with self._lock:
            found = self._database.execute(_FIND, (document_id, _to_integer(as_of))).fetchone()
        return None if found is None else _to_document(found)

    def documents(self) -> Iterator[tuple[Document, datetime | None]]:
        """Yield all documents in the order of the file, each with the instant from which it may be seen, None if never. For audits only."""
        row = 0
        while page := self._read_page(row):
            for row, *fields, visible in page:  # noqa: B007 - the last one is the next page's start
                yield _to_document(fields), _to_time(visible)

    def _read_page(self, after: int) -> list[Any]:
        with self._lock:
            return self._database.execute(_PAGE, (after,)).fetchall()

    def count_withheld(self, as_of: datetime) -> dict[str, int]:
        """Count the documents that are not visible before `as_of` by reason. For audits only: a model must not learn these numbers.

        Reasons: `undated`, `later` (published later), `revised` (revised later), and `mentions` (the text mentions a later date as past).
        """
        with self._lock:
            return dict(self._database.execute(_COUNT_WITHHELD, (_to_integer(as_of),)).fetchall())

    def _newest(self, as_of: datetime) -> int:
        """Return the number of documents visible before an instant, which is the newest one's number."""
        found = self._database.execute(
            "SELECT number FROM visible WHERE at < ? ORDER BY at DESC, number DESC LIMIT 1", (_to_integer(as_of),)
        )
        return int((found.fetchone() or (0,))[0])

    def _latest(self, terms: Sequence[str], newest: int) -> list[int]:
        """Return the numbers of the latest visible documents that contain all of these terms, latest first."""
        query = "SELECT rowid FROM terms WHERE terms MATCH ? AND rowid <= ? ORDER BY rowid DESC LIMIT ?"
        words = " AND ".join(f'"{term}"' for term in terms)
        return [number for (number,) in self._database.execute(query, (words, newest, MOST_CANDIDATES))]

    def _candidates(self, latest: dict[str, list[int]], weights: dict[str, float], newest: int) -> list[int]:
        """Return the documents to compare: those with the largest known weight, the latest first.

        They are the latest of each term, and the latest that contain the rarest terms together.
        """
        matched = {term: set(latest[term]) for term in weights}
        rarest = _rarest_first(weights)
        for count in range(len(rarest), 1, -1):
            together = self._latest(rarest[:count], newest)
            for term in rarest[:count]:
                matched[term].update(together)
            if len(together) >= MOST_COMPARED:
                break
        known: dict[int, float] = {}
        for term in rarest:
            for number in matched[term]:
                known[number] = known.get(number, 0.0) + weights[term]
        return sorted(known, key=lambda number: (-known[number], -number))[:MOST_COMPARED]

    def _read(self, numbers: list[int]) -> list[tuple[str, str | None, str, str, int]]:
        return self._database.execute(_READ, (json.dumps(numbers),)).fetchall()


def compute_digest(path: Path) -> str:
    """Return the digest of a corpus file together with the version of the ranking. Raises `ConfigError` if it cannot be read."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
    except OSError as error:
        raise ConfigError(f"reading the corpus {path}: {error.strerror or error}; correct its name or add the file") from None
    return hashlib.sha256(f"{VERSION}:{found.hexdigest()}".encode()).hexdigest()[:32]


def build_index(source: Path, target: Path) -> None:
    """Index the documents of a file. target: the SQLite file, written atomically.

    Raises `ConfigError` for an invalid document or a repeated id, with file, row and field, and for a file without a dated document.
    """
    with atomic_file(target) as draft, closing(sqlite3.connect(draft, isolation_level=None)) as database:
        database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_SCHEMA}")
        database.execute("BEGIN")
        for row, document in read_documents(source):
            try:
                database.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", _to_row(row, document))
            except sqlite3.IntegrityError:
                raise ConfigError(f"reading the corpus {source}, row {row}: id = {document.id!r:.60} occurs twice; keep one") from None
        total, dated = database.execute("SELECT count(*), count(published) FROM documents").fetchone()
        if not dated:
            problem = f"none of its {total} documents has published_at" if total else "it has no documents"
            raise ConfigError(f"reading the corpus {source}: {problem}, so no search can return one; correct the file")
        database.execute(_NUMBER)
        numbered = database.cursor().execute("SELECT number, title, text FROM visible JOIN documents USING (row) ORDER BY number")
        database.executemany(
            "INSERT INTO terms (rowid, words) VALUES (?, ?)",
            ((number, " ".join(dict.fromkeys(split_terms(f"{title}\n{text}")))) for number, title, text in numbered),
        )
        database.execute("CREATE INDEX visible_at ON visible (at, number)")
        database.execute("INSERT INTO terms (terms) VALUES ('optimize')")
        database.execute("COMMIT")


def find_visible_instant(document: Document) -> datetime | None:
    """Return the instant after which a document may be seen: the latest of its dates and of those that it mentions as past; None if undated."""
    if document.published_at is None:
        return None
    dates = [document.published_at, document.revised_at or document.published_at]
    mentioned = find_last_past_date(f"{document.title}\n{document.text}", max(dates).date())
    return max(dates) if mentioned is None else datetime.combine(mentioned, time(), UTC)


def _to_row(row: int, document: Document) -> tuple[int | str | None, ...]:
    dates = document.published_at, document.revised_at, find_visible_instant(document)
    return row, document.id, document.url, document.title, document.text, *(None if date is None else _to_integer(date) for date in dates)


def _to_document(fields: Sequence[Any]) -> Document:
    id_, url, title, text, *dates = fields
    published, revised = map(_to_time, dates)
    return Document.model_construct(id=id_, url=url, title=title, text=text, published_at=published, revised_at=revised)


def _to_integer(moment: datetime) -> int:
    """Convert an aware time to microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _to_time(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


# --- terms and scores --------------------------------------------------------------------------------------------------


def split_terms(text: str) -> list[str]:
    """Return the terms of a text in their order: words without case, accents and plural endings, and without stop words."""
    plain = text.casefold()
    if not plain.isascii():
        plain = "".join(letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter))
    return [_to_term(word) for word in _WORD.findall(plain) if word not in _STOP_WORDS]


@lru_cache(maxsize=1 << 16)
def _to_term(word: str) -> str:
    """Return the term of a word: in the singular (the rules of Harman 1991), and in hexadecimal digits unless it is ASCII."""
    word = word[:64]
    if not word.isascii():
        return f"x{word.encode('utf-8', 'surrogatepass').hex()}"
    if len(word) > 4 and word.endswith("ies") and word[-4] not in "ae":
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("es") and word[-3] not in "aeo":
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "us" else word


def _query_terms(query: str) -> list[str]:
    return list(dict.fromkeys(split_terms(query)))[:MOST_TERMS]


def _weigh(latest: list[int], newest: int) -> float:
    """Return the weight of a term: the inverse frequency among the visible documents, estimated from the latest ones for a frequent term.

    latest: numbers of the latest documents with the term, latest first. newest: number of visible documents.
    """
    frequency = float(len(latest))
    if len(latest) == MOST_CANDIDATES:
        frequency *= newest / (newest - latest[-1] + 1)
    return math.log1p(newest / frequency)


def _rarest_first(weights: dict[str, float]) -> list[str]:
    return sorted(weights, key=lambda term: (-weights[term], term))


def _compare(row: tuple[str, str | None, str, str, int], weights: dict[str, float]) -> Hit:
    """Return a candidate with its score by BM25."""
    id_, url, title, text, published = row
    words = split_terms(text)
    counts, in_title = Counter(words), Counter(split_terms(title))
    norm = _K * (1 - _B + _B * len(words) / _AVERAGE_WORDS)
    score = 0.0
    for term, weight in weights.items():
        count = counts[term] + _TITLE_WEIGHT * in_title[term]
        score += weight * count * (_K + 1) / (count + norm)
    return Hit(id_, title, url, _EPOCH + timedelta(microseconds=published), round(score, 4), extract_passage(text, _rarest_first(weights)))


def extract_passage(text: str, terms: Iterable[str]) -> str:
    """Return `EXCERPT` characters of a text around the first of the terms that it has, or from its beginning."""
    lower = text.lower()
    places = (lower.find(term) for term in terms)
    start = max(0, next((place for place in places if place >= 0), 0) - EXCERPT // 4)
    return text[start : start + EXCERPT]
