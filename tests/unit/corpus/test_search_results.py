"""Results of search services are withheld by the rules of a corpus, whatever the service claims."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bellwether.corpus.index import EXCERPT, Corpus, build_index
from bellwether.corpus.search_results import SearchResults, find_withholding, read_results
from bellwether.errors import ConfigError

T = datetime(2026, 3, 10, 12, tzinfo=UTC)
BEFORE, AFTER = "2026-03-08T10:00:00Z", "2026-03-10T12:00:00Z"
LATER = "On March 11, 2026 the river flooded the town."


def exa(**fields: Any) -> dict[str, Any]:
    return {"url": "https://a.org", "title": "Rain", "text": "Clouds.", "publishedDate": BEFORE, "snapshotAt": BEFORE} | fields


def perplexity(**fields: Any) -> dict[str, Any]:
    return {"url": "https://a.org", "title": "Rain", "snippet": "Clouds.", "date": "2026-03-08", "last_updated": None} | fields


def parallel(**fields: Any) -> dict[str, Any]:
    return {"url": "https://a.org", "title": "Rain", "excerpts": ["Clouds.", "Wind."], "publish_date": "2026-03-08"} | fields


SHAPES = {"exa": exa, "perplexity": perplexity, "parallel": parallel}


def respond(*results: Any) -> bytes:
    return json.dumps({"results": results}).encode()


@pytest.mark.parametrize(
    ("service", "fields", "reason"),
    [
        ("exa", {}, None),
        ("exa", {"publishedDate": None}, "undated"),
        ("exa", {"snapshotAt": None}, "undated"),
        ("exa", {"publishedDate": AFTER, "snapshotAt": AFTER}, "later"),
        ("exa", {"snapshotAt": AFTER}, "revised"),
        ("exa", {"snapshotAt": "2026-03-10T13:59:59.999999+02:00"}, None),
        ("exa", {"publishedDate": "2026-03-09T00:00:00.000Z", "snapshotAt": "2026-03-09T01:00:00Z"}, "revised"),
        ("exa", {"text": LATER}, "mentions"),
        ("exa", {"title": LATER}, "mentions"),
        ("perplexity", {}, None),
        ("perplexity", {"date": None}, "undated"),
        ("perplexity", {"date": "2026-03-10"}, "revised"),
        ("perplexity", {"date": "2026-03-09"}, "revised"),
        ("perplexity", {"date": "2026-03-11"}, "later"),
        ("perplexity", {"last_updated": "2026-03-10"}, "revised"),
        ("perplexity", {"last_updated": "yesterday"}, "undated"),
        ("perplexity", {"snippet": LATER}, "mentions"),
        ("parallel", {}, None),
        ("parallel", {"publish_date": "2026-03-09T11:00:00"}, "revised"),
        ("parallel", {"publish_date": ["2026-03-08"]}, "undated"),
        ("parallel", {"publish_date": "0001-01-01T00:30:00+14:00"}, "undated"),
        ("parallel", {"excerpts": ["Clouds.", LATER]}, "mentions"),
    ],
)
def test_a_result_is_withheld_by_its_dates_and_its_text(service: str, fields: dict[str, Any], reason: str | None) -> None:
    (document,) = read_results(service, respond(SHAPES[service](**fields)))
    assert find_withholding(document, T) == reason
    results = SearchResults()
    results.add("rain", [document])
    assert len(results.search("rain", T)) == (reason is None)
    assert (results.find(document.id, T) is None) == (reason is not None)


def test_a_date_without_time_has_passed_when_its_day_has_ended_everywhere() -> None:
    """The day ends 12 hours after that of UTC on Baker Island."""
    (document,) = read_results("parallel", respond(parallel()))
    end = datetime(2026, 3, 9, 12, tzinfo=UTC)
    assert (find_withholding(document, end), find_withholding(document, end + timedelta(microseconds=1))) == ("revised", None)


def test_the_rules_are_those_of_a_corpus(tmp_path: Any) -> None:
    """The same documents in a file are counted by the same reasons."""
    dated = [{"publishedDate": None}, {"publishedDate": AFTER, "snapshotAt": AFTER}, {"snapshotAt": AFTER}, {"text": LATER}, {}]
    documents = read_results("exa", respond(*(exa(**fields, url=f"https://a.org/{place}") for place, fields in enumerate(dated))))
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(document.model_dump_json() for document in documents))
    build_index(file, tmp_path / "a.db")
    with Corpus(tmp_path / "a.db", "") as corpus:
        assert corpus.count_withheld(T) == {"later": 1, "mentions": 1, "revised": 1, "undated": 1}
    assert [find_withholding(document, T) for document in documents] == ["undated", "later", "revised", "mentions", None]


def test_results_are_found_by_their_query_in_the_order_of_the_service() -> None:
    results = SearchResults()
    found = read_results("parallel", respond(*(parallel(url=f"https://a.org/{number}", title=f"{number}") for number in (2, 1, 3))))
    results.add("rain", found)
    assert [hit.title for hit in results.search("rain", T, 2)] == ["2", "1"]
    assert results.search("Rain", T) == []
    assert (results.find(found[2].id, T), results.find("https://a.org/3", T)) == (found[2], None)


def test_a_hostile_result_is_cut_and_an_odd_one_left_out() -> None:
    hostile = perplexity(title="\ud800" + "t" * 10_000_000, snippet="\udfff" + "x" * 10_000_000, url="https://a.org/" + "y" * 100_000)
    content = respond(None, 7, perplexity(url=None), perplexity(url=["https://a.org"]), hostile, perplexity(title=None, snippet={"a": 1}))
    cut, empty = read_results("perplexity", content)
    assert (len(cut.title), len(cut.text), len(cut.url), len(cut.id)) == (1_000, 20_000, 4_000, 16)
    assert (empty.title, empty.text) == ("", "")
    results = SearchResults()
    results.add("x", [cut])
    assert len(results.search("x", T)[0].excerpt) == EXCERPT


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"results": 1}', b"[" * 100_000])
def test_a_damaged_response_in_the_journal_is_named(body: bytes) -> None:
    with pytest.raises(ConfigError, match="reading a search with exa"):
        read_results("exa", body)
