"""Gamma's market objects, parsed into raw/polymarket_markets."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.tables.raw import POLYMARKET_MARKETS, POLYMARKET_REJECTS
from bellwether.venues.polymarket.wire import parse_events
from bellwether.venues.wire.json_decoding import decode_json
from tests.venues.polymarket.objects import DAY, FETCHED, NO, ORIGIN, YES, condition, event, market, read, reject, row


def test_a_market_has_every_field_under_its_own_name():
    found = row(market())
    assert (found["day"], found["market_id"], found["condition_id"]) == (DAY, "531202", condition(531202))
    assert (found["event_id"], found["event_slug"], found["event_title"]) == ("21662", "rain", "Rain in NYC")
    assert found["start_time"] == datetime(2026, 3, 1, 16, 49, 31, 84000, UTC)
    assert found["end_time"] == datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert found["closed_at"] == found["uma_end_at"] == datetime(2026, 3, 14, 15, 0, 16, tzinfo=UTC)
    assert (found["outcomes"], found["outcome_prices"]) == (["Yes", "No"], [Decimal(1), Decimal(0)])
    assert (found["token_ids"], found["yes_token"], found["no_token"]) == ([YES, NO], YES, NO)
    assert (found["uma_resolution_status"], found["uma_statuses"]) == ("resolved", ["proposed", "resolved"])
    assert (found["volume"], found["liquidity"]) == (Decimal("80362.860284"), Decimal(0))
    assert [found[name] for name in ("best_bid", "best_ask", "last_trade_price", "tick_size")] == [
        Decimal(text) for text in ("0.252", "0.284", "0.97", "0.001")
    ]
    assert (found["min_order_size"], found["closed"], found["active"], found["neg_risk"]) == (Decimal(5), True, True, False)
    assert (found["request"], found["page"], found["fetched_at"], found["known_at"]) == (ORIGIN.request, 3, FETCHED, FETCHED)
    assert json.loads(found["body"]) == market()


def test_frames_are_exactly_the_declared_tables():
    POLYMARKET_MARKETS.validate(read(market(), market(2)).rows)
    POLYMARKET_REJECTS.validate(read(None, market(endDate=...)).rejects)
    POLYMARKET_MARKETS.validate(read().rows)
    POLYMARKET_REJECTS.validate(read().rejects)


LISTS = ("outcomes", "outcomePrices", "clobTokenIds", "umaResolutionStatuses")


def test_lists_inside_strings_read_like_real_lists():
    real = market(**{name: json.loads(market()[name]) for name in LISTS})
    assert {**row(real), "body": ""} == {**row(market()), "body": ""}


def test_prices_and_tokens_that_are_bare_numbers_inside_the_string_keep_every_digit():
    found = row(market(outcomePrices="[0.0275, 0.9725]", clobTokenIds=f"[{YES}, {NO}]"))
    assert found["outcome_prices"] == [Decimal("0.0275"), Decimal("0.9725")]
    assert found["token_ids"] == [YES, NO]


def test_tokens_that_are_bare_numbers_in_a_real_list_have_lost_digits_and_are_a_reject():
    (found,) = decode_json(json.dumps([market(clobTokenIds=[int(YES), int(NO)])]).encode())
    assert reject(found)[::2] == ("clobTokenIds", "not a list of texts")


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.9999989871426158", "0.9999989871426158"),
        ("0.99999999999999999999999999999999", "0.99999999999999999999"),
        ("1e-7", "0.0000001"),
        ("0", "0"),
    ],
)
def test_a_price_keeps_its_digits_and_is_never_rounded_up_to_1(text: str, price: str):
    assert row(market(outcomePrices=json.dumps([text, "0.5"])))["outcome_prices"][0] == Decimal(price)


@given(st.decimals(0, 1, allow_nan=False, places=12))
def test_a_price_of_twelve_decimals_is_read_exactly(price: Decimal):
    prices = [format(price, "f"), format(1 - price, "f")]
    assert row(market(outcomePrices=json.dumps(prices)))["outcome_prices"] == [price, 1 - price]


@pytest.mark.parametrize(
    ("outcomes", "kind", "yes", "no"),
    [
        (["Yes", "No"], "binary", YES, NO),
        (["No", "Yes"], "binary", NO, YES),
        (["YES", " no"], "binary", YES, NO),
        (["Up", "Down"], "named", None, None),
        (["Yes", "Maybe"], "named", None, None),
    ],
)
def test_yes_is_found_by_its_name_and_never_by_its_position(outcomes: list[str], kind: str, yes: str | None, no: str | None):
    found = row(market(outcomes=json.dumps(outcomes)))
    assert (found["market_type"], found["yes_token"], found["no_token"]) == (kind, yes, no)


def test_three_outcomes_are_multi_and_have_no_yes():
    tokens = json.dumps([YES, NO, "1" * 76])
    found = row(market(outcomes='["A", "B", "C"]', outcomePrices='["0", "1", "0"]', clobTokenIds=tokens))
    assert (found["market_type"], found["yes_token"], len(found["token_ids"])) == ("multi", None, 3)


@pytest.mark.parametrize("text", ["2026-07-24 00:00:16+00", "2026-07-24T00:00:16Z", "2026-07-24 00:00:16+00:00", "2026-07-24T02:00:16+02"])
def test_both_forms_of_times_are_read(text: str):
    assert row(market(closedTime=text))["closed_at"] == datetime(2026, 7, 24, 0, 0, 16, tzinfo=UTC)


def test_a_market_without_optional_keys_is_a_row_with_nulls():
    kept = ("id", "endDate", "outcomes")
    found = row({name: value for name, value in market().items() if name in kept})
    assert (found["outcome_prices"], found["token_ids"], found["uma_statuses"], found["tags"]) == ([], [], [], [])
    names = ("condition_id", "closed", "volume", "best_bid", "event_id", "fee_rate", "yes_token", "closed_at")
    assert [found[name] for name in names] == [None] * len(names)


def test_a_number_serves_where_its_text_is_missing():
    found = row(market(volume=..., volumeNum=2388.745093, liquidity="", liquidityNum=49362.7802))
    assert (found["volume"], found["liquidity"]) == (Decimal("2388.745093"), Decimal("49362.7802"))


def test_the_fee_schedule_is_read():
    schedule = {"rate": 0.07, "exponent": 1, "takerOnly": True, "rebateRate": 0.2}
    found = row(market(feesEnabled=True, feeType="crypto_fees_v2", feeSchedule=schedule, takerBaseFee=1000, makerBaseFee=1000))
    assert (found["fee_rate"], found["fee_exponent"], found["taker_only"]) == (Decimal("0.07"), Decimal(1), True)
    assert (found["rebate_rate"], found["taker_base_fee"], found["maker_base_fee"]) == (Decimal("0.2"), 1000, 1000)


def test_no_quote_and_no_trade_are_null():
    found = row(market(bestBid=0, bestAsk=1, lastTradePrice=0))
    assert [found[name] for name in ("best_bid", "best_ask", "last_trade_price")] == [None] * 3


@pytest.mark.parametrize(
    ("changes", "field", "value", "reason"),
    [
        ({"endDate": ...}, "endDate", None, "missing: without an end a market belongs to no day"),
        ({"endDate": "soon"}, "endDate", "soon", "not a time (RFC 3339 with a zone)"),
        ({"id": ...}, "id", None, "missing"),
        ({"id": "x7"}, "id", "x7", "not a number in text"),
        ({"conditionId": "0x12"}, "conditionId", "0x12", "not 0x and 62 or 64 hexadecimal digits"),
        ({"outcomePrices": '["1"]'}, "outcomePrices", '["1"]', "not as many as there are outcomes"),
        ({"outcomePrices": '["1", "1.5"]'}, "outcomePrices", '["1","1.5"]', "a price in it lies outside [0, 1]"),
        (
            {"outcomePrices": '["1", "x"]'},
            "outcomePrices",
            '["1","x"]',
            "a price in it is not a decimal of at most 4 digits and 20 decimals",
        ),
        ({"outcomePrices": "1, 0"}, "outcomePrices", "1, 0", "not a list"),
        ({"outcomes": '["Yes", null]'}, "outcomes", '["Yes",null]', "not a list of texts"),
        ({"clobTokenIds": f'["{YES}"]'}, "clobTokenIds", f'["{YES}"]', "not as many as there are outcomes"),
        ({"volume": "many"}, "volume", "many", "not a decimal of at most 18 digits and 6 decimals"),
        ({"closed": "true"}, "closed", "true", "not true or false"),
        ({"feeSchedule": 7}, "feeSchedule", "7", "not a JSON object"),
        ({"events": [{"id": "e"}]}, "events", None, "the event's id is not a number in text"),
    ],
)
def test_what_cannot_be_right_is_a_reject(changes: dict[str, Any], field: str, value: str | None, reason: str):
    found = reject(market(**changes))
    assert (found[0], found[2]) == (field, reason)
    assert value is None or found[1] == value


def test_one_bad_market_leaves_the_others_of_its_page():
    parsed = read(market(1), market(2, endDate=...), market(3))
    assert parsed.rows["market_id"].to_list() == ["1", "3"]
    assert parsed.rejects.select("record_id", "ordinal", "day").rows() == [("2", 1, DAY)]


STRUCTURED = "0x01" + "c3" * 30
POSITIONS = ["33" + "0" * 74 + "3", "33" + "0" * 74 + "4"]


def v2(**changes: Any) -> dict[str, Any]:
    """Return a market of Protocol V2, as described by the official client's models."""
    return market(**{"version": "v2", "conditionId": STRUCTURED, "clobTokenIds": "", "positionIds": POSITIONS, **changes})


@pytest.mark.parametrize("ids", [POSITIONS, tuple(POSITIONS), json.dumps(POSITIONS), "[" + ", ".join(POSITIONS) + "]"])
@pytest.mark.parametrize("version", ["v2", "V2", " v2 ", "2", 2, 2.0])
def test_a_v2_market_trades_by_its_position_ids_in_either_form(version: Any, ids: Any):
    found = row(v2(version=version, positionIds=list(ids) if isinstance(ids, tuple) else ids))
    assert (found["token_ids"], found["yes_token"], found["no_token"]) == (POSITIONS, *POSITIONS)
    assert found["condition_id"] == STRUCTURED


def test_the_version_chooses_the_ids_where_both_are_there():
    assert row(v2(clobTokenIds=json.dumps([YES, NO])))["token_ids"] == POSITIONS
    for version in ("v1", "V1", 1, None, "", ...):
        assert row(market(version=version, positionIds=POSITIONS))["token_ids"] == [YES, NO], (
            "position ids of a V1 market are those of combos"
        )


def test_the_ids_by_which_a_market_does_not_trade_need_not_fit():
    assert row(v2(clobTokenIds="not a list"))["token_ids"] == POSITIONS
    assert row(market(version="v1", positionIds={"yes": 7}))["token_ids"] == [YES, NO]


@pytest.mark.parametrize("form", [STRUCTURED, STRUCTURED + "00", STRUCTURED.upper().replace("0X", "0x")])
def test_a_condition_id_has_62_or_64_digits(form: str):
    assert row(v2(conditionId=form))["condition_id"] == form


@pytest.mark.parametrize("empty", ["", None, "0x", ...])
@pytest.mark.parametrize("version", ["v1", "v2", None])
def test_a_market_that_is_not_deployed_yet_has_no_condition_and_no_ids(version: Any, empty: Any):
    found = row(v2(version=version, conditionId=empty, positionIds=[], clobTokenIds=..., closed=False))
    assert (found["condition_id"], found["token_ids"], found["yes_token"]) == (None, [], None)


def test_markets_without_an_order_book_have_no_ids():
    assert row(market(clobTokenIds=..., endDate="2021-03-14T12:00:00Z", closedTime=...))["token_ids"] == []
    assert row(v2(positionIds=None, enableOrderBook=False))["token_ids"] == []


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"version": "v3"}, "version", "not v1 or v2: without it the trading ids cannot be determined"),
        ({"version": ...}, "version", "not v1 or v2: without it the trading ids cannot be determined"),
        ({"positionIds": ...}, "positionIds", "missing: a deployed market with an order book has trading ids"),
        ({"version": "v1"}, "clobTokenIds", "missing: a deployed market with an order book has trading ids"),
        ({"version": ..., "positionIds": ...}, "clobTokenIds", "missing: a deployed market with an order book has trading ids"),
        ({"positionIds": POSITIONS[:1]}, "positionIds", "not as many as there are outcomes"),
        ({"positionIds": ["0x33", "0x34"]}, "positionIds", "a trading id in it is not a number in text"),
        ({"positionIds": [3.3e75, 3.4e75]}, "positionIds", "not a list of texts"),
        ({"conditionId": STRUCTURED[:-1]}, "conditionId", "not 0x and 62 or 64 hexadecimal digits"),
    ],
)
def test_a_market_whose_trading_ids_cannot_be_determined_is_a_reject(changes: dict[str, Any], field: str, reason: str):
    found = reject(v2(**changes))
    assert (found[0], found[2]) == (field, reason)


def test_token_ids_are_text_in_duckdb_and_parquet(tmp_path: Any):
    frame = read(market()).rows
    file = tmp_path / "markets.parquet"
    frame.write_parquet(file)
    with duckdb.connect() as connection:
        assert connection.sql(f"SELECT token_ids, yes_token FROM '{file}'").fetchall() == [([YES, NO], YES)]
    assert pl.read_parquet(file).equals(frame)


def test_an_event_is_read_with_its_tags_and_series_and_without_its_markets():
    found = parse_events([event()], ORIGIN, day=date(2026, 1, 1)).rows.row(0, named=True)
    assert (found["event_id"], found["title"], found["day"]) == ("21662", "Rain in NYC", date(2026, 1, 1))
    assert (found["tags"], found["tag_labels"]) == (["weather"], ["Weather"])
    assert (found["series_id"], found["series_slug"], found["volume"]) == ("9", "rain-daily", Decimal("80362.860284"))
    assert "markets" not in json.loads(found["body"])


@pytest.mark.parametrize("text", ["1e999999999", "-1E+999999999", "1e-999999999", "0e999999999"])
def test_a_number_of_a_billion_digits_is_a_reject_and_not_written_out(text: str):
    assert reject(market(volume=text))[0] == "volume"
    assert reject(market(outcomePrices=json.dumps([text, "0"])))[0] == "outcomePrices"


def test_a_bid_above_the_ask_is_a_reject():
    assert reject(market(bestBid=0.6, bestAsk=0.59)) == ("bestBid", "0.6", "the bid lies above the ask")
