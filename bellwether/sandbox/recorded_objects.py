"""Recognition of the objects of both venues' REST interfaces in recorded JSON, at any depth.

Objects are kept verbatim. Only dumps of the venue's client library of 2024 are converted: the names of their fields begin with an
underscore.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from bellwether.sandbox.params import PERIODS
from bellwether.sandbox.timestamps import MINUTE, SECOND, parse_time

Object = dict[str, Any]

#: Fields in which recorders state the time of a response, and the parameters of its request.
_CAPTURED = ("captured_at", "recorded_at", "fetched_at", "collector_ts", "run_ts")
_CAPTURED_MS = "captured_ms"
_NOTES = "_metadata"
_TICKER = re.compile(r"[A-Z0-9]+(-[A-Z0-9.]+)*")


@dataclass(frozen=True, slots=True)
class RecordedObject:
    """Recorded JSON object, and the instant at which it was captured (None if not recorded)."""

    body: Object
    captured: int | None


def select_newest(objects: Iterable[RecordedObject], name: str, changed: Callable[[Object], int | None]) -> dict[str, Object]:
    """Select the newest object for each value of the field `name`: the one changed last or, if equal, captured last. changed: returns the
    instant of an object's last change.
    """
    ranked: dict[str, tuple[tuple[int, int], Object]] = {}
    for item in objects:
        key = item.body[name]
        rank = (changed(item.body) or 0, item.captured or 0)
        if key not in ranked or rank > ranked[key][0]:
            ranked[key] = (rank, item.body)
    return {key: body for key, (_, body) in ranked.items()}


@dataclass(slots=True)
class RecordedObjects:
    """Recorded objects of both venues by kind. candles: by (ticker, minutes), then by the candle's end in seconds."""

    markets: list[RecordedObject] = field(default_factory=list)
    events: list[RecordedObject] = field(default_factory=list)
    series: list[RecordedObject] = field(default_factory=list)
    candles: dict[tuple[str, int], dict[int, RecordedObject]] = field(default_factory=dict)
    series_of: dict[str, str] = field(default_factory=dict)
    captured: int | None = None
    gamma_markets: list[RecordedObject] = field(default_factory=list)
    gamma_events: list[RecordedObject] = field(default_factory=list)
    clob_markets: list[RecordedObject] = field(default_factory=list)
    clob_books: list[RecordedObject] = field(default_factory=list)

    def add_candles(self, ticker: str, period: int, candles: Iterable[Object], captured: int | None = None) -> None:
        """Add the candles of a market. If several candles have the same end, the one captured last counts. period: minutes."""
        stored = self.candles.setdefault((ticker, period), {})
        for candle in candles:
            other = stored.get(candle["end_period_ts"])
            if other is None or (captured or 0) >= (other.captured or 0):
                stored[candle["end_period_ts"]] = RecordedObject(candle, captured)

    def note(self, captured: int | None) -> None:
        """Update the instant of the latest capture of Kalshi's objects."""
        if captured is not None:
            self.captured = max(captured, self.captured or captured)


@dataclass(frozen=True, slots=True)
class _Context:
    """Information about an object from the enclosing JSON objects: capture time, ticker, series and period of candles."""

    captured: int | None = None
    ticker: str | None = None
    series: str | None = None
    period: int | None = None

    def inside(self, node: Object) -> _Context:
        """Return the context of the values inside a JSON object: this context, updated by the object's own fields."""
        context = self.inside(node[_NOTES]) if isinstance(node.get(_NOTES), dict) else self
        captured = _captured(node)
        ticker, series, period = node.get("market_ticker") or node.get("ticker"), node.get("series_ticker"), node.get("period_interval")
        return replace(
            context,
            captured=context.captured if captured is None else captured,
            ticker=ticker if isinstance(ticker, str) else context.ticker,
            series=series if isinstance(series, str) else context.series,
            period=period if period in PERIODS else context.period,
        )


def read_time(value: object) -> int | None:
    """Parse a time in a JSON value; return microseconds since 1970, or None for any other value."""
    try:
        return parse_time(value) if isinstance(value, str) and value else None
    except ValueError:
        return None


def _captured(node: Object) -> int | None:
    milliseconds = node.get(_CAPTURED_MS)
    if isinstance(milliseconds, int):
        return milliseconds * SECOND // 1000
    return next((time for name in _CAPTURED if (time := read_time(node.get(name))) is not None), None)


def _texts(node: Object, *names: str) -> bool:
    return all(isinstance(node.get(name), str) for name in names)


def is_market(node: Object) -> bool:
    """Return True for a market object of Kalshi, in any of its formats."""
    return _texts(node, "ticker", "event_ticker", "status")


def is_event(node: Object) -> bool:
    """Return True for an event object of Kalshi, in any of its formats."""
    return _texts(node, "event_ticker", "series_ticker", "title") and "ticker" not in node


def _is_series(node: Object) -> bool:
    return _texts(node, "ticker", "category", "frequency") and "event_ticker" not in node


def _is_candle(node: object) -> bool:
    return isinstance(node, dict) and isinstance(node.get("end_period_ts"), int) and isinstance(node.get("yes_bid"), dict)


def _has_id(node: Object) -> bool:
    return isinstance(node.get("id"), str) and node["id"].isascii() and node["id"].isdecimal()


def is_gamma_market(node: Object) -> bool:
    """Return True for a market object of Gamma."""
    return _has_id(node) and _texts(node, "conditionId", "question", "slug")


def is_gamma_event(node: Object) -> bool:
    """Return True for an event object of Gamma. An object with the same fields and a type is a series."""
    return _has_id(node) and _texts(node, "slug", "title") and "conditionId" not in node and "seriesType" not in node


def _is_clob_market(node: Object) -> bool:
    return _texts(node, "condition_id", "question") and isinstance(node.get("tokens"), list)


def _is_book(node: Object) -> bool:
    return _texts(node, "asset_id", "market") and isinstance(node.get("bids"), list) and isinstance(node.get("asks"), list)


def infer_period(ends: list[int]) -> int | None:
    """Infer the period of candles in minutes from their ends (seconds); None for fewer than two candles."""
    step = math.gcd(*(later - earlier for earlier, later in pairwise(ends)))
    return next((period for period in reversed(PERIODS) if step and step % (period * MINUTE // SECOND) == 0), None)


def _restore_names(node: Object) -> Object:
    """Remove the underscores that the field names of a dump of 2024 begin with."""
    if node and all(name.startswith("_") or name == "discriminator" for name in node):
        return {name[1:]: value for name, value in node.items() if name != "discriminator"}
    return node


def _collect_candles(candles: Any, ticker: str | None, context: _Context, findings: RecordedObjects) -> None:
    if ticker is None or not isinstance(candles, list) or not all(map(_is_candle, candles)):
        return
    period = context.period or infer_period(sorted(candle["end_period_ts"] for candle in candles)) or 60
    findings.add_candles(ticker, period, candles, context.captured)
    findings.note(context.captured)
    if context.series:
        findings.series_of[ticker] = context.series


def _collect_kalshi(node: Object, context: _Context, findings: RecordedObjects) -> bool:
    """Collect a JSON object and return True if it is an object of Kalshi."""
    if is_market(node):
        findings.markets.append(RecordedObject(node, context.captured))
    elif is_event(node):
        plain = {name: value for name, value in node.items() if name != "markets"}
        findings.events.append(RecordedObject(plain, context.captured))
        collect_objects(node.get("markets"), findings, context)
    elif _is_series(node):
        findings.series.append(RecordedObject(node, context.captured))
    else:
        return False
    findings.note(context.captured)
    return True


def _collect_polymarket(node: Object, context: _Context, findings: RecordedObjects) -> bool:
    """Collect a JSON object and return True if it is an object of Polymarket."""
    captured = _captured(node)
    item, inner = RecordedObject(node, context.captured if captured is None else captured), context.inside(node)
    if is_gamma_market(node):
        findings.gamma_markets.append(item)
        collect_objects(node.get("events"), findings, inner)
    elif is_gamma_event(node):
        findings.gamma_events.append(item)
        collect_objects(node.get("markets"), findings, inner)
    elif _is_clob_market(node):
        findings.clob_markets.append(item)
    elif _is_book(node):
        findings.clob_books.append(item)
    else:
        return False
    return True


def collect_objects(node: Any, findings: RecordedObjects, context: _Context | None = None) -> None:
    """Add every object of a venue inside `node` to `findings`, in order."""
    context = context or _Context()
    if isinstance(node, list):
        for item in node:
            collect_objects(item, findings, context)
    elif isinstance(node, dict):
        node = _restore_names(node)
        if _collect_kalshi(node, context, findings) or _collect_polymarket(node, context, findings):
            return
        inner = context.inside(node)
        for ticker, candles in zip(node.get("market_tickers") or (), node.get("market_candlesticks") or (), strict=False):
            _collect_candles(candles, ticker, inner, findings)
        _collect_candles(node.get("candlesticks"), inner.ticker, inner, findings)
        for name, value in node.items():
            collect_objects(value, findings, replace(inner, ticker=name) if _TICKER.fullmatch(name) else inner)
