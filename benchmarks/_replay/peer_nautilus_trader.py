"""Worker that measures nautilus_trader in its own virtual environment: `python peer_nautilus_trader.py`.

Every ticker is a binary option with a book by price. Queue positions and consumption of liquidity are on in versions that have them; the strategy
acts on a timer. The engine's data objects are created and added before the measurement.
"""

from __future__ import annotations

import sys
from typing import Any

import nautilus_trader
import numpy as np
from nautilus_trader.backtest.config import BacktestEngineConfig
from nautilus_trader.backtest.engine import BacktestEngine
from nautilus_trader.backtest.models import LatencyModel
from nautilus_trader.common.config import LoggingConfig
from nautilus_trader.model.currencies import USD
from nautilus_trader.model.data import BookOrder, OrderBookDelta, TradeTick
from nautilus_trader.model.enums import (
    AccountType,
    AggressorSide,
    AssetClass,
    BookAction,
    BookType,
    OmsType,
    OrderSide,
    TimeInForce,
)
from nautilus_trader.model.identifiers import InstrumentId, Symbol, TradeId, Venue
from nautilus_trader.model.instruments import BinaryOption
from nautilus_trader.model.objects import Money, Price, Quantity
from nautilus_trader.trading.config import StrategyConfig
from nautilus_trader.trading.strategy import Strategy
from protocol import serve, timed

VENUE = Venue("SIM")
PRINT = 2
LAST = 128  # the flag of the last record of an event


class Agent(Strategy):
    """Strategy that keeps post-only orders at both best prices within an inventory limit, or does nothing. make: keep orders."""

    def __init__(self, ids: list[InstrumentId], make: bool, cadence: int, size: int, limit: int) -> None:
        super().__init__(StrategyConfig())
        self.ids, self.make, self.cadence, self.limit = ids, make, cadence, limit
        self.size = Quantity(size, 2)
        self.steps = self.sent = self.filled = 0

    def on_start(self) -> None:
        import pandas as pd

        for name in self.ids:
            self.subscribe_order_book_deltas(name, book_type=BookType.L2_MBP)
        self.clock.set_timer("decide", pd.Timedelta(self.cadence, "ns").to_pytimedelta(), callback=self.decide)

    def decide(self, event: object) -> None:
        self.steps += 1
        if self.make:
            for name in self.ids:
                self.quote(name)

    def quote(self, name: InstrumentId) -> None:
        book = self.cache.order_book(name)
        bid, ask = (None, None) if book is None else (book.best_bid_price(), book.best_ask_price())
        if bid is None or ask is None or bid >= ask:
            return
        position = float(self.portfolio.net_position(name))
        wanted = {OrderSide.BUY: bid if position < self.limit else None, OrderSide.SELL: ask if position > -self.limit else None}
        for order in self.cache.orders_open(instrument_id=name):
            if order.price == wanted[order.side]:
                wanted[order.side] = None
            elif not order.is_pending_cancel:
                self.cancel_order(order)
        for side, price in wanted.items():
            if price is not None and not self.cache.orders_inflight(instrument_id=name, side=side):
                self.sent += 1
                self.submit_order(self.order_factory.limit(name, side, self.size, price, TimeInForce.GTC, post_only=True))

    def on_order_filled(self, event: object) -> None:
        self.filled += 1


class Bench:
    """A tape (episode in integers) as data objects of nautilus_trader, and measured runs over it."""

    def __init__(self) -> None:
        self.data: list[Any] = []
        self.instruments: list[BinaryOption] = []

    def load(self, path: str, data_latency: int, until: int) -> dict[str, object]:
        tape = np.load(path)
        keep = (tape["kind"] <= PRINT) & (tape["ts"] < until)
        columns = [tape[name][keep].tolist() for name in ("ts", "kind", "ticker", "side", "price", "lots")]
        self.instruments = [instrument(code) for code in range(max(columns[2]) + 1)]
        self.data = [record(self.instruments[row[2]].id, index, data_latency, *row) for index, row in enumerate(zip(*columns, strict=True))]
        self.data.sort(key=lambda item: item.ts_init)
        return {"events": len(self.data), "version": nautilus_trader.__version__}

    def run(self, agent: str, cadence: int, size: int, order_latency: int, limit: int) -> dict[str, object]:
        engine = BacktestEngine(BacktestEngineConfig(logging=LoggingConfig(bypass_logging=True), run_analysis=False))
        options: dict[str, Any] = {"latency_model": LatencyModel(order_latency), "book_type": BookType.L2_MBP}
        wanted = {"queue_position": True, "liquidity_consumption": True, "oms_type": OmsType.NETTING, "account_type": AccountType.MARGIN}
        options |= {name: value for name, value in wanted.items() if name in (BacktestEngine.add_venue.__doc__ or "")}
        engine.add_venue(VENUE, starting_balances=[Money(1_000_000, USD)], **options)
        for each in self.instruments:
            engine.add_instrument(each)
        engine.add_data(self.data)
        strategy = Agent([each.id for each in self.instruments], agent == "maker", cadence, size, limit)
        engine.add_strategy(strategy)
        cpu, _ = timed(engine.run)
        answer = {"cpu": cpu, "events": len(self.data), "steps": strategy.steps, "orders": strategy.sent, "fills": strategy.filled}
        engine.dispose()
        return answer


def instrument(code: int) -> BinaryOption:
    """Create the binary option of a ticker, with a price grid of 0.1 cent and sizes of 0.01 contract. code: number of the ticker."""
    name = Symbol(f"SYN{code}")
    return BinaryOption(
        instrument_id=InstrumentId(name, VENUE),
        raw_symbol=name,
        asset_class=AssetClass.ALTERNATIVE,
        currency=USD,
        price_precision=3,
        size_precision=2,
        price_increment=Price(0.001, 3),
        size_increment=Quantity(0.01, 2),
        activation_ns=0,
        expiration_ns=2**62,
        ts_event=0,
        ts_init=0,
    )


def record(name: InstrumentId, index: int, latency: int, ts: int, kind: int, ticker: int, side: int, price: int, lots: int) -> Any:
    """Convert one event of a tape to a data object of nautilus_trader."""
    at = Price((price if side == 0 else 1000 - price) / 1000, 3)
    size = Quantity(lots / 100, 2)
    if kind == PRINT:
        taker = AggressorSide.SELLER if side == 0 else AggressorSide.BUYER
        return TradeTick(name, at, size, taker, TradeId(str(index)), ts, ts + latency)
    action = BookAction.UPDATE if lots else BookAction.DELETE
    order = BookOrder(OrderSide.BUY if side == 0 else OrderSide.SELL, at, size, 0)
    return OrderBookDelta(name, action, order, LAST, index, ts, ts + latency)


if __name__ == "__main__":
    bench = Bench()
    serve({"load": bench.load, "run": bench.run})
    sys.exit(0)
