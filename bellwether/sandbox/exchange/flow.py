"""Order flow of one market: the events in its book that produce the quotes and trades of its tape.

Each side of the book contains bids in the price of its own outcome (no at 0.42 is an offer of yes at 0.58). At the start of each slot the
best bids, their sizes and the trade come from the tape. Within a slot, orders arrive and leave behind the best, and the last order at the
best is sometimes replaced, so that quotes stay constant in the slot, as in the tape and its candles.

Each slot has its own seed: for its orders, the split of the quote into orders, and the replacements. An order lives at most `LOOKBACK`
slots, and the queue at the best depends only on the trades since it was posted, so that any moment can be computed without replaying
earlier slots. Nothing depends on a later slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.random_draws import Purpose, create_generator
from bellwether.sandbox.world.tape import DOLLAR, GRIDS, Ints, MarketTape, TradingProfile

YES, NO = 0, 1
SIDES = ("yes", "no")

#: An order is gone at the latest when so many slots have begun after its own.
LOOKBACK = 8

#: A trade of more than so many times the size at the best is negotiated outside the book, as a block.
BLOCK = 3

#: Clocks of one slot: more than anything that can happen in it.
CLOCKS = 1 << 13

_WORD = 1 << 16
_STANDING_DISTANCE = 50
#: Words that split a quote into orders, and words that make an order.
_CUTS = 9
_FIELDS = 5


class LevelChange(NamedTuple):
    """Change of a level's size: price in mills of that side's outcome, size in hundredths of a contract."""

    at: int
    clock: int
    side: int
    price: int
    delta: int


class TradePrint(NamedTuple):
    """Trade: price in mills of yes, size in hundredths; `number` counts the prints of its slot."""

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
    """Removal and return of the last order at the best of a side."""

    at: int
    side: int


@dataclass(frozen=True, slots=True)
class SlotDraws:
    """Random draws of a slot: its orders and replacements."""

    orders: tuple[Order, ...]
    replacements: tuple[Replacement, ...]


#: The resting orders of both sides: price -> sizes in the order of their arrival.
Queues = tuple[dict[int, list[int]], dict[int, list[int]]]


@lru_cache(maxsize=len(GRIDS))
def _prices(grid: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the prices of a grid in ascending order, and for each of the thousand mills the number of prices below it."""
    prices = sorted({price for start, end, step in GRIDS[grid] for price in range(start, end, step)} - {0})
    below = np.searchsorted(np.asarray(prices), np.arange(DOLLAR + 1)).tolist()
    return tuple(prices), tuple(below)


def split_size(total: int, unit: int, cuts: list[int]) -> list[int]:
    """Split the total into one to eight sizes, multiples of `unit`."""
    weights = [1 + cut for cut in cuts[1 : 2 + cuts[0] % 8]]
    parts = [total // unit * weight // sum(weights) * unit for weight in weights]
    parts[0] += total - sum(parts)
    return [part for part in parts if part]


def take_fills(queue: list[int], size: int) -> tuple[list[int], list[int]]:
    """Split a queue that is long enough into a taker's fills and the remaining queue."""
    fills: list[int] = []
    left = list(queue)
    while size:
        fill = min(left[0], size)
        fills.append(fill)
        size -= fill
        if fill < left[0]:
            left[0] -= fill
        else:
            left.pop(0)
    return fills, left


class OrderFlow:
    """Book of one market from its opening to its close.

    Attributes:
        tape: its quotes and trades.
        trading: its trading profile; a livelier market has more orders.
        closes: instant of the close, at which the book is wiped.
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

    # --- draws --------------------------------------------------------------------------------------------------

    def _draw_standing(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Draw prices and sizes of the orders that stand for the market's whole life, whenever they are far enough from the best."""
        words = create_generator(*self.trading.entropy, Purpose.FLOW).integers(0, _WORD, (2, 2, DOLLAR // 10)).tolist()
        chance = int(_WORD * (0.1 + 0.5 * self.trading.requote))
        scale = 100 * self.trading.size // self._unit
        yes, no = (
            [
                (10 * cent, scale * (_WORD + 30 * sizes[cent]) // _WORD * self._unit)
                for cent in range(1, DOLLAR // 10)
                if presence[cent] < chance
            ]
            for presence, sizes in words
        )
        return yes, no

    def _draw(self, slot: int) -> SlotDraws:
        mean = 1.0 + 22.0 * self.trading.requote
        most = int(1.5 * mean) + 1
        words = create_generator(*self.trading.entropy, Purpose.FLOW, slot, 0).integers(0, _WORD, 2 + 7 * most).tolist()
        rest = words[2:]
        begins, span = self.begins(slot), self.ends(slot) - self.begins(slot) - 1
        orders = []
        for index in range(int(mean * (_WORD // 2 + words[0]) / _WORD)):
            order = self._order(slot, rest[_FIELDS * index : _FIELDS * (index + 1)])
            if order is not None:
                orders.append(order)
        rest = rest[_FIELDS * most :]
        replaced = int(mean * words[1] / _WORD) // 2
        replacements = (
            Replacement(begins + 1 + (when * span >> 16), side & 1) for when, side in zip(rest[:replaced], rest[most:], strict=False)
        )
        return SlotDraws(tuple(sorted(orders)), tuple(sorted(replacements)))

    def _draw_cuts(self, slot: int) -> list[list[int]]:
        """Draw the cuts of the quotes that are posted in a slot, per side."""
        cuts: list[list[int]] = create_generator(*self.trading.entropy, Purpose.FLOW, slot, 1).integers(0, _WORD, (2, _CUTS)).tolist()
        return cuts

    def _order(self, slot: int, words: list[int]) -> Order | None:
        """Draw an order behind the best of its side; None without a best, or without room behind it."""
        side = words[0] & 1
        place = self._below[int(self._bests[side][slot])] - 1 - 3 * words[3] // (_WORD - words[3] + 3000)
        if place < 0:
            return None
        begins = self.begins(slot)
        born = begins + 1 + (words[1] * (self.ends(slot) - begins - 1) >> 16)
        dies = born + 1 + SLOT * 3 * words[2] // (20 * (_WORD - words[2] + 1311))
        dies += (dies - self.tape.opens) % SLOT == 0
        size = 100 * self.trading.size * words[4] // (_WORD - words[4] + 6000) // self._unit + 1
        return Order(born, dies, side, self._prices[place], size * self._unit)

    # --- time --------------------------------------------------------------------------------------------------

    def begins(self, slot: int) -> int:
        """Return the instant at which a slot begins."""
        return self.tape.opens + SLOT * slot

    def ends(self, slot: int) -> int:
        """Return the instant at which the next slot begins, or the market closes."""
        return min(self.begins(slot + 1), self.closes)

    def slots(self, start: int, end: int) -> range:
        """Return the slots that overlap [start, end)."""
        if end <= start:
            return range(0)
        last = min((end - 1 - self.tape.opens) // SLOT, len(self.tape.price) - 1)
        return range(max((start - self.tape.opens) // SLOT, 0), last + 1)

    # --- the best ----------------------------------------------------------------------------------------------

    def best(self, slot: int, side: int) -> tuple[int, int]:
        """Return price and size of a side's best during a slot; price 0 without a bid."""
        return int(self._bests[side][slot]), int(self._sizes[side][slot])

    def _quote(self, slot: int, side: int) -> list[int]:
        """Return the queue at the best at the start of the slot, before its trade."""
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
        """Return the size that a taker needs beyond the queue, its fills, and the queue afterwards."""
        wanted = int(self.tape.size[slot])
        if wanted > BLOCK * size:
            return 0, [wanted], queue
        missing = max(wanted - sum(queue), 0)
        fills, left = take_fills([*queue, missing] if missing else queue, wanted)
        return missing, fills, [*left, size - sum(left)] if sum(left) < size else left

    def _passive(self, slot: int) -> int | None:
        """Return the side that a slot's trade hits; None without a trade."""
        price = int(self.tape.price[slot])
        return None if not price else YES if price == int(self.tape.bid[slot]) else NO

    def prints(self, slot: int) -> list[TradePrint]:
        """Return the trades at the start of a slot: one per resting order that the taker filled, or one block trade."""
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
        found: list[int] = slots[first:last].tolist()
        return found

    def last_print(self, slot: int) -> TradePrint | None:
        """Return the newest trade up to a slot's beginning."""
        index = int(np.searchsorted(self._trade_slots, slot, "right"))
        return self.prints(int(self._trade_slots[index - 1]))[-1] if index else None

    def is_news(self, slot: int) -> bool:
        """Return True if a slot begins with a new quote or with a trade."""
        return bool(self.tape.price[slot]) or any(int(posted[slot]) == slot for posted in self._posted)

    # --- behind the best ---------------------------------------------------------------------------------------

    def _resting(self, slot: int) -> list[Order]:
        """Return the orders of earlier slots that remain after the slot's beginning: those that no best has reached since."""
        begins = self.begins(slot)
        resting: list[Order] = []
        bounds = [DOLLAR, DOLLAR]
        for earlier in range(slot - 1, max(slot - LOOKBACK, 0) - 1, -1):
            for side in (YES, NO):
                bounds[side] = min(bounds[side], int(self._bests[side][earlier + 1]))
            resting += [order for order in self._draws(earlier).orders if order.dies > begins and order.price < bounds[order.side]]
        return sorted(resting)

    def _stands(self, slot: int, side: int) -> list[tuple[int, int]]:
        """Return price and size of a side's standing orders that are in the book during a slot."""
        bound = int(self._bests[side][slot]) - _STANDING_DISTANCE
        return [(price, size) for price, size in self._standing[side] if price <= bound]

    # --- what happens ------------------------------------------------------------------------------------------

    def _departures(self, slot: int) -> list[tuple[int, int, int]]:
        """Return side, price and size of every order that the beginning of a slot removes."""
        gone: list[tuple[int, int, int]] = []
        if not slot:
            return gone
        before = slot - 1
        for side in (YES, NO):
            if int(self._posted[side][slot]) == slot:
                price = self.best(before, side)[0]
                gone += [(side, price, size) for size in self._after_trade(before, side)]
            stays = set(self._stands(slot, side))
            gone += [(side, price, size) for price, size in self._stands(before, side) if (price, size) not in stays]
        stays_resting = set(self._resting(slot))
        begins = self.begins(slot)
        there = [*self._resting(before), *self._draws(before).orders]
        gone += [(order.side, order.price, order.size) for order in there if order.dies > begins and order not in stays_resting]
        return gone

    def _arrivals(self, slot: int) -> list[tuple[int, int, int]]:
        """Return side, price and size of every order that the beginning of a slot adds before its trade."""
        come: list[tuple[int, int, int]] = []
        for side in (YES, NO):
            if int(self._posted[side][slot]) == slot:
                price, size = self.best(slot, side)
                come += [(side, price, part) for part in (split_size(size, self._unit, self._cuts(slot)[side]) if price else ())]
            there = set(self._stands(slot - 1, side)) if slot else set()
            come += [(side, price, size) for price, size in self._stands(slot, side) if (price, size) not in there]
        return come

    def _after_trade(self, slot: int, side: int) -> list[int]:
        """Return the queue at the best after the slot's trade."""
        queue = self._quote(slot, side)
        return self._traded(slot, self.best(slot, side)[1], queue)[2] if self._passive(slot) == side else queue

    def _beginning(self, slot: int) -> tuple[Event, ...]:
        """Return the events at the beginning of a slot: orders leave, orders arrive, then the trade."""
        at, clock = self.begins(slot), CLOCKS * slot
        events: list[Event] = []
        for sign, orders in ((-1, self._departures(slot)), (1, self._arrivals(slot))):
            for side, price, size in orders:
                clock += 1
                events.append(LevelChange(at, clock, side, price, sign * size))
        return (*events, *self._trade(slot, clock))

    def _trade(self, slot: int, clock: int) -> list[Event]:
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
        """Return the events after the beginning of a slot and before the next slot or the close."""
        begins, ends, draws = self.begins(slot), self.ends(slot), self._draws(slot)
        moves: list[tuple[int, int, int, int]] = [(order.born, order.side, order.price, order.size) for order in draws.orders]
        there = [*self._resting(slot), *draws.orders]
        moves += [(order.dies, order.side, order.price, -order.size) for order in there if begins < order.dies < ends]
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

    # --- the book ----------------------------------------------------------------------------------------------

    def queues(self, slot: int) -> Queues:
        """Return all resting orders after the events at the beginning of a slot."""
        queues: Queues = ({}, {})
        for side in (YES, NO):
            price, _ = self.best(slot, side)
            if price:
                queues[side][price] = self._after_trade(slot, side)
            for standing, size in self._stands(slot, side):
                queues[side].setdefault(standing, []).append(size)
        for order in self._resting(slot):
            queues[order.side].setdefault(order.price, []).append(order.size)
        return queues

    def levels(self, now: int) -> tuple[dict[int, int], dict[int, int]]:
        """Return the size at each price of both sides at an instant; empty before the opening and from the close on."""
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
        """Return the clock of the newest change up to an instant; 0 before the opening."""
        if now < self.tape.opens:
            return 0
        if now >= self.closes:
            return CLOCKS * len(self.tape.price)
        slot = self.tape.at(now)
        begun = CLOCKS * slot + CLOCKS // 2
        return max((event.clock for event in self.within(slot) if event.at <= now), default=begun - 1)


def _find_posted(price: Ints, size: Ints) -> Ints:
    """Return for each slot the slot in which its quote was posted."""
    slots = np.arange(len(price))
    changed = (np.diff(price, prepend=-1) != 0) | (np.diff(size, prepend=-1) != 0)
    return np.maximum.accumulate(np.where(changed, slots, 0))
