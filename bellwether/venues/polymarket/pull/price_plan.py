"""Choice of the markets whose past prices are pulled, and of the time range."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from bellwether.venues.http.day import PullPlan
from bellwether.venues.http.page import VenueCall
from bellwether.venues.polymarket import routes

#: Longest span of one call.
MOST_DAYS = 15
#: Minutes between two prices of resolved markets whose finer prices the venue has dropped:
#: https://github.com/Polymarket/py-clob-client/issues/216.
COARSE_MINUTES = 720


@dataclass(frozen=True, slots=True)
class PricePlan(PullPlan):
    """Plan for pulling past prices. Some time after a market resolves, the venue drops its fine prices and keeps only coarser ones."""

    def chosen(self, markets: pl.DataFrame) -> pl.DataFrame:
        """Return the markets whose prices are pulled, sorted by id; a `sample` of them if there are too many.

        `markets` has the columns market_id, price_token and close_time; markets without a token have no prices.
        """
        return self.sample(markets.filter(pl.col("price_token").is_not_null()), "market_id").sort("market_id")

    def calls(self, markets: pl.DataFrame) -> list[VenueCall]:
        """Return the calls for the prices of `chosen(markets)`, one market after another."""
        return self._calls(self.chosen(markets), self.period_minutes)

    def coarse_calls(self, markets: pl.DataFrame, empty: Collection[str]) -> list[VenueCall]:
        """Return the calls for coarser prices of the traded markets whose tokens are in `empty`: the venue returned no prices for them.

        `markets` also has the columns volume and start_time; markets that lasted less than the coarser period are left out.
        """
        if self.period_minutes >= COARSE_MINUTES:
            return []
        lasted = (pl.col("close_time") - pl.col("start_time")).fill_null(pl.duration(days=self.days))
        traded = pl.col("price_token").is_in(list(empty)) & (pl.col("volume") > 0)
        return self._calls(self.chosen(markets).filter(traded, lasted >= pl.duration(minutes=COARSE_MINUTES)), COARSE_MINUTES)

    def _calls(self, markets: pl.DataFrame, minutes: int) -> list[VenueCall]:
        return [
            routes.prices_history(token, start=start, end=end, fidelity_minutes=minutes)
            for token, close in markets.select("price_token", "close_time").rows()
            for start, end in self._spans(close)
        ]

    def within_window(self, prices: pl.DataFrame, close: datetime | pl.Series) -> pl.DataFrame:
        """Return the `prices` within the days before `close`, which is one time for all rows or one per row."""
        return prices.filter(pl.col("at").is_between(close - timedelta(days=self.days), close))

    def _spans(self, close: datetime) -> Iterator[tuple[datetime, datetime]]:
        start = close - timedelta(days=self.days)
        while start < close:
            end = min(start + timedelta(days=MOST_DAYS), close)
            yield start, end
            start = end
