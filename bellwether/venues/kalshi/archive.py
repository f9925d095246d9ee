"""Scan of Kalshi's archive of settled markets. The cutoff is the venue's instant before which settled markets are only in the archive. The
archive cannot be filtered by time, so each new cutoff needs a complete scan. A hole is an empty page whose cursor continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import polars as pl

from bellwether.errors import LakeError, VenueError
from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_REJECTS
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.puller import Progress, Puller, run_pull
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.wire import parse_markets
from bellwether.venues.records import build_keys, key_schema, reject_contradictions, select_records, superseded_schema
from bellwether.venues.wire.rejects import ParsedRecords, Quarantine, is_processed, parse_or_reject
from bellwether.venues.wire.times import parse_instant

LISTING = "archive"
STEP = "markets"
#: Fields in which all records of a market must agree.
AGREED = ("result", "settlement_value", "close_time")
_KEYS = key_schema(KALSHI_ARCHIVE, ("day", "ticker", "updated_at", *AGREED))


def rank_records() -> list[tuple[str | pl.Expr, bool]]:
    """Return the order in which records of a market count, as columns, and whether they descend: the newest first; among equally new ones
    the first with a result, else the first.
    """
    return [("updated_at", True), (pl.col("result") == "", False), ("listing", False), ("page", False), ("ordinal", False)]


def parse_cutoff(page: VenuePage) -> datetime:
    """Parse the cutoff in the response of /historical/cutoff. Raises `VenueError` if the response lacks it."""
    text = page.answer.get("market_settled_ts")
    cutoff = parse_instant(text)
    if cutoff is None:
        raise VenueError(
            page.request,
            1,
            f"market_settled_ts is {text!r:.80}, not a time of the years 1970 to 2200",
            "Without the cutoff no day is complete; run again later",
            kind="malformed",
        )
    return cutoff


@dataclass(frozen=True, slots=True)
class ArchivePull:
    """Finished scan of the archive.

    cutoff: all markets settled before it were in the archive. superseded: records replaced by another record of their market.
    reject_pages: ordinals of the pages with invalid records. requests: number of pages fetched by this run; 0 if the scan was already
    stored. holes: ordinals of the empty pages whose cursor continues.
    """

    pull: StoredPull
    cutoff: datetime
    superseded: pl.DataFrame
    reject_pages: tuple[int, ...]
    requests: int = 0
    holes: tuple[int, ...] = ()

    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_archive, one per page with records, each market once."""
        for page in self.pull.pages(STEP):
            parsed, superseded = _parse(page), self._superseded_on(page)["ordinal"].implode()
            rows = parsed.rows.filter(~pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(superseded))
            if rows.height:
                yield rows

    def rejects(self, day: date | None = None) -> pl.DataFrame:
        """Return the rejects, with the day of the market's close, or of the response if the close is unreadable.

        day: return only its rejects, and the holes, as their markets may belong to any day; None: all.
        """
        disputed = self.superseded.filter(pl.col("reason").is_not_null())["page"]
        frames = [KALSHI_REJECTS.empty()]
        for ordinal in sorted({*self.reject_pages, *disputed}):
            page = self.pull.page(STEP, ordinal)
            replaced = self._superseded_on(page).filter(pl.col("reason").is_not_null())
            quarantine = Quarantine(KALSHI_ARCHIVE, "ticker", page.fetched_at.date(), page.origin)
            frames += [_parse(page).rejects, reject_contradictions(quarantine, page.items("markets"), replaced)]
        rejects = pl.concat(frames)
        return pl.concat([rejects if day is None else rejects.filter(pl.col("day") == day), *self._holes(day)])

    def _holes(self, day: date | None) -> list[pl.DataFrame]:
        """Return a reject for each hole, dated `day` or, if None, by the response."""
        pages = [self.pull.page(STEP, ordinal) for ordinal in self.holes]
        return [Quarantine(KALSHI_ARCHIVE, "ticker", day or page.fetched_at.date(), page.origin).reject_hole(page.answer) for page in pages]

    def _superseded_on(self, page: VenuePage) -> pl.DataFrame:
        """Return the replaced records of a page."""
        return self.superseded.filter(pl.col("page") == page.ordinal)

    def summary(self) -> dict[str, object]:
        """Return the folder, the cutoff and the number of requests of the scan."""
        return {"pull": self.pull.folder, "cutoff": self.cutoff.isoformat(), "requests": self.requests}


async def pull_archive(client: KalshiClient, pages: PageStore, *, refresh: bool = False, progress: Progress | None = None) -> ArchivePull:
    """Scan the archive at the venue's current cutoff; without `refresh`, reuse the stored scan of that cutoff.

    Raises `VenueError` if the venue does not respond, or if its listing loops.
    """
    cutoff = parse_cutoff(await client.fetch(routes.historical_cutoff()))
    pull = pages.open(LISTING, f"{cutoff:%Y-%m-%dT%H%M%S.%fZ}", refresh=refresh)

    async def work(puller: Puller) -> ArchivePull:
        if puller.pull.note is None:
            puller.finish(await _scan(puller, cutoff))
        return _finished(puller.pull, puller.requests)

    return await run_pull(client, pages, pull, work, progress)


def find_covering_archive(pages: PageStore, rows: pl.LazyFrame | None, day: date, cutoff: datetime) -> ArchivePull | None:
    """Return the stored scan from which the table raw/kalshi_archive was made (`rows`); None if no market of `day` can be in the archive.

    Markets of a day that began before `cutoff` can be archived. Raises `LakeError` if the scan is missing, or older than `cutoff`.
    """
    if datetime.combine(day, time(), UTC) >= cutoff:
        return None
    if rows is None:
        raise LakeError(
            f"pulling {day}: the venue has archived what settled before {cutoff:%Y-%m-%d %H:%M}; materialize raw/kalshi_archive first"
        )
    known_at = rows.select(pl.col("known_at").max()).collect().item()
    scans = [_finished(pull) for pull in pages.list_finished(LISTING) if _same_instant(pull.note, known_at)]
    if not scans or scans[-1].cutoff < cutoff:
        problem = f"was scanned at the cutoff {scans[-1].cutoff:%Y-%m-%d %H:%M}" if scans else "belongs to no stored scan"
        raise LakeError(
            f"pulling {day}: raw/kalshi_archive {problem}, but the venue has archived what settled before {cutoff:%Y-%m-%d %H:%M}; "
            "materialize raw/kalshi_archive again, then this day"
        )
    return scans[-1]


async def _scan(puller: Puller, cutoff: datetime) -> dict[str, Any]:
    """Fetch and store the archive; return the note of the pull, which lists the replaced records, the pages with rejects, and the holes."""
    keys, reject_pages, holes = [], list[int](), list[int]()
    known_at: datetime | None = None
    listing = routes.historical_markets()

    def take(page: VenuePage, *, last: bool = False) -> bool:
        nonlocal known_at
        parsed = _parse(page)
        if not last and not is_processed(parsed):
            return False
        if listing.is_hole(page):
            holes.append(page.ordinal)
        keys.append(build_keys(parsed, 0, _KEYS))
        if parsed.rejects.height:
            reject_pages.append(page.ordinal)
        if parsed.rows.height:
            known_at = max(page.fetched_at, known_at or page.fetched_at)
        return True

    async for _ in puller.follow(STEP, [listing], take):
        pass
    _, superseded = select_records(pl.concat(keys), "ticker", rank_records(), AGREED)
    return {
        "cutoff": cutoff.isoformat(),
        "known_at": known_at.isoformat() if known_at else None,
        "reject_pages": reject_pages,
        "holes": holes,
        "superseded": superseded.with_columns(pl.col("day").cast(pl.String())).rows(),
    }


def _finished(pull: StoredPull, requests: int = 0) -> ArchivePull:
    """Build the result from the note of a stored scan."""
    note = pull.note or {}
    superseded = pl.DataFrame(note["superseded"], schema={**superseded_schema("ticker"), "day": pl.String()}, orient="row").with_columns(
        pl.col("day").str.to_date()
    )
    cutoff, reject_pages, holes = datetime.fromisoformat(note["cutoff"]), tuple(note["reject_pages"]), tuple(note["holes"])
    return ArchivePull(pull, cutoff, superseded, reject_pages, requests, holes)


def _same_instant(note: Note | None, known_at: datetime | None) -> bool:
    """Return True if a scan's note states `known_at`, the time of the newest page."""
    stored = note["known_at"] if note else None
    return (datetime.fromisoformat(stored) if stored else None) == known_at


def _parse(page: VenuePage) -> ParsedRecords:
    day, quarantine = page.fetched_at.date(), Quarantine(KALSHI_ARCHIVE, "ticker", page.fetched_at.date(), page.origin)
    return parse_or_reject(lambda: parse_markets(page.items("markets"), page.origin, day=day, table=KALSHI_ARCHIVE), quarantine)
