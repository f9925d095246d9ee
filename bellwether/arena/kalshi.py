"""Kalshi in the arena: events and contracts as markets, quotes and results.

A contract is a market with the sides YES and NO, unless its event is mutually exclusive: then all contracts of the event form one market with
an outcome per contract, named after its YES side; NO cannot be bought there. Rows are those of raw/kalshi_markets, raw/kalshi_events and
raw/kalshi_series.

Only a paid (finalized) result counts, because earlier ones can be disputed and amended. Results follow the rules of clean/markets; a market
with named outcomes needs the payout of all its contracts. `bellwether.arena.resolution` determines when a result counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

import orjson
import polars as pl

from bellwether.arena.facts import Result
from bellwether.arena.history import LATEST, SOONEST
from bellwether.arena.market import Level, Market, MarketStatus, Quote, complement, fold_case, kalshi_fees
from bellwether.arena.resolution import UNKNOWN, Observation, Ruling
from bellwether.arena.units import MICROS, micros, midpoint, price_micros
from bellwether.arena.universe import Universe, build_universe
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FREE
from bellwether.venues.wire.times import parse_instant

BOOK, CANDLES = "orderbook", "candlesticks"

Sizes = Sequence[tuple[Decimal, Decimal]]


class Candle(NamedTuple):
    """Best YES bid and ask in dollars at the end of a candlestick (`at`); None if not quoted."""

    at: datetime
    bid: Decimal | None
    ask: Decimal | None


def quote_from_book(yes: Sizes, no: Sizes, at: datetime) -> Quote:
    """Return the quote of YES. yes, no: resting bids for each side as (dollars, contracts), in any order. A NO bid at p is a YES ask at 1 - p."""
    bids = sorted(_to_levels(yes), key=lambda level: -level.price)
    asks = sorted((Level(complement(level.price), level.shares) for level in _to_levels(no)), key=lambda level: level.price)
    bid, ask = (side[0].price if side else None for side in (bids, asks))
    return Quote(midpoint(bid, ask), bid, ask, at, BOOK, tuple(bids), tuple(asks))


def quote_from_candle(candle: Candle) -> Quote:
    """Return the quote of YES at the end of a candle, without book levels."""
    bid, ask = price_micros(candle.bid), price_micros(candle.ask)
    return Quote(midpoint(bid, ask), bid, ask, candle.at, CANDLES)


def find_latest_candle(candles: Sequence[Candle], at: datetime) -> Candle | None:
    """Return the last candle that ended at or before an instant; None if all candles ended later."""
    return max((candle for candle in candles if candle.at <= at), default=None, key=lambda candle: candle.at)


def _to_levels(side: Sizes) -> list[Level]:
    levels = ((price_micros(price), MicroShares(micros(size))) for price, size in side)
    return [Level(price, shares) for price, shares in levels if price is not None and shares > 0]


Row = Mapping[str, Any]

#: Statuses of contracts that can be traded now or later.
OPEN = frozenset({"initialized", "active", "inactive"})
#: Smallest tick of each price grid, in micro-dollars.
TICKS = {"linear_cent": SharePrice(10_000), "deci_cent": SharePrice(1_000), "tapered_deci_cent": SharePrice(1_000)}

_STATUSES = {"determined": MarketStatus.PROPOSED, "disputed": MarketStatus.DISPUTED, "amended": MarketStatus.DISPUTED}


@dataclass(frozen=True)
class MarketListing:
    """Kalshi's rows of one market of the arena: the event (None if unknown) and the contracts, sorted by ticker. named: True if each contract is
    an outcome; False if the market is a single contract.
    """

    market_id: str
    event: Row | None
    contracts: tuple[Row, ...]
    named: bool

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Names of the outcomes."""
        return tuple(outcome_name(row) for row in self.contracts) if self.named else ("Yes", "No")

    @property
    def tickers(self) -> tuple[str, ...]:
        """Ticker of the contract of each outcome, or of the single contract of a binary market."""
        return tuple(row["ticker"] for row in self.contracts)

    @property
    def expected(self) -> datetime | None:
        """Latest expected expiration of the contracts; None if no contract states one."""
        return max((row["expected_expiration_time"] for row in self.contracts if row.get("expected_expiration_time")), default=None)


def outcome_name(row: Row) -> str:
    """Return the name of the outcome that wins if a contract pays YES."""
    return str(row.get("yes_sub_title") or "").strip()


def group_contracts(contracts: Iterable[Row], events: Mapping[str, Row]) -> list[MarketListing]:
    """Group contracts into markets, sorted by market id. Combos are omitted. events: by ticker. Ended contracts must not be passed, because they
    would become outcomes.
    """
    of_event: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in contracts:
        if not row.get("is_combo"):
            of_event[row["event_ticker"]].setdefault(row["ticker"], row)
    markets: list[MarketListing] = []
    for ticker, rows in of_event.items():
        event, members = events.get(ticker), tuple(rows[name] for name in sorted(rows))
        if event is not None and event.get("mutually_exclusive") and _has_distinct_names(ticker, members):
            markets.append(MarketListing(ticker, event, members, named=True))
        else:
            markets += [MarketListing(row["ticker"], event, (row,), named=False) for row in members]
    return sorted(markets, key=lambda market: market.market_id)


def _has_distinct_names(event_ticker: str, contracts: Sequence[Row]) -> bool:
    """Return whether the contracts can be outcomes of one market: at least two, with distinct names other than yes and no."""
    names = {fold_case(outcome_name(row)) for row in contracts}
    tickers = {row["ticker"] for row in contracts}
    return len(contracts) > 1 and len(names) == len(contracts) and not names & {"", "yes", "no"} and event_ticker not in tickers


def build_market(listing: MarketListing, series: Mapping[str, Row], at: datetime) -> Market:
    """Build a market from its listing, with the `listed_price` of each contract and the fees as of an instant. series: by ticker.

    The volume is the number of traded contracts of all outcomes in dollars, because a contract pays one dollar.
    """
    event = listing.event or {}
    fees_row = series.get(event.get("series_ticker") or "")
    status = find_market_status(listing)
    prices = tuple(listed_price(row) for row in listing.contracts)
    volumes = [row["volume"] for row in listing.contracts if row.get("volume") is not None]
    ticks = [TICKS.get(row.get("price_level_structure") or "") for row in listing.contracts]
    closes = max(row["close_time"] for row in listing.contracts)
    return Market(
        market_id=listing.market_id,
        question=build_question_text(listing),
        outcomes=listing.outcomes,
        prices=prices if listing.named else _both_sides(prices[0]),
        token_ids=listing.tickers,
        category=(fees_row or {}).get("category") or event.get("category"),
        event_id=listing.contracts[0]["event_ticker"],
        volume=MicroDollars(micros(sum(volumes, start=Decimal(0)))) if volumes else None,
        closes_at=listing.expected or closes,
        status=status,
        tick=min((tick for tick in ticks if tick is not None), default=None) if None not in ticks else None,
        fees=FREE if _is_fee_waived(listing, at) else kalshi_fees(listing.event, fees_row, at),
    )


def find_market_status(listing: MarketListing) -> MarketStatus:
    """Return the status of a market: ACTIVE if any contract is active, CLOSED if the contracts' statuses differ, else their common status."""
    statuses = [row["status"] for row in listing.contracts]
    if "active" in statuses:
        return MarketStatus.ACTIVE
    return _STATUSES.get(statuses[0], MarketStatus.CLOSED) if len(set(statuses)) == 1 else MarketStatus.CLOSED


def build_question_text(listing: MarketListing) -> str:
    """Return the question of a market: the event's title if contracts are outcomes, else the contract's title. If both titles are equal, the
    meaning of YES is added.
    """
    event_title = str((listing.event or {}).get("title") or "").strip()
    if listing.named:
        return event_title or listing.market_id
    row = listing.contracts[0]
    title, label = str(row.get("title") or "").strip(), outcome_name(row)
    if not title:
        return " — ".join(filter(None, (event_title, label))) or listing.market_id
    shared = fold_case(title) == fold_case(event_title)
    return f"{title} — {label}" if shared and fold_case(label) not in ("", "yes", fold_case(title)) else title


def was_open(row: Row, at: datetime) -> bool:
    """Return whether a contract was open at an instant, by the dates in its row. The row may have been stored after that instant.

    The venue may have moved the closing time in between.
    """
    return has_not_closed(row, at) and (row.get("open_time") is None or row["open_time"] <= at)


def has_not_closed(row: Row, at: datetime) -> bool:
    """Return whether a contract had been created and had not closed at an instant."""
    created: datetime | None = row.get("created_at") or row.get("open_time")
    close: datetime = row["close_time"]
    return created is not None and created <= at < close


def find_candidates(contracts: Iterable[Row], events: Mapping[str, Row], at: datetime) -> list[MarketListing]:
    """Return the markets that were open at an instant and expected to end 1 to 14 days later (`history.SOONEST`, `history.LATEST`), earliest
    first.

    The closing time has no other effect: the venue moves it when a contract closes early, which was unknown in advance.
    """
    candidates = [
        listing
        for listing in group_contracts((row for row in contracts if has_not_closed(row, at)), events)
        if listing.expected is not None
        and SOONEST <= listing.expected - at <= LATEST
        and any(was_open(row, at) for row in listing.contracts)
    ]
    return sorted(candidates, key=lambda listing: (listing.expected, listing.market_id))


def reconstruct_universe(
    candidates: Iterable[MarketListing], series: Mapping[str, Row], candles: Mapping[str, Candle | None], at: datetime, limit: int
) -> Universe:
    """Reconstruct the universe (the markets offered to agents) as of an instant: the first `limit` candidates with a price. series: by ticker.

    candles: the latest candle at the instant, by ticker. Volume and tick of the time are unknown.
    """
    markets = (reconstruct_market(listing, series, candles, at) for listing in candidates)
    priced = (market for market in markets if any(price is not None for price in market.prices))
    return build_universe(list(islice(priced, limit)))


def reconstruct_market(listing: MarketListing, series: Mapping[str, Row], candles: Mapping[str, Candle | None], at: datetime) -> Market:
    """Reconstruct a market as of an instant. candles: latest candle of each contract by ticker, from which prices follow. series: by ticker."""
    latest = [candles.get(row["ticker"]) if was_open(row, at) else None for row in listing.contracts]
    prices = tuple(None if candle is None else quote_from_candle(candle).mid for candle in latest)
    return replace(
        build_market(listing, series, at),
        prices=prices if listing.named else _both_sides(prices[0]),
        volume=None,
        tick=None,
        closes_at=listing.expected,
        status=MarketStatus.ACTIVE if any(was_open(row, at) for row in listing.contracts) else MarketStatus.CLOSED,
    )


def listed_price(row: Row) -> SharePrice | None:
    """Return the midpoint of the listed bid and ask for YES; None if a side is not quoted or the contract is not active."""
    return midpoint(price_micros(row.get("yes_bid")), price_micros(row.get("yes_ask"))) if row["status"] == "active" else None


def _both_sides(yes: SharePrice | None) -> tuple[SharePrice | None, SharePrice | None]:
    return yes, None if yes is None else complement(yes)


def _is_fee_waived(listing: MarketListing, at: datetime) -> bool:
    """Return whether the fees of all contracts of a market are waived at an instant."""
    return all((until := _fee_waiver_end(row)) is not None and at < until for row in listing.contracts)


def _fee_waiver_end(row: Row) -> datetime | None:
    body = row.get("body")
    return parse_instant(orjson.loads(body).get("fee_waiver_expiration_time")) if body and "fee_waiver" in body else None


#: Payout of a share by the result of its side.
_PAID = {"yes": SharePrice(MICROS), "no": SharePrice(0)}
#: Winner if every named outcome lost: mutually exclusive outcomes need not be exhaustive.
NONE_OF_THEM = "(no outcome)"
#: Statuses of a contract in the order of its life cycle.
_ORDER = ("initialized", "inactive", "active", "closed", "determined", "disputed", "amended", "finalized")


def build_evidence_row(listing: MarketListing, *, fetched_at: datetime) -> dict[str, Any]:
    """Build a row of evidence (what the venue states about a market's resolution) from all contracts. The column results holds the result of each
    contract, "" if missing.
    """
    contracts = listing.contracts
    statuses = [row["status"] for row in contracts]
    ended, paid = not OPEN & set(statuses), set(statuses) == {"finalized"}
    values = [row.get("settlement_value") for row in contracts]
    if not listing.named:
        values = [values[0], None if values[0] is None else 1 - values[0]]
    closes = max(row["close_time"] for row in contracts)
    settled = [row.get("settled_at") for row in contracts]
    return {
        "market_id": listing.market_id,
        "market_type": "binary" if not listing.named else "named" if len(contracts) == 2 else "multi",
        "outcomes": list(listing.outcomes),
        "closed": ended,
        "resolution_status": min(statuses, key=_ORDER.index),
        "results": [row.get("result") or "" for row in contracts],
        "outcome_prices": None if None in values else values,
        "end_time": closes,
        "closed_at": closes if ended else None,
        "settled_at": max(at for at in settled if at) if paid and None not in settled else None,
        "fetched_at": fetched_at,
    }


def judge_evidence(evidence: pl.DataFrame) -> list[Observation]:
    """Return an observation per row of evidence: the result and payouts that follow from the row. evidence: columns of `build_evidence_row`."""
    return [_judge_row(row) for row in evidence.iter_rows(named=True)]


def _judge_row(row: Mapping[str, Any]) -> Observation:
    paid = row["resolution_status"] == "finalized"
    ruling = judge_results(row["outcomes"], row["results"], row["outcome_prices"]) if paid else None
    state = ", ".join(sorted(set(row["results"]))) if paid else row["resolution_status"]
    return Observation(row["market_id"], row["fetched_at"], ruling, f"Kalshi: {state}", row["settled_at"] if paid else None)


def judge_results(outcomes: Sequence[str], results: Sequence[str], values: Sequence[Decimal] | None) -> Ruling:
    """Return the ruling (result and payouts) that follows from the results of a market's contracts.

    results: of each named outcome, or of the contract of a binary market. values: payout of each outcome in dollars. yes and no decide, unless
    the value contradicts them; void refunds; a fractional value pays each side its part; anything else is unknown.
    """
    if "void" in results:
        return Ruling(Result.CANCELLED)
    paid = [price_micros(value) for value in values or ()]
    pays: list[SharePrice | None] = paid if len(paid) == len(outcomes) else [None] * len(outcomes)
    texts = (
        [results[0], {"yes": "no", "no": "yes"}.get(results[0], results[0])] if len(results) == 1 and len(outcomes) == 2 else list(results)
    )
    paid_parts = [_result_payout(text, value) for text, value in zip(texts, pays, strict=True)]
    if None in paid_parts or len({fold_case(name) for name in outcomes}) < len(outcomes):
        return UNKNOWN
    payouts = tuple((fold_case(name), part or SharePrice(0)) for name, part in zip(outcomes, paid_parts, strict=True))
    winners = [name for name, part in zip(outcomes, paid_parts, strict=True) if part == MICROS]
    if "scalar" in results or len(winners) > 1:
        return Ruling(Result.SPLIT, payouts)
    return Ruling(Result.WON, payouts, winners[0] if winners else NONE_OF_THEM)


def _result_payout(result: str, value: SharePrice | None) -> SharePrice | None:
    """Return the payout of a share in micro-dollars; None if the result is unknown or contradicts `value`, the payout that the venue states."""
    if result == "scalar":
        return value
    payout = _PAID.get(result)
    return payout if value in (None, payout) else None


def reconstruct_evidence(listings: Iterable[MarketListing], until: datetime, *, wait: timedelta, grace: timedelta) -> list[dict[str, Any]]:
    """Reconstruct what past observations would have shown about the resolutions of markets (rows of evidence), from present records. wait:
    dispute window. grace: time until a market without a known winner is refunded.

    A market is observed when the dispute window (`wait`) after its payment has ended and, if that gives no result, after the `grace` period of
    an unknown winner. Times after `until` and unpaid markets give no rows. Rows have the form of `build_evidence_row`.
    """
    rows = []
    for listing in listings:
        row = build_evidence_row(listing, fetched_at=until)
        settled: datetime | None = row["settled_at"]
        if settled is None:
            continue
        decided = judge_results(row["outcomes"], row["results"], row["outcome_prices"]).result is not None
        times = [settled + wait] if decided else [settled + wait, settled + wait + grace]
        rows += [{**row, "fetched_at": at} for at in times if at <= until]
    return rows
