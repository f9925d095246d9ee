"""The fee terms of recorded markets."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.venues.polymarket.fees import FREE, schedule_of

pytestmark = pytest.mark.real


def five_minute_markets(recordings: Path) -> list[dict[str, Any]]:
    files = sorted((recordings / "polymarket/resolved").glob("*-5m-markets-*.jsonl.gz"))
    if not files:
        pytest.skip("no recorded five-minute markets")
    return [json.loads(line)["raw"] for path in files for line in gzip.decompress(path.read_bytes()).splitlines() if line.strip()]


def test_every_recorded_short_market_states_its_own_terms(recordings: Path):
    for market in five_minute_markets(recordings):
        schedule = schedule_of(market, datetime.fromisoformat(market["endDate"]))
        stated = market["feeSchedule"]
        assert (schedule.source, schedule.exponent, schedule.taker_only) == ("market", stated["exponent"], stated["takerOnly"])
        assert (float(schedule.rate), float(schedule.rebate_rate)) == (stated["rate"], stated["rebateRate"])
        assert schedule.fee(Decimal(100), Decimal("0.5"), "buy") == 25 * schedule.rate
        assert schedule.fee(Decimal(100), Decimal("0.5"), "buy", "maker") == 0


def test_the_fallback_of_recorded_short_markets_is_what_they_state(recordings: Path):
    for market in five_minute_markets(recordings):
        at = datetime.fromisoformat(market["endDate"])
        unstated = {name: value for name, value in market.items() if name != "feeSchedule"}
        fallback = schedule_of(unstated, at)
        assert fallback.source == "category"
        assert fallback.rate == schedule_of(market, at).rate


def test_recorded_markets_without_fees_are_free(recordings: Path):
    pages = sorted((recordings / "polymarket/gamma_pages_2026_03").glob("*.json.gz"))
    markets = [market for path in pages for market in json.loads(gzip.decompress(path.read_bytes()))["markets"]]
    without = [market for market in markets if market.get("feesEnabled") is False]
    if not without:
        pytest.skip("no recorded markets without fees")
    at = datetime.fromisoformat("2026-03-11T00:00:00Z")
    assert {schedule_of(market, at) for market in without} == {FREE}
