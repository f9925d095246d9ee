"""The order flow of a market refines its price path: the same quotes and trades, and a valid book at every moment."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bellwether.sandbox.exchange.flow import NO, YES, BookWipe, LevelChange, OrderFlow, TradePrint
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.exchange.wire import build_trade
from bellwether.sandbox.timestamps import DAY, SECOND, parse_time
from bellwether.sandbox.world.candles import build_candles
from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.model import Market
from bellwether.sandbox.world.tape import DOLLAR, GRIDS

MANY = settings(max_examples=120, deadline=None)
Book = tuple[dict[int, int], dict[int, int]]


def book_before(flow: OrderFlow, slot: int) -> Book:
    yes, no = flow.levels(flow.begins(slot) - 1)
    return dict(yes), dict(no)


def apply(book: Book, change: LevelChange) -> None:
    level = book[change.side]
    level[change.price] = level.get(change.price, 0) + change.delta
    assert level[change.price] >= 0, "no level below zero"
    if not level[change.price]:
        del level[change.price]
    assert max(book[YES], default=0) + max(book[NO], default=0) < DOLLAR, "neither crossed nor locked"


def on_grid(grid: str, price: int) -> bool:
    return any(start <= price < end and (price - start) % step == 0 for start, end, step in GRIDS[grid])


def play(flow: OrderFlow, slot: int) -> Book:
    """Apply the events at the start of a slot and within it, checking every step."""
    book = book_before(flow, slot)
    last: LevelChange | None = None
    for event in flow.beginning(slot):
        assert event.at == flow.begins(slot)
        if isinstance(event, LevelChange):
            apply(book, event)
            assert on_grid(flow.trading.grid, event.price)
            assert event.delta % (100 if flow.trading.whole else 1) == 0
            last = event
        elif isinstance(event, TradePrint) and not event.block:
            assert last is not None
            assert (last.delta, last.side) == (-event.size, 1 - event.taker), "a print follows the change that removes its size"
            assert event.price == (last.price if last.side == YES else DOLLAR - last.price)
            last = None
    check_best(flow, slot, book)
    for change in flow.within(slot):
        assert flow.begins(slot) < change.at < flow.ends(slot)
        apply(book, change)
    return book


def check_best(flow: OrderFlow, slot: int, book: Book) -> None:
    tape = flow.tape
    assert max(book[YES], default=0) == tape.bid[slot]
    assert DOLLAR - max(book[NO], default=0) == tape.ask[slot]
    assert book[YES].get(int(tape.bid[slot]), 0) == tape.bid_size[slot]
    assert book[NO].get(DOLLAR - int(tape.ask[slot]), 0) == tape.ask_size[slot]


@st.composite
def places(draw: st.DrawFn) -> tuple[float, float]:
    """Market and slot to test, as shares of the range."""
    return draw(st.floats(0, 1, exclude_max=True)), draw(st.one_of(st.just(0.0), st.floats(0, 1, exclude_max=True)))


def at(flows: list[OrderFlow], place: tuple[float, float]) -> tuple[OrderFlow, int]:
    flow = flows[int(place[0] * len(flows))]
    return flow, int(place[1] * len(flow.tape.price))


@MANY
@given(places())
def test_a_slot_leads_from_possible_book_to_possible_book(flows: list[OrderFlow], place: tuple[float, float]) -> None:
    flow, slot = at(flows, place)
    book = play(flow, slot)
    end = flow.levels(flow.ends(slot) - 1)
    assert (dict(end[YES]), dict(end[NO])) == book
    check_best(flow, slot, book)


@MANY
@given(places())
def test_prints_are_the_trade_of_the_tape(flows: list[OrderFlow], place: tuple[float, float]) -> None:
    flow, slot = at(flows, place)
    prints = flow.prints(slot)
    assert sum(trade.size for trade in prints) == flow.tape.size[slot]
    assert {trade.price for trade in prints} <= {int(flow.tape.price[slot])}
    assert [trade.number for trade in prints] == list(range(len(prints)))
    assert all(trade.size > 0 for trade in prints)


@MANY
@given(places())
def test_nothing_depends_on_a_later_slot(flows: list[OrderFlow], place: tuple[float, float]) -> None:
    flow, slot = at(flows, place)
    blind = OrderFlow(flow.tape.part(slice(0, slot + 1)), flow.trading, flow.closes)
    start, end = flow.begins(max(slot - 2, 0)), flow.ends(slot)
    assert list(blind.events(start, end)) == list(flow.events(start, end))
    assert blind.levels(end - 1) == flow.levels(end - 1)
    assert blind.last_print(slot) == flow.last_print(slot)


def test_any_window_is_a_part_of_the_whole(flows: list[OrderFlow]) -> None:
    for flow in flows[::7]:
        start = flow.begins(len(flow.tape.price) // 2)
        whole = list(flow.events(start, start + 3 * SLOT))
        cuts = [start, start + 1, start + SLOT - 1, start + SLOT, start + SLOT + 77, start + 3 * SLOT]
        assert [event for low, high in pairwise(cuts) for event in flow.events(low, high)] == whole
        again = OrderFlow(flow.tape, flow.trading, flow.closes)
        assert list(again.events(start + SLOT, start + 3 * SLOT)) == [event for event in whole if event.at >= start + SLOT]


def test_times_and_clocks_never_go_back(flows: list[OrderFlow]) -> None:
    for flow in flows[::11]:
        events = list(flow.events(flow.closes - 5 * SLOT, flow.closes + 1))
        assert [event.at for event in events] == sorted(event.at for event in events)
        clocks = [event.clock for event in events if not isinstance(event, TradePrint)]
        assert clocks == sorted(clocks)
        assert isinstance(events[-1], BookWipe)
        assert events[-1].at == flow.closes
        for event in events[:: max(len(events) // 9, 1)]:
            if isinstance(event, LevelChange):
                assert flow.clock(event.at) >= event.clock > flow.clock(event.at - 1)


def test_the_book_is_empty_before_the_opening_and_after_the_close(flows: list[OrderFlow]) -> None:
    for flow in flows:
        assert flow.levels(flow.tape.opens - 1) == flow.levels(flow.closes) == flow.levels(flow.closes + DAY) == ({}, {})
        assert flow.clock(flow.tape.opens - 1) == 0
        assert list(flow.events(flow.tape.opens - DAY, flow.tape.opens)) == []


@pytest.mark.parametrize("period", [1, 60, 1440])
def test_trades_add_up_to_the_candles(markets: list[Market], exchange: GeneratedExchange, period: int) -> None:
    busy = sorted(markets, key=lambda market: -market.tape().volume[-1])[:6]
    for market in busy:
        flow = OrderFlow(market.tape(), market.trading, market.life.closes)
        end = market.life.closes
        start = max(end - 2 * DAY, market.life.opens)
        prints = [trade for slot in flow.trade_slots(start, end) for trade in flow.prints(slot)]
        bars: dict[int, list[dict[str, str]]] = {}
        for trade in prints:
            body = build_trade(trade, market)
            close = -(-parse_time(body["created_time"]) // (period * 60 * SECOND)) * period * 60
            bars.setdefault(close, []).append(body)
        checked = 0
        for candle in build_candles(flow.tape, period, start, end):
            if candle["end_period_ts"] * SECOND - period * 60 * SECOND < start:
                continue
            within = bars.get(candle["end_period_ts"], [])
            assert Decimal(candle["volume_fp"]) == sum(Decimal(body["count_fp"]) for body in within)
            prices = [Decimal(body["yes_price_dollars"]) for body in within]
            if prices:
                price = candle["price"]
                assert (Decimal(price["open_dollars"]), Decimal(price["close_dollars"])) == (prices[0], prices[-1])
                assert (Decimal(price["high_dollars"]), Decimal(price["low_dollars"])) == (max(prices), min(prices))
                checked += 1
        assert checked
