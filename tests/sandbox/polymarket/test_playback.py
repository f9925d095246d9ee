"""Playback of small recordings of Polymarket: recognised by content and served unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bellwether.errors import BellwetherError, ConfigError
from bellwether.sandbox import Recordings
from bellwether.sandbox.polymarket import RecordedPolymarket

Object = dict[str, Any]


def market(number: int, **fields: Any) -> Object:
    return {
        "id": str(number),
        "question": f"Question {number}?",
        "conditionId": f"0x{number:064x}",
        "slug": f"question-{number}",
        "endDate": "2026-06-01T12:00:00Z",
        "outcomes": '["Yes", "No"]',
        "clobTokenIds": json.dumps([str(number) * 40, str(number + 1) * 39]),
        "active": True,
        "closed": False,
        "updatedAt": "2026-05-01T00:00:00.5Z",
        **fields,
    }


def event(number: int, **fields: Any) -> Object:
    return {
        "id": str(number),
        "ticker": f"event-{number}",
        "slug": f"event-{number}",
        "title": f"Event {number}",
        "closed": False,
        **fields,
    }


def clob_market(number: int, **fields: Any) -> Object:
    tokens = [{"token_id": str(number) * 40, "outcome": "Yes", "price": 1, "winner": True}]
    return {"condition_id": f"0x{number:064x}", "question": f"Question {number}?", "closed": True, "tokens": tokens, **fields}


def book(token: str, at: int, bid: str = "0.4", ask: str = "0.5") -> Object:
    sides = {"bids": [{"price": "0.1", "size": "9"}, {"price": bid, "size": "5"}], "asks": [{"price": ask, "size": "3.5"}]}
    return {"market": "0x1", "asset_id": token, "timestamp": str(at), "hash": "ab", **sides, "last_trade_price": ""}


def save(folder: Path, name: str, body: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body if isinstance(body, str) else json.dumps(body), "utf-8")
    return path


@pytest.fixture
def site_of(tmp_path: Path, play: Any) -> Any:
    """Return the routes over the files of the test's folder."""
    return lambda: play(RecordedPolymarket(tmp_path))


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda one: one,
        lambda one: [one],
        lambda one: {"markets": [one], "next_cursor": "abc"},
        lambda one: {"run_ts": "2026-03-11T20:30:50+00:00", "offset": 0, "closed": True, "markets": [one]},
        lambda one: {"slug": "other", "condition_id": "0x1", "token_ids": ["1"], "raw": one},
        lambda one: [event(7, markets=[one])],
        lambda one: f"Asking...\n{json.dumps({'markets': [one]}, indent=2)}\n\nDone.\n",
        lambda one: f"First\n{json.dumps({'note': 1})}\nthen [sic]\n{json.dumps([one])}",
    ],
)
def test_a_market_is_found_however_it_is_wrapped_and_served_as_it_is(tmp_path: Path, site_of: Any, wrapper: Any) -> None:
    one = market(5, odd={"nested": [1, 2.5, None]}, question="</q> “é”", volumeNum=80362.86028499973)
    save(tmp_path, "whatever.json", wrapper(one))
    site = site_of()
    assert site.get("/gamma/markets/keyset") == {"markets": [one]}
    assert site.get("/gamma/markets/5") == one
    assert site.get("/gamma/markets", clob_token_ids="5" * 40) == [one]
    assert site.get("/gamma/markets", condition_ids=one["conditionId"]) == [one]


def test_events_come_from_answers_and_from_inside_markets(tmp_path: Path, site_of: Any) -> None:
    tags = [{"id": "9", "label": "Odd", "slug": "odd"}]
    series = [{"id": "3", "ticker": "s", "slug": "s", "title": "Series", "seriesType": "single"}]
    one, two = market(1, events=[event(7)]), market(2, events=[event(7)])
    save(tmp_path, "a.json", [one, two])
    save(tmp_path, "b.json", [event(8, closed=True, tags=tags, series=series, markets=[market(3)])])
    site = site_of()
    plain = (
        {name: value for name, value in one.items() if name != "events"},
        {name: value for name, value in two.items() if name != "events"},
    )
    assert site.get("/gamma/events", closed="false") == [{**event(7), "markets": list(plain)}]
    assert site.get("/gamma/events") == [{**event(8, closed=True, tags=tags, series=series), "markets": [market(3)]}]
    assert site.get("/gamma/events/8")["tags"] == tags
    assert site.get("/gamma/markets/1") == one


def test_books_middles_and_their_history_are_served(tmp_path: Path, site_of: Any) -> None:
    token = "4" * 77
    books = [book(token, 1_773_265_307_083), book(token, 1_773_265_367_000, ask="0.6"), book("5" * 76, 1_773_265_300_000)]
    lines = [{"collector_ts": "2026-03-11T21:41:49+00:00", "books": [one]} for one in (books[1], books[0], books[2])]
    save(tmp_path, "books.jsonl", "\n".join(map(json.dumps, lines)))
    save(tmp_path, "market.json", market(1, clobTokenIds=json.dumps([token, "5" * 76]), takerBaseFee=1000))
    site = site_of()
    assert site.get("/clob/book", token_id=token) == books[1]
    assert site.post("/clob/books", [{"token_id": "5" * 76}, {"token_id": "6" * 77}]).json() == [books[2]]
    assert site.get("/clob/midpoint", token_id=token) == {"mid": "0.5"}
    history = site.get("/clob/prices-history", market=token, startTs=1_773_265_000, endTs=1_773_266_000, fidelity=1)
    assert history == {"history": [{"t": 1_773_265_307, "p": 0.45}, {"t": 1_773_265_367, "p": 0.5}]}
    assert site.get("/clob/prices-history", market=token, startTs=0, endTs=1_773_265_366, fidelity=60)["history"][0]["p"] == 0.45


def test_clob_markets_are_served_by_their_condition(tmp_path: Path, site_of: Any) -> None:
    some = [clob_market(number, is_50_50_outcome=False) for number in range(1, 5)]
    nameless = [clob_market(9, condition_id="", question=f"Nameless {number}") for number in range(3)]
    save(
        tmp_path,
        "page.json",
        f"Fetching...\n{json.dumps({'data': some + nameless, 'next_cursor': 'MTAwMA=='}, indent=1)}\nFetching more...\n",
    )
    site = site_of()
    assert [site.get(f"/clob/markets/{one['condition_id']}") for one in some] == some


def test_a_folder_without_polymarket_makes_an_empty_source(tmp_path: Path, site_of: Any) -> None:
    save(tmp_path, "kalshi.json", {"markets": [{"ticker": "KXA-1-T1", "event_ticker": "KXA-1", "status": "active"}]})
    save(tmp_path, "notes.json", [{"polymarket_condition_id": "0x1", "settled_price": 0.0}])
    assert RecordedPolymarket(tmp_path).latest == 0
    site = site_of()
    assert site.get("/gamma/markets/keyset") == {"markets": []}
    assert Recordings(tmp_path).latest == 0


def test_a_folder_may_hold_both_venues(tmp_path: Path) -> None:
    save(tmp_path, "kalshi.json", {"markets": [{"ticker": "KXA-1-T1", "event_ticker": "KXA-1", "status": "active"}]})
    save(tmp_path, "page.json", f"Fetching...\n{json.dumps({'data': [clob_market(1)]})}\n")
    save(tmp_path, "books.json", f"Fetching...\n{json.dumps([book('4' * 77, 1)])}\n")
    assert RecordedPolymarket(tmp_path).latest > 0
    assert Recordings(tmp_path).cutoff(0) == 0
    (tmp_path / "kalshi.json").unlink()
    with pytest.raises(ConfigError, match="Kalshi"):
        Recordings(tmp_path)
    assert list(Recordings(tmp_path, required=False).series()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.json", '{"markets": [{"conditionId": "0x1", '),
        ("words.json", 'nothing but "conditionId" in words'),
        ("line.jsonl", '{"conditionId": "0x1"}\n{"conditionId": \n'),
        ("nested.json", '"clobTokenIds"\n' + "[" * 100_000),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: str) -> None:
    save(tmp_path, name, content)
    with pytest.raises(BellwetherError, match=name):
        RecordedPolymarket(tmp_path)


def test_odd_values_do_not_stop_the_routes(tmp_path: Path, site_of: Any) -> None:
    odd = market(1, clobTokenIds="not json", volumeNum=None, volume="much", endDate="soon", closedTime=5, events=None, tags=None)
    save(tmp_path, "a.json", [odd, market(2, events=[None, {"id": "9"}])])
    save(tmp_path, "b.json", [{**book("7" * 77, 0), "timestamp": None, "bids": [{"price": "x"}], "asks": []}])
    site = site_of()
    assert [one["id"] for one in site.all("markets", order="endDate", include_tag="true")] == ["2", "1"]
    assert site.get("/clob/book", token_id="7" * 77)["asks"] == []
    assert site.refused("/clob/midpoint", token_id="7" * 77)[0] == 404
