"""Worker that measures hftbacktest in its own virtual environment: `python peer_hftbacktest.py`.

Every ticker is an asset: YES bids are bids, and NO bids are asks at one dollar minus their price. Local timestamps are later than the exchange's by
the latency of market data; orders take the order latency each way. Compilation is done before the first measurement.
"""

from __future__ import annotations

import sys

import numpy as np
from hftbacktest import GTX, LIMIT, BacktestAsset, ROIVectorMarketDepthBacktest
from numba import njit
from protocol import serve, timed

#: What `wait_next_feed` answers at the end.
END_OF_DATA = 1


@njit
def watch(hbt, cadence, size, limit):
    """Run an agent that decides at each cadence and sends nothing. Returns the numbers of decisions and of orders. hbt: the engine."""
    steps = 0
    while hbt.elapse(cadence) == 0:
        steps += 1
    return steps, 0


@njit
def quote(hbt, asset, size, limit, sent):
    """Keep post-only orders at both best prices of an asset, within an inventory limit. sent: number of orders so far. Returns the new number."""
    hbt.clear_inactive_orders(asset)
    depth = hbt.depth(asset)
    bid, ask = depth.best_bid_tick, depth.best_ask_tick
    if not 0 < bid < ask < 1000:
        return sent
    position = hbt.position(asset)
    want_bid = bid if position < limit else 0
    want_ask = ask if position > -limit else 0
    orders = hbt.orders(asset)
    values = orders.values()
    while values.has_next():
        order = values.get()
        wanted = want_bid if order.side == 1 else want_ask
        if order.price_tick == wanted:
            if order.side == 1:
                want_bid = 0
            else:
                want_ask = 0
        elif order.cancellable:
            hbt.cancel(asset, order.order_id, False)
    if want_bid > 0:
        sent += 1
        hbt.submit_buy_order(asset, sent, want_bid * 0.001, size, GTX, LIMIT, False)
    if want_ask > 0:
        sent += 1
        hbt.submit_sell_order(asset, sent, want_ask * 0.001, size, GTX, LIMIT, False)
    return sent


@njit
def make(hbt, cadence, size, limit):
    """Run a maker that keeps post-only orders at both best prices, at each cadence. Returns the numbers of decisions and of orders."""
    steps, sent = 0, 0
    while hbt.elapse(cadence) == 0:
        steps += 1
        for asset in range(hbt.num_assets):
            sent = quote(hbt, asset, size, limit, sent)
    return steps, sent


@njit
def follow(hbt, cadence, size, limit):
    """Run the maker on events: an asset is requoted as soon as its best price or inventory has changed. Returns the numbers of decisions and of
    orders.
    """
    count = hbt.num_assets
    bids, asks, held = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count)
    steps, sent = 0, 0
    while hbt.wait_next_feed(True, cadence) != END_OF_DATA:
        for asset in range(count):
            depth, position = hbt.depth(asset), hbt.position(asset)
            bid, ask = depth.best_bid_tick, depth.best_ask_tick
            if bid == bids[asset] and ask == asks[asset] and position == held[asset]:
                continue
            bids[asset], asks[asset], held[asset] = bid, ask, position
            steps += 1
            sent = quote(hbt, asset, size, limit, sent)
    return steps, sent


AGENTS = {"noop": watch, "maker": make, "follower": follow}


class Bench:
    """Records of hftbacktest, an array per ticker, and measured runs over them."""

    def __init__(self) -> None:
        self.data: list[np.ndarray] = []
        self.events = 0

    def load(self, path: str) -> dict[str, object]:
        with np.load(path) as arrays:
            self.data = [arrays[name] for name in arrays.files]
        self.events = sum(map(len, self.data))
        for agent in AGENTS:
            self._run(agent, 10**9, 10, 0, 1, [part[:2_000] for part in self.data])
        return {"events": self.events}

    def run(self, agent: str, cadence: int, size: int, order_latency: int, limit: int) -> dict[str, object]:
        return self._run(agent, cadence, size, order_latency, limit, self.data)

    def _run(self, agent: str, cadence: int, size: int, latency: int, limit: int, data: list[np.ndarray]) -> dict[str, object]:
        hbt = ROIVectorMarketDepthBacktest([asset(part, latency) for part in data])
        cpu, (steps, sent) = timed(lambda: AGENTS[agent](hbt, cadence, float(size), float(limit)))
        trades = sum(int(hbt.state_values(code).num_trades) for code in range(len(data)))
        hbt.close()
        return {"cpu": cpu, "events": self.events, "steps": int(steps), "orders": int(sent), "fills": trades}


def asset(data: np.ndarray, latency: int) -> BacktestAsset:
    """Create an asset with the exchange model that takes least time: orders are filled whole, and only trades advance the queue."""
    return (
        BacktestAsset()
        .data(data)
        .linear_asset(1.0)
        .constant_order_latency(latency, latency)
        .risk_adverse_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0.0, 0.0)
        .tick_size(0.001)
        .lot_size(0.01)
        .roi_lb(0.0)
        .roi_ub(1.0)
        .last_trades_capacity(0)
    )


if __name__ == "__main__":
    bench = Bench()
    serve({"load": bench.load, "run": bench.run})
    sys.exit(0)
