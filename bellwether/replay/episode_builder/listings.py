"""Listings of markets, events and series in the lake, and settlements stated by the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from bellwether.errors import ConfigError, SchemaError
from bellwether.recordings.exchange_times import to_nanoseconds
from bellwether.replay import units
from bellwether.replay.episode.model import PAID, Ranges, Result, Settlement, parse_ranges
from bellwether.replay.rules import rule_sets
from bellwether.tables import TABLES
from bellwether.units import MicroDollars

if TYPE_CHECKING:
    from bellwether.lake import Lake
    from bellwether.replay.episode.model import Metadata

#: Fee terms of a market whose series is unknown.
DEFAULT_FEE: Mapping[str, Any] = {"type": "quadratic", "multiplier": "1", "waiver_until": None, "source": "default"}
#: Markets of the S&P 500 and the Nasdaq-100 paid half of the general fees until this instant, ns UTC: 2026-07-03 17:00. Listings of series contain
#: only today's multiplier.
_INDEX_SERIES, _INDEX_HALF_UNTIL = ("INX", "NASDAQ100"), 1_783_098_000 * units.SECOND
#: Result of a settlement by the result that the venue sends; others are unknown.
_RESULTS: Mapping[str, Result] = {"yes": "YES", "no": "NO", "scalar": "SCALAR", "void": "VOID"}


@dataclass(frozen=True, slots=True)
class ListedMarket:
    """Market as listed by the venue; None for missing values. Times in ns UTC, price_ranges in $0.0001.

    close_time: the actual one after an early close. can_close_early: true if unknown. fee: type, multiplier, waiver_until and source, as in
    episodes. outcome: the settlement, perhaps without a time.
    """

    ticker: str
    title: str | None = None
    open_time: int | None = None
    close_time: int | None = None
    can_close_early: bool = True
    price_ranges: Ranges | None = None
    fee: Mapping[str, Any] = field(default_factory=lambda: DEFAULT_FEE)
    outcome: Settlement | None = None


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """Event as listed by the venue."""

    ticker: str
    title: str | None = None
    mutually_exclusive: bool | None = None


@dataclass(frozen=True, slots=True)
class Listings:
    """Listed markets and events by ticker, and the fee terms of series by theirs. fee: terms of every market, stated by the user."""

    markets: Mapping[str, ListedMarket] = field(default_factory=dict)
    events: Mapping[str, ListedEvent] = field(default_factory=dict)
    series: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fee: Mapping[str, Any] | None = None

    def market(self, ticker: str) -> ListedMarket:
        """Return the listing of a market. An unlisted market has only the fees of the series in its ticker, or the general ones."""
        listing = self.markets.get(ticker) or ListedMarket(ticker, fee=self.series.get(ticker.partition("-")[0], DEFAULT_FEE))
        return listing if self.fee is None else replace(listing, fee=self.fee)

    def event(self, ticker: str) -> ListedEvent:
        """Return the listing of an event. An unlisted event has no title."""
        return self.events.get(ticker) or ListedEvent(ticker)


def fee_at(listing: ListedMarket, at: int) -> dict[str, Any]:
    """Return the fee terms of a market at time `at` (ns UTC): the listed ones, corrected where the venue has changed them since."""
    fee = dict(listing.fee)
    if (
        listing.ticker.removeprefix("KX").startswith(_INDEX_SERIES)
        and at < _INDEX_HALF_UNTIL
        and fee["source"] not in ("event", "stated")
        and fee["multiplier"] == "1"
    ):
        fee |= {"multiplier": "0.5", "source": "schedule"}
    return fee


def parse_listings(markets: pl.DataFrame, events: pl.DataFrame, series: pl.DataFrame) -> Listings:
    """Parse rows of `raw/kalshi_markets`, `raw/kalshi_events` and `raw/kalshi_series`.

    If a market or event has rows of several days, the one fetched last counts. Raises `SchemaError` naming the market and the field.
    """
    event_rows = {row["event_ticker"]: row for row in _select_latest(events, "event_ticker")}
    series_rows = {row["series_ticker"]: row for row in _select_latest(series, "series_ticker")}
    listed_markets, listed_events = {}, {}
    for row in _select_latest(markets, "ticker"):
        ticker = row["event_ticker"]
        event = event_rows.get(ticker, {})
        own = next((name for name in (event.get("series_ticker"), ticker.partition("-")[0]) if name in series_rows), None)
        listed_markets[row["ticker"]] = _build_market(row, event, series_rows.get(own, {}))
        if event:
            listed_events[ticker] = ListedEvent(ticker, event["title"], event["mutually_exclusive"])
    terms = {ticker: _build_fee({}, {}, row) for ticker, row in series_rows.items() if row["fee_type"]}
    return Listings(listed_markets, listed_events, terms)


def load_listings(lake: Lake, tickers: Sequence[str], fee: Mapping[str, Any] | None = None) -> Listings:
    """Load the listings of these markets, pulled or archived, and all series from the lake. fee: as in `Listings`. Raises `LakeError`."""

    def rows(name: str, column: str, values: Sequence[str]) -> pl.DataFrame:
        return lake.slice(TABLES[f"raw/{name}"]).query(lambda rows: rows.filter(pl.col(column).is_in(list(values))))

    markets = pl.concat([rows(name, "ticker", tickers) for name in ("kalshi_archive", "kalshi_markets")], how="diagonal")
    events = rows("kalshi_events", "event_ticker", markets["event_ticker"].unique().to_list())
    return replace(parse_listings(markets, events, lake.slice(TABLES["raw/kalshi_series"]).read()), fee=fee)


def _select_latest(frame: pl.DataFrame, key: str) -> list[dict[str, Any]]:
    """Return for each value of the column `key` the row that was fetched last, sorted by key."""
    order = [name for name in ("fetched_at", "day") if name in frame.columns]
    ordered = frame.sort(order) if order else frame
    return ordered.unique(key, keep="last", maintain_order=True).sort(key).to_dicts()


def _build_market(row: Mapping[str, Any], event: Mapping[str, Any], series: Mapping[str, Any]) -> ListedMarket:
    body = orjson.loads(row["body"] or "{}")
    return ListedMarket(
        ticker=row["ticker"],
        title=row["title"] or row["yes_sub_title"],
        open_time=_to_nanoseconds(row["open_time"]),
        close_time=_to_nanoseconds(row["close_time"]),
        can_close_early=row["can_close_early"] is not False,
        price_ranges=parse_listed_ranges(body.get("price_ranges"), row["ticker"]),
        fee=_build_fee(body, event, series),
        outcome=parse_outcome(row["ticker"], row["result"], row["settlement_value"], _to_nanoseconds(row["settled_at"]), "listing"),
    )


def _to_nanoseconds(at: datetime | None) -> int | None:
    return None if at is None else to_nanoseconds(at)


def parse_listed_ranges(ranges: Any, ticker: str) -> Ranges | None:
    """Parse the price grid in a market's `price_ranges`; None if it is missing. Raises `SchemaError`."""
    if not isinstance(ranges, list) or not ranges:
        return None
    try:
        return parse_ranges(ranges)
    except SchemaError as error:
        raise SchemaError(f"reading price_ranges of {ticker}: {error}") from None


def _build_fee(body: Mapping[str, Any], event: Mapping[str, Any], series: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a market's fee terms: the series' terms, the event's override of them, and the waiver in the market's `body`."""
    waiver = body.get("fee_waiver_expiration_time") or None
    override = {"type": event.get("fee_type_override") or None, "multiplier": event.get("fee_multiplier_override")}
    stated = {"type": series.get("fee_type") or None, "multiplier": series.get("fee_multiplier")}
    kind = override["type"] or stated["type"]
    if kind is None:
        return {**DEFAULT_FEE, "waiver_until": waiver}
    factor = stated["multiplier"] if override["multiplier"] is None else override["multiplier"]
    source = "event" if override["type"] or override["multiplier"] is not None else "series"
    multiplier = "1" if factor is None else f"{Decimal(factor).normalize():f}"
    return {"type": kind, "multiplier": multiplier, "waiver_until": waiver, "source": source}


def parse_payout(dollars: Decimal | str) -> MicroDollars:
    """Convert a payout from 0 to 1 dollars to micro-dollars. Raises `SchemaError` for other values."""
    try:
        scaled = Decimal(dollars) * units.MICROS
        if 0 <= scaled <= units.MICROS and scaled == int(scaled):
            return MicroDollars(int(scaled))
    except ArithmeticError:
        pass
    raise SchemaError(f"reading a payout: {dollars!r:.60} is invalid; give dollars from 0 to 1 in whole millionths")


def parse_outcome(ticker: str, result: str | None, payout: Decimal | str | None, at: int | None, source: str) -> Settlement | None:
    """Return the settlement for a result as the venue states it; None if it is unknown, or scalar without a payout.

    Raises `SchemaError` for an invalid payout of a scalar result.
    """
    name = _RESULTS.get(result or "")
    if name is None or (name == "SCALAR" and payout is None):
        return None
    value = parse_payout(payout) if name == "SCALAR" and payout is not None else PAID.get(name)
    return Settlement(ticker, name, value, at, source)


def parse_results(texts: Iterable[str]) -> dict[str, Settlement]:
    """Parse settlements that the user states, such as `TICKER=yes`, `TICKER=0.35` or `TICKER=void`. Raises `ConfigError` for others."""
    settlements: dict[str, Settlement] = {}
    for text in texts:
        ticker, _, outcome = text.rpartition("=")
        if not ticker or ticker in settlements:
            raise ConfigError(f"reading the result {text!r}: give TICKER=yes, no, void or the payout of YES in dollars, each ticker once")
        result = None if outcome.lower() == "scalar" else _RESULTS.get(outcome.lower())
        try:
            value = PAID.get(result) if result else parse_payout(outcome)
        except SchemaError as error:
            raise ConfigError(f"reading the result {text!r}: {error}") from None
        settlements[ticker] = Settlement(ticker, result or "SCALAR", value, None, "stated")
    return settlements


def set_settlement_time(settlement: Settlement, at: int) -> Settlement:
    """Return a settlement that is not before `at`, the market's close; `at` also replaces an unknown time."""
    return replace(settlement, at=at if settlement.at is None else max(settlement.at, at))


def parse_fee(text: str) -> dict[str, Any]:
    """Parse fee terms that the user states, TYPE or TYPE:MULTIPLIER. Raises `ConfigError` for others."""
    kind, _, factor = text.partition(":")
    try:
        multiplier = Decimal(factor or "1")
    except InvalidOperation:
        multiplier = Decimal(-1)
    if not kind or not multiplier.is_finite() or multiplier < 0:
        raise ConfigError(f"reading --fee: {text!r:.80} is not TYPE or TYPE:MULTIPLIER, such as quadratic_with_maker_fees or quadratic:0.5")
    types = sorted({name for rules in rule_sets().values() for name in rules.fees})
    if kind not in types:
        raise ConfigError(f"reading --fee: unknown fee type {kind!r:.60}; give one of {', '.join(types)}")
    return {"type": kind, "multiplier": f"{multiplier.normalize():f}", "waiver_until": None, "source": "stated"}


def with_fees(metadata: Metadata, listings: Listings) -> Metadata:
    """Return the metadata of an imported episode with the fees of markets that state none, or of all if the user states them."""
    markets = tuple(
        replace(market, fee=fee_at(listings.market(market.ticker), metadata.start))
        if listings.fee is not None or market.has_default_fee
        else market
        for market in metadata.markets
    )
    return replace(metadata, markets=markets)
