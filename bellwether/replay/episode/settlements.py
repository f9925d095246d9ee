"""Parsing of `settlement.json`, in Bellwether's format or either of PredictionMarketBench's two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from bellwether.errors import SchemaError
from bellwether.replay import units
from bellwether.replay.episode.metadata import RESULTS, SETTLEMENT, Fields, Settlement, format_iso
from bellwether.units import MicroDollars

#: Payout of a YES contract in micro-dollars by result, for results that determine it.
PAID = {"YES": MicroDollars(units.MICROS), "NO": MicroDollars(0)}


def parse_settlements(values: Any, tickers: Sequence[str]) -> tuple[tuple[Settlement, ...], dict[str, int]]:
    """Parse `settlement.json`. Returns the settlement of each of `tickers`, and the close times (ns UTC) that some files also state.

    values: the JSON: an object keyed by ticker, or the original's first form {"settlements": [{"ticker": …}, …]}. Raises `SchemaError` for
    an unknown ticker, a ticker named twice, an unknown result, or a value that contradicts it.
    """
    settlements: dict[str, Settlement] = {}
    closes = {}
    for ticker, fields in _key_by_ticker(Fields(values, SETTLEMENT)):
        if ticker not in tickers:
            raise fields.value_error("ticker", ticker, "one of the episode's tickers; the episode has no such market")
        if ticker in settlements:
            raise fields.value_error("ticker", ticker, "named once")
        settlements[ticker] = _parse_settlement(fields, ticker)
        if (close := fields.time("close_time")) is not None:
            closes[ticker] = close
    return tuple(settlements.get(ticker) or Settlement(ticker) for ticker in tickers), closes


def _key_by_ticker(fields: Fields) -> Iterable[tuple[str, Fields]]:
    """Return (ticker, fields of its settlement) for each ticker in the file."""
    if isinstance(fields.values.get("settlements"), list):
        return [(item.required("ticker", str, "text"), item) for item in fields.objects("settlements")]
    return [(ticker, Fields(item, SETTLEMENT, ticker)) for ticker, item in fields.values.items()]


def _parse_settlement(fields: Fields, ticker: str) -> Settlement:
    result = fields.text("result")
    if result is not None and result.upper() not in RESULTS:
        raise fields.value_error("result", result, f"one of {', '.join(RESULTS)} or null")
    result = result and result.upper()
    return Settlement(ticker, result, _parse_value(fields, result), fields.time("settled_ts"), fields.text("source"))


def _parse_value(fields: Fields, result: str | None) -> MicroDollars | None:
    """Return the payout of a YES contract. Raises `SchemaError` if it is missing, invalid, or contradicts the result."""
    stated = fields.values.get("value")
    paid = PAID.get(result or "")
    if stated is None:
        if result == "SCALAR":
            raise fields.value_error("value", None, "the dollars that a YES contract paid, as text")
        return paid
    try:
        value = parse_payout(str(stated))
    except SchemaError:
        raise fields.value_error("value", stated, "dollars from 0 to 1, in whole millionths") from None
    if result in (None, "VOID") or (paid is not None and paid != value):
        wanted = "null" if paid is None else f"{units.dollars(paid):f}"
        raise fields.value_error("value", stated, f"{wanted} for the result {result}")
    return value


def parse_payout(dollars: Decimal | str) -> MicroDollars:
    """Convert a payout from 0 to 1 dollars to micro-dollars. Raises `SchemaError` for other values."""
    try:
        scaled = Decimal(dollars) * units.MICROS
        if 0 <= scaled <= units.MICROS and scaled == int(scaled):
            return MicroDollars(int(scaled))
    except ArithmeticError:
        pass
    raise SchemaError(f"reading a payout: {dollars!r:.60} is invalid; give dollars from 0 to 1 in whole millionths")


def dump_settlements(settlements: Iterable[Settlement]) -> dict[str, Any]:
    """Build the content of `settlement.json`, which `parse_settlements` reads."""
    return {
        settlement.ticker: {
            "result": settlement.result,
            "value": None if settlement.value is None else f"{units.dollars(settlement.value).normalize():f}",
            "settled_ts": format_iso(settlement.at),
            "source": settlement.source,
        }
        for settlement in settlements
    }
