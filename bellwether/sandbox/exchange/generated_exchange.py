"""Order books, trades and WebSocket messages of the generated world."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import merge
from operator import attrgetter

from bellwether.sandbox.exchange.exchange import (
    BOOKS,
    COMBO_LIFECYCLE,
    LIFECYCLE,
    TICKER,
    TRADES,
    ExchangeBook,
    Interest,
    StreamMessage,
    TradeFilter,
    TradeRow,
)
from bellwether.sandbox.exchange.flow import Event, LevelChange, OrderFlow, TradePrint
from bellwether.sandbox.exchange.wire import (
    build_delta,
    build_event_created,
    build_lifecycle,
    build_market_id,
    build_snapshot,
    build_ticker,
    build_trade,
    build_trade_message,
    format_levels,
)
from bellwether.sandbox.timestamps import DAY, HOUR, midnight
from bellwether.sandbox.world.model import FIRST_DAY, Market, to_day_number
from bellwether.sandbox.world.timetable import LATEST_SETTLEMENT, LONGEST_LIFE
from bellwether.sandbox.world.world import GeneratedWorld

_BEGIN = midnight(FIRST_DAY)
_AT = attrgetter("at")


class GeneratedExchange:
    """Exchange of a generated world, which computes the order flow of each market on demand from the seed.

    The flow matches the quotes, trades, volumes and candles of the world's REST interface at every instant.
    """

    def __init__(self, world: GeneratedWorld) -> None:
        self._world = world
        self._flows = lru_cache(maxsize=384)(self._flow_of)
        self._trading = lru_cache(maxsize=64)(self._markets_trading)
        self._lives = lru_cache(maxsize=4)(self._lives_of_day)

    def _market(self, ticker: str, now: int) -> Market | None:
        market = self._world.market(ticker)
        return market if market is not None and market.life.created <= now else None

    def _flow_of(self, ticker: str) -> OrderFlow:
        market = self._world.market(ticker)
        if market is None:
            raise KeyError(ticker)
        return OrderFlow(market.tape(), market.trading, market.life.closes)

    def _markets_trading(self, hour: int) -> list[Market]:
        """Return the markets that trade in an hour (its number since 1970), by sort key."""
        start, end = hour * HOUR, (hour + 1) * HOUR
        homes = range(to_day_number(end) + LONGEST_LIFE + 1, max(to_day_number(start), 0) - 1, -1)
        markets = (market for home in homes for event in self._world.day(home).events for market in event.markets)
        return sorted((market for market in markets if market.life.opens < end and market.life.closes >= start), key=attrgetter("key"))

    def cutoff(self, now: int) -> int:
        return self._world.cutoff(now)

    def is_listed(self, ticker: str, now: int) -> bool:
        return self._market(ticker, now) is not None

    def is_archived(self, ticker: str, now: int) -> bool:
        market = self._market(ticker, now)
        return market is not None and market.life.settled < self.cutoff(now)

    def book(self, ticker: str, now: int) -> ExchangeBook | None:
        if self._market(ticker, now) is None:
            return None
        flow = self._flows(ticker)
        yes, no = flow.levels(now)
        return ExchangeBook(ticker, format_levels(yes), format_levels(no), flow.clock(now))

    def events(self, ticker: str, start: int, end: int) -> Iterator[Event]:
        """Yield the events in a market's book in [start, end). Raises `KeyError` for an unknown market."""
        return self._flows(ticker).events(start, end)

    def snapshot(self, ticker: str, now: int) -> StreamMessage | None:
        book, market = self.book(ticker, now), self._market(ticker, now)
        return build_snapshot(book, build_market_id(market), now) if book is not None and market is not None else None

    def _trade_rows(self, market: Market, start: int, end: int) -> list[TradeRow]:
        """Return a market's trades in [start, end), newest first."""
        flow = self._flows(market.ticker)
        prints = [trade for slot in flow.trade_slots(start, end) for trade in flow.prints(slot)]
        return [TradeRow((-trade.at, *market.key, -trade.number), build_trade(trade, market)) for trade in reversed(prints)]

    def trades(self, wanted: TradeFilter) -> Iterator[TradeRow]:
        low = max(wanted.low, _BEGIN - LONGEST_LIFE * DAY)
        high = wanted.high if wanted.after is None else min(wanted.high, -wanted.after[0])
        rows = self._all_trades(low, high + 1) if wanted.ticker is None else self._trades_of(wanted.ticker, low, high + 1)
        return (row for row in rows if wanted.after is None or row.key > wanted.after)

    def _trades_of(self, ticker: str, start: int, end: int) -> Iterator[TradeRow]:
        market = self._world.market(ticker)
        if market is None:
            return
        start, end = max(start, market.life.opens), min(end, market.life.closes)
        while end > start:
            begin = max(end - DAY, start)
            yield from self._trade_rows(market, begin, end)
            end = begin

    def _all_trades(self, start: int, end: int) -> Iterator[TradeRow]:
        for hour in range((end - 1) // HOUR, start // HOUR - 1, -1):
            begin, until = max(start, hour * HOUR), min(end, (hour + 1) * HOUR)
            markets = (market for market in self._trading(hour) if market.trading.trades)
            rows = [row for market in markets for row in self._trade_rows(market, begin, until)]
            yield from sorted(rows, key=attrgetter("key"))

    def opening(self, interest: Interest, now: int) -> Iterator[StreamMessage]:
        chosen = (ticker for ticker, channels in interest.tickers.items() if BOOKS in channels)
        return (book for ticker in chosen if (book := self.snapshot(ticker, now)) is not None)

    def messages(self, interest: Interest, start: int, end: int) -> Iterator[StreamMessage]:
        markets = ((self._world.market(ticker), channels) for ticker, channels in interest.tickers.items())
        sources = [self._market_messages(market, channels, start, end) for market, channels in markets if market is not None]
        if interest.everywhere & {LIFECYCLE, COMBO_LIFECYCLE}:
            sources.append(self._lifecycles(interest.everywhere, start, end))
        return merge(*sources, key=_AT)

    def _market_messages(self, market: Market, channels: frozenset[str], start: int, end: int) -> Iterator[StreamMessage]:
        life, uuid_of_market = market.life, build_market_id(market)
        if start > life.closes or end <= life.opens:
            return
        flow = self._flows(market.ticker)
        for slot in flow.slots(start, end):
            if start <= flow.begins(slot) < end:
                events = flow.beginning(slot) if BOOKS in channels else flow.prints(slot)
                yield from self._build_messages(events, market, uuid_of_market, channels)
                if TICKER in channels and flow.has_news(slot):
                    yield build_ticker(market, flow, uuid_of_market, flow.begins(slot))
            if BOOKS in channels:
                yield from (build_delta(event, market.ticker, uuid_of_market) for event in flow.within(slot) if start <= event.at < end)
        if start <= life.closes < end:
            if BOOKS in channels:
                yield build_snapshot(ExchangeBook(market.ticker, (), (), flow.clock(life.closes)), uuid_of_market, life.closes)
            if TICKER in channels:
                yield build_ticker(market, flow, uuid_of_market, life.closes)

    def _build_messages(
        self, events: Iterable[Event], market: Market, uuid_of_market: str, channels: frozenset[str]
    ) -> Iterator[StreamMessage]:
        for event in events:
            if isinstance(event, LevelChange):
                yield build_delta(event, market.ticker, uuid_of_market)
            elif isinstance(event, TradePrint) and TRADES in channels:
                yield build_trade_message(event, market)

    def _lives_of_day(self, number: int) -> list[StreamMessage]:
        """Return the messages about the creation, opening, close and settlement of markets on UTC day `number`, in order; day 0 is
        2025-01-01.
        """
        start = _BEGIN + number * DAY
        homes = range(max(number - LATEST_SETTLEMENT - 1, 0), number + LONGEST_LIFE + 2)
        messages: list[StreamMessage] = []
        for event in (event for home in homes for event in self._world.day(home).events):
            channel = COMBO_LIFECYCLE if event.is_combo else LIFECYCLE
            messages.append(build_event_created(event, channel))
            messages += [message for market in event.markets for message in build_lifecycle(market, channel)]
        return sorted((message for message in messages if start <= message.at < start + DAY), key=_AT)

    def _lifecycles(self, channels: frozenset[str], start: int, end: int) -> Iterator[StreamMessage]:
        """Yield the messages about creation, opening, close and settlement of all markets in [start, end)."""
        for number in range(to_day_number(start), to_day_number(end - 1) + 1):
            messages: list[StreamMessage] = self._lives(number)
            first, last = bisect_left(messages, start, key=_AT), bisect_left(messages, end, key=_AT)
            yield from (message for message in messages[first:last] if message.channel in channels)
