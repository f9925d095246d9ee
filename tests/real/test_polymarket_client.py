"""Recorded pages and ids of Polymarket, walked and asked for by the clients."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from bellwether.venues.polymarket import routes
from tests.venues.polymarket.clients import clob, gamma
from tests.venues.venue import answer

pytestmark = pytest.mark.real


def pages(recordings: Path) -> dict[int, list[Any]]:
    """The recorded listing by offset."""
    files = sorted((recordings / "polymarket/gamma_pages_2026_03").glob("*.json.gz"))
    if not files:
        pytest.skip("no recorded pages of Gamma")
    bodies = [json.loads(gzip.decompress(path.read_bytes())) for path in files]
    return {body["offset"]: body["markets"] for body in bodies}


async def test_recorded_pages_are_walked_by_offset_to_their_end(recordings: Path):
    held = pages(recordings)
    length = len(held[0])

    def venue(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/keyset"):
            return answer(b"404 page not found", status=404)
        return answer(held.get(int(request.url.params.get("offset", 0)), []))

    async with gamma(venue) as client:
        found = [item["id"] async for page in client.markets(closed=False, limit=length) for item in page.items("markets")]
    assert found == [item["id"] for offset in sorted(held) for item in held[offset]]


async def test_recorded_ids_can_be_asked_for(recordings: Path):
    markets = [market for listed in pages(recordings).values() for market in listed]
    tokens = [token for market in markets for token in json.loads(market.get("clobTokenIds") or "[]")]
    assert [token for call in routes.books(tokens) for token in routes.tokens_of(call.body)] == tokens
    for market in markets:
        assert routes.market(market["id"]).path == f"/markets/{market['id']}"
        assert routes.clob_market(market["conditionId"]).path.endswith(market["conditionId"])


def batches(recordings: Path) -> list[dict[str, Any]]:
    files = sorted((recordings / "polymarket/clob").glob("books_run_*.jsonl.gz"))
    if not files:
        pytest.skip("no recorded books")
    return [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines() if line.strip()]


async def test_recorded_batches_of_books_are_answers_to_what_was_asked(recordings: Path):
    for batch in batches(recordings)[:20]:
        books = batch["books"]
        async with clob(lambda request, books=books: answer(books)) as client:
            (page,) = await client.books(batch["requested_token_ids"])
        assert {book["asset_id"] for book in page.json} <= set(routes.asked_tokens(page))
        assert page.json == books
