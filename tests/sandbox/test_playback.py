"""Playback of small recordings: recognised by content and served unchanged."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import BellwetherError, ConfigError, SchemaError
from bellwether.sandbox import Clock, Recordings, create_app

Object = dict[str, Any]


def market(ticker: str, **fields: Any) -> Object:
    event = ticker.rpartition("-")[0]
    return {"ticker": ticker, "event_ticker": event, "status": "finalized", "result": "no", "close_time": "2026-08-01T00:00:00Z", **fields}


def event(ticker: str, **fields: Any) -> Object:
    return {"event_ticker": ticker, "series_ticker": ticker.partition("-")[0], "title": "Title", "category": "World", **fields}


def candle(end: int, close: str = "0.5000") -> Object:
    bar = {f"{name}_dollars": close for name in ("open", "high", "low", "close")}
    return {"end_period_ts": end, "yes_bid": bar, "yes_ask": bar, "price": bar, "volume_fp": "1.00", "open_interest_fp": "2.00"}


def save(folder: Path, name: str, body: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body), "utf-8")
    return path


@pytest.fixture
def play(tmp_path: Path, client: Any) -> Any:
    """Return a client of the files in the test's folder."""
    return lambda clock=None: client(create_app(Recordings(tmp_path), clock=clock))


# --- recognition ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda one: one,
        lambda one: [one],
        lambda one: {"markets": [one], "cursor": "abc"},
        lambda one: {"market": one},
        lambda one: {"note": "a note", "captured_at": "2026-08-08T00:00:00Z", "markets": [one]},
        lambda one: {"_metadata": {"recorded_at": "2026-08-08T00:00:00Z", "ticker": "KXOTHER-1"}, "response": {"market": one}},
        lambda one: {"legs": {one["ticker"]: one}},
        lambda one: {"events": [event("KXA-26AUG01", markets=[one])], "cursor": ""},
        lambda one: {"events_by_series": {"KXA": [event("KXA-26AUG01", markets=[one])]}},
        lambda one: [{"KXA-26AUG01": [{**{f"_{name}": value for name, value in one.items()}, "discriminator": None}]}],
    ],
)
def test_a_market_is_found_however_it_is_wrapped_and_served_as_it_is(tmp_path: Path, play: Any, wrapper: Any) -> None:
    one = market("KXA-26AUG01-T1", last_price_dollars="0.0500", odd={"nested": [1, 2.5, None]}, title="</question> “é”")
    save(tmp_path, "whatever.json", wrapper(one))
    assert play().get("/markets")["markets"] == [one]
    assert play().get("/markets/KXA-26AUG01-T1")["market"] == one


@pytest.mark.parametrize("name", ["a.json", "deep/er/b.json", "c.json.gz", "d.jsonl", "e.jsonl.gz"])
def test_files_of_every_kind_are_found(tmp_path: Path, play: Any, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(json.dumps(market(f"KXA-26AUG01-T{number}")) for number in range(3 if ".jsonl" in name else 1))
    path.write_bytes(gzip.compress(lines.encode()) if name.endswith(".gz") else lines.encode())
    assert len(play().get("/markets")["markets"]) == (3 if ".jsonl" in name else 1)


def test_nested_markets_are_served_alone_beside_and_nested(tmp_path: Path, play: Any) -> None:
    markets = [market("KXA-26AUG01-T1"), market("KXA-26AUG01-T2", status="active", result="")]
    save(tmp_path, "events.json", {"events": [event("KXA-26AUG01", markets=markets)]})
    venue = play()
    assert venue.get("/markets")["markets"] == markets
    assert venue.get("/events")["events"] == [event("KXA-26AUG01")]
    assert venue.get("/events", with_nested_markets="true")["events"] == [event("KXA-26AUG01", markets=markets)]
    assert venue.get("/markets", status="open")["markets"] == markets[1:]
    assert venue.get("/events", status="open")["events"] == [event("KXA-26AUG01")]
    assert venue.get("/events", status="unopened")["events"] == []


def test_of_two_records_of_a_ticker_the_one_updated_last_is_served(tmp_path: Path, play: Any) -> None:
    old = market("KXA-1-T1", updated_time="2026-08-01T00:00:00.5Z", result="")
    new = market("KXA-1-T1", updated_time="2026-08-01T00:00:00.51Z", result="yes")
    save(tmp_path, "a.json", [new])
    save(tmp_path, "b.json", [old])
    assert play().get("/markets")["markets"] == [new]


def test_everything_recorded_counts_as_live(tmp_path: Path, play: Any) -> None:
    old = market("KXA-1-T1", settlement_ts="2021-08-01T00:00:00Z")
    save(tmp_path, "a.json", [old])
    venue = play(Clock(datetime(2030, 1, 1, tzinfo=UTC)))
    assert venue.get("/markets", status="settled")["markets"] == [old]
    assert venue.get("/historical/markets")["markets"] == []
    assert venue.get("/historical/cutoff")["market_settled_ts"] == "1970-01-01T00:00:00Z"
    assert venue.status("/historical/markets/KXA-1-T1")[0] == 404


def test_recorded_series_are_served_and_others_derived_from_events(tmp_path: Path, play: Any) -> None:
    recorded = {"ticker": "KXA", "category": "World", "frequency": "daily", "title": "A", "tags": None, "fee_multiplier": 0.5}
    save(tmp_path, "series.json", {"payloads": {"KXA": {"series": recorded}}})
    save(tmp_path, "events.json", {"events": [event("KXA-1"), event("KXB-1", category="Health")]})
    venue = play()
    served = {one["ticker"]: one for one in venue.get("/series")["series"]}
    assert served == {"KXA": recorded, "KXB": {"ticker": "KXB", "category": "Health"}}


# --- candles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda one: {"ticker": "KXA-1-T1", "candlesticks": one},
        lambda one: {"markets": [{"market_ticker": "KXA-1-T1", "candlesticks": one}]},
        lambda one: {"market_tickers": ["KXA-1-T1"], "market_candlesticks": [one], "adjusted_end_ts": 1},
        lambda one: {"markets": {"KXA-1-T1": {"series_ticker": "KXA", "period_interval": 60, "candlesticks": one}}},
        lambda one: {"_metadata": {"ticker": "KXA-1-T1", "period_interval": 60}, "response": {"candlesticks": one}},
    ],
)
def test_candles_are_found_however_they_are_wrapped(tmp_path: Path, play: Any, wrapper: Any) -> None:
    candles = [candle(3600), candle(7200), candle(14_400)]
    save(tmp_path, "candles.json", wrapper(candles))
    venue = play()
    asked = {"start_ts": 0, "end_ts": 99_999, "period_interval": 60}
    assert venue.get("/series/KXA/markets/KXA-1-T1/candlesticks", **asked)["candlesticks"] == candles
    batch = venue.get("/markets/candlesticks", market_tickers="KXA-1-T1,KXB", **asked)["markets"]
    assert batch == [{"market_ticker": "KXA-1-T1", "candlesticks": candles}]
    assert (
        venue.get("/series/KXA/markets/KXA-1-T1/candlesticks", **{**asked, "start_ts": 7200, "end_ts": 7200})["candlesticks"]
        == candles[1:2]
    )
    assert venue.get("/series/KXA/markets/KXA-1-T1/candlesticks", **{**asked, "period_interval": 1})["candlesticks"] == []


@pytest.mark.parametrize(("distance", "period"), [(60, 1), (120, 1), (3600, 60), (7200, 60), (86_400, 1440), (172_800, 1440)])
def test_the_period_of_bare_candles_is_found_from_their_distances(tmp_path: Path, play: Any, distance: int, period: int) -> None:
    candles = [candle(distance * number + 14_400) for number in range(1, 5)]
    save(tmp_path, "candles.json", {"ticker": "KXA-1-T1", "candlesticks": candles})
    asked = {"start_ts": 0, "end_ts": 9_999_999, "period_interval": period}
    assert play().get("/series/KXA/markets/KXA-1-T1/candlesticks", **asked)["candlesticks"] == candles


def test_of_a_candle_recorded_twice_the_one_captured_last_is_served(tmp_path: Path, play: Any) -> None:
    for name, captured, close in (("a", "2026-08-02T00:00:00Z", "0.9000"), ("b", "2026-08-01T00:00:00Z", "0.1000")):
        body = {"captured_at": captured, "ticker": "KXA-1-T1", "candlesticks": [candle(3600, close), candle(7200, close)]}
        save(tmp_path, f"{name}.json", body)
    asked = {"start_ts": 0, "end_ts": 9999, "period_interval": 60}
    assert play().get("/series/KXA/markets/KXA-1-T1/candlesticks", **asked)["candlesticks"] == [
        candle(3600, "0.9000"),
        candle(7200, "0.9000"),
    ]


# --- tables --------------------------------------------------------------------------------------------------------


def test_table_rows_become_wire_objects_without_invented_values(tmp_path: Path, play: Any) -> None:
    pl.DataFrame(
        {
            "ticker": ["KXA-1-T1", "KXA-1-T2"],
            "event_ticker": ["KXA-1", "KXA-1"],
            "status": ["finalized", "active"],
            "result": ["yes", ""],
            "close_time": [datetime(2026, 5, 5, 8), datetime(2026, 5, 6, 8, 0, 0, 250_000)],
            "settlement_time": [None, datetime(2026, 5, 7)],
            "floor_strike": [66.0, None],
            "rules_primary": ["If “é”", None],
            "volume": [12, 0],
            "last_price": [0.055, None],
            "previous_price": [7, None],
            "settlement_value": [1.0, None],
            "_series_ticker": ["KXSERIES", "KXSERIES"],
            "unknown_column": [1, 2],
        },
        schema_overrides={"settlement_time": pl.Datetime("ns")},
    ).write_parquet(tmp_path / "m.parquet")
    venue = play()
    first, second = venue.get("/markets", series_ticker="KXSERIES")["markets"]
    assert first == {
        "ticker": "KXA-1-T1",
        "event_ticker": "KXA-1",
        "status": "finalized",
        "result": "yes",
        "close_time": "2026-05-05T08:00:00Z",
        "floor_strike": 66.0,
        "rules_primary": "If “é”",
        "volume_fp": "12.00",
        "last_price_dollars": "0.0550",
        "previous_price_dollars": "0.0700",
        "settlement_value_dollars": "1.0000",
    }
    assert second == {
        "ticker": "KXA-1-T2",
        "event_ticker": "KXA-1",
        "status": "active",
        "result": "",
        "close_time": "2026-05-06T08:00:00.25Z",
        "settlement_ts": "2026-05-07T00:00:00Z",
        "volume_fp": "0.00",
    }


def test_a_table_of_candles_has_no_member_where_the_table_is_null_or_nan(tmp_path: Path, play: Any) -> None:
    columns = {f"{side}_{name}": [0.25, 0.5] for side in ("yes_bid", "yes_ask") for name in ("open", "high", "low", "close")}
    prices = {"price_open": [None, float("nan")], "price_mean": [None, 0.123456], "price_prev": [0.2, None]}
    rows = {"ticker": ["KXA-1-T1"] * 2, "end_ts": [7200, 3600], **columns, **prices, "volume": [0.0, 12.34], "open_interest": [5.0, None]}
    pl.DataFrame(rows, schema_overrides={"price_open": pl.Float64}).write_parquet(tmp_path / "c.parquet")
    asked = {"start_ts": 0, "end_ts": 9999, "period_interval": 60}
    first, second = play().get("/series/KXA/markets/KXA-1-T1/candlesticks", **asked)["candlesticks"]
    assert (first["end_period_ts"], first["price"], first["volume_fp"]) == (3600, {"mean_dollars": "0.123456"}, "12.34")
    assert "open_interest_fp" not in first
    assert (second["price"], second["open_interest_fp"]) == ({"previous_dollars": "0.2000"}, "5.00")
    assert second["yes_bid"] == {"open_dollars": "0.2500", "high_dollars": "0.2500", "low_dollars": "0.2500", "close_dollars": "0.2500"}


def test_a_table_of_events_gives_events_and_their_series(tmp_path: Path, play: Any) -> None:
    rows = {
        "series_ticker": ["KXA"],
        "event_ticker": ["KXA-1"],
        "title": ["T"],
        "category": ["World"],
        "strike_date": [datetime(2026, 1, 1)],
        "mutually_exclusive": [True],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "e.parquet")
    pl.DataFrame({"question": ["not ours"]}).write_parquet(tmp_path / "other.parquet")
    expected = {**{name: values[0] for name, values in rows.items()}, "strike_date": "2026-01-01T00:00:00Z"}
    assert play().get("/events")["events"] == [expected]
    assert play().get("/series")["series"] == [{"ticker": "KXA", "category": "World"}]


# --- the clock -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "now"),
    [
        ({"captured_at": "2026-08-08T01:02:03.5+00:00", "markets": [market("KXA-1-T1")]}, "2026-08-08T01:02:03.5+00:00"),
        ({"captured_ms": 1786144770430, "markets": [market("KXA-1-T1")]}, "2026-08-07T23:19:30.43+00:00"),
        ([market("KXA-1-T1", updated_time="2026-08-09T00:00:00Z")], "2026-08-09T00:00:00+00:00"),
        ({"ticker": "KXA-1-T1", "candlesticks": [candle(3600), candle(7200)]}, "1970-01-01T02:00:00+00:00"),
        (
            [
                market("KXA-1-T1", open_time="2026-01-01T00:00:00Z"),
                market("KXA-1-T2", status="initialized", open_time="2030-01-01T00:00:00Z"),
            ],
            "2026-01-01T00:00:00+00:00",
        ),
        ([market("KXA-1-T1", updated_time="not a time")], "1970-01-01T00:00:00+00:00"),
    ],
)
def test_the_clock_stands_at_the_latest_time_that_the_recording_shows(tmp_path: Path, body: Any, now: str) -> None:
    save(tmp_path, "a.json", body)
    assert Recordings(tmp_path).default_clock().now() == datetime.fromisoformat(now)


# --- what is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.json", b'{"markets": [{"ticker": "KXA-1-T1", "event_tick'),
        ("page.json", b"<html>maintenance</html>"),
        ("cut.json.gz", gzip.compress(b'{"markets": []}', mtime=0)[:-9]),
        ("plain.json.gz", b"{}"),
        ("lines.jsonl", b'{"ticker": "KXA"}\n{"ticker"\n'),
        ("table.parquet", b"PAR1 not really PAR1"),
        ("nan.json", b'{"price": NaN}'),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, name: str, content: bytes) -> None:
    save(tmp_path, "good.json", [market("KXA-1-T1")])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BellwetherError, match=f"{name}.*broken"):
        Recordings(tmp_path)


def test_a_table_in_which_only_some_times_have_a_zone_is_refused(tmp_path: Path) -> None:
    at = datetime(2026, 3, 1, 12)
    rows = pl.DataFrame({"ticker": ["KXA-1-T1"], "event_ticker": ["KXA-1"], "status": ["active"], "open_time": [at], "close_time": [at]})
    rows.with_columns(pl.col("close_time").dt.replace_time_zone("UTC")).write_parquet(tmp_path / "m.parquet")
    with pytest.raises(SchemaError, match=r"m\.parquet: open_time has no time zone \(2026-03-01 12:00:00\), unlike close_time"):
        Recordings(tmp_path)


def test_files_of_other_venues_are_left_alone(tmp_path: Path, play: Any) -> None:
    save(tmp_path, "good.json", [market("KXA-1-T1")])
    save(tmp_path, "gamma.json", [{"id": "1", "conditionId": "0x1", "question": "Q", "closed": True}])
    (tmp_path / "log.json").write_bytes(b'Fetching markets...\n{"condition_id": "0x1"}')
    (tmp_path / "frames.ndjson").write_bytes(b"not json")
    assert len(play().get("/markets")["markets"]) == 1


def test_rows_of_a_ledger_are_not_markets(tmp_path: Path) -> None:
    save(tmp_path, "ledger.jsonl", {"ticker": "KXA-1-T1", "event_ticker": "KXA-1", "result": "no", "settlement_value": 0.0})
    with pytest.raises(ConfigError, match="nothing under"):
        Recordings(tmp_path)


def test_a_missing_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        Recordings(tmp_path / "nowhere")
