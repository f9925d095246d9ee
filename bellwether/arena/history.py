"""Reconstruction of a past Polymarket week as of the time of its decisions: open markets and their prices, from the venue's present records.

Nothing that became known later has an effect: markets are selected by their creation, start, close and scheduled end, never by their result,
present price or later volume. Volume, book, tick and minimum order of the time are not recorded and are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.arena.market import YES, Market, MarketStatus, Quote, Quotes, complement, fold_case
from bellwether.arena.marks import HeldPrice, PriceKey, PriceSource
from bellwether.arena.resolution import build_evidence_row, judge_evidence
from bellwether.arena.units import price_micros
from bellwether.arena.universe import Universe, build_universe, market_from_row
from bellwether.errors import SchemaError
from bellwether.units import SharePrice
from bellwether.venues.polymarket.resolution import EVIDENCE, SILENCE

#: Minimum and maximum time from the decision to the scheduled end of a market in a reconstructed universe.
SOONEST, LATEST = timedelta(days=1), timedelta(days=14)
#: Maximum age of a past price.
FRESH = timedelta(days=1)
#: Source of past quotes, marks and prices.
SOURCE = "prices-history"

Points = Sequence[tuple[datetime, Decimal]]


@dataclass(frozen=True)
class HeldMarkets:
    """Markets that are not in the week's universe, but on which positions are open. prices: last known prices. quotes: by market, as of a past
    instant; empty in a live week.
    """

    markets: Mapping[str, Market] = field(default_factory=dict)
    prices: Mapping[PriceKey, HeldPrice] = field(default_factory=dict)
    quotes: Mapping[str, Quotes] = field(default_factory=dict)


def was_open(row: Mapping[str, Any], at: datetime) -> bool:
    """Return whether a market was open at an instant, by the dates in its row of raw/polymarket_markets, which may be stored later.

    A closed market without a closing time counts as closed.
    """
    starts = [row[name] for name in ("created_at", "start_time") if row.get(name) is not None]
    if not starts or max(starts) > at:
        return False
    closed_at = row.get("closed_at")
    return closed_at > at if closed_at is not None else not row.get("closed")


def find_candidates(rows: Iterable[Mapping[str, Any]], at: datetime) -> list[Mapping[str, Any]]:
    """Return the markets that were open at an instant and scheduled to end 1 to 14 days later (`SOONEST`, `LATEST`), sorted by end and id."""
    candidates = [
        row for row in rows if row.get("end_time") is not None and SOONEST <= row["end_time"] - at <= LATEST and was_open(row, at)
    ]
    return sorted(candidates, key=lambda row: (row["end_time"], row["market_id"]))


def reconstruct_universe(rows: Iterable[Mapping[str, Any]], prices: Mapping[str, Points], at: datetime, limit: int) -> Universe:
    """Reconstruct the universe (the markets offered to agents) as of an instant: the first `limit` markets of `find_candidates` that had a price.

    prices: past prices by token. The past volume is unknown, so markets are not ranked by it.
    """
    markets: list[Market] = []
    for row in find_candidates(rows, at):
        if len(markets) == limit:
            break
        try:
            market = market_from_row(row, at)
        except SchemaError:
            continue
        latest = find_prices(market, prices, at)
        if any(price is not None for price in latest):
            markets.append(replace(market, prices=latest, volume=None, tick=None, min_shares=None, status=MarketStatus.ACTIVE))
    return build_universe(markets)


def list_priced_tokens(market: Market) -> tuple[str, ...]:
    """Return the tokens whose past prices are needed to value a market: only YES if the market is binary, else all."""
    place = market.place("YES") if market.binary else None
    wanted = market.token_ids if place is None else market.token_ids[place : place + 1]
    return tuple(token for token in wanted if token)


def find_prices(market: Market, prices: Mapping[str, Points], at: datetime) -> tuple[SharePrice | None, ...]:
    """Return the price of each outcome as of an instant, None if missing. In a binary market the price of NO is one dollar minus the price of
    YES.
    """
    points = [find_latest_point(prices.get(token, ()), at) for token in market.token_ids]
    values = [None if point is None else price_micros(point[1]) for point in points] + [None] * len(market.outcomes)
    if not market.binary:
        return tuple(values[: len(market.outcomes)])
    yes_place = market.place("YES")
    assert yes_place is not None
    yes = values[yes_place]
    return tuple(yes if place == yes_place else None if yes is None else complement(yes) for place in range(2))


def find_latest_point(points: Points, at: datetime) -> tuple[datetime, Decimal] | None:
    """Return the last (time, price) at or before an instant; None if that is more than a day old (`FRESH`)."""
    recent = [point for point in points if at - FRESH <= point[0] <= at]
    return max(recent, default=None, key=lambda point: point[0])


def reconstruct_quotes(market: Market, prices: Mapping[str, Points], at: datetime) -> dict[int, Quote]:
    """Return the quotes of a market as of an instant, by index of the outcome. Only midpoints are known: past bids and asks are not recorded."""
    quotes: dict[int, Quote] = {}
    for place, token in enumerate(market.token_ids):
        point = find_latest_point(prices.get(token, ()), at)
        if point is not None:
            quotes[place] = Quote(price_micros(point[1]), at=point[0], source=SOURCE)
    return quotes


def reconstruct_evidence(
    rows: Iterable[Mapping[str, Any]],
    flags: Mapping[str, tuple[Sequence[str], bool | None]],
    now: datetime,
    *,
    wait: timedelta,
    grace: timedelta,
) -> list[dict[str, Any]]:
    """Reconstruct what past observations would have shown about the resolutions of markets (rows of evidence), from present records. wait:
    dispute window. grace: time until a market without a known winner is refunded.

    flags: the CLOB's winners and its 50-50 flag by condition. A market is observed when the dispute window (`wait`) has ended, after `SILENCE`
    (old markets never state a status) and after the `grace` period of an unknown winner, until an observation states the result. Times after `now`
    and open markets give no rows. Rows have the form of `resolution.build_evidence_row`.
    """
    observed = [look for row in rows for look in _reconstruct_rows(row, flags, now, wait, grace)]
    observations = judge_evidence(
        pl.DataFrame([{name: look[name] for name in EVIDENCE} for look in observed], schema=EVIDENCE, orient="row")
    )
    decided = {
        (observation.market_id, observation.observed_at)
        for observation in observations
        if observation.ruling is not None and observation.ruling.result is not None
    }
    first: dict[str, datetime] = {}
    for market_id, at in sorted(decided, key=lambda key: key[1]):
        first.setdefault(market_id, at)
    return [look for look in observed if look["market_id"] not in first or look["fetched_at"] <= first[look["market_id"]]]


def _reconstruct_rows(
    row: Mapping[str, Any], flags: Mapping[str, tuple[Sequence[str], bool | None]], now: datetime, wait: timedelta, grace: timedelta
) -> list[dict[str, Any]]:
    ends = [row[name] for name in ("closed_at", "uma_end_at") if row.get(name) is not None]
    if not row.get("closed") or not ends:
        return []
    closed, settled = max(ends) + wait, min(ends) + SILENCE + wait
    winners, is_50_50 = flags.get(row.get("condition_id") or "", (None, None))
    times = sorted({closed, closed + grace, settled, settled + grace})
    return [build_evidence_row(row, fetched_at=at, winners=winners, is_50_50=is_50_50) for at in times if at <= now]


def find_last_prices(
    markets: Iterable[Market], points: Mapping[str, Sequence[tuple[datetime, SharePrice | None]]], at: datetime
) -> dict[PriceKey, HeldPrice]:
    """Return the last known price of each outcome as of an instant; of binary markets only YES. points: past prices by token."""
    prices: dict[PriceKey, HeldPrice] = {}
    for market in markets:
        for place, token in enumerate(market.token_ids):
            past = [(when, price) for when, price in points.get(token, ()) if price is not None and when <= at]
            if not past or (market.binary and place != market.place(YES)):
                continue
            when, price = past[-1]
            name = YES if market.binary else fold_case(market.outcomes[place])
            source = PriceSource.LIVE if at - when <= FRESH else PriceSource.PRIOR
            prices[market.market_id, name] = HeldPrice(market.market_id, name, at, price, source, when)
    return prices
