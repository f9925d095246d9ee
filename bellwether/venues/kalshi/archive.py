"""Scan of Kalshi's archive of settled markets. The cutoff is the venue's instant before which settled markets are only in the archive. The
archive cannot be filtered by time, so each new cutoff needs a complete scan. A hole is an empty page whose cursor continues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import polars as pl

from bellwether.errors import LakeError, VenueError
from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_REJECTS
from bellwether.venues.day import build_keys, key_schema, select_records
from bellwether.venues.http.client import KalshiClient
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import Note, PageStore, StoredPull
from bellwether.venues.http.puller import Progress, Puller, run_pull
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.wire import parse_markets
from bellwether.venues.wire.rejects import ParsedRecords, Quarantine
from bellwether.venues.wire.times import parse_instant

LISTING = "archive"
STEP = "markets"
_KEYS = key_schema(KALSHI_ARCHIVE, ("ticker", "updated_at", "result"))


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
    """Finished scan of the archive. requests: number of pages fetched by this run; 0 if the scan was already stored.

    Its note has the `cutoff` (all markets settled before it were in the archive), `superseded` (page and ordinal of the records that were not
    chosen), `reject_pages` (ordinals of the pages with invalid records) and `holes` (ordinals of the empty pages whose cursor continues).
    """

    pull: StoredPull
    requests: int = 0

    @property
    def note(self) -> Note:
        """Note of the scan."""
        assert self.pull.note is not None
        return self.pull.note

    @property
    def cutoff(self) -> datetime:
        """The venue's cutoff at the time of the scan."""
        return datetime.fromisoformat(self.note["cutoff"])

    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/kalshi_archive, one per page with records, each market once."""
        superseded: defaultdict[int, list[int]] = defaultdict(list)
        for number, ordinal in self.note["superseded"]:
            superseded[number].append(ordinal)
        for page in self.pull.pages(STEP):
            parsed = _parse(page)
            rows = parsed.rows.filter(~pl.Series(parsed.ordinals, dtype=pl.Int32()).is_in(superseded[page.ordinal]))
            if rows.height:
                yield rows

    def rejects(self, day: date | None = None) -> pl.DataFrame:
        """Return the rejects, with the day of the market's close, or of the response if the close is unreadable.

        day: return only its rejects, and the holes, as their markets may belong to any day; None: all.
        """
        frames = [KALSHI_REJECTS.empty()]
        for ordinal in self.note["reject_pages"]:
            rejects = _parse(self.pull.page(STEP, ordinal)).rejects
            frames.append(rejects if day is None else rejects.filter(pl.col("day") == day))
        for ordinal in self.note["holes"]:
            page = self.pull.page(STEP, ordinal)
            quarantine = Quarantine(KALSHI_ARCHIVE, "ticker", day or page.fetched_at.date(), page.origin)
            frames.append(quarantine.reject_hole(page.answer))
        return pl.concat(frames)

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
        return ArchivePull(puller.pull, puller.requests)

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
    stated = known_at.isoformat() if known_at else None
    scans = [scan for scan in map(ArchivePull, pages.list_finished(LISTING)) if scan.note["known_at"] == stated]
    if not scans or scans[-1].cutoff < cutoff:
        problem = f"was scanned at the cutoff {scans[-1].cutoff:%Y-%m-%d %H:%M}" if scans else "belongs to no stored scan"
        raise LakeError(
            f"pulling {day}: raw/kalshi_archive {problem}, but the venue has archived what settled before {cutoff:%Y-%m-%d %H:%M}; "
            "materialize raw/kalshi_archive again, then this day"
        )
    return scans[-1]


async def _scan(puller: Puller, cutoff: datetime) -> dict[str, Any]:
    """Fetch and store the archive; return the note of the scan."""
    keys, reject_pages, holes = [pl.DataFrame(schema=_KEYS)], list[int](), list[int]()
    known_at: datetime | None = None
    listing = routes.historical_markets()
    async for page in puller.follow(STEP, [listing]):
        parsed = _parse(page)
        keys.append(build_keys(parsed, 0, _KEYS))
        if listing.is_hole(page):
            holes.append(page.ordinal)
        if parsed.rejects.height:
            reject_pages.append(page.ordinal)
        if parsed.rows.height:
            known_at = max(page.fetched_at, known_at or page.fetched_at)
    records = pl.concat(keys)
    chosen = select_records(records, "ticker", rank_records())
    superseded = records.join(chosen, on=["page", "ordinal"], how="anti", maintain_order="left")
    return {
        "cutoff": cutoff.isoformat(),
        "known_at": known_at.isoformat() if known_at else None,
        "reject_pages": reject_pages,
        "holes": holes,
        "superseded": superseded.select("page", "ordinal").rows(),
    }


def _parse(page: VenuePage) -> ParsedRecords:
    return parse_markets(page.items("markets"), page.origin, day=page.fetched_at.date(), table=KALSHI_ARCHIVE)
