"""A past week as of its decision: which markets were open then and what they traded at, from what the venue keeps of them.

Nothing that became known later may decide: a market takes part by when it was created, opened, closed and was to end, and never by how it ended, what
it trades at now, or how much was traded in it since. What history does not have (volume, book, tick and smallest order of the time) is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.arena.market import Market, MarketStatus, Quote, complement
from bellwether.arena.resolution import evidence_of, observations
from bellwether.arena.units import price_micros
from bellwether.arena.universe import Universe, frozen, market_of
from bellwether.errors import SchemaError
from bellwether.units import SharePrice
from bellwether.venues.polymarket.resolution import EVIDENCE, SILENCE

#: A reconstructed universe has the markets that were to end so long after the decision: at least, and at most.
SOONEST, LATEST = timedelta(days=1), timedelta(days=14)
#: A price counts as of an instant when it is at most so much older.
FRESH = timedelta(days=1)
#: Where quotes, marks and prices of the past come from.
SOURCE = "prices-history"

Points = Sequence[tuple[datetime, Decimal]]


def was_open(row: Mapping[str, Any], at: datetime) -> bool:
    """Return whether a market (a row of raw/polymarket_markets of any later time) could be traded at an instant, as far as its dates say.

    One that is closed now and does not say since when counts as closed.
    """
    began = [row[name] for name in ("created_at", "start_time") if row.get(name) is not None]
    if not began or max(began) > at:
        return False
    closed_at = row.get("closed_at")
    return closed_at > at if closed_at is not None else not row.get("closed")


def candidates(rows: Iterable[Mapping[str, Any]], at: datetime) -> list[Mapping[str, Any]]:
    """The markets that were open at an instant and were to end from `SOONEST` to `LATEST` after it, the soonest end first, then by id."""
    found = [row for row in rows if row.get("end_time") is not None and SOONEST <= row["end_time"] - at <= LATEST and was_open(row, at)]
    return sorted(found, key=lambda row: (row["end_time"], row["market_id"]))


def past_universe(rows: Iterable[Mapping[str, Any]], prices: Mapping[str, Points], at: datetime, limit: int) -> Universe:
    """The universe as of an instant: of `candidates` the first `limit` that had a price.

    prices: past prices by token. Volume is unknown, and so it does not choose.
    """
    markets: list[Market] = []
    for row in candidates(rows, at):
        if len(markets) == limit:
            break
        try:
            market = market_of(row, at)
        except SchemaError:
            continue
        found = prices_at(market, prices, at)
        if any(price is not None for price in found):
            markets.append(replace(market, prices=found, volume=None, tick=None, min_shares=None, status=MarketStatus.ACTIVE))
    return frozen(markets)


def tokens_of(market: Market) -> tuple[str, ...]:
    """The tokens whose past prices value a market: of YES alone in a binary one."""
    place = market.place("YES") if market.binary else None
    wanted = market.token_ids if place is None else market.token_ids[place : place + 1]
    return tuple(token for token in wanted if token)


def prices_at(market: Market, prices: Mapping[str, Points], at: datetime) -> tuple[SharePrice | None, ...]:
    """The price of each outcome as of an instant; in a binary market NO's is what YES leaves."""
    known = [as_of(prices.get(token, ()), at) for token in market.token_ids]
    found = [None if point is None else price_micros(point[1]) for point in known] + [None] * len(market.outcomes)
    if not market.binary:
        return tuple(found[: len(market.outcomes)])
    yes_place = market.place("YES")
    assert yes_place is not None
    yes = found[yes_place]
    return tuple(yes if place == yes_place else None if yes is None else complement(yes) for place in range(2))


def as_of(points: Points, at: datetime) -> tuple[datetime, Decimal] | None:
    """The last point that is not after an instant, and at most `FRESH` before it."""
    known = [point for point in points if at - FRESH <= point[0] <= at]
    return max(known, default=None, key=lambda point: point[0])


def past_quotes(market: Market, prices: Mapping[str, Points], at: datetime) -> dict[int, Quote]:
    """The quotes of a market as of an instant: midpoints alone: past bids and asks are not kept."""
    found: dict[int, Quote] = {}
    for place, token in enumerate(market.token_ids):
        point = as_of(prices.get(token, ()), at)
        if point is not None:
            found[place] = Quote(price_micros(point[1]), at=point[0], source=SOURCE)
    return found


def past_evidence(
    rows: Iterable[Mapping[str, Any]],
    flags: Mapping[str, tuple[Sequence[str], bool | None]],
    now: datetime,
    *,
    wait: timedelta,
    grace: timedelta,
) -> list[dict[str, Any]]:
    """Looks at markets as they would have been, from their records of today: rows as `resolution.evidence_of`, each dated when it could have been made.

    flags: the CLOB's winners and its word on fifty-fifty, by condition. A record is looked at once the window for disputes (`wait`) is over; again
    after `SILENCE`, in which old markets never say more; and again after the `grace` of an unknown winner: as far as these are past, and until
    one states the market's end. An open market gives nothing.
    """
    looks = [look for row in rows for look in _looks(row, flags, now, wait, grace)]
    found = observations(pl.DataFrame([{name: look[name] for name in EVIDENCE} for look in looks], schema=EVIDENCE, orient="row"))
    decided = {(one.market_id, one.observed_at) for one in found if one.ruling is not None and one.ruling.result is not None}
    first: dict[str, datetime] = {}
    for market_id, at in sorted(decided, key=lambda key: key[1]):
        first.setdefault(market_id, at)
    return [look for look in looks if look["market_id"] not in first or look["fetched_at"] <= first[look["market_id"]]]


def _looks(
    row: Mapping[str, Any], flags: Mapping[str, tuple[Sequence[str], bool | None]], now: datetime, wait: timedelta, grace: timedelta
) -> list[dict[str, Any]]:
    ends = [row[name] for name in ("closed_at", "uma_end_at") if row.get(name) is not None]
    if not row.get("closed") or not ends:
        return []
    over, silent = max(ends) + wait, min(ends) + SILENCE + wait
    winners, is_50_50 = flags.get(row.get("condition_id") or "", (None, None))
    times = sorted({over, over + grace, silent, silent + grace})
    return [evidence_of(row, fetched_at=at, winners=winners, is_50_50=is_50_50) for at in times if at <= now]
