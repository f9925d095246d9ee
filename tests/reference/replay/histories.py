"""All queue histories that a recording allows, enumerated state by state, for small recordings of one market.

A history chooses, for every cut of a level that prints do not explain, the cancelled lots of its queue: ahead of the first own order, between own
orders, or behind. In a gap of the recording, any lots may be cancelled at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tests.reference.replay import fees

DOLLAR = 10_000
#: A resting own order: bid, piece, lots ahead, lots remaining.
Entry = tuple[int, int, int, int]
#: Own orders by bid side in price-time priority, lots filled of each piece, lots consumed of each level since it changed, and with fees
#: also the paid
#: fees and the accumulated rounding of each order.
Queues = tuple[tuple[Entry, ...], tuple[Entry, ...]]
State = tuple[Queues, tuple[int, ...], tuple[tuple[tuple[int, int], int], ...], tuple[int, ...]]


@dataclass
class Histories:
    """Replay the journal of a plain engine in every history at once.

    pieces: (order, bid side, bid) of each resting order; an amended order has several. samples: minimum and maximum equity.
    contained: at every sample, the fills of the replay were those of a history.
    """

    bankroll: int
    rules: Any = None
    terms: Sequence[int] = ()
    states: set[State] = field(default_factory=lambda: {(((), ()), (), (), ())})
    pieces: list[tuple[int, int, int]] = field(default_factory=list)
    current: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    recorded: dict[tuple[int, int], int] = field(default_factory=dict)
    samples: list[tuple[int, int]] = field(default_factory=list)
    flows: int = 0
    held: int = 0
    valid: bool = True
    payoff: int | None = None
    most: int = 1
    contained: bool = True

    def run(self, journal: Iterable[tuple[Any, ...]], orders: int = 0) -> Histories:
        self.states = {(((), ()), (), (), (0,) * (1 + orders) if self.terms else ())}
        for _, name, *arguments in journal:
            getattr(self, f"_{name}")(*arguments)
            self.most = max(self.most, len(self.states))
        return self

    def filled(self) -> dict[int, tuple[int, int]]:
        """Return the minimum and maximum lots filled of each order."""
        every = [self._totals(state) for state in self.states]
        return {number: (min(one[number] for one in every), max(one[number] for one in every)) for number, *_ in self.pieces}

    def _totals(self, state: State) -> Counter[int]:
        """Return the lots filled of each order in a history."""
        totals = Counter(self.taken)
        for (number, *_), lots in zip(self.pieces, state[1], strict=True):
            totals[number] += lots
        return totals

    def _each(self, change: Callable[[State], Iterable[State]]) -> None:
        self.states = {after for state in self.states for after in change(state)}

    # The recording

    def _level(self, ticker: int, side: int, price: int, lots: int, by_prints: bool) -> None:
        before = self.recorded.get((side, price), 0)
        self.recorded[side, price] = lots
        cut = max(0, before - lots)

        def change(state: State) -> Iterator[State]:
            consumed = tuple(item for item in state[2] if item[0] != (side, price))
            here = [entry[2] for entry in state[0][side] if entry[0] == price] if self.valid else []
            if not here:
                yield state[0], state[1], consumed, state[3]
                return
            for places in [here] if by_prints else cancelled(here, before, cut):
                yield _placed(state, side, price, [min(ahead, lots) for ahead in places], consumed)

        self._each(change)

    def _invalid(self, ticker: int) -> None:
        self.valid = False

    def _valid(self, ticker: int) -> None:
        self._lose()
        self.valid = True

        def change(state: State) -> Iterator[State]:
            after = state
            for side in (0, 1):
                queue = tuple(
                    (bid, piece, min(ahead, self.recorded.get((side, bid), 0)), left) for bid, piece, ahead, left in state[0][side]
                )
                after = _queued(after[0], side, queue), *state[1:]
            yield after

        self._each(change)

    def _lose(self) -> None:
        """Allow the cancel of any lots ahead, in a gap."""

        def change(state: State) -> Iterator[State]:
            levels = [(side, price) for side in (0, 1) for price in dict.fromkeys(entry[0] for entry in state[0][side])]
            options = [list(fewer([entry[2] for entry in state[0][side] if entry[0] == price])) for side, price in levels]
            for choice in product(*options):
                after = state
                for (side, price), places in zip(levels, choice, strict=True):
                    after = _placed(after, side, price, places, after[2])
                yield after

        self._each(change)

    def _print(self, ticker: int, side: int, price: int, lots: int) -> None:
        if not self.valid:
            self._lose()

        def change(state: State) -> Iterator[State]:
            left, eaten, filled, paid, queue = lots, 0, list(state[1]), list(state[3]), []
            for bid, piece, ahead, remaining in state[0][side]:
                others = min(left, max(0, ahead - eaten)) if bid == price else 0
                eaten += others
                left -= others
                lots_here = min(left, remaining) if bid >= price else 0
                left -= lots_here
                queue.append((bid, piece, 0 if bid > price else ahead, self._fill(filled, paid, piece, lots_here, remaining)))
            rest = tuple((bid, piece, max(0, ahead - eaten) if bid == price else ahead, left) for bid, piece, ahead, left in queue if left)
            yield _queued(state[0], side, rest), tuple(filled), state[2], tuple(paid)

        self._each(change)

    def _cross(self, ticker: int, side: int, best: int) -> None:
        levels = sorted(
            (price for (of, price), lots in self.recorded.items() if of != side and lots and best + price < DOLLAR), reverse=True
        )

        def change(state: State) -> Iterator[State]:
            filled, queue, consumed, paid = list(state[1]), [], dict(state[2]), list(state[3])
            for bid, piece, ahead, resting in state[0][side]:
                remaining = resting
                for price in levels:
                    key = (1 - side, price)
                    shown = max(0, self.recorded[key] - consumed.get(key, 0))
                    lots = min(shown, remaining) if price >= DOLLAR - bid else 0
                    if lots:
                        remaining = self._fill(filled, paid, piece, lots, remaining)
                        consumed[key] = consumed.get(key, 0) + lots
                if remaining:
                    queue.append((bid, piece, ahead, remaining))
            yield _queued(state[0], side, tuple(queue)), tuple(filled), tuple(sorted(consumed.items())), tuple(paid)

        self._each(change)

    def _fill(self, filled: list[int], paid: list[int], piece: int, lots: int, remaining: int) -> int:
        filled[piece] += lots
        if lots:
            self._pay(paid, self.pieces[piece][0], fees.maker_terms, self.pieces[piece][2], lots)
        return remaining - lots

    def _pay(self, paid: list[int], number: int, terms: Callable[[Sequence[int]], tuple[int, int, int]], price: int, lots: int) -> None:
        if self.terms:
            fee = fees.trade_fee(*terms(self.terms), self.rules.fee_unit, price, lots)
            charged, paid[1 + number] = fees.rounded(fee, -price * lots, paid[1 + number], self.rules)
            paid[0] += charged

    # Calls

    def _take(self, number: int, side: int, price: int, lots: int) -> None:
        self.taken[number] = self.taken.get(number, 0) + lots
        # A bid of the other side at the complement of the taken price.
        self.held += lots if side else -lots
        self.flows -= lots * (DOLLAR - price) if side else -lots * price

        def change(state: State) -> Iterator[State]:
            consumed = dict(state[2])
            consumed[side, price] = consumed.get((side, price), 0) + lots
            places = [max(0, entry[2] - lots) for entry in state[0][side] if entry[0] == price]
            paid = list(state[3])
            self._pay(paid, number, fees.taker_terms, DOLLAR - price, lots)
            yield *_placed(state, side, price, places, tuple(sorted(consumed.items())))[:3], tuple(paid)

        self._each(change)

    def _join(self, number: int, side: int, bid: int, lots: int) -> None:
        self._leave(number)
        self.current[number] = len(self.pieces)
        self.pieces.append((number, side, bid))
        self._each(lambda state: [self._joined((state[0], (*state[1], 0), *state[2:]), side, bid, len(self.pieces) - 1, lots)])

    def _joined(self, state: State, side: int, bid: int, piece: int, lots: int) -> State:
        shown = max(0, self.recorded.get((side, bid), 0) - dict(state[2]).get((side, bid), 0))
        place = sum(entry[0] >= bid for entry in state[0][side])
        queue = (*state[0][side][:place], (bid, piece, shown, lots), *state[0][side][place:])
        return _queued(state[0], side, queue), *state[1:]

    def _leave(self, number: int) -> None:
        piece = self.current.get(number, -1)
        if piece >= 0:

            def change(state: State) -> Iterator[State]:
                first, second = (tuple(entry for entry in queue if entry[1] != piece) for queue in state[0])
                yield (first, second), *state[1:]

            self._each(change)

    def _shrink(self, number: int, count: int) -> None:
        """Reduce the order to `count` lots in total."""
        mine = [piece for piece, (order, *_) in enumerate(self.pieces) if order == number]

        def change(state: State) -> Iterator[State]:
            rest = count - self.taken.get(number, 0) - sum(state[1][piece] for piece in mine)
            queues = [
                tuple(
                    (bid, piece, ahead, min(left, rest) if piece in mine else left)
                    for bid, piece, ahead, left in queue
                    if piece not in mine or rest > 0
                )
                for queue in state[0]
            ]
            yield (queues[0], queues[1]), *state[1:]

        self._each(change)

    def _close(self, ticker: int) -> None:
        self._each(lambda state: [(((), ()), *state[1:])])

    # Money

    def _settle(self, ticker: int, value: int | None) -> None:
        assert value is not None
        self.payoff = value

    def _sample(self, marks: list[tuple[int, int]], filled: dict[int, int]) -> None:
        self.contained = self.contained and any(+self._totals(state) == filled for state in self.states)
        equities = [self._equity(filled, *marks[0]) - sum(paid) for filled, paid in {(state[1], state[3][:1]) for state in self.states}]
        self.samples.append((min(equities), max(equities)))

    def _equity(self, filled: tuple[int, ...], bid: int, ask: int) -> int:
        """Return cash and position of a history. A NO contract counts as a dollar less a YES contract."""
        cash, held = self.bankroll + self.flows, self.held
        for lots, (_, side, price) in zip(filled, self.pieces, strict=True):
            cash -= lots * price if side == 0 else -lots * (DOLLAR - price)
            held += lots if side == 0 else -lots
        if self.payoff is not None:
            return cash + self.payoff * held // 100
        return cash + held * (bid if held >= 0 else ask)


def _placed(state: State, side: int, price: int, places: list[int], consumed: Any) -> State:
    """Return a state in which own orders at a price have other queue positions."""
    new = iter(places)
    queue = tuple(
        (bid, piece, next(new), left) if bid == price else (bid, piece, ahead, left) for bid, piece, ahead, left in state[0][side]
    )
    return _queued(state[0], side, queue), state[1], consumed, state[3]


def _queued(queues: Queues, side: int, queue: tuple[Entry, ...]) -> Queues:
    return (queue, queues[1]) if side == 0 else (queues[0], queue)


def fewer(places: list[int]) -> Iterator[list[int]]:
    """Return the possible queue positions at one level after any number of lots were cancelled."""
    for cut in range(max(places) + 1):
        yield from cancelled(places, max(places), cut)


def cancelled(places: list[int], shown: int, cut: int) -> Iterator[list[int]]:
    """Return the possible queue positions at one level after `cut` of the `shown` lots were cancelled: ahead, between, or behind own
    orders.
    """
    last = 0
    between = []
    for ahead in places:
        between.append(max(0, ahead - last))
        last = max(last, ahead)
    behind = max(0, shown - last)

    def choose(number: int, left: int) -> Iterator[list[int]]:
        if number == len(between):
            if left <= behind:
                yield []
            return
        for lots in range(min(between[number], left) + 1):
            for others in choose(number + 1, left - lots):
                yield [lots, *others]

    for lots in choose(0, min(cut, last + behind)):
        gone = 0
        after = []
        for ahead, here in zip(places, lots, strict=True):
            gone += here
            after.append(max(0, ahead - gone))
        yield after
