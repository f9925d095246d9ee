"""Order flow of one market: orders and trades that give the quotes and trades of its tape.

The tape has the best bid and ask at the start of each slot, a period of ten minutes, and the slot's trade. "The best" is the highest bid of
a side; a mill is a tenth of a cent.

Each side of the book contains bids in the price of its own outcome (NO at 0.42 is an offer of YES at 0.58). At the start of each slot the
best bids, their sizes and the trade come from the tape. Within a slot, orders arrive and leave behind the best, and the last order at the
best is sometimes replaced, so that the quotes stay constant, as in the tape and its candles.

Each slot has its own seed. An order lives at most `LOOKBACK` slots, and the queue at the best depends only on the trades since it was
posted, so that any instant can be computed without replaying earlier slots. Nothing depends on a later slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.random_draws import Purpose, create_generator
from bellwether.sandbox.world.tape import DOLLAR, GRIDS, Ints, MarketTape, TradingProfile, reserve_size

YES, NO = 0, 1
SIDES = ("yes", "no")

#: Maximum life of an order in slots.
LOOKBACK = 8

#: A trade of more than this multiple of the size at the best is a block trade, outside the book.
BLOCK = 3

#: Numbers of changes reserved for one slot, more than can happen in it.
CLOCKS = 1 << 13

_WORD = 1 << 16
_STANDING_DISTANCE = 50
#: Random numbers that split a quote into orders, and those that determine an order.
_CUTS = 9
_FIELDS = 5


class LevelChange(NamedTuple):
    """Change of the size of a price level. delta: hundredths of a contract, negative for a decrease. price: in mills of the outcome of
    `side`.
    """

    at: int
    clock: int
    side: int
    price: int
    delta: int


class TradePrint(NamedTuple):
    """Trade: price in mills of YES, size in hundredths of a contract; `number` counts the trades of its slot."""

    at: int
    slot: int
    number: int
    taker: int
    price: int
    size: int
    block: bool


class BookWipe(NamedTuple):
    """Close of the market, which removes all orders from the book."""

    at: int
    clock: int


Event = LevelChange | TradePrint | BookWipe


class Order(NamedTuple):
    """Resting order behind the best; it arrives at `born` and leaves at `dies`."""

    born: int
    dies: int
    side: int
    price: int
    size: int


class Replacement(NamedTuple):
    """Instant at which the last order at a side's best leaves and returns."""

    at: int
    side: int


@dataclass(frozen=True, slots=True)
class SlotDraws:
    """Random orders behind the best, and replacements of the last order at the best, in one slot."""

    orders: tuple[Order, ...]
    replacements: tuple[Replacement, ...]


#: The resting orders of both sides: price -> sizes in the order of their arrival.
Queues = tuple[dict[int, list[int]], dict[int, list[int]]]


@lru_cache(maxsize=len(GRIDS))
def _prices(grid: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the prices of a grid in ascending order, and the number of grid prices below each mill from 0 to 1000."""
    prices = sorted({price for start, end, step in GRIDS[grid] for price in range(start, end, step)} - {0})
    below = np.searchsorted(np.asarray(prices), np.arange(DOLLAR + 1)).tolist()
    return tuple(prices), tuple(below)


def split_size(total: int, unit: int, cuts: list[int]) -> list[int]:
    """Split a total into one to eight sizes that are multiples of `unit`. cuts: random numbers: the first determines how many sizes, the
    others how large.
    """
    weights = [1 + cut for cut in cuts[1 : 2 + cuts[0] % 8]]
    parts = [total // unit * weight // sum(weights) * unit for weight in weights]
    parts[0] += total - sum(parts)
    return [part for part in parts if part]


def take_fills(queue: list[int], size: int) -> tuple[list[int], list[int]]:
    """Take `size` from the front of a queue; return the fills and the remaining queue."""
    fills: list[int] = []
    rest = list(queue)
    while size:
        fill = min(rest[0], size)
        fills.append(fill)
        size -= fill
        if fill < rest[0]:
            rest[0] -= fill
        else:
            rest.pop(0)
    return fills, rest


class OrderFlow:
    """Book of one market from its opening to its close.

    Attributes:
        tape: its quotes and trades.
        trading: its trading profile; a livelier market has more orders.
        closes: instant of the close, which removes all orders.
    """

    def __init__(self, tape: MarketTape, trading: TradingProfile, closes: int) -> None:
        self.tape = tape
        self.trading = trading
        self.closes = closes
        self._unit = 100 if trading.whole else 1
        self._prices, self._below = _prices(trading.grid)
        self._bests = (tape.bid, DOLLAR - tape.ask)
        self._sizes = (tape.bid_size, tape.ask_size)
        self._posted = tuple(_find_posted(best, size) for best, size in zip(self._bests, self._sizes, strict=True))
        traded = tape.price > 0
        hits = (traded & (tape.price == tape.bid), traded & (tape.price == tape.ask))
        self._hits = tuple(np.flatnonzero(hit) for hit in hits)
        self._standing = self._draw_standing()
        self._trade_slots = np.flatnonzero(traded)
        self._draws = lru_cache(maxsize=4 * LOOKBACK)(self._draw)
        self._cuts = lru_cache(maxsize=4 * LOOKBACK)(self._draw_cuts)
        self.beginning = lru_cache(maxsize=4)(self._beginning)
        self.within = lru_cache(maxsize=4)(self._within)

    def _draw_standing(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Draw (price, size) of each side's standing orders. They are always in the book, except while they are too close to the best."""
        draws = create_generator(*self.trading.entropy, Purpose.FLOW).integers(0, _WORD, (2, 2, DOLLAR // 10)).tolist()
        chance = int(_WORD * (0.1 + 0.5 * self.trading.requote))
        scale = 100 * self.trading.size // self._unit
        yes, no = (
            [
                (10 * cent, scale * (_WORD + 30 * sizes[cent]) // _WORD * self._unit)
                for cent in range(1, DOLLAR // 10)
                if presence[cent] < chance
            ]
            for presence, sizes in draws
        )
        return yes, no

    def _draw(self, slot: int) -> SlotDraws:
        """Draw the orders and replacements of a slot."""
        mean = 1.0 + 22.0 * self.trading.requote
        most = int(1.5 * mean) + 1
        numbers = create_generator(*self.trading.entropy, Purpose.FLOW, slot, 0).integers(0, _WORD, 2 + 7 * most).tolist()
        rest = numbers[2:]
        begins, span = self.begins(slot), self.ends(slot) - self.begins(slot) - 1
        orders = []
        for index in range(int(mean * (_WORD // 2 + numbers[0]) / _WORD)):
            order = self._order(slot, rest[_FIELDS * index : _FIELDS * (index + 1)])
            if order is not None:
                orders.append(order)
        rest = rest[_FIELDS * most :]
        replaced = int(mean * numbers[1] / _WORD) // 2
        replacements = (
            Replacement(begins + 1 + (when * span >> 16), side & 1) for when, side in zip(rest[:replaced], rest[most:], strict=False)
        )
        return SlotDraws(tuple(sorted(orders)), tuple(sorted(replacements)))

    def _draw_cuts(self, slot: int) -> list[list[int]]:
        """Draw for each side the random numbers with which `split_size` splits a new quote into orders."""
        cuts: list[list[int]] = create_generator(*self.trading.entropy, Purpose.FLOW, slot, 1).integers(0, _WORD, (2, _CUTS)).tolist()
        return cuts

    def _order(self, slot: int, draws: list[int]) -> Order | None:
        """Build an order behind the best of its side. draws: random numbers for side, times, price and size. None if no lower price
        exists.
        """
        side = draws[0] & 1
        place = self._below[int(self._bests[side][slot])] - 1 - 3 * draws[3] // (_WORD - draws[3] + 3000)
        if place < 0:
            return None
        begins = self.begins(slot)
        born = begins + 1 + (draws[1] * (self.ends(slot) - begins - 1) >> 16)
        dies = born + 1 + SLOT * 3 * draws[2] // (20 * (_WORD - draws[2] + 1311))
        dies += (dies - self.tape.opens) % SLOT == 0
        size = 100 * self.trading.size * draws[4] // (_WORD - draws[4] + 6000) // self._unit + 1
        return Order(born, dies, side, self._prices[place], size * self._unit)

    def begins(self, slot: int) -> int:
        """Return the instant at which a slot begins."""
        return self.tape.opens + SLOT * slot

    def ends(self, slot: int) -> int:
        """Return the instant at which the next slot begins, or the market closes."""
        return min(self.begins(slot + 1), self.closes)

    def slots(self, start: int, end: int) -> range:
        """Return the slots that overlap the instants [start, end)."""
        if end <= start:
            return range(0)
        last = min((end - 1 - self.tape.opens) // SLOT, len(self.tape.price) - 1)
        return range(max((start - self.tape.opens) // SLOT, 0), last + 1)

    def best(self, slot: int, side: int) -> tuple[int, int]:
        """Return price and size of a side's best bid during a slot; price 0 without a bid."""
        return int(self._bests[side][slot]), int(self._sizes[side][slot])

    def _quote(self, slot: int, side: int) -> list[int]:
        """Return the sizes of the orders queued at the best at the start of the slot, before the slot's trade, first in queue first."""
        posted = int(self._posted[side][slot])
        price, size = self.best(slot, side)
        if not price:
            return []
        queue = split_size(size, self._unit, self._cuts(posted)[side])
        hits = self._hits[side]
        for earlier in hits[np.searchsorted(hits, posted) : np.searchsorted(hits, slot)].tolist():
            queue = self._traded(earlier, size, queue)[2]
        return queue

    def _traded(self, slot: int, size: int, queue: list[int]) -> tuple[int, list[int], list[int]]:
        """Apply a slot's trade to the queue at the best; return the size that the queue lacks, the fills, and the queue afterwards. size:
        that of the quote.
        """
        wanted = int(self.tape.size[slot])
        if wanted > BLOCK * size:
            return 0, [wanted], queue
        missing = max(wanted - sum(queue), 0)
        fills, rest = take_fills([*queue, missing] if missing else queue, wanted)
        return missing, fills, [*rest, size - sum(rest)] if sum(rest) < size else rest

    def _passive(self, slot: int) -> int | None:
        """Return the side whose resting bids the slot's trade fills; None without a trade."""
        price = int(self.tape.price[slot])
        return None if not price else YES if price == int(self.tape.bid[slot]) else NO

    def prints(self, slot: int) -> list[TradePrint]:
        """Return the trades at the start of a slot: one per filled order, or a single block trade outside the book."""
        passive = self._passive(slot)
        if passive is None:
            return []
        _, size = self.best(slot, passive)
        _, fills, _ = self._traded(slot, size, self._quote(slot, passive))
        at, price, block = self.begins(slot), int(self.tape.price[slot]), int(self.tape.size[slot]) > BLOCK * size
        return [TradePrint(at, slot, number, 1 - passive, price, fill, block) for number, fill in enumerate(fills)]

    def trade_slots(self, start: int, end: int) -> list[int]:
        """Return the slots that begin in [start, end) with a trade."""
        slots = self._trade_slots
        first, last = np.searchsorted(slots, [-((self.tape.opens - at) // SLOT) for at in (start, end)]).tolist()
        return list(map(int, slots[first:last]))

    def last_print(self, slot: int) -> TradePrint | None:
        """Return the last trade up to the start of a slot; None before the first."""
        index = int(np.searchsorted(self._trade_slots, slot, "right"))
        return self.prints(int(self._trade_slots[index - 1]))[-1] if index else None

    def has_news(self, slot: int) -> bool:
        """Return True if a slot begins with a new quote or a trade."""
        return bool(self.tape.price[slot]) or any(int(posted[slot]) == slot for posted in self._posted)

    def _resting(self, slot: int) -> list[Order]:
        """Return the orders drawn in earlier slots that are still in the book after the start of this slot."""
        begins = self.begins(slot)
        resting: list[Order] = []
        bounds = [DOLLAR, DOLLAR]
        for earlier in range(slot - 1, max(slot - LOOKBACK, 0) - 1, -1):
            for side in (YES, NO):
                bounds[side] = min(bounds[side], int(self._bests[side][earlier + 1]))
            resting += [order for order in self._draws(earlier).orders if order.dies > begins and order.price < bounds[order.side]]
        return sorted(resting)

    def _list_standing(self, slot: int, side: int) -> list[tuple[int, int]]:
        """Return (price, size) of the side's standing orders that are in the book during the slot, and of the reserve behind the best."""
        best = int(self._bests[side][slot])
        standing = [(price, size) for price, size in self._standing[side] if price <= best - _STANDING_DISTANCE]
        place = self._below[best] - 1
        return standing if place < 0 else [*standing, (self._prices[place], reserve_size(self._prices[place], self._unit))]

    def _departures(self, slot: int) -> list[tuple[int, int, int]]:
        """Return (side, price, size) of the orders that leave at the start of a slot."""
        orders: list[tuple[int, int, int]] = []
        if not slot:
            return orders
        previous = slot - 1
        for side in (YES, NO):
            if int(self._posted[side][slot]) == slot:
                price = self.best(previous, side)[0]
                orders += [(side, price, size) for size in self._after_trade(previous, side)]
            standing = set(self._list_standing(slot, side))
            orders += [(side, price, size) for price, size in self._list_standing(previous, side) if (price, size) not in standing]
        resting, begins = set(self._resting(slot)), self.begins(slot)
        earlier = [*self._resting(previous), *self._draws(previous).orders]
        return orders + [(order.side, order.price, order.size) for order in earlier if order.dies > begins and order not in resting]

    def _arrivals(self, slot: int) -> list[tuple[int, int, int]]:
        """Return (side, price, size) of the orders that arrive at the start of a slot, before its trade."""
        orders: list[tuple[int, int, int]] = []
        for side in (YES, NO):
            if int(self._posted[side][slot]) == slot:
                price, size = self.best(slot, side)
                orders += [(side, price, part) for part in (split_size(size, self._unit, self._cuts(slot)[side]) if price else ())]
            earlier = set(self._list_standing(slot - 1, side)) if slot else set()
            orders += [(side, price, size) for price, size in self._list_standing(slot, side) if (price, size) not in earlier]
        return orders

    def _after_trade(self, slot: int, side: int) -> list[int]:
        """Return the sizes of the orders queued at the best after the slot's trade."""
        queue = self._quote(slot, side)
        return self._traded(slot, self.best(slot, side)[1], queue)[2] if self._passive(slot) == side else queue

    def _beginning(self, slot: int) -> tuple[Event, ...]:
        """Return the events at the start of a slot: orders leave, orders arrive, then the trade."""
        at, clock = self.begins(slot), CLOCKS * slot
        events: list[Event] = []
        for sign, orders in ((-1, self._departures(slot)), (1, self._arrivals(slot))):
            for side, price, size in orders:
                clock += 1
                events.append(LevelChange(at, clock, side, price, sign * size))
        return (*events, *self._trade(slot, clock))

    def _trade(self, slot: int, clock: int) -> list[Event]:
        """Return the events of a slot's trade: the prints, and the changes of the levels that it hits."""
        prints = self.prints(slot)
        passive = self._passive(slot)
        if passive is None or prints[0].block:
            return list(prints)
        at = self.begins(slot)
        price, size = self.best(slot, passive)
        missing, fills, _ = self._traded(slot, size, self._quote(slot, passive))
        events: list[Event] = [LevelChange(at, clock + 1, passive, price, missing)] if missing else []
        for fill, trade in zip(fills, prints, strict=True):
            events += [LevelChange(at, clock + 2, passive, price, -fill), trade]
        refill = sum(fills) - missing
        return [*events, LevelChange(at, clock + 3, passive, price, refill)]

    def _within(self, slot: int) -> tuple[LevelChange, ...]:
        """Return the changes of the book after the start of a slot and before the next slot or the close."""
        begins, ends, draws = self.begins(slot), self.ends(slot), self._draws(slot)
        moves: list[tuple[int, int, int, int]] = [(order.born, order.side, order.price, order.size) for order in draws.orders]
        present = [*self._resting(slot), *draws.orders]
        moves += [(order.dies, order.side, order.price, -order.size) for order in present if begins < order.dies < ends]
        for at, side in draws.replacements:
            queue = self._after_trade(slot, side)
            if len(queue) > 1:
                moves += [(at, side, self.best(slot, side)[0], sign * queue[-1]) for sign in (-1, 1)]
        moves.sort(key=lambda move: move[0])
        first = CLOCKS * slot + CLOCKS // 2
        return tuple(LevelChange(at, first + index, side, price, delta) for index, (at, side, price, delta) in enumerate(moves))

    def events(self, start: int, end: int) -> Iterator[Event]:
        """Yield all events in [start, end), in order."""
        for slot in self.slots(start, end):
            if start <= self.begins(slot) < end:
                yield from self.beginning(slot)
            yield from (event for event in self.within(slot) if start <= event.at < end)
        if start <= self.closes < end:
            yield BookWipe(self.closes, self.clock(self.closes))

    def queues(self, slot: int) -> Queues:
        """Return the sizes of all resting orders as they queue, by side and price, after the events at the start of a slot."""
        queues: Queues = ({}, {})
        for side in (YES, NO):
            price, _ = self.best(slot, side)
            if price:
                queues[side][price] = self._after_trade(slot, side)
            for standing, size in self._list_standing(slot, side):
                queues[side].setdefault(standing, []).append(size)
        for order in self._resting(slot):
            queues[order.side].setdefault(order.price, []).append(order.size)
        return queues

    def levels(self, now: int) -> tuple[dict[int, int], dict[int, int]]:
        """Return the total size at each price, by side, at an instant; empty before the opening and from the close on."""
        if not self.tape.opens <= now < self.closes:
            return {}, {}
        slot = self.tape.at(now)
        sides = tuple({price: sum(queue) for price, queue in queues.items()} for queues in self.queues(slot))
        for event in self.within(slot):
            if event.at <= now:
                level = sides[event.side]
                level[event.price] = level.get(event.price, 0) + event.delta
        yes, no = ({price: size for price, size in sorted(level.items()) if size} for level in sides)
        return yes, no

    def clock(self, now: int) -> int:
        """Return the number of the last change of the book up to an instant; 0 before the opening. Numbers increase with time, with
        gaps.
        """
        if now < self.tape.opens:
            return 0
        if now >= self.closes:
            return CLOCKS * len(self.tape.price)
        slot = self.tape.at(now)
        begun = CLOCKS * slot + CLOCKS // 2
        return max((event.clock for event in self.within(slot) if event.at <= now), default=begun - 1)


def _find_posted(price: Ints, size: Ints) -> Ints:
    """Return for each slot the slot in which its quote was posted, the first with the same price and size without interruption."""
    slots = np.arange(len(price))
    changed = (np.diff(price, prepend=-1) != 0) | (np.diff(size, prepend=-1) != 0)
    return np.maximum.accumulate(np.where(changed, slots, 0))
