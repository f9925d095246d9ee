"""Everything the venue says about the markets that closed on one UTC day: live and archived, their events and their candles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter

import polars as pl

from bellwether.errors import LakeError
from bellwether.tables.raw import KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_PULLS, KALSHI_REJECTS
from bellwether.venues.groups import together_up_to
from bellwether.venues.http.following import LISTING, open_day
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import PageStore, StoredPull
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.pull_stats import PullStats, pulls_row
from bellwether.venues.http.puller import Progress, Puller, run
from bellwether.venues.http.retry import error_text
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.pull.archive import ArchivePull, covering_archive, cutoff_of
from bellwether.venues.kalshi.pull.candle_plan import CandlePlan
from bellwether.venues.kalshi.pull.day_markets import STEPS, DayMarkets, Gathering
from bellwether.venues.kalshi.routes import Window
from bellwether.venues.kalshi.wire import CandlePage, parse_candle_pages, parse_candles, parse_events
from bellwether.venues.wire.rejects import NOT_LISTED, Origin, Parsed, Quarantine, all_fit, processed

#: Events asked for by name in one call: with their nested markets they fill a page of ordinary size.
_EVENTS_PER_CALL = 50
_NOT_FOUND = 404
#: Bodies of pages of candles that are parsed at once.
_BYTES_AT_ONCE = 2 * 2**20


@dataclass(frozen=True, slots=True)
class DayPull:
    """A finished pull of one day.

    markets_of_day: which records count. archive: rows of raw/kalshi_archive, where the day needs them. requests: pages fetched for it just
    now; 0 when it was stored.
    """

    day: date
    pull: StoredPull
    plan: CandlePlan
    markets_of_day: DayMarkets
    archive: pl.LazyFrame | None
    requests: int
    _candle_rejects: dict[int, pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def markets(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/kalshi_markets, unique over all of them."""
        return self.markets_of_day.frames(self.pull, self.archive)

    def events(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/kalshi_events, unique over all of them: the events of the day's markets."""
        wanted = set(self._event_tickers())
        for page in self.pull.pages("events"):
            rows = self._events_of(page).rows
            rows = rows.filter(pl.col("event_ticker").is_in(wanted)).unique("event_ticker", keep="first", maintain_order=True)
            wanted.difference_update(rows["event_ticker"])
            if rows.height:
                yield rows

    def candles(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/kalshi_candles, unique over all of them: within the plan's days before each market's close."""
        for pages in together_up_to(_BYTES_AT_ONCE, self.pull.pages("candles"), lambda page: len(page.body)):
            rows = all_fit(partial(self._candles_together, pages))
            if rows is not None:
                self._candle_rejects.update((page.ordinal, KALSHI_REJECTS.empty()) for page in pages)
                found = [rows]
            else:
                parsed = [self._candles_of(page) for page in pages]
                self._candle_rejects.update((page.ordinal, rejects) for page, (_, rejects) in zip(pages, parsed, strict=True))
                found = [rows for rows, _ in parsed]
            yield from (rows for rows in found if rows.height)

    def rejects(self) -> pl.DataFrame:
        """Rows of raw/kalshi_rejects of this day: whatever does not fit one of the tables, or is contradicted by a newer record."""
        return pl.concat(
            [
                KALSHI_REJECTS.empty(),
                self.markets_of_day.rejects,
                *self.markets_of_day.contradicted(self.pull, self.archive),
                *self._event_rejects(),
                *self._all_candle_rejects(),
            ]
        )

    def pulls(self) -> pl.DataFrame:
        """The row of raw/kalshi_pulls."""
        return pulls_row(KALSHI_PULLS, self.day, self.pull)

    def summary(self) -> dict[str, object]:
        """What was pulled, for people."""
        return {
            "pull": self.pull.folder,
            "requests": self.requests,
            "markets": self.markets_of_day.keys.height,
            "final": bool((self.pull.note or {})["final"]),
        }

    def _events_of(self, page: Page) -> Parsed:
        quarantine = Quarantine(KALSHI_EVENTS, "event_ticker", self.day, page.origin)
        return processed(lambda: parse_events(page.items("events"), page.origin, day=self.day), quarantine)

    def _event_tickers(self) -> list[str]:
        keys = self.markets_of_day.keys
        return keys.filter(~pl.col("is_combo"))["event_ticker"].unique().sort().to_list()

    def _event_rejects(self) -> Iterator[pl.DataFrame]:
        """Events that do not fit, and those that were asked for and not returned, which count against the last page of their call."""
        answered: set[str | None] = set()
        asked: dict[str, Origin] = {}
        for page in self.pull.pages("events"):
            parsed = self._events_of(page)
            yield parsed.rejects
            answered.update(parsed.rows["event_ticker"], parsed.rejects["record_id"])
            asked.update(dict.fromkeys(routes.asked_tickers(page.request), page.origin))
        missing = sorted((origin.page, ticker) for ticker, origin in asked.items() if ticker not in answered)
        for _, group in groupby(missing, key=itemgetter(0)):
            tickers = [ticker for _, ticker in group]
            reason = "the venue was asked for this event and returned none"
            yield Quarantine(KALSHI_EVENTS, "event_ticker", self.day, asked[tickers[0]]).in_vain(tickers, reason)

    def _all_candle_rejects(self) -> Iterator[pl.DataFrame]:
        """Those that `candles` met when it read all pages; it reads them now where it has not."""
        if len(self._candle_rejects) != self.pull.count("candles"):
            for _ in self.candles():
                pass
        yield from (self._candle_rejects[ordinal] for ordinal in sorted(self._candle_rejects))

    def _candles_together(self, pages: Sequence[Page]) -> pl.DataFrame | None:
        """The candles of pages that all fit, parsed at once; None when one does not."""
        if any(page.status == _NOT_FOUND for page in pages):
            return None
        # The pages outlive the frame that is made of them; what they say as JSON, several times their bytes, does not.
        answers = [CandlePage(replace(page).answer, page.origin, _source(page), list(routes.asked_tickers(page.request))) for page in pages]
        rows = parse_candle_pages(answers, day=self.day, period_minutes=self.plan.period_minutes)
        return None if rows is None else self.plan.within_window(rows, self.markets_of_day.keys)

    def _candles_of(self, page: Page) -> tuple[pl.DataFrame, pl.DataFrame]:
        """(candles, rejects) of one page."""
        asked, quarantine = routes.asked_tickers(page.request), Quarantine(KALSHI_CANDLES, "ticker", self.day, page.origin)
        if page.status == _NOT_FOUND:
            reason = f"the venue has no candles of this market: {error_text(page.body)}"
            return KALSHI_CANDLES.empty(), quarantine.in_vain(sorted(asked), reason)
        minutes = self.plan.period_minutes
        parsed = processed(
            lambda: parse_candles(page.answer, page.origin, day=self.day, source=_source(page), period_minutes=minutes), quarantine
        )
        ours = self.markets_of_day.keys.filter(pl.col("ticker").is_in(asked))
        return self.plan.within_window(parsed.rows, ours), parsed.rejects


def _lists_candles(page: Page) -> None:
    """Fail for a page of candles that lists none, not even an empty list."""
    if page.status != _NOT_FOUND:
        page.items("markets" if "markets" in page.answer else "candlesticks")


def _source(page: Page) -> str:
    return "historical" if page.request.startswith("GET /historical/") else "live"


def _known(pages: PageStore, day: date) -> set[str]:
    """The live markets and curable rejects of the day's last finished pull; none where its pages are gone or damaged."""
    gathering = Gathering(day)
    with suppress(LakeError):
        last = pages.latest_finished(LISTING, day.isoformat())
        for step in STEPS if last else ():
            for page in last.pages(step) if last else ():
                gathering.add(step, page, last=True)
            gathering.absent(step)
        return gathering.known()
    return set()


def _by_name(tickers: Iterable[str]) -> list[Listing]:
    """The calls for these markets."""
    asked = sorted(tickers)
    batches = [asked[first : first + routes.MOST_TICKERS] for first in range(0, len(asked), routes.MOST_TICKERS)]
    return [routes.markets(tickers=batch, mve_filter=None) for batch in batches]


async def _gather(
    puller: Puller, day: date, archive: pl.LazyFrame | None, scan: ArchivePull | None, known: Collection[str] = ()
) -> Gathering:
    """The day's markets: of the live listing, of the archive where the day needs it, by name where they were `known` and neither lists them, and
    nested in the events of all.
    """
    gathering = Gathering(day)
    start = datetime.combine(day, time(), UTC)
    window = Window("close", after=start - timedelta(seconds=1), before=start + timedelta(days=1))
    async for page in puller.follow("markets", [routes.markets(window=window)]):
        await puller.process("markets", page, partial(gathering.add, "markets"))
    if scan is not None and archive is not None:
        gathering.add_archive(archive, scan.rejects(day))
    async for page in puller.follow("named", _by_name(set(known) - gathering.met())):
        await puller.process("named", page, partial(gathering.add, "named"))
    gathering.absent("named")
    tickers = gathering.event_tickers()
    batches = [tickers[first : first + _EVENTS_PER_CALL] for first in range(0, len(tickers), _EVENTS_PER_CALL)]
    async for page in puller.follow("events", [routes.events(tickers=batch) for batch in batches]):
        await puller.process("events", page, partial(gathering.add, "events"))
    return gathering


async def _follow(puller: Puller, gathering: Gathering) -> tuple[bool, datetime | None]:
    """Ask again about the markets that were open when the day was pulled, and those of its curable rejects.

    Returns whether the day has to be pulled as a whole, because the venue's answer about a reject has changed or a market is not listed any
    more, and when it answered last.
    """
    curable, asked_at = gathering.curable(), None
    tickers = {*gathering.open_tickers(), *curable}
    async for page in puller.follow("followed", _by_name(tickers)):
        await puller.process("followed", page, partial(gathering.add, "followed"))
        asked_at = page.fetched_at
    absent = gathering.absent("followed")
    same = gathering.refused | {(ticker, NOT_LISTED) for ticker in absent}
    return not (absent <= curable.keys() and same >= set(curable.items())), asked_at


async def pull_day(
    client: KalshiClient,
    pages: PageStore,
    day: date,
    *,
    archive: pl.LazyFrame | None,
    plan: CandlePlan,
    refresh: bool = False,
    today: date | None = None,
    progress: Progress | None = None,
) -> DayPull:
    """Pull everything about the markets that closed on `day`, or take up the stored pull of it.

    A stored pull is taken up when it is finished, its markets were all final, its pages had no holes, no reject of it may be cured and its
    candles were pulled by the same plan, unless `refresh`; also one that rests until after `today`. One that lacks nothing but final markets,
    or has curable rejects, is followed: only these markets are requested again, and the day as a whole where the answer about a reject has
    changed or a market is not listed any more. Else the day is pulled anew, beside it, with the markets that were known by name where they are not
    listed. An unfinished pull is completed. `archive` holds the rows of raw/kalshi_archive; a day that began before the venue's cutoff needs it. Raises `LakeError` when it is missing or older than the cutoff, `VenueError` when the venue does not
    answer, `PagingError` when a listing loops.
    """
    pull = open_day(pages, day, plan.note, refresh=refresh, today=today)

    async def work(puller: Puller) -> DayPull:
        stats = PullStats()
        if puller.pull.base is not None:
            return await follow(puller, Puller(client, puller.pull.base), stats)
        cutoff_page = await puller.call("cutoff", routes.historical_cutoff(), fits=cutoff_of)
        scan = covering_archive(pages, archive, day, cutoff_of(cutoff_page))
        known = _known(pages, day) if puller.pull.note is None else ()
        markets = (await _gather(puller, day, archive, scan, known)).settle()
        await puller.calls("candles", plan.calls(markets.keys), accept=frozenset({_NOT_FOUND}), fits=_lists_candles)
        over = cutoff_page.fetched_at >= datetime.combine(day + timedelta(days=1), time(), UTC)
        puller.finish({**markets.ending(cutoff_page.fetched_at, complete=over), "plan": plan.note, "effort": stats.note})
        return DayPull(day, puller.pull, plan, markets, archive if scan else None, puller.requests)

    async def follow(puller: Puller, base: Puller, stats: PullStats) -> DayPull:
        scan = covering_archive(pages, archive, day, cutoff_of(base.pull.page("cutoff", 0)))
        gathering = await _gather(base, day, archive, scan)
        changed, asked_at = await _follow(puller, gathering)
        markets = gathering.settle()
        asked_at = asked_at or base.pull.page("cutoff", 0).fetched_at
        end = markets.ending(asked_at, complete=not changed)
        puller.finish({**end, "changed": changed, "plan": plan.note, "effort": stats.note})
        return DayPull(day, puller.pull, plan, markets, archive if scan else None, puller.requests)

    found = await run(client, pages, pull, work, progress)
    if found.requests and (found.pull.note or {}).get("changed"):
        return await run(client, pages, pages.following(found.pull), work, progress)
    return found
