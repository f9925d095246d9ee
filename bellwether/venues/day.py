"""Pull of one UTC day of a venue: its markets with their events, prices and outcomes.

A reject is an invalid or missing record; it is curable if a later response may contain a valid one. A pull's note is the JSON object stored when it finishes. The base of a pull is the finished pull whose pages it extends.

A day is pulled once, after it is over. Markets that were open then, and markets with curable rejects, are requested again by pulls that are
based on the first. A record's key has its place in the pull and the columns by which records are compared. What differs between venues are the tables, requests and parsers of a `VenueDay`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, partial
from typing import Any, ClassVar

import polars as pl

from bellwether.errors import LakeError
from bellwether.tables.raw import FAILURES
from bellwether.tables.schema import Table
from bellwether.venues.http.client import TASK_STATS, HttpClient, RequestStats
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import Note, PageStore, Progress, Puller, StoredPull, run_pull
from bellwether.venues.http.paging import Listing
from bellwether.venues.wire.rejects import (
    HOLE,
    NOT_LISTED,
    PATIENCE,
    Origin,
    ParsedRecords,
    RecordType,
    RejectReason,
    repeat_value,
    select_curable,
)

LISTING = "day"
#: First steps of a pull of the whole day; such a pull is completed once it has begun.
_FIRST_STEPS = {"cutoff", "markets"}
#: Steps that request markets by name: markets of an earlier pull that are not listed any more, and markets that were still open.
NAMED, FOLLOWED = "named", "followed"
#: Bytes of pages of prices that are parsed together.
_BYTES_AT_ONCE = 2**20
#: Maximum rows of a day's parsed pages that stay in memory, so that a small day is parsed once.
_FEW_ROWS = 500


#: Place of a record in the pull: number of its source, page, and position on the page.
_PLACE = {"listing": pl.UInt8(), "page": pl.Int32(), "ordinal": pl.Int32()}


def key_schema(table: Table, columns: Sequence[str]) -> pl.Schema:
    """Return the schema of keys with some columns of a table."""
    return pl.Schema({**_PLACE, **{name: table.schema[name] for name in columns}})


def build_keys(parsed: ParsedRecords, listing: int, schema: pl.Schema) -> pl.DataFrame:
    """Build the keys of a page's markets for `select_records`. listing: number of the source of the page."""
    places = [
        pl.Series("ordinal", parsed.ordinals, dtype=pl.Int32()),
        repeat_value(listing, pl.UInt8(), parsed.rows.height).alias("listing"),
    ]
    return parsed.rows.hstack(places)[schema.names()]


def select_records(keys: pl.DataFrame, column: str, rank: Sequence[tuple[str | pl.Expr, bool]]) -> pl.DataFrame:
    """Return the key of the chosen record of each market.

    column: id of the market. rank: columns by which records are sorted, the first counts, and whether they descend.
    """
    names, descending = zip(*rank, strict=True)
    return keys.sort(*names, descending=descending, nulls_last=True).unique(column, keep="first", maintain_order=True)


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Plan of the past prices to pull: hourly ones in the last `days` before a market's close, for at most `markets` markets per day."""

    days: int = 8
    markets: int = 2000

    @property
    def window(self) -> timedelta:
        """Time before a market's close for which prices are pulled."""
        return timedelta(days=self.days)

    def sample(self, markets: pl.DataFrame, column: str) -> pl.DataFrame:
        """Draw a reproducible sample of at most `markets` rows, by the hash of `column`."""
        digests = [hashlib.sha256(name.encode()).digest() for name in markets[column]]
        return markets.with_columns(digest=pl.Series(digests, dtype=pl.Binary())).sort("digest").head(self.markets)

    def within_window(self, prices: pl.DataFrame, markets: pl.DataFrame, column: str, at: str) -> pl.DataFrame:
        """Return the `prices` whose time `at` is within the plan's days before the `close_time` of their market. column: id of the market."""
        close = pl.col("close_time")
        closing = prices.join(markets.select(column, "close_time"), on=column, maintain_order="left")
        return closing.filter(pl.col(at).is_between(close - self.window, close)).drop("close_time")


class VenueDay(ABC):
    """Tables, requests and parsers with which one venue's markets of a day are pulled."""

    markets: ClassVar[RecordType]
    events: ClassVar[RecordType]
    prices: ClassVar[RecordType]
    pulls: ClassVar[Table]
    rejects: ClassVar[Table]
    #: Pattern of the ids that can be requested by name, and response field with the next cursor.
    names: ClassVar[str]
    cursor: ClassVar[str]
    #: Steps whose pages contain markets; of equally new records, the one of an earlier step counts. Steps whose pages contain prices.
    market_steps: ClassVar[tuple[str, ...]]
    price_steps: ClassVar[tuple[str, ...]]
    #: Columns of the table of markets that stay in memory.
    columns: ClassVar[Sequence[str]]
    #: Field and column of the time that determines a market's day, and the reason of the reject for a market that has moved to another day.
    moved: ClassVar[tuple[str, str, str]]
    #: Columns of the table of prices with the market and the time of a price.
    price_key: ClassVar[tuple[str, str]]

    def __init__(self, client: HttpClient, day: date, plan: PullPlan) -> None:
        self.client, self.day, self.plan = client, day, plan
        self.start = datetime.combine(day, time(), UTC)

    # --- records ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def parse_markets(self, step: str, page: VenuePage, markets: Markets) -> ParsedRecords:
        """Parse all markets of a page, whichever day they belong to."""

    @abstractmethod
    def parse_events(self, page: VenuePage) -> ParsedRecords:
        """Parse the events on a page."""

    @abstractmethod
    def parse_prices(self, step: str, pages: Sequence[VenuePage], markets: Markets) -> ParsedRecords:
        """Parse pages of prices in one pass, limited to the plan's days."""

    def parse_winners(self, pull: StoredPull | Puller) -> Iterator[ParsedRecords]:
        """Parse the outcomes of closed markets, where a table of their own has them."""
        return iter(())

    @abstractmethod
    def requested(self, page: VenuePage) -> Collection[str]:
        """Return the ids that the request of a page contains."""

    @abstractmethod
    def rank(self) -> list[tuple[str | pl.Expr, bool]]:
        """Return the order in which records of a market count, as columns, and whether they descend."""

    def admit(self, step: str, keys: pl.DataFrame, markets: Markets) -> pl.DataFrame:
        """Return those records of a page that may belong to the day."""
        return keys

    def describe(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add columns to the chosen records, which the requests of prices need."""
        return rows

    @abstractmethod
    def list_event_ids(self, rows: pl.DataFrame) -> list[str]:
        """Return the sorted ids of the events of some markets."""

    def price_tokens(self, rows: pl.DataFrame) -> set[Any]:
        """Return what determines the requests of prices of each market, apart from its id."""
        return set()

    def other_markets(self, markets: Markets) -> Iterator[pl.DataFrame]:
        """Yield the chosen markets that are on no page of the pull."""
        return iter(())

    def other_rejects(self, pull: StoredPull, markets: Markets) -> Iterator[pl.DataFrame]:
        """Yield the rejects of a kind that no other venue has."""
        return iter(())

    # --- requests --------------------------------------------------------------------------------------------------

    @abstractmethod
    async def collect(self, puller: Puller, markets: Markets, pages: PageStore, known_ids: set[str]) -> None:
        """Request the listings of the day's markets, and by name the markets in `known_ids` that are not listed."""

    @abstractmethod
    def list_named_calls(self, names: Iterable[str], answered: set[str | None]) -> Iterable[Listing]:
        """Yield the calls that request the markets `names` by id. answered: ids in the responses so far, which are not requested again; the
        caller updates it between two calls.
        """

    @abstractmethod
    async def complete(self, puller: Puller, markets: Markets) -> None:
        """Request the events, prices and other data of the markets."""

    async def complete_followed(self, puller: Puller, markets: Markets) -> None:  # noqa: B027
        """Request what markets that were requested again have only now, such as winners."""

    def drop_moved(self, markets: Markets, pages: PageStore) -> None:  # noqa: B027
        """Remove the markets that belong to another day, on which they are stored."""

    @abstractmethod
    def list_open_markets(self, puller: Puller, markets: Markets) -> list[str]:
        """Return the ids of the markets without a final resolution; a later pull requests them again."""


class Markets:
    """Markets of a day, collected from the pages of a pull, and their rejects.

    rows: the chosen records with the venue's `columns` and their places. responded_at: time of the venue's first response. by_close: ids of markets that belong to the day on which they closed. refused: record
    and reason of the rejects in the step `FOLLOWED`. named_calls: the last call for each market requested by name in the current step.
    returned: ids in the responses, by step.
    """

    def __init__(self, venue: VenueDay) -> None:
        self.venue = venue
        self.responded_at: datetime | None = None
        self.by_close: set[str] = set()
        self.refused: set[tuple[str | None, str]] = set()
        self.named_calls: dict[str, Origin] = {}
        self.returned: defaultdict[str, set[str | None]] = defaultdict(set)
        self.keys = [pl.DataFrame(schema=key_schema(venue.markets.table, venue.columns))]
        self.rows = self.keys[0]
        self._id = venue.markets.column
        self._followed: set[str] = set()
        self._rejects = [venue.rejects.empty()]
        self._parsed: dict[tuple[str, int], ParsedRecords] = {}

    @property
    def rejects(self) -> pl.DataFrame:
        """Rejects of markets so far."""
        return pl.concat(self._rejects)

    async def collect(self, puller: Puller, step: str, listings: Iterable[Listing]) -> None:
        """Request listings and add their pages."""
        async for page in puller.follow(step, listings):
            self.add(step, page)
            self.note_response(page)

    def note_response(self, page: VenuePage) -> None:
        """Note the time of a response."""
        self.responded_at = min(page.fetched_at, self.responded_at or page.fetched_at)

    def add(self, step: str, page: VenuePage) -> None:
        """Add the markets and rejects of a page. Rejects of the same record for the same reason are added once."""
        venue, parsed = self.venue, self.venue.parse_markets(step, page, self)
        if parsed.rows.height + sum(records.rows.height for records in self._parsed.values()) <= _FEW_ROWS:
            self._parsed[step, page.ordinal] = parsed
        if page.answer.get(venue.cursor) and not page.items("markets"):
            self.reject(venue.markets.quarantine(venue.day, page.origin).reject_hole(page.answer))
        keys = venue.admit(step, build_keys(parsed, venue.market_steps.index(step), self.keys[0].schema), self)
        self.keys.append(keys)
        if step == FOLLOWED:
            self._followed.update(parsed.rows[self._id])
            self.refused.update(zip(parsed.rejects["record_id"], parsed.rejects["reason"], strict=True))
        if step in (NAMED, FOLLOWED):
            self._note_returned(step, page, parsed)
        new = parsed.rejects.filter(pl.col("day") == venue.day)
        if new.height:
            self.reject(new.join(self.rejects, on=["record_id", "field", "reason"], how="anti", maintain_order="left"))

    def reject(self, rejects: pl.DataFrame) -> None:
        """Add rejects."""
        self._rejects.append(rejects)

    def _note_returned(self, step: str, page: VenuePage, parsed: ParsedRecords) -> None:
        """Note which requested markets a page contains. A market that is now dated on another day becomes a reject."""
        field, column, reason = self.venue.moved
        days = zip(parsed.ordinals, parsed.rows["day"], parsed.rows[column], strict=True)
        problems = {ordinal: RejectReason(field, str(at), reason) for ordinal, day, at in days if day != self.venue.day}
        self.reject(self.venue.markets.quarantine(self.venue.day, page.origin).rows(page.items("markets"), problems, {}))
        self.named_calls.update(dict.fromkeys(self.venue.requested(page), page.origin))
        self.returned[step].update(parsed.rows[self._id], parsed.rejects["record_id"])

    def reject_absent(self, step: str) -> set[str]:
        """Return the ids that the step requested but no response contains, and add a reject for each."""
        absent = self.named_calls.keys() - self.returned[step]
        new = absent.difference(self.rejects.filter(pl.col("reason") == NOT_LISTED)["record_id"])
        self._rejects += self.venue.markets.reject_missing(self.venue.day, self.named_calls, new, NOT_LISTED)
        self.named_calls.clear()
        return absent

    async def collect_named(self, puller: Puller, step: str, names: set[str]) -> set[str]:
        """Request markets by name, and add them; return those that the venue does not list."""
        await self.collect(puller, step, self.venue.list_named_calls(names, self.returned[step]))
        return self.reject_absent(step)

    def choose(self) -> None:
        """Choose one record per market. If a market was requested again later, its earlier records do not count."""
        venue, keys = self.venue, pl.concat(self.keys)
        later = venue.market_steps.index(FOLLOWED)
        is_replaced = (pl.col("listing") != later) & pl.col(self._id).is_in(list(self._followed))
        chosen = select_records(keys.filter(~is_replaced), self._id, venue.rank())
        self.rows = venue.describe(chosen.filter(pl.col("day") == venue.day).sort(self._id))

    def seen_ids(self) -> set[str | None]:
        """Return the ids of all markets and rejects so far."""
        of_day = pl.concat(self.keys).filter(pl.col("day") == self.venue.day)
        return {*of_day[self._id], *self.rejects["record_id"]}

    def find_curable(self) -> dict[str, str]:
        """Return the curable rejects that can be requested by name, as a map from id to reason."""
        curable = select_curable(self.rejects).filter(pl.col("record_id").str.contains(self.venue.names))
        return dict(curable.select("record_id", "reason").iter_rows())

    def frames(self, pull: StoredPull) -> Iterator[pl.DataFrame]:
        """Yield frames of the table of markets, each market once."""
        for listing, step in enumerate(self.venue.market_steps):
            of_step = self.rows.filter(listing=listing)
            for ordinal in of_step["page"].unique().sort():
                places = of_step.filter(page=ordinal)["ordinal"].implode()
                parsed = self._parsed.get((step, ordinal)) or self.venue.parse_markets(step, pull.page(step, ordinal), self)
                yield parsed.rows.filter(pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(places))
        yield from self.venue.other_markets(self)

    def build_completion(self, responded_at: datetime, *, settled: bool, complete: bool) -> dict[str, Any]:
        """Build the part of a pull's note that states whether the day is final.

        responded_at: time of the venue's response. settled: all markets have a final resolution. complete: the day was over, and no page is
        missing; also False in the note if a curable reject, which is requested again until `PATIENCE` has passed, cannot be requested by name.
        """
        holes = self.rejects.filter(pl.col("reason") == HOLE, pl.col("table") == self.venue.markets.table.name)
        curable = select_curable(self.rejects)
        waiting = not curable.is_empty() and responded_at.date() - self.venue.day < PATIENCE
        named = curable["record_id"].str.contains(self.venue.names).fill_null(False).all()
        complete = complete and holes.is_empty()
        return {"final": settled and complete and not waiting, "complete": complete and (named or not waiting)}


class DayPull:
    """Finished pull of one day.

    markets_of_day: the chosen record of each market. requests: number of pages fetched by this run; 0 if the pull was already stored.
    """

    def __init__(self, venue: VenueDay, puller: Puller, markets: Markets) -> None:
        self.venue, self.day, self.pull = venue, venue.day, puller.pull
        self.markets_of_day, self.requests = markets, puller.requests
        self._price_rejects: list[pl.DataFrame] | None = None

    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of markets, each market once."""
        return self.markets_of_day.frames(self.pull)

    def events(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of events for the day's markets, each event once."""
        column = self.venue.events.column
        wanted = set(self.venue.list_event_ids(self.markets_of_day.rows))
        for page in self.pull.pages("events"):
            rows = self.venue.parse_events(page).rows
            rows = rows.filter(pl.col(column).is_in(wanted)).unique(column, keep="first", maintain_order=True)
            wanted.difference_update(rows[column])
            if rows.height:
                yield rows

    def winners(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of outcomes of the day's closed markets."""
        return (parsed.rows for parsed in self._winners if parsed.rows.height)

    def prices(self) -> Iterator[pl.DataFrame]:
        """Yield frames of the raw table of prices, each price once, limited to the plan's days before each market's close."""
        rejects = []
        for step in self.venue.price_steps:
            for pages in self._group_price_pages(step):
                parsed = self.venue.parse_prices(step, pages, self.markets_of_day)
                rejects.append(parsed.rejects)
                if parsed.rows.height:
                    yield parsed.rows.unique(self.venue.price_key, keep="first", maintain_order=True)
        self._price_rejects = rejects

    def rejects(self) -> pl.DataFrame:
        """Return the rows of raw/<venue>_rejects for this day: invalid and contradicted records, and requested records that are missing."""
        if self._price_rejects is None:
            for _ in self.prices():
                pass
        parts = (
            (parsed.rejects for parsed in self._winners),
            self.venue.other_rejects(self.pull, self.markets_of_day),
            self._event_rejects(),
            self._price_rejects or (),
        )
        return pl.concat([self.markets_of_day.rejects, *(rows for part in parts for rows in part)])

    def pulls(self) -> pl.DataFrame:
        """Return the row of raw/<venue>_pulls that describes this pull."""
        return build_pulls_row(self.venue.pulls, self.day, self.pull)

    @cached_property
    def _winners(self) -> list[ParsedRecords]:
        return list(self.venue.parse_winners(self.pull))

    def _event_rejects(self) -> Iterator[pl.DataFrame]:
        """Yield rejects for invalid events and for requested events that are missing."""
        returned: set[str | None] = set()
        requested: dict[str, Origin] = {}
        for page in self.pull.pages("events"):
            parsed = self.venue.parse_events(page)
            yield parsed.rejects
            returned.update(parsed.rows[self.venue.events.column], parsed.rejects["record_id"])
            requested.update(dict.fromkeys(self.venue.requested(page), page.origin))
        reason = "the venue was asked for this event and returned none"
        yield from self.venue.events.reject_missing(self.day, requested, requested.keys() - returned, reason)

    def _group_price_pages(self, step: str) -> Iterator[list[VenuePage]]:
        """Yield pages of prices in groups of about `_BYTES_AT_ONCE`; consecutive pages with the same markets stay together."""
        group: list[VenuePage] = []
        size = 0
        for page in self.pull.pages(step):
            if size >= _BYTES_AT_ONCE and self.venue.requested(page) != self.venue.requested(group[-1]):
                yield group
                group, size = [], 0
            group.append(page)
            size += len(page.body)
        if group:
            yield group


async def pull_day(venue: VenueDay, pages: PageStore, *, refresh: bool = False, progress: Progress | None = None) -> DayPull:
    """Pull the day, or reuse the stored pull of the day. refresh: request everything again.

    A finished pull with the same price plan is reused if it is final (all markets settled, no holes in its pages, no curable rejects). If it
    lacks only settlements, or has curable rejects, just these markets are requested again; the whole day follows if the response about a
    reject has changed, or a market is missing or has another price token. Any other pull, and every pull with `refresh`, is replaced by a
    pull of the whole day; known markets that are no longer listed are requested by name. An unfinished pull is completed.

    Raises `VenueError` if the venue does not respond, or if a listing loops.
    """
    pull = _choose_pull(pages, venue.day, asdict(venue.plan), refresh=refresh)
    work = partial(_pull, venue, pages)
    result = await run_pull(venue.client, pages, pull, work, progress)
    if result.requests and (result.pull.note or {}).get("changed"):
        return await run_pull(venue.client, pages, pages.next_pull(result.pull), work, progress)
    return result


def _choose_pull(pages: PageStore, day: date, plan: dict[str, Any], *, refresh: bool) -> StoredPull:
    """Return the pull with which to continue `day`: the finished one if it can be reused, else an unfinished or new one. If only open
    markets need requests, the finished pull becomes its base.
    """
    name = day.isoformat()
    if refresh:
        return pages.open(LISTING, name, refresh=True)
    last = pages.latest_finished(LISTING, name)
    pull = pages.open(LISTING, name, reuse=lambda note: note["plan"] == plan and note["final"])
    if pull.note is None and last is not None and last.note is not None and not pull.steps & _FIRST_STEPS:
        follows = last.note["complete"] and not last.note["final"] and last.note["plan"] == plan
        pull.base = (last.base or last) if follows else None
    return pull


async def _pull(venue: VenueDay, pages: PageStore, puller: Puller) -> DayPull:
    """Make the requests of a pull, finish it, and return the result."""
    stats = RequestStats()
    TASK_STATS.set(stats)
    markets, is_finished = Markets(venue), puller.pull.note is not None
    if puller.pull.base is not None:
        await _follow(venue, pages, puller, markets, stats)
    else:
        await venue.collect(puller, markets, pages, set() if is_finished else _read_known_ids(venue, pages))
        markets.choose()
        if not is_finished:
            await venue.complete(puller, markets)
            assert markets.responded_at is not None
            over = markets.responded_at >= venue.start + timedelta(days=1)
            end = markets.build_completion(markets.responded_at, settled=not venue.list_open_markets(puller, markets), complete=over)
            puller.finish({**end, "plan": asdict(venue.plan), "effort": stats.note})
    return DayPull(venue, puller, markets)


async def _follow(venue: VenueDay, pages: PageStore, puller: Puller, markets: Markets, stats: RequestStats) -> None:
    """Request only what was not final in the pull's base: the markets that were open, and the markets with curable rejects."""
    assert puller.pull.base is not None
    base = Puller(puller.client, puller.pull.base)
    await venue.collect(base, markets, pages, set())
    markets.choose()
    curable, tokens = markets.find_curable(), venue.price_tokens(markets.rows)
    before, markets.responded_at = markets.responded_at, None
    absent = await markets.collect_named(puller, FOLLOWED, {*venue.list_open_markets(base, markets), *curable})
    same = markets.refused | {(name, NOT_LISTED) for name in absent}
    markets.choose()
    changed = not (absent <= curable.keys() and same >= set(curable.items()) and venue.price_tokens(markets.rows) <= tokens)
    await venue.complete_followed(puller, markets)
    if puller.pull.note is None:
        responded_at = markets.responded_at or before
        assert responded_at is not None
        settled = not venue.list_open_markets(puller, markets)
        end = markets.build_completion(responded_at, settled=settled, complete=not changed)
        puller.finish({**end, "changed": changed, "plan": asdict(venue.plan), "effort": stats.note})


def _read_known_ids(venue: VenueDay, pages: PageStore) -> set[str]:
    """Return the ids of the markets and curable rejects in the day's last finished pull; empty if the pages of that pull are missing or
    damaged.
    """
    markets = Markets(venue)
    with suppress(LakeError):
        last = pages.latest_finished(LISTING, venue.day.isoformat())
        if last is None:
            return set()
        for step in venue.market_steps:
            for page in last.pages(step):
                markets.add(step, page)
            markets.reject_absent(step)
        venue.drop_moved(markets, pages)
        markets.choose()
        return {*markets.rows[venue.markets.column], *markets.find_curable()}
    return set()


def build_pulls_row(table: Table, day: date, pull: StoredPull) -> pl.DataFrame:
    """Build the row of `table` (raw/<venue>_pulls) for a finished pull of `day`.

    Raises `LakeError` if its first or last page is missing or damaged.
    """
    note: Note = pull.note or {}
    effort = note.get("effort", {})
    source = pull if any(note["pages"].values()) or pull.base is None else pull.base
    counts = {step: len(pages) for step, pages in (source.note or {})["pages"].items() if pages}
    ends = [source.page(step, ordinal).fetched_at for step, count in counts.items() for ordinal in {0, count - 1}]
    failures = {column: effort["failures"].get(kind, 0) if effort else None for kind, column in FAILURES.items()}
    row = {
        "day": day,
        "pull": pull.folder,
        "final": note["final"],
        "requests": sum(map(len, note["pages"].values())),
        "attempts": effort.get("attempts"),
        **failures,
        "limited_seconds": effort.get("limited_seconds"),
        "started_at": min(ends),
        "finished_at": max(ends),
        "known_at": max(ends),
    }
    return table.validate(table.frame([row]))
