"""Realistic WebSocket frames in bulk, for benchmarks of whoever reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, islice

import orjson

from bellwether.sandbox.exchange.exchange import BOOKS, TRADES, Interest
from bellwether.sandbox.exchange.generated import GeneratedExchange
from bellwether.sandbox.instants import DAY, midnight
from bellwether.sandbox.world.model import FIRST_DAY, Market
from bellwether.sandbox.world.world import GeneratedWorld

_FIRST, _AHEAD = 90, 20


def _busiest(world: GeneratedWorld, day: int, wanted: int) -> list[Market]:
    """The liveliest markets that trade through the day of this number."""
    start = midnight(FIRST_DAY) + day * DAY
    found = (market for home in range(day + 1, day + _AHEAD) for event in world.day(home).events for market in event.markets)
    through = [market for market in found if market.life.opens < start and market.life.closes > start + DAY]
    return sorted(through, key=lambda market: (-market.trading.requote, -market.trading.trades, market.key))[:wanted]


def realistic_frames(wanted: int, *, seed: int = 11, markets: int = 20) -> Iterator[bytes]:
    """So many frames as the socket would send them: the liveliest markets of one day after the other of a generated world.

    Each day begins with snapshots; level changes and trades follow. Books have subscription 1 and trades 2, each numbered over
    all markets without a gap. The same arguments give the same bytes.
    """
    world = GeneratedWorld(seed)
    exchange = GeneratedExchange(world)
    sids = {BOOKS: (1, count(1)), TRADES: (2, count(1))}

    def frames() -> Iterator[bytes]:
        for day in count(_FIRST):
            start = midnight(FIRST_DAY) + day * DAY
            interest = Interest({market.ticker: frozenset(sids) for market in _busiest(world, day, markets)})
            for message in chain(exchange.opening(interest, start), exchange.messages(interest, start + 1, start + DAY)):
                sid, numbers = sids[message.channel]
                yield orjson.dumps({"type": message.kind, "sid": sid, "seq": next(numbers), "msg": message.body})

    return islice(frames(), wanted)
