"""Endless world of Kalshi events, generated from a seed day by day on demand.

Days are numbered from 2025-01-01, which is 0. The day of an event (`home`) is the one on which its last market closes.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache, partial
from itertools import accumulate
from operator import attrgetter
from typing import Any

import numpy as np

from bellwether.errors import BellwetherError, ConfigError
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.source import Candle, EventRow, ListingFilter, MarketRow
from bellwether.sandbox.timestamps import DAY, to_instant
from bellwether.sandbox.world.candles import build_candles
from bellwether.sandbox.world.catalogue import load_catalogue
from bellwether.sandbox.world.codes import TickerCodes
from bellwether.sandbox.world.combos import draw_combos
from bellwether.sandbox.world.events import draw_event
from bellwether.sandbox.world.model import Market, WorldDay, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import DrawCache, Purpose, RandomDraws
from bellwether.sandbox.world.timetable import EARLIEST_LEG, LATEST_SETTLEMENT, LONGEST_LIFE
from bellwether.sandbox.world.wire import build_market, build_series, find_final

#: Days for which settled markets stay in the live endpoints.
LIVE_DAYS = 90

#: Number of days; a ticker of a later day is unknown.
_DAYS = 1 << 16

_KEY = attrgetter("key")


class GeneratedWorld:
    """Events and markets of every UTC day from 2025-01-01 on, the same for the same seed on every machine.

    A day is drawn from (seed, day) on first use and kept in a bounded cache. At any instant the world lists all markets created by then,
    which close within 58 days at the latest. Settled markets are archived at the first UTC midnight 90 days after their settlement.

    Raises `ConfigError` for a negative seed.
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ConfigError(f"generate the sandbox's world: the seed is {seed}; take an integer of at least 0")
        self.seed = seed
        self._codes = TickerCodes.of(seed)
        self._shares = list(accumulate(load_catalogue().shares))
        self._days = DrawCache(self._draw_day, 1024)
        self._created = DrawCache(self._collect_created, 256)
        # The archive of 2025 and early 2026 has 6,500 markets, read in turn: a smaller cache would draw all of them each time.
        self._final_body = lru_cache(maxsize=16384)(lambda market: build_market(market, find_final(market)))

    def _draw_day(self, home: int) -> WorldDay:
        draw = RandomDraws(self.seed, Purpose.DAY, home)
        chosen: list[int] = []
        for _ in range(draw.integer(5, 7)):
            index = min(bisect(self._shares, draw.unit()), len(self._shares) - 1)
            if index not in chosen:
                chosen.append(index)
        series = load_catalogue().series
        events = tuple(draw_event(self.seed, self._codes, home, number, series[index]) for number, index in enumerate(chosen))
        return WorldDay.of((*events, *draw_combos(self.seed, self._codes, home, events, len(events))))

    def day(self, home: int) -> WorldDay:
        """Return the events of day number `home`, with lookup tables by ticker."""
        return self._days(home)

    def _day_of(self, event_ticker: str) -> WorldDay | None:
        """Return the day that an event's ticker encodes; None for an invalid ticker."""
        home = self._codes.home(event_ticker)
        return self.day(home) if home is not None and 0 <= home < _DAYS else None

    def event(self, ticker: str) -> WorldEvent | None:
        """Return the event with this ticker, even if it is not listed yet; None for an unknown ticker."""
        day = self._day_of(ticker)
        return day.by_event.get(ticker) if day else None

    def market(self, ticker: str) -> Market | None:
        """Return the market with this ticker, even if it is not listed yet; None for an unknown ticker."""
        for event_ticker in (ticker, ticker.rpartition("-")[0]):
            day = self._day_of(event_ticker)
            if day and (market := day.by_market.get(ticker)):
                return market
        return None

    def truth(self, ticker: str, at: datetime) -> float:
        """Return the true probability of YES as of an instant; 1 or 0 from the close on.

        The determination of a void or scalar market does not use the latent outcome.
        """
        latent = self._find_market(ticker).latent
        return float(latent.probabilities_at(np.asarray([to_instant(at)], dtype=np.int64))[0])

    def outcome(self, ticker: str) -> str:
        """Return the result that the market will have in the end: yes, no, scalar or void."""
        return self._find_market(ticker).determination.result

    def _find_market(self, ticker: str) -> Market:
        """Return the market with this ticker. Raises `BellwetherError` for an unknown ticker."""
        market = self.market(ticker)
        if market is None:
            raise BellwetherError(
                f"look up the truth of {ticker}: the world of seed {self.seed} has no such market; take a ticker that it listed"
            )
        return market

    def default_clock(self) -> Clock:
        return Clock()

    def cutoff(self, now: int) -> int:
        return now // DAY * DAY - LIVE_DAYS * DAY

    def series(self) -> Iterator[dict[str, Any]]:
        return map(build_series, load_catalogue().series)

    def _homes(self, wanted: ListingFilter, now: int) -> range:
        """Return the numbers of the days that may have rows which match the filter."""
        last, first = to_day_number(now) + LONGEST_LIFE + 1, 0
        earliest, latest = wanted.closes
        if wanted.settled_before is not None:
            last = min(last, to_day_number(wanted.settled_before) + EARLIEST_LEG)
        if wanted.settled_after is not None:
            first = max(first, to_day_number(wanted.settled_after) - LATEST_SETTLEMENT)
        if earliest is not None:
            # Open markets may close earlier than they announce, so every day from today on may have a match.
            first = max(first, min(to_day_number(earliest), to_day_number(now)))
        if latest is not None and latest < now:
            last = min(last, to_day_number(latest) + EARLIEST_LEG)
        return range(first, last + 1)

    def _collect_created(self, day: int) -> tuple[WorldEvent, ...]:
        """Return the events created on day number `day`, by sort key."""
        homes = range(max(day, 0), day + LONGEST_LIFE + 2)
        return tuple(sorted((event for home in homes for event in self.day(home).events if event.key[0] == -day), key=_KEY))

    def _candidates(self, wanted: ListingFilter, now: int) -> Iterator[WorldEvent]:
        """Yield events that may match, by sort key, including some that are not created yet."""
        homes = self._homes(wanted, now)
        if len(homes) <= LONGEST_LIFE:
            yield from sorted((event for home in homes for event in self.day(home).events), key=_KEY)
            return
        latest = min(to_day_number(now), homes.stop - 1)
        if wanted.after is not None:
            latest = min(latest, -wanted.after[0])
        for day in range(latest, homes.start - LONGEST_LIFE - 2, -1):
            yield from (event for event in self._created(day) if event.home in homes)

    def _events(self, wanted: ListingFilter, now: int) -> Iterator[WorldEvent]:
        if wanted.event_ticker is not None:
            named = self.event(wanted.event_ticker)
            candidates: Iterator[WorldEvent] = iter((named,) if named else ())
        else:
            candidates = self._candidates(wanted, now)
        for event in candidates:
            if event.created <= now and (wanted.series_ticker is None or event.series_ticker == wanted.series_ticker):
                yield event

    def _event_row(self, event: WorldEvent, now: int) -> EventRow:
        def body() -> dict[str, Any]:
            return dict(sorted(event.body.items()))

        def markets() -> list[MarketRow]:
            return [self._market_row(market, now) for market in event.markets if market.life.created <= now]

        return EventRow(event.key, event.ticker, event.series_ticker, event.is_combo, body, markets)

    def _market_row(self, market: Market, now: int) -> MarketRow:
        life = market.life
        return MarketRow(
            key=market.key,
            ticker=market.ticker,
            event_ticker=market.event_ticker,
            series_ticker=market.series_ticker,
            status=life.status(now),
            is_combo=market.is_combo,
            closes=life.announced_close(now),
            settled=life.settled if life.settled <= now else None,
            body=partial(self._body, market, now),
        )

    def _body(self, market: Market, now: int) -> bytes:
        return self._final_body(market) if now >= find_final(market) else build_market(market, now)

    def events(self, wanted: ListingFilter, now: int) -> Iterator[EventRow]:
        if wanted.tickers is not None:
            named = [event for ticker in set(wanted.tickers) if (event := self.event(ticker)) and event.created <= now]
            events: Iterator[WorldEvent] = iter(sorted(named, key=_KEY))
        else:
            events = self._events(wanted, now)
        for event in events:
            if wanted.after is None or event.key > wanted.after:
                yield self._event_row(event, now)

    def markets(self, wanted: ListingFilter, now: int) -> Iterator[MarketRow]:
        if wanted.tickers is not None:
            named = [market for ticker in set(wanted.tickers) if (market := self.market(ticker))]
            markets: Iterator[Market] = iter(sorted(named, key=_KEY))
        else:
            markets = (market for event in self._events(wanted, now) for market in event.markets)
        for market in markets:
            if market.life.created <= now and (wanted.after is None or market.key > wanted.after):
                yield self._market_row(market, now)

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        market = self.market(ticker)
        if market is None or market.life.created > now:
            return None
        return build_candles(market.tape(), period, start, min(end, now))
