"""Real recordings of Polymarket through the sandbox's routes: every object is served unchanged."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.sandbox import Recordings
from bellwether.sandbox.polymarket import Clob, Gamma, RecordedPolymarket

pytestmark = pytest.mark.real

Object = dict[str, Any]
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(recordings: Path) -> Path:
    if not (recordings / "polymarket").is_dir():
        pytest.skip(f"no recordings in {recordings / 'polymarket'}")
    return recordings / "polymarket"


@pytest.fixture(scope="module")
def source(folder: Path) -> RecordedPolymarket:
    return RecordedPolymarket(folder)


@pytest.fixture(scope="module")
def ask(source: RecordedPolymarket) -> Iterator[Ask]:
    """Function that requests a route over all recordings and returns the body of a successful answer."""
    clock = source.default_clock()
    app = Starlette(routes=[Mount("/gamma", routes=Gamma(source, clock).routes()), Mount("/clob", routes=Clob(source, clock).routes())])
    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sandbox")

        def answer(path: str, batch: list[Object] | None = None, **params: Any) -> Any:
            request = client.get(path, params=params) if batch is None else client.post(path, json=batch)
            response = runner.run(request)
            assert response.status_code == 200, response.text
            return response.json()

        yield answer


def lines(path: Path) -> list[Object]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines() if line.strip()]


@pytest.fixture(scope="module")
def pages(folder: Path) -> list[Object]:
    paths = sorted((folder / "gamma_pages_2026_03").glob("*.json.gz"))
    return [json.loads(gzip.decompress(path.read_bytes())) for path in paths]


@pytest.fixture(scope="module")
def clob_page(folder: Path) -> Object:
    """The page inside its surrounding text."""
    text = gzip.decompress((folder / "clob" / "clob_markets_2023.json.gz").read_bytes()).decode()
    page, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return page


def listed(ask: Ask, name: str, **params: Any) -> list[Object]:
    objects: list[Object] = []
    while True:
        page = ask(f"/gamma/{name}/keyset", **params)
        objects += page[name]
        if "next_cursor" not in page:
            return objects
        params["after_cursor"] = page["next_cursor"]


def test_every_market_of_every_page_is_served_as_recorded(ask: Ask, pages: list[Object]) -> None:
    recorded = [one for page in pages for one in page["markets"]]
    assert len(recorded) == sum(page["count"] for page in pages) > 0
    served = {one["id"]: one for one in listed(ask, "markets", limit=100, closed="false")}
    assert len(served) >= len({one["id"] for one in recorded})
    assert [served[one["id"]] for one in recorded] == recorded
    for one in recorded[::29]:
        assert ask(f"/gamma/markets/{one['id']}") == one
        assert ask("/gamma/markets", clob_token_ids=json.loads(one["clobTokenIds"])[1]) == [one]
        assert ask("/gamma/markets", condition_ids=one["conditionId"]) == [one]


def test_every_market_of_the_clob_is_served_as_recorded(ask: Ask, clob_page: Object) -> None:
    recorded = clob_page["data"]
    closed = [one for one in recorded if one["closed"]]
    assert len(closed) == 941
    for one in closed:
        if one["condition_id"]:
            assert ask(f"/clob/markets/{one['condition_id']}") == one


def test_books_are_served_as_they_were_last_recorded(ask: Ask, folder: Path) -> None:
    recorded = [one for path in sorted((folder / "clob").glob("books_*.jsonl.gz")) for line in lines(path) for one in line["books"]]
    last: dict[str, Object] = {}
    for one in sorted(recorded, key=lambda one: int(one["timestamp"])):
        last[one["asset_id"]] = (
            one if int(last.get(one["asset_id"], one)["timestamp"]) < int(one["timestamp"]) else last.get(one["asset_id"], one)
        )
    served = ask("/clob/books", [{"token_id": token} for token in last])
    assert {one["asset_id"]: one["timestamp"] for one in served} == {token: one["timestamp"] for token, one in last.items()}
    assert all(one in recorded for one in served)
    middles = ask("/clob/midpoints", [{"token_id": token} for token in last])
    for one in served:
        expected = (Decimal(one["bids"][-1]["price"]) + Decimal(one["asks"][-1]["price"])) / 2
        assert Decimal(middles[one["asset_id"]]) == expected
        history = ask("/clob/prices-history", market=one["asset_id"], startTs=0, fidelity=1)["history"]
        assert history[-1] == {"t": int(one["timestamp"]) // 1000, "p": float(expected)}


def test_the_clock_stands_at_the_newest_recording(source: RecordedPolymarket, pages: list[Object]) -> None:
    assert source.default_clock().now() >= max(datetime.fromisoformat(page["run_ts"]) for page in pages)
    assert source.default_clock().now() < datetime(2027, 1, 1, tzinfo=UTC)


def test_each_venue_reads_its_own_out_of_a_folder_of_both(recordings: Path, source: RecordedPolymarket) -> None:
    both = RecordedPolymarket(recordings)
    assert both.latest == source.latest
    assert list(Recordings(recordings / "polymarket", required=False).series()) == []
    if (recordings / "kalshi" / "rest_2026_08").is_dir():
        assert RecordedPolymarket(recordings / "kalshi" / "rest_2026_08").latest == 0
