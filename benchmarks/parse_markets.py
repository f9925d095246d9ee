"""Parsing and normalising 100,000 market objects, against `orjson.loads` alone on the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import orjson

from bellwether.venues.kalshi.wire import Origin, decode, parse_markets

OBJECTS = 100_000
PAGE = 1_000
ROUNDS = 5
TARGET = 4.0


def market(number: int, rng: Random) -> dict[str, Any]:
    """A market object of the current wire format, about as large as a real one; eight in a row share an event and its times."""
    close = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number // 8 * 7919 % (90 * 1_440))
    bid = rng.randrange(1, 99)
    team = f"Team {rng.randrange(400)}"
    rules = f"If {team} wins game {number} originally scheduled for {close:%b %d, %Y}, then the market resolves to Yes. "
    return {
        "can_close_early": True,
        "close_time": f"{close:%Y-%m-%dT%H:%M:%SZ}",
        "created_time": f"{close - timedelta(days=3):%Y-%m-%dT%H:%M:%S}.{rng.randrange(10**6):06d}Z",
        "custom_strike": {"team": f"{rng.getrandbits(128):032x}"},
        "early_close_condition": "This market will close and expire after a winner is declared.",
        "event_ticker": f"KXGAME-{number // 8}",
        "exchange_index": 0,
        "expected_expiration_time": f"{close + timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}",
        "expiration_time": f"{close + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
        "expiration_value": team,
        "last_price_dollars": f"0.{bid:02d}00",
        "latest_expiration_time": f"{close + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
        "liquidity_dollars": "0.0000",
        "market_type": "binary",
        "no_ask_dollars": f"0.{100 - bid:02d}00",
        "no_bid_dollars": f"0.{99 - bid:02d}00",
        "no_sub_title": team,
        "notional_value_dollars": "1.0000",
        "occurrence_datetime": f"{close + timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}",
        "open_interest_fp": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
        "open_time": f"{close - timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
        "previous_price_dollars": "0.6000",
        "previous_yes_ask_dollars": "0.6000",
        "previous_yes_bid_dollars": "0.5900",
        "price_level_structure": "linear_cent",
        "price_ranges": [{"end": "1.0000", "start": "0.0000", "step": "0.0100"}],
        "result": rng.choice(("yes", "no")),
        "rules_primary": rules,
        "rules_secondary": rules * 6,
        "settlement_timer_seconds": 120,
        "settlement_ts": f"{close + timedelta(minutes=3):%Y-%m-%dT%H:%M:%S}.{rng.randrange(10**6):06d}Z",
        "settlement_value_dollars": "1.0000",
        "status": "finalized",
        "strike_type": "structured",
        "ticker": f"KXGAME-{number // 8}-{number}",
        "title": f"{team} against Team {rng.randrange(400)}: winner?",
        "updated_time": f"{close + timedelta(minutes=3):%Y-%m-%dT%H:%M:%S}.{rng.randrange(10**6):06d}Z",
        "volume_24h_fp": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
        "volume_fp": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
        "yes_ask_dollars": f"0.{bid + 1:02d}00",
        "yes_ask_size_fp": "0.00",
        "yes_bid_dollars": f"0.{bid:02d}00",
        "yes_bid_size_fp": "0.00",
        "yes_sub_title": team,
    }


def market_pages(objects: int, size: int) -> Iterator[bytes]:
    """Bodies of GET /markets with `objects` market objects in pages of `size`, the same at every call."""
    rng = Random(7)
    for start in range(0, objects, size):
        yield orjson.dumps({"markets": [market(number, rng) for number in range(start, min(start + size, objects))], "cursor": ""})


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run() -> list[dict[str, Any]]:
    """One result: time of bytes -> frames with bodies over the time of bytes -> Python objects, the median of interleaved rounds."""
    pages = list(market_pages(OBJECTS, PAGE))
    origin = Origin("GET /markets", 0, datetime(2026, 6, 1, tzinfo=UTC))
    day = date(2026, 6, 1)

    def load() -> None:
        for page in pages:
            orjson.loads(page)

    def parse() -> None:
        for page in pages:
            parsed = parse_markets(decode(page)["markets"], origin, day=day, source="live")
            if parsed.rows.height != PAGE:
                raise AssertionError(f"{PAGE - parsed.rows.height} good objects were refused")

    parse()
    rounds = [(_seconds(load), _seconds(parse)) for _ in range(ROUNDS)]
    loading, parsing = (sorted(times)[ROUNDS // 2] for times in zip(*rounds, strict=True))
    megabytes = sum(map(len, pages)) / 1e6
    return [
        {
            "name": "parse and normalise 100,000 markets / orjson.loads",
            "ratio": parsing / loading,
            "target": TARGET,
            "detail": f"{parsing:.2f} s against {loading:.2f} s for {OBJECTS:,} objects, {megabytes:.0f} MB, pages of {PAGE:,}",
        }
    ]
