"""A search as of an instant returns the same from the full corpus as from one that ends there, and nothing later, undated or changed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.corpus import Corpus, Document
from tests.sizes import EXAMPLES, NIGHTLY

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["rain", "snow", "wind", "flood", "river", "city", "storm", "dam", "bridge", "mayor"]


def day(number: float) -> datetime:
    return START + timedelta(days=number)


def document(number: int, text: str, published: float | None = 0, **changes: object) -> Document:
    at = None if published is None else day(published)
    return Document.model_validate({"id": f"d{number:05}", "title": f"Report {number}", "text": text, "published_at": at, **changes})


def open_corpus(folder: Path, documents: Iterable[Document], name: str = "corpus") -> Corpus:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in documents))
    return Corpus.open(path, folder / "cache")


def ids(corpus: Corpus, query: str, at: float, limit: int = 10) -> list[str]:
    return [hit.id for hit in corpus.search(query, day(at), limit)]


DAYS = st.integers(0, 6)
DOCUMENTS = st.lists(
    st.builds(
        lambda words, published, revised, mentioned: (" ".join(words), published, revised, mentioned),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
        st.none() | DAYS,
        st.none() | DAYS,
        st.none() | st.integers(0, 12),
    ),
    max_size=25,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(DOCUMENTS, DAYS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_a_corpus_cut_at_the_instant_gives_the_same_hits_scores_and_documents(
    drawn: list[tuple[str, int | None, int | None, int | None]], at: int, words: list[str]
) -> None:
    def is_visible(published: int | None, revised: int | None, mentioned: int | None) -> bool:
        return published is not None and max(published, revised or 0) < at and (mentioned is None or mentioned < at)

    documents = [document(99_999, "never reached", 99)]  # a corpus without a dated document is refused
    cut = list(documents)
    for number, (text, published, revised, mentioned) in enumerate(drawn):
        told = "" if mentioned is None else f" The flood happened on {day(mentioned):%d %B %Y}."
        made = document(number, text + told, published, revised_at=None if revised is None else day(revised))
        documents.append(made)
        if is_visible(published, revised, mentioned):
            cut.append(made)
    query = " ".join(words)
    with TemporaryDirectory() as folder, open_corpus(Path(folder), documents) as full, open_corpus(Path(folder), cut, "cut") as shorter:
        hits = full.search(query, day(at))
        assert repr(hits) == repr(shorter.search(query, day(at)))
        assert {hit.id for hit in full.search(query, day(at), 100)} == {one.id for one in cut[1:] if set(words) & set(one.text.split())}
        assert [full.find(one.id, day(at)) for one in documents] == [shorter.find(one.id, day(at)) for one in documents]
        assert sum(full.count_withheld(day(at)).values()) == 1 + len(documents) - len(cut)
        assert shorter.count_withheld(day(at)) == {"later": 1}


def test_frequent_terms_have_the_same_weights_in_the_cut_corpus(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, [2.0**-n for n in range(len(WORDS))], k=6)) for _ in range(4000)]
    documents = [document(number, text, number / 100) for number, text in enumerate(texts)]
    with open_corpus(tmp_path, documents) as full, open_corpus(tmp_path, documents[:2500], "cut") as cut:
        for _ in range(20):
            query = " ".join(rng.sample(WORDS, 3))
            assert full.search(query, day(25)) == cut.search(query, day(25))


@pytest.mark.timeout(3600)
def test_planted_later_documents_are_never_returned(tmp_path: Path) -> None:
    rng = random.Random(3)
    planted, calls = (10_000, 100_000) if NIGHTLY else (1_000, 200)
    documents = [document(number, " ".join(rng.choices(WORDS, k=5)), number % 10) for number in range(200)]
    documents += [document(200 + number, " ".join(rng.choices(WORDS, k=5)), 10 + number % 50) for number in range(planted)]
    later = {one.id for one in documents[200:]}
    with open_corpus(tmp_path, documents) as corpus:
        for _ in range(calls):
            found = ids(corpus, " ".join(rng.choices(WORDS, k=2)), 10)
            assert found and later.isdisjoint(found)
        assert not any(corpus.find(name, day(10)) for name in later)


def test_each_withheld_document_is_counted_under_its_reason(tmp_path: Path) -> None:
    documents = [
        document(0, "rain"),
        document(1, "rain", None),
        document(2, "rain", 5),
        document(3, "rain", 0, revised_at=day(5)),
        document(4, "rain came on 6 January 2026"),
        document(5, "rain will come on 6 January 2026"),
    ]
    with open_corpus(tmp_path, documents) as corpus:
        assert corpus.count_withheld(day(5)) == {"undated": 1, "later": 1, "revised": 1, "mentions": 1}
        assert set(ids(corpus, "rain", 5)) == {"d00000", "d00005"}
        assert set(ids(corpus, "rain", 5.1)) == {"d00000", "d00005", "d00004", "d00003", "d00002"}
        seen = [(made.id, at) for made, at in corpus.documents() if corpus.find(made.id, day(9)) or at is None]
        assert seen[:3] == [("d00000", day(0)), ("d00001", None), ("d00002", day(5))]
        assert len(seen) == len(documents)


def test_rare_terms_and_titles_count_more_and_ties_are_broken_by_date_and_id(tmp_path: Path) -> None:
    documents = [document(number, "rain in the city", number) for number in range(6)]
    documents += [document(6, "a dam in the city"), document(7, "the city", title="Rain"), document(8, "rain in the city", 5)]
    with open_corpus(tmp_path, documents) as corpus:
        assert ids(corpus, "city dam", 9)[0] == "d00006"
        assert ids(corpus, "rain", 9)[:4] == ["d00007", "d00005", "d00008", "d00004"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("elections", "The election"),
        ("ÉLYSÉE", "the elysee palace"),
        ("cities", "a city"),
        ("Москва", "в москва"),
        ("the election of", "election"),
    ],
)
def test_case_accents_and_plurals_do_not_matter(tmp_path: Path, query: str, text: str) -> None:
    with open_corpus(tmp_path, [document(0, text), document(1, "nothing")]) as corpus:
        assert ids(corpus, query, 1) == ["d00000"]


@pytest.mark.parametrize(
    "query", ["", "the of", '" OR 1', "NEAR(a b)", "words: *", "a AND NOT", "\x00\ud800", "rain " * 5000, "'; DROP TABLE documents"]
)
def test_a_query_is_data(tmp_path: Path, query: str) -> None:
    with open_corpus(tmp_path, [document(0, "rain")]) as corpus:
        assert ids(corpus, query, 1) == (["d00000"] if "rain" in query else [])


def test_the_index_is_built_once_and_again_after_a_change(tmp_path: Path) -> None:
    with open_corpus(tmp_path, [document(0, "rain")]) as first, open_corpus(tmp_path, [document(0, "rain")], "copy") as same:
        assert first.digest == same.digest
    with open_corpus(tmp_path, [document(0, "snow")]) as changed:
        assert changed.digest != first.digest and ids(changed, "snow", 1)
    assert len(list((tmp_path / "cache").iterdir())) == 2
