"""Pull of one day of a venue: its markets and their data, or only the markets that were open in the day's previous pull.

A step is a named group of a pull's requests. A reject is curable if a later response may contain a valid record.

A venue defines its listings, the choice among several records of a market, and the data per market (`DayWork`, `BaseDayPull`).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from bellwether.errors import LakeError
from bellwether.tables.raw import FAILURES
from bellwether.tables.schema import Table
from bellwether.venues.http.client import TASK_STATS, HttpClient, RequestStats
from bellwether.venues.http.day_markets import FOLLOWED, NAMED, BaseDayMarkets, BaseMarketCollector, DayTables, M
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.pull_choice import LISTING, choose_pull
from bellwether.venues.http.puller import Progress, Puller, run_pull
from bellwether.venues.wire.rejects import NOT_LISTED, Origin, ParsedRecords, parse_or_none, parse_or_reject

#: Bytes of pages of prices that are parsed together.
_BYTES_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Plan of the past prices to pull: one every `period_minutes` in the last `days` before a market's close, for at most `markets` markets
    per day.
    """

    days: int = 8
    markets: int = 2000
    period_minutes: int = 60

    @property
    def note(self) -> dict[str, Any]:
        """The plan as JSON, stored with the pull; a pull with a different plan is not reused."""
        return asdict(self)

    def sample(self, markets: pl.DataFrame, column: str) -> pl.DataFrame:
        """Draw a reproducible sample of at most `markets` rows, by the hash of `column`."""
        digests = [hashlib.sha256(name.encode()).digest() for name in markets[column]]
        return markets.with_columns(digest=pl.Series(digests, dtype=pl.Binary())).sort("digest").head(self.markets)


def build_pulls_row(table: Table, day: date, pull: StoredPull) -> pl.DataFrame:
    """Build the row of `table` (raw/<venue>_pulls) for a finished pull of `day`.

    Raises `LakeError` if its first or last page is missing or damaged.
    """
    note: Note = pull.note or {}
    effort = note.get("effort", {})
    source = pull if any(note["pages"].values()) or pull.base is None else pull.base
    pages = (source.note or {})["pages"]
    ends = [source.page(step, ordinal).fetched_at for step, count in pages.items() if count for ordinal in {0, count - 1}]
    failures = {column: effort["failures"].get(kind, 0) if effort else None for kind, column in FAILURES.items()}
    row = {
        "day": day,
        "pull": pull.folder,
        "final": note["final"],
        "requests": sum(note["pages"].values()),
        "attempts": effort.get("attempts"),
        **failures,
        "limited_seconds": effort.get("limited_seconds"),
        "started_at": min(ends),
        "finished_at": max(ends),
        "known_at": max(ends),
    }
    return table.validate(table.frame([row]))


@dataclass(frozen=True)
class BaseDayPull(ABC):
    """Finished pull of one day.

    markets_of_day: the chosen record of each market. requests: number of pages fetched by this run; 0 if the pull was already stored.
    """

    tables: ClassVar[DayTables]
    #: Steps of a pull whose pages contain prices.
    price_steps: ClassVar[tuple[str, ...]]

    day: date
    pull: StoredPull
    plan: PullPlan
    markets_of_day: BaseDayMarkets
    requests: int
    _price_rejects: dict[tuple[str, int], pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    @abstractmethod
    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of markets, each market once."""

    @abstractmethod
    def parse_events(self, page: VenuePage) -> ParsedRecords:
        """Parse the events on a page. Raises an exception for an invalid page."""

    @abstractmethod
    def requested(self, page: VenuePage) -> Iterable[str]:
        """Return the market ids or tickers that the request of a page contains."""

    @abstractmethod
    def parse_price_pages(self, step: str, pages: Sequence[VenuePage]) -> pl.DataFrame | None:
        """Parse several pages of prices in one pass, limited to the plan's days; return None if any of them has an invalid price."""

    @abstractmethod
    def parse_price_page(self, step: str, page: VenuePage) -> ParsedRecords:
        """Parse one page of prices, limited to the plan's days."""

    def other_rejects(self) -> Iterable[pl.DataFrame]:
        """Yield the rejects of a kind that no other venue has."""
        return ()

    def events(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of events for the day's markets, each event once."""
        wanted, column = set(self.markets_of_day.event_ids), self.tables.events.column
        for page in self.pull.pages("events"):
            rows = self._events_of(page).rows
            rows = rows.filter(pl.col(column).is_in(wanted)).unique(column, keep="first", maintain_order=True)
            wanted.difference_update(rows[column])
            if rows.height:
                yield rows

    def price_frames(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of prices, limited to the plan's days before each market's close."""
        for step in self.price_steps:
            for pages in self._group_price_pages(step):
                rows = parse_or_none(partial(self.parse_price_pages, step, pages))
                rejects = [self.tables.rejects.empty() for _ in pages]
                if rows is None:
                    parsed = [self.parse_price_page(step, page) for page in pages]
                    rows, rejects = pl.concat(page.rows for page in parsed), [page.rejects for page in parsed]
                self._price_rejects.update(((step, page.ordinal), own) for page, own in zip(pages, rejects, strict=True))
                if rows.height:
                    yield rows

    def rejects(self) -> pl.DataFrame:
        """Return the rows of raw/<venue>_rejects for this day: invalid and contradicted records, and requested records that are missing."""
        parts = (self.other_rejects(), self._event_rejects(), self._all_price_rejects())
        return pl.concat([self.tables.rejects.empty(), self.markets_of_day.rejects, *(rows for part in parts for rows in part)])

    def pulls(self) -> pl.DataFrame:
        """Return the row of raw/<venue>_pulls that describes this pull."""
        return build_pulls_row(self.tables.pulls, self.day, self.pull)

    def summary(self) -> dict[str, object]:
        """Return folder, number of requests, number of markets, and whether the day is final."""
        return {
            "pull": self.pull.folder,
            "requests": self.requests,
            "markets": self.markets_of_day.rows.height,
            "final": bool((self.pull.note or {})["final"]),
        }

    def _events_of(self, page: VenuePage) -> ParsedRecords:
        """Parse the events on a page; a page that cannot be processed becomes a reject."""
        return parse_or_reject(partial(self.parse_events, page), self.tables.events.quarantine(self.day, page.origin))

    def _event_rejects(self) -> Iterator[pl.DataFrame]:
        """Yield rejects for invalid events and for requested events that are missing."""
        returned: set[str | None] = set()
        requested: dict[str, Origin] = {}
        for page in self.pull.pages("events"):
            parsed = self._events_of(page)
            yield parsed.rejects
            returned.update(parsed.rows[self.tables.events.column], parsed.rejects["record_id"])
            requested.update(dict.fromkeys(self.requested(page), page.origin))
        reason = "the venue was asked for this event and returned none"
        yield from self.tables.events.reject_missing(self.day, requested, requested.keys() - returned, reason)

    def _all_price_rejects(self) -> Iterator[pl.DataFrame]:
        """Yield the rejects of prices, in the order of their pages."""
        if len(self._price_rejects) != sum(map(self.pull.count, self.price_steps)):
            for _ in self.price_frames():
                pass
        for step in self.price_steps:
            yield from (self._price_rejects[step, ordinal] for ordinal in range(self.pull.count(step)))

    def _group_price_pages(self, step: str) -> Iterator[list[VenuePage]]:
        """Yield pages of prices in groups of about `_BYTES_AT_ONCE`; consecutive pages with the same markets stay together."""
        group: list[VenuePage] = []
        size = 0
        for page in self.pull.pages(step):
            if size >= _BYTES_AT_ONCE and self.requested(page) != self.requested(group[-1]):
                yield group
                group, size = [], 0
            group.append(page)
            size += len(page.body)
        if group:
            yield group


D = TypeVar("D", bound=BaseDayPull)


class DayWork(ABC, Generic[M, D]):
    """Requests that one pull of a day makes, in order. Subclasses define the venue's requests; this class has what all venues share."""

    def __init__(self, client: HttpClient, pages: PageStore, day: date, plan: PullPlan) -> None:
        self.client, self.pages, self.day, self.plan = client, pages, day, plan
        self.start = datetime.combine(day, time(), UTC)

    @abstractmethod
    def create_collector(self) -> BaseMarketCollector[M]:
        """Create an empty collector for the day."""

    @abstractmethod
    async def collect_markets(self, puller: Puller, known_ids: set[str]) -> BaseMarketCollector[M]:
        """Request the listings of the day's markets, and by name the markets in `known_ids` that are not listed."""

    @abstractmethod
    def list_named_calls(self, names: Iterable[str], answered: set[str | None]) -> Iterable[Listing]:
        """Yield the calls that request the markets `names` by id. answered: ids in the responses so far, which are not requested again; the
        caller updates it between two calls.
        """

    @abstractmethod
    async def complete(self, puller: Puller, markets: M) -> None:
        """Request the events, prices and other data of the markets."""

    async def complete_followed(self, puller: Puller, markets: M) -> None:
        """Request what markets that were requested again have only now, such as winners."""

    @abstractmethod
    def list_open_markets(self, puller: Puller, markets: M) -> list[str]:
        """Return the ids of the markets without a final resolution; a later pull requests them again."""

    def is_settled(self, puller: Puller, markets: M) -> bool:
        """Return True if every market of the day has a final resolution."""
        return not self.list_open_markets(puller, markets)

    @abstractmethod
    def result(self, puller: Puller, markets: M) -> D:
        """Build the object that yields the tables of a finished pull."""

    async def pull(self, *, refresh: bool = False, today: date | None = None, progress: Progress | None = None) -> D:
        """Pull the day, or reuse the stored pull of the day. today: keep a stored pull whose next attempt is due after this date. refresh:
        request everything again.

        A finished pull with the same price plan is reused if it is final (all markets settled, no holes in its pages, no curable rejects)
        or if its next attempt is due after `today`. If it lacks only settlements, or has curable rejects, just these markets are requested
        again; the whole day follows if the response about a reject has changed, or a market is missing or has another price token. Any
        other pull, and every pull with `refresh`, is replaced by a pull of the whole day; known markets that are no longer listed are
        requested by name. An unfinished pull is completed.

        Raises `VenueError` if the venue does not respond, `PagingError` if a listing loops.
        """
        pull = choose_pull(self.pages, self.day, self.plan.note, refresh=refresh, today=today)
        result = await run_pull(self.client, self.pages, pull, self._work, progress)
        if result.requests and (result.pull.note or {}).get("changed"):
            return await run_pull(self.client, self.pages, self.pages.next_pull(result.pull), self._work, progress)
        return result

    async def _work(self, puller: Puller) -> D:
        """Make the requests of the pull, finish it, and return the result."""
        stats = RequestStats()
        TASK_STATS.set(stats)
        if puller.pull.base is not None:
            return await self._follow(puller, Puller(self.client, puller.pull.base), stats)
        collector = await self.collect_markets(puller, self._read_known_ids() if puller.pull.note is None else set())
        markets = collector.choose_records()
        if puller.pull.note is None:
            await self.complete(puller, markets)
            assert collector.responded_at is not None
            over = collector.responded_at >= self.start + timedelta(days=1)
            end = markets.build_completion(collector.responded_at, settled=self.is_settled(puller, markets), complete=over)
            puller.finish({**end, "plan": self.plan.note, "effort": stats.note})
        return self.result(puller, markets)

    async def _follow(self, puller: Puller, base: Puller, stats: RequestStats) -> D:
        """Request only what was not final in the pull `base`: the markets that were open, and the markets with curable rejects."""
        collector = await self.collect_markets(base, set())
        previous, curable = collector.choose_records(), collector.find_curable()
        names, responded_at = {*self.list_open_markets(base, previous), *curable}, collector.responded_at
        async for page in puller.follow(FOLLOWED, self.list_named_calls(names, collector.returned[FOLLOWED])):
            await puller.process(FOLLOWED, page, partial(collector.add, FOLLOWED))
            responded_at = page.fetched_at
        absent = collector.reject_absent(FOLLOWED)
        same = collector.refused | {(name, NOT_LISTED) for name in absent}
        markets = collector.choose_records()
        changed = not (absent <= curable.keys() and same >= set(curable.items()) and markets.price_tokens <= previous.price_tokens)
        await self.complete_followed(puller, markets)
        if puller.pull.note is None:
            assert responded_at is not None
            end = markets.build_completion(responded_at, settled=self.is_settled(puller, markets), complete=not changed)
            puller.finish({**end, "changed": changed, "plan": self.plan.note, "effort": stats.note})
        return self.result(puller, markets)

    async def add_named(self, puller: Puller, collector: BaseMarketCollector[M], known_ids: set[str]) -> None:
        """Request by name those markets in `known_ids` that no listing has returned."""
        async for page in puller.follow(NAMED, self.list_named_calls(known_ids - collector.seen_ids(), collector.returned[NAMED])):
            await puller.process(NAMED, page, partial(collector.add, NAMED))
        collector.reject_absent(NAMED)

    def _read_known_ids(self) -> set[str]:
        """Return the ids of the markets and curable rejects in the day's last finished pull; empty if the pages of that pull are missing or
        damaged.
        """
        with suppress(LakeError):
            last = self.pages.latest_finished(LISTING, self.day.isoformat())
            if last is None:
                return set()
            collector = self.create_collector()
            for step in collector.steps:
                for page in last.pages(step):
                    collector.add(step, page, last=True)
                collector.reject_absent(step)
            collector.drop_moved(self.pages)
            return collector.known_ids()
        return set()
