"""The generated world as listed by Polymarket, generated day by day on demand.

Days are numbered from 2025-01-01, which is 0. The day of an event (`home`) is the one on which its last question is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache, partial

import numpy as np
import orjson

from bellwether.errors import BellwetherError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.polymarket import clob_wire, wire
from bellwether.sandbox.polymarket.listing import EARLIEST_CREATION, EARLIEST_END, LATEST_END, Listing
from bellwether.sandbox.polymarket.model import INDEX_BITS, POSITION_BITS, ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.resolution_steps import HALF, LATEST_RESOLUTION, YES
from bellwether.sandbox.polymarket.source import EventRow, ListingFilter, MarketRow, Object, Point, PriceTimes, TokenBook
from bellwether.sandbox.polymarket.wire import to_dollars
from bellwether.sandbox.timestamps import DAY, to_instant
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.model import to_day_number

#: Days after a market's close for which its prices are served.
PRICE_DAYS = 400

_DAYS = 1 << 16

_Pair = tuple[ListedEvent, ListedMarket]


def _matches(market: ListedMarket, wanted: ListingFilter, now: int) -> bool:
    """Return True if a market passes the filters by end and by closed state."""
    low, high = wanted.ends
    if wanted.closed is not None and market.closed(now) != wanted.closed:
        return False
    if low is None and high is None:
        return True
    ends = market.ends
    return ends is not None and (low is None or ends >= low) and (high is None or ends <= high)


class GeneratedPolymarket:
    """Polymarket over a generated world. It lists most of the world's events, and some short markets that only Polymarket has; about 17
    markets end per day.

    Shared events have the same truth, but different texts, ids, quotes and resolutions. At any instant all markets created by then are
    listed. Prices of markets that closed more than 400 days ago are missing.
    """

    def __init__(self, world: GeneratedWorld) -> None:
        self._seed = world.seed
        self._listing = Listing(world)
        self._ids = self._listing.ids
        self._figures = lru_cache(maxsize=8192)(self._read_figures)
        self._market_body = lru_cache(maxsize=4096)(self._make_market_body)
        self._event_body = lru_cache(maxsize=1024)(self._make_event_body)

    def day(self, home: int) -> tuple[ListedEvent, ...]:
        """Return the events of day number `home`."""
        return self._listing.day(home)

    def _event(self, number: int | None) -> ListedEvent | None:
        """Return the event with this number, even if it is not listed yet; None for an unknown number."""
        if number is None or not 0 <= number >> INDEX_BITS < _DAYS:
            return None
        return next((event for event in self._listing.day(number >> INDEX_BITS) if event.number == number), None)

    def _pair(self, number: int | None) -> _Pair | None:
        """Return the event and the market with this market number, even if they are not listed yet; None for an unknown number."""
        event = self._event(None if number is None else number >> POSITION_BITS)
        market = next((market for market in event.markets if market.number == number), None) if event else None
        return (event, market) if event and market else None

    def _listed(self, number: int | None, now: int) -> _Pair | None:
        """Return the event and the market with this market number, if the market is listed at `now`."""
        pair = self._pair(number)
        return pair if pair and pair[1].created <= now else None

    def _by_token(self, token: str, now: int) -> tuple[ListedEvent, ListedMarket, int] | None:
        """Return the event and market of a token, and the number of the token's outcome; None if not listed at `now`."""
        number, side = self._ids.token_number(token) or (None, 0)
        pair = self._listed(number, now)
        return (*pair, side) if pair and pair[1].tokens[side] == token else None

    def _by_condition(self, condition_id: str, now: int) -> _Pair | None:
        pair = self._listed(self._ids.condition_number(condition_id), now)
        padded = [text.ljust(66, "0") for text in (condition_id, pair[1].condition_id if pair else "")]
        return pair if padded[0] == padded[1] else None

    def _homes(self, wanted: ListingFilter, now: int) -> range | None:
        """Return the numbers of the days that may have matching events; None if the filters do not limit them."""
        first, last = 0, to_day_number(now) + EARLIEST_CREATION
        low, high = wanted.ends
        if wanted.closed is not False and low is None:
            return None
        if low is not None:
            first = max(first, to_day_number(low) - LATEST_END)
        if high is not None:
            last = min(last, to_day_number(high) + EARLIEST_END)
        if wanted.closed is False:
            first = max(first, to_day_number(now) - LATEST_RESOLUTION)
        return range(first, last + 1)

    def _candidates(self, wanted: ListingFilter, now: int) -> Iterator[ListedEvent]:
        """Yield events that may match, by sort key."""
        homes = self._homes(wanted, now)
        if homes is not None:
            events = (event for home in homes for event in self._listing.day(home) if event.created <= now)
            yield from sorted(events, key=lambda event: event.key)
            return
        latest = to_day_number(now)
        if wanted.after is not None:
            latest = min(latest, -wanted.after[0])
        for day in range(latest, -EARLIEST_CREATION - 1, -1):
            yield from (event for event in self._listing.created(day) if event.created <= now)

    def _numbers(self, wanted: ListingFilter) -> set[int | None] | None:
        """Return the numbers of the markets that the filter selects by id, condition or token; None if it does not select by these."""
        ids, named = self._ids, []
        if wanted.ids is not None:
            named.append({ids.market_number(text) for text in wanted.ids})
        if wanted.condition_ids is not None:
            named.append({ids.condition_number(text) for text in wanted.condition_ids})
        if wanted.tokens is not None:
            named.append({(ids.token_number(text) or (None,))[0] for text in wanted.tokens})
        return set.intersection(*named) if named else None

    def default_clock(self) -> Clock:
        return Clock()

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        numbers = self._numbers(wanted)
        pairs: Iterable[_Pair]
        if numbers is not None:
            named = [pair for number in numbers if (pair := self._pair(number))]
            pairs = sorted(named, key=lambda pair: pair[1].key)
        else:
            candidates = self._candidates(wanted, now)
            pairs = ((event, market) for event in candidates for market in event.markets if _matches(market, wanted, now))
        for event, market in pairs:
            if market.created <= now and (wanted.after is None or market.key > wanted.after):
                yield self._market_row(event, market, now)

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        events: Iterable[ListedEvent] = self._candidates(wanted, now)
        if wanted.ids is not None:
            named = [event for text in wanted.ids if (event := self._event(self._ids.event_number(text)))]
            events = sorted(named, key=lambda event: event.key)
        for event in events:
            if event.created <= now and (wanted.after is None or event.key > wanted.after):
                yield self._event_row(event, now)

    def _read_figures(self, market: ListedMarket, at: int) -> wire.MarketFigures:
        """Compute quote, turnover and liquidity of a market at an instant."""
        return wire.compute_figures(market, self._seed, at)

    def _event_figures(self, event: ListedEvent, at: int) -> dict[int, wire.MarketFigures]:
        """Return quote, turnover and liquidity of the event's listed markets, by number of the market."""
        return {market.number: self._figures(market, at) for market in event.markets if market.created <= at}

    def _make_market_body(self, event: ListedEvent, market: ListedMarket, at: int, embedded: bool) -> bytes:
        """Build the market's JSON. embedded: include its event."""
        body = wire.build_market(market, event, self._ids, self._figures(market, at), at)
        if embedded:
            body["events"] = [wire.build_event(event, self._event_figures(event, at), at)]
        return orjson.dumps(body)

    def _make_event_body(self, event: ListedEvent, at: int) -> bytes:
        body = wire.build_event(event, self._event_figures(event, at), at)
        markets = (market for market in event.markets if market.created <= at)
        body["markets"] = [orjson.Fragment(self._market_body(event, market, at, False)) for market in markets]
        if event.recurrence:
            body["series"] = wire.build_series(event.recurrence)
        return orjson.dumps({**body, "tags": [wire.build_tag(tag) for tag in event.tags]})

    def _market_row(self, event: ListedEvent, market: ListedMarket, now: int) -> MarketRow:
        at = min(now, event.final)
        closed, step = market.closed(now), market.step(now)
        return MarketRow(
            key=market.key,
            id=market.id,
            condition_id=market.condition_id,
            tokens=market.tokens,
            active=True,
            closed=closed,
            ends=market.ends,
            closed_at=market.closes if closed else None,
            uma_status=step.status if step else None,
            tags=lambda: [wire.build_tag(tag) for tag in event.tags],
            volume=lambda: to_dollars(self._figures(market, at).turnover.total) or None,
            body=partial(self._market_body, event, market, at, True),
        )

    def _event_row(self, event: ListedEvent, now: int) -> EventRow:
        body = partial(self._event_body, event, min(now, event.final))
        return EventRow(event.key, event.id, True, wire.find_close(event, now) is not None, event.ends, body)

    def clob_market(self, condition_id: str, now: int) -> Object | None:
        pair = self._by_condition(condition_id, now)
        return clob_wire.build_market(pair[1], pair[0], self._ids, now) if pair else None

    def book(self, token: str, now: int) -> TokenBook | None:
        if (place := self._by_token(token, now)) is None:
            return None
        event, market, side = place
        return clob_wire.build_book(market, event, side, self._seed, now)

    def prices(self, token: str, ticks: PriceTimes, now: int) -> list[Point]:
        _, market, side = self._by_token(token, now) or (None, None, 0)
        if market is None or now > market.closes + PRICE_DAYS * DAY:
            return []
        return clob_wire.compute_prices(market, side, ticks, now)

    def listed(self, market_id: str) -> ListedMarket | None:
        """Return the market with this id; None for an unknown id."""
        pair = self._pair(self._ids.market_number(market_id))
        return pair[1] if pair else None

    def market(self, market_id: str) -> ListedMarket:
        """Return the market with this id. Raises `BellwetherError` for an unknown id."""
        market = self.listed(market_id)
        if market is None:
            raise BellwetherError(
                f"look up Polymarket's market {market_id}: the world of seed {self._seed} has no market of this id; take an id that it listed"
            )
        return market

    def outcome(self, market_id: str) -> str:
        """Return the resolution that the market will have: the winning outcome, "50-50", or "" if it never resolves."""
        market = self.market(market_id)
        if market.truth is None:
            return ""
        if market.truth == HALF:
            return "50-50"
        return market.outcomes[market.yes if market.truth == YES else 1 - market.yes]

    def truth(self, market_id: str, at: datetime) -> float:
        """Return the latent probability of the first outcome as of an instant; 1 or 0 from the answer on."""
        market = self.market(market_id)
        yes = float(market.claim.probabilities_at(np.asarray([to_instant(at)], dtype=np.int64))[0])
        return 1.0 - yes if market.yes else yes
