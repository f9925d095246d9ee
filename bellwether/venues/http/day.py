"""Pull of one day of a venue: its markets and their data, or only the markets that the day's previous pull left open.

A venue adds where its markets are listed, which record of a market counts, and which data is pulled per market (`DayWork`, `BaseDayPull`).
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
from bellwether.venues.http.client import COUNTED, HttpClient, RequestStats
from bellwether.venues.http.day_markets import FOLLOWED, NAMED, BaseDayMarkets, BaseMarketCollector, DayTables, M
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.pull_choice import LISTING, choose_pull
from bellwether.venues.http.puller import Progress, Puller, run_pull
from bellwether.venues.wire.rejects import NOT_LISTED, Origin, ParsedRecords, parse_or_reject, parse_together

#: Bodies of pages of prices that are parsed at once.
_BYTES_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Plan for prices: every `period_minutes` over the `days` before each market's close, for at most `markets` markets of a day."""

    days: int = 8
    markets: int = 2000
    period_minutes: int = 60

    @property
    def note(self) -> dict[str, Any]:
        """The plan as JSON; a stored pull with a different plan is not reused."""
        return asdict(self)

    def sample(self, markets: pl.DataFrame, column: str) -> pl.DataFrame:
        """Return at most `markets` rows: those with the smallest SHA-256 of their name in `column`."""
        digests = [hashlib.sha256(name.encode()).digest() for name in markets[column]]
        return markets.with_columns(digest=pl.Series(digests, dtype=pl.Binary())).sort("digest").head(self.markets)


class PullStats:
    """Request statistics of the current task and its subtasks, counted from its creation."""

    def __init__(self) -> None:
        self._stats = RequestStats()
        COUNTED.set(self._stats)

    @property
    def note(self) -> dict[str, Any]:
        """Attempts, failures by kind, and seconds of waiting (one decimal), as JSON."""
        return {
            "attempts": self._stats.attempts,
            "failures": dict(self._stats.failures),
            "limited_seconds": round(self._stats.limited_seconds, 1),
        }


def pulls_row(table: Table, day: date, pull: StoredPull) -> pl.DataFrame:
    """Build the row of `table` (raw/<venue>_pulls) for a finished pull of `day`.

    Raises `LakeError` if its first or last page is missing or damaged.
    """
    note: Note = pull.note or {}
    effort = note.get("effort", {})
    asked = pull if any(note["pages"].values()) or pull.base is None else pull.base
    pages = (asked.note or {})["pages"]
    ends = [asked.page(step, ordinal).fetched_at for step, count in pages.items() if count for ordinal in {0, count - 1}]
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

    markets_of_day: the records that count. requests: pages fetched by this run; 0 if the pull was already stored.
    """

    tables: ClassVar[DayTables]
    #: Steps of a pull that bring prices.
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
        """Parse the events on a page. Raises if the page is invalid."""

    @abstractmethod
    def requested(self, page: VenuePage) -> Iterable[str]:
        """Return the names in the request of a page of events or prices."""

    @abstractmethod
    def prices_together(self, step: str, pages: Sequence[VenuePage]) -> pl.DataFrame | None:
        """Parse the prices of several pages at once, within the plan's days; None if any page has a problem."""

    @abstractmethod
    def prices_of(self, step: str, page: VenuePage) -> ParsedRecords:
        """Parse the prices of one page, within the plan's days."""

    def other_rejects(self) -> Iterable[pl.DataFrame]:
        """Yield the rejects of tables that only this venue has."""
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
        """Yield frames of the raw table of prices within the plan's days before each market's close."""
        for step in self.price_steps:
            for pages in self._price_pages(step):
                rows = parse_together(partial(self.prices_together, step, pages))
                rejects = [self.tables.rejects.empty() for _ in pages]
                if rows is None:
                    parsed = [self.prices_of(step, page) for page in pages]
                    rows, rejects = pl.concat(one.rows for one in parsed), [one.rejects for one in parsed]
                self._price_rejects.update(((step, page.ordinal), own) for page, own in zip(pages, rejects, strict=True))
                if rows.height:
                    yield rows

    def rejects(self) -> pl.DataFrame:
        """Return rows of raw/<venue>_rejects for this day: invalid or contradicted records, and requested records that were not returned."""
        parts = (self.other_rejects(), self._event_rejects(), self._all_price_rejects())
        return pl.concat([self.tables.rejects.empty(), self.markets_of_day.rejects, *(rows for part in parts for rows in part)])

    def pulls(self) -> pl.DataFrame:
        """Return the row of raw/<venue>_pulls."""
        return pulls_row(self.tables.pulls, self.day, self.pull)

    def summary(self) -> dict[str, object]:
        """Return folder, number of requests, number of markets, and whether the day is final."""
        return {
            "pull": self.pull.folder,
            "requests": self.requests,
            "markets": self.markets_of_day.rows.height,
            "final": bool((self.pull.note or {})["final"]),
        }

    def _events_of(self, page: VenuePage) -> ParsedRecords:
        return parse_or_reject(partial(self.parse_events, page), self.tables.events.quarantine(self.day, page.origin))

    def _event_rejects(self) -> Iterator[pl.DataFrame]:
        """Yield rejects for invalid events and for requested events that were not returned."""
        answered: set[str | None] = set()
        asked: dict[str, Origin] = {}
        for page in self.pull.pages("events"):
            parsed = self._events_of(page)
            yield parsed.rejects
            answered.update(parsed.rows[self.tables.events.column], parsed.rejects["record_id"])
            asked.update(dict.fromkeys(self.requested(page), page.origin))
        reason = "the venue was asked for this event and returned none"
        yield from self.tables.events.in_vain(self.day, asked, asked.keys() - answered, reason)

    def _all_price_rejects(self) -> Iterator[pl.DataFrame]:
        """Yield the rejects collected by `price_frames`, reading all price pages first if necessary."""
        if len(self._price_rejects) != sum(map(self.pull.count, self.price_steps)):
            for _ in self.price_frames():
                pass
        for step in self.price_steps:
            yield from (self._price_rejects[step, ordinal] for ordinal in range(self.pull.count(step)))

    def _price_pages(self, step: str) -> Iterator[list[VenuePage]]:
        """Yield pages of prices in groups; consecutive pages with the same markets stay in one group."""
        held: list[VenuePage] = []
        size = 0
        for page in self.pull.pages(step):
            if size >= _BYTES_AT_ONCE and self.requested(page) != self.requested(held[-1]):
                yield held
                held, size = [], 0
            held.append(page)
            size += len(page.body)
        if held:
            yield held


D = TypeVar("D", bound=BaseDayPull)


class DayWork(ABC, Generic[M, D]):
    """Work of one pull of a day."""

    def __init__(self, client: HttpClient, pages: PageStore, day: date, plan: PullPlan) -> None:
        self.client, self.pages, self.day, self.plan = client, pages, day, plan
        self.start = datetime.combine(day, time(), UTC)

    @abstractmethod
    def gathering(self) -> BaseMarketCollector[M]:
        """Return an empty collector for the day."""

    @abstractmethod
    async def gather(self, puller: Puller, known: set[str]) -> BaseMarketCollector[M]:
        """Collect the day's markets from the listings, and request by name the `known` markets that are not listed."""

    @abstractmethod
    def by_name(self, names: Iterable[str], answered: set[str | None]) -> Iterable[Listing]:
        """Yield the calls for markets by name; between two calls, `answered` receives the markets in the responses."""

    @abstractmethod
    async def complete(self, puller: Puller, markets: M) -> None:
        """Pull the data that belongs to the markets."""

    async def complete_followed(self, puller: Puller, markets: M) -> None:
        """Pull the data that belongs to followed markets."""

    @abstractmethod
    def expected(self, puller: Puller, markets: M) -> list[str]:
        """Return the markets for which a later response is expected."""

    def is_settled(self, puller: Puller, markets: M) -> bool:
        """Return True if no later response is expected for any market of the day."""
        return not self.expected(puller, markets)

    @abstractmethod
    def result(self, puller: Puller, markets: M) -> D:
        """Return the finished pull."""

    async def pull(self, *, refresh: bool = False, today: date | None = None, progress: Progress | None = None) -> D:
        """Pull the day, or reuse its stored pull.

        A stored pull is reused if it is finished and final (all markets settled, no holes in its pages, no curable rejects) and has the
        same price
        plan, unless `refresh`; also if it rests until after `today`. A pull that lacks only settled markets, or has curable rejects, is
        followed:
        only these markets are requested again. The whole day is pulled again if the response about a reject has changed, or a market is no
        longer
        listed or has another price token. Any other pull is replaced by a pull of the whole day in the next folder; known markets that are
        no
        longer listed are requested by name. An unfinished pull is completed. Raises `VenueError` if the venue does not respond,
        `PagingError`
        if a listing loops.
        """
        pull = choose_pull(self.pages, self.day, self.plan.note, refresh=refresh, today=today)
        found = await run_pull(self.client, self.pages, pull, self._work, progress)
        if found.requests and (found.pull.note or {}).get("changed"):
            return await run_pull(self.client, self.pages, self.pages.following(found.pull), self._work, progress)
        return found

    async def _work(self, puller: Puller) -> D:
        stats = PullStats()
        if puller.pull.base is not None:
            return await self._follow(puller, Puller(self.client, puller.pull.base), stats)
        gathering = await self.gather(puller, self._known() if puller.pull.note is None else set())
        markets = gathering.settle()
        if puller.pull.note is None:
            await self.complete(puller, markets)
            assert gathering.asked_at is not None
            over = gathering.asked_at >= self.start + timedelta(days=1)
            end = markets.build_completion(gathering.asked_at, settled=self.is_settled(puller, markets), complete=over)
            puller.finish({**end, "plan": self.plan.note, "effort": stats.note})
        return self.result(puller, markets)

    async def _follow(self, puller: Puller, base: Puller, stats: PullStats) -> D:
        """Request again the markets that were open when the day was pulled, and the markets of its curable rejects."""
        gathering = await self.gather(base, set())
        before, curable = gathering.settle(), gathering.curable()
        names, asked_at = {*self.expected(base, before), *curable}, gathering.asked_at
        async for page in puller.follow(FOLLOWED, self.by_name(names, gathering.answered[FOLLOWED])):
            await puller.process(FOLLOWED, page, partial(gathering.add, FOLLOWED))
            asked_at = page.fetched_at
        absent = gathering.absent(FOLLOWED)
        same = gathering.refused | {(name, NOT_LISTED) for name in absent}
        markets = gathering.settle()
        changed = not (absent <= curable.keys() and same >= set(curable.items()) and markets.price_tokens <= before.price_tokens)
        await self.complete_followed(puller, markets)
        if puller.pull.note is None:
            assert asked_at is not None
            end = markets.build_completion(asked_at, settled=self.is_settled(puller, markets), complete=not changed)
            puller.finish({**end, "changed": changed, "plan": self.plan.note, "effort": stats.note})
        return self.result(puller, markets)

    async def add_named(self, puller: Puller, gathering: BaseMarketCollector[M], known: set[str]) -> None:
        """Request by name the known markets that are not listed."""
        async for page in puller.follow(NAMED, self.by_name(known - gathering.met(), gathering.answered[NAMED])):
            await puller.process(NAMED, page, partial(gathering.add, NAMED))
        gathering.absent(NAMED)

    def _known(self) -> set[str]:
        """Return the markets and curable rejects of the day's last finished pull; empty if its pages are missing or damaged."""
        with suppress(LakeError):
            last = self.pages.latest_finished(LISTING, self.day.isoformat())
            if last is None:
                return set()
            gathering = self.gathering()
            for step in gathering.steps:
                for page in last.pages(step):
                    gathering.add(step, page, last=True)
                gathering.absent(step)
            gathering.leave_out(self.pages)
            return gathering.known()
        return set()
