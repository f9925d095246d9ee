"""Every decimal and every time is parsed exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.venues.wire_objects import market, read, row

MICROS = st.integers(1, 999_999)
WHOLE = st.integers(0, 10**16 - 1)
CENTS = st.integers(0, 99)
INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MICROS, st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_a_price_string_is_read_exactly(micros: int, trimmed: int):
    text = f"0.{micros:06d}"
    text = text[: len(text) - trimmed] if set(text[len(text) - trimmed :]) <= {"0"} else text
    if text.endswith("."):
        text = text[:-1]
    found = row(market(settlement_value_dollars=text))["settlement_value"]
    assert found == Decimal(text)


@given(WHOLE, CENTS)
@settings(max_examples=60, deadline=None)
def test_a_count_string_is_read_exactly(whole: int, cents: int):
    assert row(market(volume_fp=f"{whole}.{cents:02d}"))["volume"] == Decimal(whole) + Decimal(cents) / 100


@given(st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_cents_are_hundredths_of_a_dollar(cents: int):
    found = row(market(settlement_value_dollars=..., settlement_value=cents))["settlement_value"]
    assert found == Decimal(cents) / Decimal(100)


@given(INSTANTS, st.integers(0, 9), ZONES)
@settings(max_examples=120, deadline=None)
def test_a_time_is_read_exactly_to_the_microsecond(instant: datetime, digits: int, zone: timezone):
    fraction = f"{instant.microsecond:06d}999"[:digits]
    clock = f"{instant.astimezone(zone):%H:%M:%S}" + (f".{fraction}" if fraction else "")
    local = instant.astimezone(zone)
    offset = "Z" if zone == UTC else f"{local:%z}"[:3] + ":" + f"{local:%z}"[3:5]
    kept = int(fraction[:6].ljust(6, "0")) if fraction else 0
    found = row(market(close_time=f"{local:%Y-%m-%d}T{clock}{offset}"))["close_time"]
    assert found == instant.replace(microsecond=kept)


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_text_is_kept_to_the_character(text: str):
    assert row(market(title=text))["title"] == text


@given(st.lists(st.sampled_from(["good", "bad"]), max_size=30))
@settings(max_examples=60, deadline=None)
def test_every_object_is_a_row_or_a_reject(kinds: list[str]):
    objects = [market(f"T-{index}", last_price_dollars="0.5" if kind == "good" else "5.0") for index, kind in enumerate(kinds)]
    parsed = read(*objects)
    assert parsed.rows["ticker"].to_list() == [f"T-{index}" for index, kind in enumerate(kinds) if kind == "good"]
    assert parsed.rejects["ordinal"].to_list() == [index for index, kind in enumerate(kinds) if kind == "bad"]
