"""Choice of the markets whose past prices are pulled, and the calls that request them.

Fine prices have the period of the plan, coarse ones are hours apart. Some time after a market resolves, the venue has only coarse prices.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from bellwether.venues.http.day import PullPlan
from bellwether.venues.http.page import VenueCall
from bellwether.venues.polymarket import routes
from bellwether.venues.wire.times import split_span

#: Longest span of one call in days.
MOST_DAYS = 15
#: Minutes between two prices of resolved markets whose finer prices the venue has deleted:
#: https://github.com/Polymarket/py-clob-client/issues/216.
COARSE_MINUTES = 720


@dataclass(frozen=True, slots=True)
class PricePlan(PullPlan):
    """Plan of the past prices to pull."""

    def select_markets(self, markets: pl.DataFrame) -> pl.DataFrame:
        """Return the markets whose prices are pulled, sorted by id: all, or a reproducible sample if there are more than the plan's
        `markets`.

        `markets` has the columns market_id, price_token and close_time; markets without a token have no prices.
        """
        return self.sample(markets.filter(pl.col("price_token").is_not_null()), "market_id").sort("market_id")

    def build_calls(self, markets: pl.DataFrame) -> list[VenueCall]:
        """Build the calls for the prices of the selected markets, market by market."""
        return self._calls(self.select_markets(markets), self.period_minutes)

    def build_coarse_calls(self, markets: pl.DataFrame, empty: Collection[str]) -> list[VenueCall]:
        """Build the calls for coarse prices of traded markets. empty: tokens for which the venue has no fine prices.

        `markets` also has the columns volume and start_time; markets shorter than the coarse period are left out.
        """
        if self.period_minutes >= COARSE_MINUTES:
            return []
        lasted = (pl.col("close_time") - pl.col("start_time")).fill_null(pl.duration(days=self.days))
        traded = pl.col("price_token").is_in(list(empty)) & (pl.col("volume") > 0)
        return self._calls(self.select_markets(markets).filter(traded, lasted >= pl.duration(minutes=COARSE_MINUTES)), COARSE_MINUTES)

    def _calls(self, markets: pl.DataFrame, minutes: int) -> list[VenueCall]:
        return [
            routes.prices_history(token, start=start, end=end, fidelity_minutes=minutes)
            for token, close in markets.select("price_token", "close_time").rows()
            for start, end in split_span(close - timedelta(days=self.days), close, timedelta(days=MOST_DAYS))
        ]

    def within_window(self, prices: pl.DataFrame, close: datetime | pl.Series) -> pl.DataFrame:
        """Return those `prices` that are within the plan's days before `close`, which is one time for all rows or one per row."""
        return prices.filter(pl.col("at").is_between(close - timedelta(days=self.days), close))
