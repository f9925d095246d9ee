"""Kalshi in the arena: events and contracts as markets, quotes, and results.

A contract is a market with the sides YES and NO. The contracts of a mutually exclusive event form one market instead, with an outcome per contract,
named after its YES; NO cannot be bought there. Rows are those of raw/kalshi_markets, raw/kalshi_events and raw/kalshi_series.

Only a paid-out (finalized) result counts; until then it can be disputed and amended. The rules are those of clean/markets; a market with named outcomes
needs the payout of all its contracts. `settlements` of `bellwether.arena.resolution` decides when a result counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
import polars as pl

from bellwether.arena.facts import Result
from bellwether.arena.history import LATEST, SOONEST
from bellwether.arena.market import Level, Market, MarketStatus, Quote, complement, fees_of, folded, within
from bellwether.arena.resolution import UNKNOWN, Observation, Ruling
from bellwether.arena.units import MICROS, micros, middle, price_micros
from bellwether.arena.universe import Universe, frozen
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE
from bellwether.venues.wire.times import instant_of

BOOK, CANDLES = "orderbook", "candlesticks"

Sizes = Sequence[tuple[Decimal, Decimal]]


class Candle(NamedTuple):
    """The end of a candle: best bid and ask for YES in dollars; None where there was none."""

    at: datetime
    bid: Decimal | None
    ask: Decimal | None


def quote_of_book(yes: Sizes, no: Sizes, at: datetime) -> Quote:
    """The quote of YES from the bids of both sides, (price, contracts) in any order: who bids for NO offers YES at what that leaves of a dollar."""
    bids = sorted(_levels(yes), key=lambda level: -level.price)
    asks = sorted((Level(complement(level.price), level.shares) for level in _levels(no)), key=lambda level: level.price)
    bid, ask = (side[0].price if side else None for side in (bids, asks))
    return Quote(middle(bid, ask), bid, ask, at, BOOK, tuple(bids), tuple(asks))


def quote_of_candle(candle: Candle) -> Quote:
    """The quote of YES at the end of a candle; what rested in the book is not kept."""
    bid, ask = price_micros(candle.bid), price_micros(candle.ask)
    return Quote(middle(bid, ask), bid, ask, candle.at, CANDLES)


def as_of(candles: Sequence[Candle], at: datetime) -> Candle | None:
    """The last candle that had ended by an instant."""
    return max((candle for candle in candles if candle.at <= at), default=None, key=lambda candle: candle.at)


def _levels(side: Sizes) -> list[Level]:
    found = ((price_micros(price), MicroShares(micros(size))) for price, size in side)
    return [Level(price, shares) for price, shares in found if price is not None and shares > 0]


Row = Mapping[str, Any]

#: Words of a contract that can still be traded, now or later.
OPEN = frozenset({"initialized", "active", "inactive"})
#: The smallest step of each price grid, in micro-dollars.
TICKS = {"linear_cent": SharePrice(10_000), "deci_cent": SharePrice(1_000), "tapered_deci_cent": SharePrice(1_000)}

_STATUSES = {"determined": MarketStatus.PROPOSED, "disputed": MarketStatus.DISPUTED, "amended": MarketStatus.DISPUTED}


@dataclass(frozen=True)
class Listed:
    """Parts of one market of the arena: its id, its event (None where the venue has none of the name), and its contracts by ticker.

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
        """Time at which the venue expects the outcome, of the latest contract."""
        return max((row["expected_expiration_time"] for row in self.contracts if row.get("expected_expiration_time")), default=None)


def name_of(row: Row) -> str:
    """The outcome that YES of a contract means."""
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
    """Return whether contracts have names that can be the outcomes of one market: several, each its own, none of them yes or no."""
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
    """Status of a market: it is traded while one of its contracts is."""
    words = [row["status"] for row in one.contracts]
    if "active" in words:
        return MarketStatus.ACTIVE
    return _STATUSES.get(words[0], MarketStatus.CLOSED) if len(set(words)) == 1 else MarketStatus.CLOSED


def question_of(one: Listed) -> str:
    """The question: of an event its title; of a contract its title and, where that is the event's, what YES means."""
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
    """Return whether a contract (a row of any later time) could be traded at an instant, as far as its dates say.

    The close may have been moved since: before the instant or after it shows only whether the contract was open then.
    """
    return not_over(row, at) and (row.get("open_time") is None or row["open_time"] <= at)


def not_over(row: Row, at: datetime) -> bool:
    """Return whether a contract existed at an instant and had not closed."""
    created: datetime | None = row.get("created_at") or row.get("open_time")
    close: datetime = row["close_time"]
    return created is not None and created <= at < close


def candidates(contracts: Iterable[Row], events: Mapping[str, Row], at: datetime) -> list[Listed]:
    """The markets that were open at an instant and whose outcome was expected from `history.SOONEST` to `history.LATEST` after it, the soonest first.

    The close of a contract decides nothing else: the venue moves it when a contract closes early, which was unknown in advance.
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
    """Return whether no contract costs a fee yet."""
    return all((until := _waived_until(row)) is not None and at < until for row in one.contracts)


def _waived_until(row: Row) -> datetime | None:
    body = row.get("body")
    return instant_of(orjson.loads(body).get("fee_waiver_expiration_time")) if body and "fee_waiver" in body else None


#: What a share of a side pays by the word on it.
_PAID = {"yes": SharePrice(MICROS), "no": SharePrice(0)}
#: The winner where every named outcome has lost: exclusive outcomes need not be all that can happen.
NONE_OF_THEM = "(no outcome)"
#: Words of a contract in the order in which they follow each other.
_ORDER = ("initialized", "inactive", "active", "closed", "determined", "disputed", "amended", "finalized")


def evidence_of(one: Listed, *, fetched_at: datetime) -> dict[str, Any]:
    """A row of evidence from one look at all contracts of a market. results: the venue's word on each contract, "" while it has none."""
    contracts = one.contracts
    words = [row["status"] for row in contracts]
    over, paid = not OPEN & set(words), set(words) == {"finalized"}
    values = [row.get("settlement_value") for row in contracts]
    if not one.named:
        values = [values[0], None if values[0] is None else 1 - values[0]]
    closes = max(row["close_time"] for row in contracts)
    settled = [row.get("settled_at") for row in contracts]
    return {
        "market_id": one.market_id,
        "market_type": "binary" if not one.named else "named" if len(contracts) == 2 else "multi",
        "outcomes": list(one.outcomes),
        "closed": over,
        "resolution_status": min(words, key=_ORDER.index),
        "results": [row.get("result") or "" for row in contracts],
        "outcome_prices": None if None in values else values,
        "end_time": closes,
        "closed_at": closes if over else None,
        "settled_at": max(at for at in settled if at) if paid and None not in settled else None,
        "fetched_at": fetched_at,
    }


def observations(evidence: pl.DataFrame) -> list[Observation]:
    """Observations from rows of evidence, with the columns of `evidence_of`."""
    return [_observation(row) for row in evidence.iter_rows(named=True)]


def _observation(row: Mapping[str, Any]) -> Observation:
    paid = row["resolution_status"] == "finalized"
    ruling = ruling_of(row["outcomes"], row["results"], row["outcome_prices"]) if paid else None
    words = ", ".join(sorted(set(row["results"]))) if paid else row["resolution_status"]
    return Observation(row["market_id"], row["fetched_at"], ruling, f"Kalshi: {words}", row["settled_at"] if paid else None)


def ruling_of(outcomes: Sequence[str], results: Sequence[str], values: Sequence[Decimal] | None) -> Ruling:
    """Ruling from results. results: of each named outcome, or the one of a contract with the sides YES and NO. values: dollars that each outcome pays.

    yes and no decide, where the value does not contradict them; a void refunds; a fractional value pays each side its part; otherwise the result is unknown.
    """
    if "void" in results:
        return Ruling(Result.CANCELLED)
    paid = [price_micros(value) for value in values or ()]
    pays: list[SharePrice | None] = paid if len(paid) == len(outcomes) else [None] * len(outcomes)
    said = _of_both(results[0]) if len(results) == 1 and len(outcomes) == 2 else list(results)
    parts = [_part(word, value) for word, value in zip(said, pays, strict=True)]
    if None in parts or len({folded(name) for name in outcomes}) < len(outcomes):
        return UNKNOWN
    payouts = tuple((folded(name), part or SharePrice(0)) for name, part in zip(outcomes, parts, strict=True))
    winners = [name for name, part in zip(outcomes, parts, strict=True) if part == MICROS]
    if "scalar" in results or len(winners) > 1:
        return Ruling(Result.SPLIT, payouts)
    return Ruling(Result.WON, payouts, winners[0] if winners else NONE_OF_THEM)


def _of_both(word: str) -> list[str]:
    """The words on YES and on NO of a contract."""
    return [word, {"yes": "no", "no": "yes"}.get(word, word)]


def _part(word: str, value: SharePrice | None) -> SharePrice | None:
    """Micro-dollars that a result pays; None where it states none, or its value contradicts it."""
    if word == "scalar":
        return value
    said = _PAID.get(word)
    return said if value in (None, said) else None


def past_looks(found: Iterable[Listed], until: datetime, *, wait: timedelta, grace: timedelta) -> list[dict[str, Any]]:
    """Looks at markets as they would have been, from their contracts of today: rows as `evidence_of`, each dated when it could have been made.

    A market is looked at when the window for disputes (`wait`) after its payment is over, and, if that does not say how it ended, again after the
    `grace` of an unknown winner; as far as these are past. One that is not paid out, or does not say since when, gives nothing.
    """
    looks = []
    for one in found:
        row = evidence_of(one, fetched_at=until)
        settled: datetime | None = row["settled_at"]
        if settled is None:
            continue
        known = ruling_of(row["outcomes"], row["results"], row["outcome_prices"]).result is not None
        times = [settled + wait] if known else [settled + wait, settled + wait + grace]
        looks += [{**row, "fetched_at": at} for at in times if at <= until]
    return looks
