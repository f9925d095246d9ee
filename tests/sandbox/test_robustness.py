"""Whatever is asked, the sandbox answers as the venue would, never with a crash."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bellwether.sandbox.params import cursor_after

PATHS = (
    "/events",
    "/events/KXGAMEBB-25JUN01",
    "/markets",
    "/markets/candlesticks",
    "/markets/KXGAMEBB-25JUN01-X",
    "/series",
    "/series/KXGAMEBB",
    "/series/KXGAMEBB/markets/KXGAMEBB-25JUN01-X/candlesticks",
    "/historical/markets",
    "/historical/markets/KXGAMEBB-25JAN20-X/candlesticks",
)
NAMES = [
    "limit",
    "cursor",
    "status",
    "tickers",
    "event_ticker",
    "series_ticker",
    "mve_filter",
    "min_close_ts",
    "max_close_ts",
    "min_settled_ts",
    "max_created_ts",
    "min_updated_ts",
    "with_nested_markets",
    "exclude_markets",
    "market_tickers",
    "start_ts",
    "end_ts",
    "period_interval",
    "include_latest_before_start",
    "category",
    "tags",
]
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "1", "60", "1440", "200", "1750000000", "-1", "999999999999999999", "true", "false", "open", "settled", "exclude"]
    ),
    st.sampled_from(["KXGAMEBB", "KXGAMEBB-25JUN01", "A,B,,C", "KXBILLRAIL-250000", "KXMVECROSSCATEGORY-S2025FFFFFFFFFF", "-", "--"]),
    st.sampled_from([cursor_after((0,)), cursor_after((-(10**30), 5)), cursor_after((10**30,)), base64.b64encode(b"k1:").decode()]),
    st.text(max_size=12),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), params=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_no_request_makes_it_crash(venue: Any, path: str, params: dict[str, str]) -> None:
    status, body = venue.status(path, **params)
    assert status in (200, 400, 404)
    assert ("error" in body) == (status != 200)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rest=st.text(st.sampled_from("0123456789ABCDEFGHJKMNPQRSTVWXYZSKXMVE-."), max_size=24),
    prefix=st.sampled_from(["", "KXGAMEBB-", "KXBILLRAIL-", "KXMVEA-S2025"]),
)
def test_no_ticker_makes_it_crash(venue: Any, rest: str, prefix: str) -> None:
    for path in ("/markets/", "/events/", "/historical/markets/"):
        status, _ = venue.status(f"{path}{prefix}{rest}x")
        assert status == 404
