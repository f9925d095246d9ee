"""Real recordings through the sandbox's routes: every object is served unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from bellwether.sandbox import Recordings, create_app, serve

pytestmark = pytest.mark.real

Object = dict[str, Any]
EVERYTHING = {"start_ts": 0, "end_ts": 4_000_000_000}


@pytest.fixture(scope="module")
def kalshi(recordings: Path) -> Path:
    return recordings / "kalshi"


@pytest.fixture(scope="module")
def play() -> Iterator[Callable[[Path], httpx.Client]]:
    """Function that returns a client of a server that plays a folder. Each folder is read once."""
    from contextlib import ExitStack

    clients: dict[Path, httpx.Client] = {}
    with ExitStack() as stack:

        def client(folder: Path) -> httpx.Client:
            if not folder.is_dir():
                pytest.skip(f"no recordings in {folder}")
            if folder not in clients:
                url = stack.enter_context(serve(create_app(Recordings(folder)))).kalshi
                clients[folder] = stack.enter_context(httpx.Client(base_url=url, timeout=30))
            return clients[folder]

        yield client


def listed(client: httpx.Client, path: str, **params: Any) -> list[Object]:
    name, cursor, objects = path.strip("/"), "", []
    while True:
        page = client.get(path, params={**params, "cursor": cursor}).raise_for_status().json()
        objects += page[name]
        cursor = page["cursor"]
        if not cursor:
            return objects


def bodies(folder: Path) -> list[tuple[Path, Any]]:
    return [(path, json.loads(path.read_bytes())) for path in sorted(folder.glob("*.json"))]


def below(node: Any, fits: Callable[[Object], bool]) -> Iterator[Object]:
    """Return every object below a body that passes a condition."""
    if isinstance(node, dict):
        if fits(node):
            yield node
        for value in node.values():
            yield from below(value, fits)
    elif isinstance(node, list):
        for value in node:
            yield from below(value, fits)


def by_ticker(objects: list[Object], name: str) -> dict[str, list[Object]]:
    groups: dict[str, list[Object]] = {}
    for one in objects:
        groups.setdefault(one[name], []).append(one)
    return groups


@pytest.mark.parametrize("folder", ["rest_2026_08", "rest_2026_01_transitional"])
def test_every_recorded_market_is_served_verbatim_in_its_newest_state(kalshi: Path, play: Any, folder: str) -> None:
    client = play(kalshi / folder)
    recorded = [
        one for _, body in bodies(kalshi / folder) for one in below(body, lambda node: {"ticker", "event_ticker", "status"} <= set(node))
    ]
    groups = by_ticker(recorded, "ticker")
    served = {one["ticker"]: one for one in listed(client, "/markets", limit=1000)}
    assert served
    assert set(served) == set(groups)
    for ticker, market in served.items():
        assert market in groups[ticker]
        updates = [datetime.fromisoformat(one["updated_time"]) for one in groups[ticker] if "updated_time" in one]
        assert not updates or datetime.fromisoformat(market["updated_time"]) == max(updates)


@pytest.mark.parametrize("folder", ["rest_2026_08", "rest_2026_01_transitional"])
def test_every_recorded_event_is_served_verbatim_with_its_markets(kalshi: Path, play: Any, folder: str) -> None:
    client = play(kalshi / folder)
    recorded = [
        one
        for _, body in bodies(kalshi / folder)
        for one in below(body, lambda node: {"event_ticker", "series_ticker", "title"} <= set(node))
    ]
    plain = {one["event_ticker"] for one in recorded if not one["event_ticker"].startswith("KXMVE")}
    served = listed(client, "/events", with_nested_markets="true", limit=200)
    assert {event["event_ticker"] for event in served} == plain
    originals = [{name: value for name, value in one.items() if name != "markets"} for one in recorded]
    for event in served:
        tickers = {
            market["ticker"] for one in recorded if one["event_ticker"] == event["event_ticker"] for market in one.get("markets", [])
        }
        assert {name: value for name, value in event.items() if name != "markets"} in originals
        assert tickers <= {market["ticker"] for market in event["markets"]}


def recorded_candles(folder: Path) -> dict[str, list[Object]]:
    """Return every candle by ticker, from each recorded format."""
    found: dict[str, list[Object]] = {}
    for _, body in bodies(folder):
        for node in below(body, lambda node: "candlesticks" in node or "market_candlesticks" in node):
            if "market_candlesticks" in node:
                for ticker, candles in zip(node["market_tickers"], node["market_candlesticks"], strict=True):
                    found.setdefault(ticker, []).extend(candles)
            elif "ticker" in node or "market_ticker" in node:
                found.setdefault(node.get("ticker") or node["market_ticker"], []).extend(node["candlesticks"])
        if isinstance(body, dict) and isinstance(body.get("markets"), dict):
            for ticker, one in body["markets"].items():
                found.setdefault(ticker, []).extend(one.get("candlesticks", []))
    return found


@pytest.mark.parametrize("folder", ["rest_2026_08", "rest_2026_01_transitional"])
def test_recorded_candles_are_served_verbatim(kalshi: Path, play: Any, folder: str) -> None:
    client = play(kalshi / folder)
    recorded = recorded_candles(kalshi / folder)
    assert recorded
    for ticker, candles in recorded.items():
        ends = sorted({candle["end_period_ts"] for candle in candles})
        period = min(later - earlier for earlier, later in pairwise(ends)) // 60
        asked = {"market_tickers": ticker, "period_interval": period, **EVERYTHING}
        served = client.get("/markets/candlesticks", params=asked).raise_for_status().json()["markets"][0]["candlesticks"]
        assert [candle["end_period_ts"] for candle in served] == ends
        assert all(candle in candles for candle in served)


def test_recorded_series_are_served_verbatim(kalshi: Path, play: Any) -> None:
    for folder in ("rest_2026_08", "rest_2026_01_transitional"):
        client = play(kalshi / folder)
        recorded = [
            one for _, body in bodies(kalshi / folder) for one in below(body, lambda node: {"ticker", "frequency", "fee_type"} <= set(node))
        ]
        assert recorded
        served = {one["ticker"]: one for one in client.get("/series").json()["series"]}
        for one in recorded:
            assert served[one["ticker"]] in [other for other in recorded if other["ticker"] == one["ticker"]]


def test_the_whole_folder_plays_at_once_and_pages_add_up(kalshi: Path, play: Any) -> None:
    client = play(kalshi)
    whole = listed(client, "/markets", limit=1000)
    assert listed(client, "/markets", limit=97) == whole
    assert len({one["ticker"] for one in whole}) == len(whole)
    parts = sum(
        len(listed(play(kalshi / name), "/markets", limit=1000)) for name in ("rest_2026_08", "rest_2026_01_transitional", "settled")
    )
    assert len(whole) >= parts
    assert client.get("/historical/markets").json() == {"cursor": "", "markets": []}


def test_the_clock_stands_at_the_latest_capture(kalshi: Path) -> None:
    folder = kalshi / "rest_2026_08"
    captured = [
        datetime.fromisoformat(body["captured_at"])
        for _, body in bodies(folder)
        if isinstance(body, dict)
        and "captured_at" in body
        and any(below(body, lambda node: {"ticker", "event_ticker", "status"} <= set(node)))
    ]
    if not captured:
        pytest.skip("no captures with their time")
    now = Recordings(folder).default_clock().now()
    assert max(captured) <= now < max(captured) + timedelta(days=60)


def test_recordings_of_other_venues_beside_them_do_no_harm(recordings: Path, kalshi: Path, play: Any) -> None:
    assert listed(play(recordings), "/markets", limit=1000) == listed(play(kalshi), "/markets", limit=1000)
