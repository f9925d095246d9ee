"""Best bids and asks of an exported episode in its simulator: `python peer_quotes.py NAME FOLDER`, with instants per market as JSON on stdin.

Runs in the simulator's own environment. Prints for each market [bid, ask] at each instant; None without one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import unquote


def quote_hftbacktest(folder: Path, instants: dict[str, list[int]]) -> dict[str, list[list[float | None]]]:
    import numpy as np
    from hftbacktest import BacktestAsset, HashMapMarketDepthBacktest

    found = {}
    for file in sorted(folder.glob("*.npz")):
        asset = BacktestAsset().data(str(file)).linear_asset(1.0).constant_order_latency(0, 0).risk_adverse_queue_model()
        asset = asset.no_partial_fill_exchange().trading_value_fee_model(0.0, 0.0).tick_size(0.0001).lot_size(0.01)
        engine = HashMapMarketDepthBacktest([asset])
        rows = []
        for at in instants[unquote(file.stem)]:
            engine.elapse(at - engine.current_timestamp) if rows else engine.elapse(at - int(np.load(file)["data"]["local_ts"][0]))
            depth = engine.depth(0)
            rows.append([None if np.isnan(price) else float(price) for price in (depth.best_bid, depth.best_ask)])
        engine.close()
        found[unquote(file.stem)] = rows
    return found


def quote_nautilus_trader(folder: Path, instants: dict[str, list[int]]) -> dict[str, list[list[float | None]]]:
    from nautilus_trader.model.book import OrderBook
    from nautilus_trader.model.enums import BookType
    from nautilus_trader.persistence.catalog import ParquetDataCatalog

    catalog, found = ParquetDataCatalog(str(folder)), {}
    for instrument in catalog.instruments():
        book, rows = OrderBook(instrument.id, BookType.L2_MBP), []
        deltas = iter(catalog.order_book_deltas(instrument_ids=[instrument.id.value]))
        waiting = next(deltas, None)
        for at in instants[instrument.raw_symbol.value]:
            while waiting is not None and waiting.ts_init <= at:
                book.apply_delta(waiting)
                waiting = next(deltas, None)
            rows.append([None if price is None else float(price) for price in (book.best_bid_price(), book.best_ask_price())])
        assert catalog.trade_ticks(instrument_ids=[instrument.id.value]) is not None
        found[instrument.raw_symbol.value] = rows
    return found


if __name__ == "__main__":
    quote = {"hftbacktest": quote_hftbacktest, "nautilus_trader": quote_nautilus_trader}[sys.argv[1]]
    sys.stdout.write(json.dumps(quote(Path(sys.argv[2]), json.load(sys.stdin))))
