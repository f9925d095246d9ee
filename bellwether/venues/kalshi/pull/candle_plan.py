"""Choice of the markets whose candles are pulled, and the calls that request them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from bellwether.venues.http.day import PullPlan
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.routes import MOST_CANDLES, MOST_TICKERS, VenueCall


@dataclass(frozen=True, slots=True)
class CandlePlan(PullPlan):
    """Plan of the candles to pull. Combos, markets on several other markets at once, are never included."""

    def select_markets(self, markets: pl.DataFrame) -> pl.DataFrame:
        """Return the markets whose candles are pulled, sorted by close time: all, or a reproducible sample if there are more than the
        plan's `markets`.

        `markets` has the columns ticker, close_time, is_combo and archived.
        """
        return self.sample(markets.filter(~pl.col("is_combo")), "ticker").sort("close_time", "ticker")

    def build_calls(self, markets: pl.DataFrame) -> list[VenueCall]:
        """Build the calls for the candles of the selected markets: live markets in batches, archived ones one by one."""
        chosen = self.select_markets(markets)
        live = chosen.filter(~pl.col("archived")).select("ticker", "close_time").rows()
        archived = chosen.filter(pl.col("archived")).select("ticker", "close_time").rows()
        batches = [
            routes.candles_batch(
                [ticker for ticker, _ in batch], self._start(batch[0][1]), batch[-1][1], period_minutes=self.period_minutes
            )
            for batch in self._batches(live)
        ]
        single = [
            routes.historical_candles(ticker, self._start(close), close, period_minutes=self.period_minutes) for ticker, close in archived
        ]
        return batches + single

    def within_window(self, candles: pl.DataFrame, markets: pl.DataFrame) -> pl.DataFrame:
        """Return the `candles` of `markets` that end within the plan's days before the close."""
        closes = candles.select("ticker").join(markets.select("ticker", "close_time"), on="ticker", how="left", maintain_order="left")[
            "close_time"
        ]
        end = pl.col("end_at")
        return candles.filter(closes.is_not_null() & candles.select(end.is_between(closes - timedelta(days=self.days), closes)).to_series())

    def _start(self, close: datetime) -> datetime:
        """Return the beginning of the plan's days before a close."""
        return close - timedelta(days=self.days)

    def _batches(self, markets: list[tuple[str, datetime]]) -> Iterator[list[tuple[str, datetime]]]:
        """Yield consecutive markets in batches that fit into one call."""
        batch: list[tuple[str, datetime]] = []
        for market in markets:
            if batch and not self._fits(len(batch) + 1, batch[0][1], market[1]):
                yield batch
                batch = []
            batch.append(market)
        if batch:
            yield batch

    def _fits(self, count: int, first_close: datetime, last_close: datetime) -> bool:
        """Return True if one call can request the candles of `count` markets that close between these times."""
        span = last_close - self._start(first_close)
        return count <= MOST_TICKERS and count * (span // timedelta(minutes=self.period_minutes) + 1) <= MOST_CANDLES
