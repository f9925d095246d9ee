"""Successive processes that pull the ordinary day of either venue into one store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from bellwether.lake.storage import open_storage
from bellwether.tables import table
from bellwether.tables.schema import Table
from bellwether.venues.day import DayPull, PullPlan, pull_day
from bellwether.venues.http.pages import DONE, PageStore
from bellwether.venues.kalshi.pull import ArchivePull, KalshiDay, SeriesPull, pull_archive, pull_series
from bellwether.venues.polymarket.pull import PolymarketDay
from tests.unit.venues import polymarket_world as polymarket
from tests.unit.venues import world as kalshi
from tests.unit.venues.polymarket_clients import clob, gamma
from tests.unit.venues.polymarket_objects import event
from tests.unit.venues.venue import client
from tests.unit.venues.world import DAY, after

#: Price plan of the sessions.
PLAN = PullPlan(days=2)
#: Part of a pull with the rows of a table, if its name differs.
PARTS = {"candles": "prices"}
PROVENANCE = ("request", "page", "fetched_at", "known_at")


def rows(declared: Table, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return all frames together, validated against the declaration."""
    frames = list(frames)
    return declared.validate(pl.concat(frames) if frames else declared.empty())


def stored_pages(folder: Path) -> list[Any]:
    """Return the last stored version of each page of finished pulls, sorted by pull, step and ordinal."""
    pages = {}
    for done in folder.rglob(DONE):
        for file in sorted(done.parent.glob("*.parquet")):
            pages.update({(str(file.parent.relative_to(folder)), row[0], row[5]): row for row in pl.read_parquet(file).rows()})
    return sorted(pages.items())


def is_final(pull: DayPull) -> bool:
    return bool(pull.pulls()["final"].item())


class Session:
    """Processes that pull from one venue. `markets`, `events`: ids of the ordinary day; `names`: id columns by table."""

    venue: str
    names: Mapping[str, str]
    markets: Sequence[str]
    events: Sequence[str]
    #: Ids of the two markets that `open_two` leaves without a result, in the order of the listing.
    two: tuple[str, str]
    world: Any

    def __init__(self, folder: Path, world: Any = None) -> None:
        self.folder = folder
        if world is not None:
            self.world = world

    @property
    def store(self) -> PageStore:
        return PageStore(open_storage(str(self.folder)), venue=self.venue)

    async def day(self, day: date = DAY, **options: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def everything(cls, pull: DayPull) -> dict[str, pl.DataFrame]:
        """Return the rows of each table of a pull, with its rejects."""
        found = {name: rows(table(f"raw/{cls.venue}_{name}"), getattr(pull, PARTS.get(name, name))()) for name in cls.names}
        return {**found, "rejects": rows(table(f"raw/{cls.venue}_rejects"), [pull.rejects()])}

    def at(self, age: int) -> date:
        """Set the venue's clock to this many days after the day, and return its date."""
        now = after(DAY, age) + timedelta(hours=3)
        self.world.date = format_datetime(now, usegmt=True)
        return now.date()

    def take_requests(self) -> list[str]:
        """Return the requests since the last call."""
        found = list(self.world.asked)
        self.world.asked.clear()
        return found


class KalshiSession(Session):
    """Pulls of Kalshi."""

    venue = "kalshi"
    names = MappingProxyType({"markets": "ticker", "events": "event_ticker", "candles": "ticker"})
    markets = ("A-1", "A-2", "B-1", "B-2", "C-1")
    events = ("EV-A", "EV-B", "EV-C")
    two = ("B-1", "C-1")

    def __init__(self, folder: Path, world: kalshi.World | None = None) -> None:
        super().__init__(folder, world or kalshi.ordinary())

    async def day(self, day: date = DAY, *, archive: pl.LazyFrame | None = None, plan: PullPlan = PLAN, **options: Any) -> DayPull:
        async with client(self.world) as venue:
            return await pull_day(KalshiDay(venue, day, plan, archive), options.pop("store", self.store), **options)

    async def archive(self, **options: Any) -> ArchivePull:
        async with client(self.world) as venue:
            return await pull_archive(venue, self.store, **options)

    async def series(self, **options: Any) -> SeriesPull:
        async with client(self.world) as venue:
            return await pull_series(venue, self.store, **options)

    def lose_event(self) -> str:
        """Let the venue return nothing for an event, and return its id."""
        self.world.events = {"EV-A", "EV-C"}
        return "EV-B"

    def open_two(self) -> None:
        for place in (2, 4):
            self.world.live[place] |= {"status": "closed", "result": "", "settlement_value_dollars": None, "settlement_ts": None}

    def settle(self, market: str) -> None:
        item = next(item for item in self.world.live if item["ticker"] == market)
        item.update({**kalshi.closing(market, item["close_time"]), "updated_time": "2026-03-21T00:00:00Z"})

    def add_reject(self, **changes: Any) -> tuple[str, str]:
        """Add a settled market that is alone in its event and lacks its result. Return the ids of both."""
        self.world.live.append(kalshi.closing("E-1", "2026-03-14T09:00:00Z", **({"result": ""} | changes)))
        return "E-1", "EV-E"

    def cure(self) -> None:
        self.world.live[-1].update({"result": "yes", "settlement_value_dollars": "1.0000"})


class PolymarketSession(Session):
    """Pulls of Polymarket."""

    venue = "polymarket"
    names = MappingProxyType({"markets": "market_id", "events": "event_id", "prices": "market_id", "winners": "condition_id"})
    markets = ("11", "12", "21", "22", "31")
    events = ("1", "2", "3")
    two = ("11", "12")

    def __init__(self, folder: Path, world: polymarket.World | None = None) -> None:
        super().__init__(folder, world or polymarket.ordinary())

    async def day(self, day: date = DAY, *, plan: PullPlan = PLAN, **options: Any) -> DayPull:
        async with gamma(self.world) as first, clob(self.world) as second:
            return await pull_day(PolymarketDay(first, second, day, plan), options.pop("store", self.store), **options)

    def lose_event(self) -> str:
        """Let the venue return nothing for an event, and return its id."""
        del self.world.events["2"]
        return "2"

    def open_two(self) -> None:
        still_open = {"closed": False, "umaResolutionStatus": None, "umaResolutionStatuses": "[]", "outcomePrices": '["0.4", "0.6"]'}
        self.world.markets[0] |= still_open
        self.world.markets[1] |= {"umaResolutionStatus": "disputed"}

    def settle(self, market: str) -> None:
        item = next(item for item in self.world.markets if item["id"] == market)
        item.update({"closed": True, "umaResolutionStatus": "resolved", "outcomePrices": '["1", "0"]'})

    def add_reject(self, **changes: Any) -> tuple[str, str]:
        """Add a market that is alone in its event and lacks its trading ids. Return the ids of both."""
        self.world.markets.append(polymarket.ending(51, "2026-03-14T09:00:00Z", of=5, **({"clobTokenIds": ""} | changes)))
        self.world.events["5"] = event(5)
        return "51", "5"

    def cure(self) -> None:
        self.world.markets[-1]["clobTokenIds"] = json.dumps([polymarket.token(51, 0), polymarket.token(51, 1)])


SESSIONS: dict[str, type[KalshiSession] | type[PolymarketSession]] = {"kalshi": KalshiSession, "polymarket": PolymarketSession}
