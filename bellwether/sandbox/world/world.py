"""Endless world of Kalshi events, generated from a seed day by day on demand.

Days are numbered from 2025-01-01, which is 0. The day of an event (`home`) is the one on which its markets close.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter

from bellwether.errors import ConfigError
from bellwether.sandbox.world.catalogue import load_catalogue
from bellwether.sandbox.world.events import LONGEST_LIFE, draw_event, read_event_code
from bellwether.sandbox.world.model import Key, Market, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import NumberCode, Purpose, RandomDraws
from bellwether.sandbox.world.wire import build_market

#: Number of days; a ticker of a later day is unknown.
_DAYS = 1 << 16


class GeneratedWorld:
    """Events and markets of every UTC day from 2025-01-01 on, the same for the same seed on every machine.

    A day is drawn from (seed, day) on first use and kept in a bounded cache. Drawing needs no state, so the world may be used by several
    threads.

    Raises `ConfigError` for a negative seed.
    """

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise ConfigError(f"generate the sandbox's world: the seed is {seed}; take an integer of at least 0")
        self.seed = seed
        self.code = NumberCode(seed)
        self._series = tuple(load_catalogue().values())
        self.day = lru_cache(maxsize=2048)(self._draw_day)
        self._created = lru_cache(maxsize=2048)(self._collect_created)
        # The archive of 2025 and early 2026 has thousands of markets, read in turn: a smaller cache would build all of them each time.
        self._final_body = lru_cache(maxsize=16384)(lambda market: build_market(market, market.life.final))

    def _draw_day(self, home: int) -> tuple[WorldEvent, ...]:
        """Return the events whose markets close on day number `home`."""
        draw = RandomDraws(self.seed, Purpose.DAY, home)
        chosen = draw.sample(self._series, draw.integer(5, 7))
        return tuple(draw_event(self.seed, self.code, home, index, series) for index, series in enumerate(chosen))

    def event(self, ticker: str) -> WorldEvent | None:
        """Return the event with this ticker, even if it is not listed yet; None for an unknown ticker."""
        home = read_event_code(self.code, ticker.partition("-")[2])
        if home is None or home >= _DAYS:
            return None
        return next((event for event in self.day(home) if event.ticker == ticker), None)

    def market(self, ticker: str) -> Market | None:
        """Return the market with this ticker, even if it is not listed yet; None for an unknown ticker."""
        event = self.event("-".join(ticker.split("-")[:2]))
        return next((market for market in event.markets if market.ticker == ticker), None) if event else None

    def _collect_created(self, day: int) -> tuple[WorldEvent, ...]:
        """Return the events created on day number `day`, by sort key."""
        homes = range(max(day, 0), day + LONGEST_LIFE + 2)
        events = (event for home in homes for event in self.day(home) if event.key[0] == -day)
        return tuple(sorted(events, key=attrgetter("key")))

    def listed(self, now: int, homes: range, after: Key | None = None) -> Iterator[WorldEvent]:
        """Yield the events created by `now` that close on one of the days `homes`, by sort key, which is the latest creation day first. after: only events
        whose markets may have a key after this one.
        """
        latest = min(to_day_number(now), homes.stop - 1)
        if after is not None:
            latest = min(latest, -after[0])
        for day in range(latest, max(homes.start, 0) - LONGEST_LIFE - 2, -1):
            yield from (event for event in self._created(day) if event.created <= now and event.home in homes)

    def body(self, market: Market, now: int) -> bytes:
        """Return the JSON object of a market as of an instant."""
        return self._final_body(market) if now >= market.life.final else build_market(market, now)
