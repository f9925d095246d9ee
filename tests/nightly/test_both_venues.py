"""A release of both venues, from the pages of the sandbox to its questions."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.checks import require
from bellwether.lake.sql import run_sql
from bellwether.lake.storage import open_storage
from bellwether.questions import build, release
from bellwether.sandbox import serve
from bellwether.sandbox.app import build_application
from bellwether.settings import Settings
from bellwether.tables import clean, raw
from bellwether.tables.schema import Table
from bellwether.venues.day import PullPlan
from bellwether.venues.http.client import RateLimit
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi import pull as kalshi
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.polymarket import pull as polymarket
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.resolution import build_resolutions

DAYS = [date(2026, 9, 20)]
RANGE = {"first_day": DAYS[0], "last_day": DAYS[-1]}
UNLIMITED = RateLimit(tokens_per_second=1e9)


def together(table: Table, parts: list[Any]) -> pl.DataFrame:
    """Return the frames of all days, validated against the declaration."""
    return table.validate(pl.concat([table.empty(), *(frame for frames in parts for frame in frames)]))


def pulled(folder: Path) -> dict[str, pl.DataFrame]:
    """The raw tables of both venues for `DAYS`."""

    async def work(site: Any) -> tuple[list[Any], list[Any], Any]:
        storage = open_storage(str(folder))
        ours, theirs = PageStore(storage), PageStore(storage, venue="polymarket")
        async with (
            KalshiClient(site.kalshi, limits=UNLIMITED) as rest,
            GammaClient(site.gamma, limits=UNLIMITED) as gamma,
            ClobClient(site.clob, limits=UNLIMITED) as clob,
        ):
            series = await kalshi.pull_series(rest, ours)
            first = [await kalshi.pull_day(rest, ours, day, archive=None, plan=PullPlan(days=2)) for day in DAYS]
            second = [await polymarket.pull_day(gamma, clob, theirs, day, plan=PullPlan(days=2)) for day in DAYS]
        return first, second, series

    with serve(build_application(Settings())) as site:
        first, second, series = asyncio.run(work(site))
        return {
            "kalshi_markets": together(raw.KALSHI_MARKETS, [pull.markets() for pull in first]),
            "kalshi_archive": raw.KALSHI_ARCHIVE.empty(),
            "kalshi_events": together(raw.KALSHI_EVENTS, [pull.events() for pull in first]),
            "kalshi_series": together(raw.KALSHI_SERIES, [series.series()]),
            "kalshi_candles": together(raw.KALSHI_CANDLES, [pull.prices() for pull in first]),
            "polymarket_markets": together(raw.POLYMARKET_MARKETS, [pull.markets() for pull in second]),
            "polymarket_events": together(raw.POLYMARKET_EVENTS, [pull.events() for pull in second]),
            "polymarket_winners": together(raw.POLYMARKET_WINNERS, [pull.winners() for pull in second]),
            "polymarket_prices": together(raw.POLYMARKET_PRICES, [pull.prices() for pull in second]),
        }


def test_questions_of_both_venues_have_prices_outcomes_and_clusters_of_their_own(tmp_path: Path) -> None:
    tables = pulled(tmp_path)
    tables["resolutions"] = build_resolutions(tables["polymarket_markets"].lazy(), tables.pop("polymarket_winners").lazy())
    priced = {name: tables.pop(name) for name in ("kalshi_candles", "polymarket_prices")}
    markets = run_sql(clean.MARKETS, tables, RANGE)
    prices = run_sql(clean.PRICES, {**priced, "markets": markets}, RANGE)
    require("clean/markets", markets.lazy())
    require("clean/prices", prices.lazy())
    questions = build(release("sandbox-both"), markets.lazy(), prices.lazy())
    require("benchmark/questions", questions.lazy())
    assert set(questions["source"]) == {"kalshi", "polymarket"}
    theirs = questions.filter(source="polymarket")
    assert theirs["price_1h"].count() > theirs.height * 0.8
    assert set(theirs["ground_truth"]) == {"yes", "no"}
    assert theirs.select(pl.col("cluster").str.starts_with("polymarket:")).to_series().all()
    settled = markets.filter((pl.col("venue") == "polymarket") & pl.col("outcome").is_not_null())
    assert theirs.height <= settled.height
