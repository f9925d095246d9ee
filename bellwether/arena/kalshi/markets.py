"""Kalshi's events and contracts as the arena's markets.

A contract is a market with the sides YES and NO. The contracts of an event of which at most one can win are one market instead, whose outcomes are what
YES stands for in each; that it is not has no side. Rows are those of raw/kalshi_markets, raw/kalshi_events and raw/kalshi_series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from bellwether.arena.fees import fees_of
from bellwether.arena.history import LATEST, SOONEST
from bellwether.arena.kalshi.quotes import Candle, quote_of_candle
from bellwether.arena.market import Market, MarketStatus, complement, folded, within
from bellwether.arena.units import micros, middle, price_micros
from bellwether.arena.universe import Universe, frozen
from bellwether.units import MicroDollars, SharePrice
from bellwether.venues.polymarket.fees import FREE
from bellwether.venues.wire.times import instant_of

Row = Mapping[str, Any]

#: Words of a contract that can still be traded, now or later.
OPEN = frozenset({"initialized", "active", "inactive"})
#: The smallest step of each price grid, in micro-dollars.
TICKS = {"linear_cent": SharePrice(10_000), "deci_cent": SharePrice(1_000), "tapered_deci_cent": SharePrice(1_000)}

_STATUSES = {"determined": MarketStatus.PROPOSED, "disputed": MarketStatus.DISPUTED, "amended": MarketStatus.DISPUTED}


@dataclass(frozen=True)
class Listed:
    """What makes one market of the arena: its id, its event (None where the venue has none of the name), and its contracts by ticker.

    named: the contracts are its outcomes; else it is one contract.
    """

    market_id: str
    event: Row | None
    contracts: tuple[Row, ...]
    named: bool

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of the outcomes."""
        return tuple(name_of(row) for row in self.contracts) if self.named else ("Yes", "No")

    @property
    def tickers(self) -> tuple[str, ...]:
        """The contract of each outcome, or the one whose YES is the outcome."""
        return tuple(row["ticker"] for row in self.contracts)

    @property
    def expected(self) -> datetime | None:
        """When the venue expects the outcome: of the latest contract."""
        return max((row["expected_expiration_time"] for row in self.contracts if row.get("expected_expiration_time")), default=None)


def name_of(row: Row) -> str:
    """What YES of a contract stands for."""
    return str(row.get("yes_sub_title") or "").strip()


def listed(contracts: Iterable[Row], events: Mapping[str, Row]) -> list[Listed]:
    """The markets that contracts make, by id. Give those of an event that are not over: only they can be outcomes. Combos are left out."""
    of_event: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in contracts:
        if not row.get("is_combo"):
            of_event[row["event_ticker"]].setdefault(row["ticker"], row)
    found: list[Listed] = []
    for ticker, rows in of_event.items():
        event, own = events.get(ticker), tuple(rows[name] for name in sorted(rows))
        if event is not None and event.get("mutually_exclusive") and _tell_apart(ticker, own):
            found.append(Listed(ticker, event, own, named=True))
        else:
            found += [Listed(row["ticker"], event, (row,), named=False) for row in own]
    return sorted(found, key=lambda one: one.market_id)


def _tell_apart(event_ticker: str, contracts: Sequence[Row]) -> bool:
    """Whether contracts have names that can be the outcomes of one market: several, each its own, none of them yes or no."""
    names = {folded(name_of(row)) for row in contracts}
    tickers = {row["ticker"] for row in contracts}
    return len(contracts) > 1 and len(names) == len(contracts) and not names & {"", "yes", "no"} and event_ticker not in tickers


def market_of(one: Listed, series: Mapping[str, Row], at: datetime) -> Market:
    """A market as its listing shows it, with the fees of an instant. Volume: contracts traded, of all outcomes, each for the dollar that it pays.

    See `price_of`.
    """
    event = one.event or {}
    terms = series.get(event.get("series_ticker") or "")
    status = status_of(one)
    prices = tuple(price_of(row) for row in one.contracts)
    volumes = [row["volume"] for row in one.contracts if row.get("volume") is not None]
    ticks = [TICKS.get(row.get("price_level_structure") or "") for row in one.contracts]
    closes = max(row["close_time"] for row in one.contracts)
    return Market(
        market_id=one.market_id,
        question=question_of(one),
        outcomes=one.outcomes,
        prices=prices if one.named else _both(prices[0]),
        token_ids=one.tickers,
        category=(terms or {}).get("category") or event.get("category"),
        event_id=one.contracts[0]["event_ticker"],
        volume=MicroDollars(micros(sum(volumes, start=Decimal(0)))) if volumes else None,
        closes_at=one.expected or closes,
        status=status,
        tick=min((tick for tick in ticks if tick is not None), default=None) if None not in ticks else None,
        fees=FREE if _waived(one, at) else fees_of(one.event, terms, at),
    )


def status_of(one: Listed) -> MarketStatus:
    """Where a market stands: it is traded while one of its contracts is."""
    words = [row["status"] for row in one.contracts]
    if "active" in words:
        return MarketStatus.ACTIVE
    return _STATUSES.get(words[0], MarketStatus.CLOSED) if len(set(words)) == 1 else MarketStatus.CLOSED


def question_of(one: Listed) -> str:
    """The question: of an event its title; of a contract its title and, where that is the event's, what YES stands for."""
    event_title = str((one.event or {}).get("title") or "").strip()
    if one.named:
        return event_title or one.market_id
    row = one.contracts[0]
    title, label = str(row.get("title") or "").strip(), name_of(row)
    if not title:
        return " — ".join(filter(None, (event_title, label))) or one.market_id
    shared = folded(title) == folded(event_title)
    return f"{title} — {label}" if shared and folded(label) not in ("", "yes", folded(title)) else title


def was_open(row: Row, at: datetime) -> bool:
    """Whether a contract (a row of any later time) could be traded at an instant, as far as its dates say.

    The close may have been moved since: before the instant or after it says only whether the contract was open then.
    """
    return not_over(row, at) and (row.get("open_time") is None or row["open_time"] <= at)


def not_over(row: Row, at: datetime) -> bool:
    """Whether a contract existed at an instant and had not closed."""
    created: datetime | None = row.get("created_at") or row.get("open_time")
    close: datetime = row["close_time"]
    return created is not None and created <= at < close


def candidates(contracts: Iterable[Row], events: Mapping[str, Row], at: datetime) -> list[Listed]:
    """The markets that were open at an instant and whose outcome was expected from `history.SOONEST` to `history.LATEST` after it, the soonest first.

    The close of a contract decides nothing else: the venue moves it when a contract closes early, which nobody knew.
    """
    found = [
        one
        for one in listed((row for row in contracts if not_over(row, at)), events)
        if one.expected is not None and SOONEST <= one.expected - at <= LATEST and any(was_open(row, at) for row in one.contracts)
    ]
    return sorted(found, key=lambda one: (one.expected, one.market_id))


def past_universe(
    found: Iterable[Listed], series: Mapping[str, Row], candles: Mapping[str, Candle | None], at: datetime, limit: int
) -> Universe:
    """The universe as of an instant: of `candidates` the first `limit` that had a price.

    candles: the one in force at the instant, by ticker. Volume and tick of the time are not known.
    """
    markets: list[Market] = []
    for one in found:
        if len(markets) == limit:
            break
        market = past_market(one, series, candles, at)
        if any(price is not None for price in market.prices):
            markets.append(market)
    return frozen(markets)


def past_market(one: Listed, series: Mapping[str, Row], candles: Mapping[str, Candle | None], at: datetime) -> Market:
    """A market as of an instant, with the prices of candles."""
    known = [candles.get(row["ticker"]) if was_open(row, at) else None for row in one.contracts]
    prices = tuple(None if candle is None else quote_of_candle(candle).mid for candle in known)
    return replace(
        market_of(one, series, at),
        prices=prices if one.named else _both(prices[0]),
        volume=None,
        tick=None,
        closes_at=one.expected,
        status=MarketStatus.ACTIVE if any(was_open(row, at) for row in one.contracts) else MarketStatus.CLOSED,
    )


def price_of(row: Row) -> SharePrice | None:
    """The price of YES of a contract in its listing: the midpoint, and where a side is not quoted the last trade, never beyond the other side.

    None of a contract that is not traded or was never.
    """
    if row["status"] != "active":
        return None
    bid, ask, last = (price_micros(row.get(name)) for name in ("yes_bid", "yes_ask", "last_price"))
    return middle(bid, ask) if bid is not None and ask is not None else None if last is None else within(last, bid, ask)


def _both(yes: SharePrice | None) -> tuple[SharePrice | None, SharePrice | None]:
    return yes, None if yes is None else complement(yes)


def _waived(one: Listed, at: datetime) -> bool:
    """Whether no contract costs a fee yet."""
    return all((until := _waived_until(row)) is not None and at < until for row in one.contracts)


def _waived_until(row: Row) -> datetime | None:
    body = row.get("body")
    return instant_of(orjson.loads(body).get("fee_waiver_expiration_time")) if body and "fee_waiver" in body else None
