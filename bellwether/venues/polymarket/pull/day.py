"""Everything Polymarket says about the markets whose scheduled end lies on one UTC day: markets, events, winners and past prices."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import islice
from urllib.parse import urlsplit

import polars as pl

from bellwether.errors import BellwetherError, LakeError
from bellwether.tables.raw import (
    POLYMARKET_EVENTS,
    POLYMARKET_MARKETS,
    POLYMARKET_PRICES,
    POLYMARKET_PULLS,
    POLYMARKET_REJECTS,
    POLYMARKET_WINNERS,
)
from bellwether.venues.http.following import LISTING, open_day
from bellwether.venues.http.page import Page
from bellwether.venues.http.pages import PageStore, StoredPull
from bellwether.venues.http.paging import Listing, OffsetListing
from bellwether.venues.http.pull_stats import PullStats, pulls_row
from bellwether.venues.http.puller import Progress, Puller, run
from bellwether.venues.http.retry import error_text
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.pull.day_markets import CLOSINGS, FOLLOWED, NAMED, STEP, STEPS, DayMarkets, Gathering, asked_ids
from bellwether.venues.polymarket.pull.price_plan import COARSE_MINUTES, PricePlan
from bellwether.venues.polymarket.resolution import resolutions
from bellwether.venues.polymarket.wire import History, parse_events, parse_histories, parse_prices, parse_winners
from bellwether.venues.polymarket.wire.rules import instant_text
from bellwether.venues.wire.decode import MalformedBody, single_record
from bellwether.venues.wire.rejects import NOT_LISTED, Origin, Parsed, Quarantine, all_fit, is_processed, of_single_pages, processed
from bellwether.venues.wire.times import instant_of

#: Closings are listed of days that began at most so long before, because the listing begins with the latest.
CLOSINGS_LISTED = timedelta(days=3)
#: Steps of a pull that bring prices: by the plan, and coarser ones of traded markets that have none by the plan.
_PRICES, _COARSE = "prices", "coarse_prices"
#: What the CLOB said of those that were followed.
_FOLLOWED_WINNERS = "followed_winners"
#: Events asked for by id in one call: with their nested markets they fill a page of ordinary size.
_EVENTS_PER_CALL = 50
#: Small pages that are handed out as one frame, and bytes of pages of prices.
_PAGES_PER_FRAME, _BYTES_AT_ONCE = 500, 2**20
#: What the CLOB answers about markets and tokens that it does not know.
_UNKNOWN = frozenset({400, 404})


@dataclass(frozen=True, slots=True)
class DayPull:
    """A finished pull of one day.

    markets_of_day: which records count. requests: pages fetched for it just now; 0 when it was stored.
    """

    day: date
    pull: StoredPull
    plan: PricePlan
    markets_of_day: DayMarkets
    requests: int
    _winners: list[Parsed] = field(default_factory=list, repr=False, compare=False)
    _price_rejects: dict[tuple[str, int], pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def markets(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/polymarket_markets, unique over all of them."""
        return self.markets_of_day.frames(self.pull)

    def events(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/polymarket_events, unique over all of them: the events of the day's markets."""
        wanted = set(self.markets_of_day.event_ids)
        for page in self.pull.pages("events"):
            rows = self._events_of(page).rows
            rows = rows.filter(pl.col("event_id").is_in(wanted)).unique("event_id", keep="first", maintain_order=True)
            wanted.difference_update(rows["event_id"])
            if rows.height:
                yield rows

    def winners(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/polymarket_winners, unique over all of them: the outcomes of the day's closed markets."""
        return (parsed.rows for parsed in self._all_winners() if parsed.rows.height)

    def prices(self) -> Iterator[pl.DataFrame]:
        """Frames of raw/polymarket_prices, unique over all of them: within the plan's days before each market's close."""
        for step, minutes in ((_PRICES, self.plan.period_minutes), (_COARSE, COARSE_MINUTES)):
            for pages in self._price_pages(step):
                rows = all_fit(partial(self._prices_together, step, pages, minutes))
                if rows is None:
                    found = [self._prices_of(page, minutes) for page in pages]
                    rows = pl.concat(parsed.rows for parsed in found)
                    self._price_rejects.update(((step, page.ordinal), parsed.rejects) for page, parsed in zip(pages, found, strict=True))
                rows = rows.unique(["market_id", "at"], keep="first", maintain_order=True)
                if rows.height:
                    yield rows

    def rejects(self) -> pl.DataFrame:
        """Rows of raw/polymarket_rejects of this day: whatever does not fit one of the tables, and what was asked for in vain."""
        return pl.concat(
            [
                POLYMARKET_REJECTS.empty(),
                self.markets_of_day.rejects,
                *(_hole(page, self.day) for step in STEPS for page in self.pull.pages(step) if _is_hole(page)),
                *self._event_rejects(),
                *(parsed.rejects for parsed in self._all_winners()),
                *self._all_price_rejects(),
            ]
        )

    def pulls(self) -> pl.DataFrame:
        """The row of raw/polymarket_pulls."""
        return pulls_row(POLYMARKET_PULLS, self.day, self.pull)

    def summary(self) -> dict[str, object]:
        """What was pulled, for people."""
        return {
            "pull": self.pull.folder,
            "requests": self.requests,
            "markets": self.markets_of_day.rows.height,
            "final": bool((self.pull.note or {})["final"]),
        }

    def _event_rejects(self) -> Iterator[pl.DataFrame]:
        """Events that do not fit, and those that were asked for and not returned, which count against the last call for them."""
        asked: dict[str, Origin] = {}
        answered: set[str | None] = set()
        for page in self.pull.pages("events"):
            parsed = self._events_of(page)
            yield parsed.rejects
            asked.update(dict.fromkeys(asked_ids(page), page.origin))
            answered.update(parsed.rows["event_id"], parsed.rejects["record_id"])
        for origin in dict.fromkeys(asked.values()):
            missing = [event_id for event_id, last in asked.items() if last == origin and event_id not in answered]
            quarantine = Quarantine(POLYMARKET_EVENTS, "id", self.day, origin)
            yield quarantine.in_vain(missing, "the venue was asked for this event and returned none")

    def _events_of(self, page: Page) -> Parsed:
        quarantine = Quarantine(POLYMARKET_EVENTS, "id", self.day, page.origin)
        return processed(lambda: parse_events(page.items("events"), page.origin, day=self.day), quarantine)

    def _all_winners(self) -> list[Parsed]:
        if not self._winners:
            self._winners.extend(winners_of(_latest_winners(self.pull), self.day))
        return self._winners

    def _all_price_rejects(self) -> Iterator[pl.DataFrame]:
        """Those that `prices` met when it read all pages; it reads them now where it has not."""
        if len(self._price_rejects) != self.pull.count(_PRICES) + self.pull.count(_COARSE):
            for _ in self.prices():
                pass
        for step in (_PRICES, _COARSE):
            yield from (self._price_rejects[place] for place in sorted(self._price_rejects) if place[0] == step)
        yield from self._without_prices()

    def _without_prices(self) -> Iterator[pl.DataFrame]:
        """Rejects for the traded markets of which the venue has no prices at either resolution, against the last call for each."""
        last: dict[str, Page] = {}
        found: set[str] = set()
        for page in self.pull.pages(_COARSE):
            (token,) = routes.asked_tokens(page)
            last[token] = page
            found |= {token} if _has_content(page) else set()
        reason = f"traded, but the venue has no prices every {self.plan.period_minutes} or {COARSE_MINUTES} minutes"
        for token, page in last.items():
            if token not in found:
                yield Quarantine(POLYMARKET_PRICES, "token_id", self.day, page.origin).in_vain([token], reason)

    def _prices_of(self, page: Page, minutes: int) -> Parsed:
        """The prices of one page, those after the close and before the plan's days left out."""
        (token,) = routes.asked_tokens(page)
        market = self.markets_of_day.by_token.get(token)
        if page.status in _UNKNOWN or market is None:
            reason = f"the venue has no prices of this token: {error_text(page.body)}" if market else "a token of no market of this day"
            quarantine = Quarantine(POLYMARKET_PRICES, "token_id", self.day, page.origin)
            return Parsed(POLYMARKET_PRICES.empty(), (), quarantine.in_vain([token], reason))
        about = {"market_id": market["market_id"], "token_id": token, "period_minutes": minutes}
        parsed = processed(
            lambda: parse_prices(page.items("history"), page.origin, day=self.day, **about),
            Quarantine(POLYMARKET_PRICES, "token_id", self.day, page.origin),
        )
        return Parsed(self.plan.within_window(parsed.rows, market["close_time"]), (), parsed.rejects)

    def _prices_together(self, step: str, pages: Sequence[Page], minutes: int) -> pl.DataFrame | None:
        """The prices of pages that all fit, parsed at once; None when one does not."""
        found, closes = [], []
        for page in pages:
            (token,) = routes.asked_tokens(page)
            market = self.markets_of_day.by_token.get(token)
            if page.status in _UNKNOWN or market is None:
                return None
            points = replace(page).items("history")
            found.append(History(points, page.origin, market["market_id"], token))
            closes += [market["close_time"]] * len(points)
        rows = parse_histories(found, day=self.day, period_minutes=minutes)
        if rows is None:
            return None
        self._price_rejects.update(((step, page.ordinal), POLYMARKET_REJECTS.empty()) for page in pages)
        return self.plan.within_window(rows, pl.Series(closes, dtype=rows["at"].dtype))

    def _price_pages(self, step: str) -> Iterator[list[Page]]:
        """The pages of prices, many at a time; those of one market, which follow each other, together."""
        held: list[Page] = []
        size = 0
        for page in self.pull.pages(step):
            if size >= _BYTES_AT_ONCE and routes.asked_tokens(page) != routes.asked_tokens(held[-1]):
                yield held
                held, size = [], 0
            held.append(page)
            size += len(page.body)
        if held:
            yield held


def winners_of(pages: Iterator[Page], day: date) -> Iterator[Parsed]:
    """The outcomes of the markets on pages of the CLOB, one market each; a market that it does not know is a reject."""
    while held := list(islice(pages, _PAGES_PER_FRAME)):
        yield from (_unknown_market(page, day) for page in held if page.status in _UNKNOWN)
        known = [page for page in held if page.status not in _UNKNOWN]
        if known:
            together = _winners_on(known, day)
            yield from [together] if is_processed(together) else [_winners_on([page], day) for page in known]


def _winners_on(pages: Sequence[Page], day: date) -> Parsed:
    """The outcomes on pages of one known market each."""
    origins = [page.origin for page in pages]
    quarantine = Quarantine(POLYMARKET_WINNERS, "condition_id", day, origins[0])
    found = processed(lambda: parse_winners([single_record(page.json) for page in pages], origins[0], day=day), quarantine)
    return of_single_pages(found, origins)


def _latest_winners(pull: StoredPull) -> Iterator[Page]:
    """The CLOB's last answer about each condition that it was asked about."""
    later = {page.request for page in pull.pages(_FOLLOWED_WINNERS)}
    yield from (page for page in pull.pages("winners") if page.request not in later)
    yield from pull.pages(_FOLLOWED_WINNERS)


def _unknown_market(page: Page, day: date) -> Parsed:
    condition = urlsplit(page.request).path.rsplit("/", 1)[-1]
    reason = f"the CLOB does not know this market: {error_text(page.body)}"
    quarantine = Quarantine(POLYMARKET_WINNERS, "condition_id", day, page.origin)
    return Parsed(POLYMARKET_WINNERS.empty(), (), quarantine.in_vain([condition], reason))


def day_start(day: date) -> datetime:
    """The first instant of a UTC day."""
    return datetime.combine(day, time(), UTC)


def _is_hole(page: Page) -> bool:
    """Whether a page lists nothing although its cursor goes on."""
    return not page.items("markets") and isinstance(page.json, dict) and bool(page.json.get("next_cursor"))


def _hole(page: Page, day: date) -> pl.DataFrame:
    return Quarantine(POLYMARKET_MARKETS, "id", day, page.origin).hole(page.json)


async def _listed(puller: Puller, gamma: GammaClient, step: str, listings: Iterable[Listing]) -> AsyncGenerator[Page, None]:
    """The pages of one listing after another, in the form that the address knows; of a finished pull those that are stored."""
    if puller.pull.note is not None:
        for page in puller.pull.pages(step):
            yield page
        return
    for listing in listings:
        async with aclosing(puller.follow(step, [await gamma.known(listing)], client=gamma)) as pages:
            async for page in pages:
                yield page


def _known(pages: PageStore, day: date) -> set[str]:
    """The markets and curable rejects of the day's last finished pull; none where its pages are gone or damaged."""
    gathering = Gathering(day)
    with suppress(LakeError):
        last = pages.latest_finished(LISTING, day.isoformat())
        for step in STEPS if last else ():
            for page in last.pages(step) if last else ():
                gathering.add(page, step=step, last=True)
            gathering.absent(step)
        _leave_out_early(gathering, pages)
        return gathering.known()
    return set()


async def _gather(
    puller: Puller, gamma: GammaClient, pages: PageStore, day: date, known: Iterable[str] = ()
) -> tuple[Gathering, datetime, bool]:
    """(the day's markets so far, when the first answer came, whether pages were missing).

    The open ones are listed first: a market that closes meanwhile is then in both lists, never in none. What was `known` and is not listed is
    requested by id.
    """
    gathering, start = Gathering(day), day_start(day)
    after, before = start - timedelta(seconds=1), start + timedelta(days=1)
    listings = [routes.markets(closed=closed, end_date_min=after, end_date_max=before, include_tag=True) for closed in (False, True)]
    asked_at, holes = [], False
    async for page in _listed(puller, gamma, STEP, listings):
        asked_at.append(page.fetched_at)
        holes = holes or _is_hole(page)
        await puller.process(STEP, page, gathering.add)
    first = min(asked_at)
    if first - start <= CLOSINGS_LISTED:
        async for page in _closings(puller, gamma, start):
            holes = holes or _is_hole(page)
            await puller.process(CLOSINGS, page, partial(gathering.add, step=CLOSINGS))
    _leave_out_early(gathering, pages)
    async for page in _listed(puller, gamma, NAMED, _by_id(set(known) - gathering.listed(), gathering, NAMED)):
        holes = holes or _is_hole(page)
        await puller.process(NAMED, page, partial(gathering.add, step=NAMED))
    gathering.absent(NAMED)
    return gathering, first, holes


def _by_id(market_ids: Iterable[str], gathering: Gathering, step: str) -> Iterator[Listing]:
    """The calls for these markets: among those that are closed, then for the rest among those that are not, then once more for those that closed
    meanwhile.
    """
    wanted = sorted(market_ids)
    for closed in (True, False, True):
        rest = [market_id for market_id in wanted if market_id not in gathering.met[step]]
        for first in range(0, len(rest), routes.MOST_MARKETS):
            yield routes.markets(closed=closed, ids=rest[first : first + routes.MOST_MARKETS], include_tag=True)


async def _closings(puller: Puller, gamma: GammaClient, start: datetime) -> AsyncIterator[Page]:
    """The pages of closed markets, the latest closing first, until those that closed before `start`: Gamma knows no span of closing times.

    None where it lists by offset, which ends too early.
    """
    listing = routes.markets(closed=True, order="closedTime", ascending=False, include_tag=True)
    if isinstance(await gamma.known(listing), OffsetListing):
        return
    async with aclosing(_listed(puller, gamma, CLOSINGS, [listing])) as pages:
        async for page in pages:
            yield page
            closed = [instant_of(instant_text(item.get("closedTime"))) for item in page.items("markets") if isinstance(item, dict)]
            if any(at is not None and at < start for at in closed):
                return


def _leave_out_early(gathering: Gathering, pages: PageStore) -> None:
    """Leave out the markets that were answered long before their scheduled end and that the day of their closing has."""
    early = gathering.early()
    pulls = {closed: pages.latest_finished(LISTING, closed.isoformat()) for closed in set(early.values()) if closed != gathering.day}
    listed = {closed for closed, pull in pulls.items() if pull is not None and pull.count(CLOSINGS)}
    gathering.leave_out([market_id for market_id, closed in early.items() if closed in listed])


async def _follow(puller: Puller, gamma: GammaClient, gathering: Gathering, waiting: Iterable[str]) -> tuple[bool, bool, datetime | None]:
    """Ask again about markets that lacked a resolution, and those of curable rejects.

    Returns whether pages were missing, whether the day has to be pulled as a whole, because the venue's answer about a reject has changed or a
    market is not listed any more, and when it answered last.
    """
    curable, asked_at = gathering.curable(), None
    holes = False
    async for page in _listed(puller, gamma, FOLLOWED, _by_id({*waiting, *curable}, gathering, FOLLOWED)):
        holes = holes or _is_hole(page)
        await puller.process(FOLLOWED, page, partial(gathering.add, step=FOLLOWED))
        asked_at = page.fetched_at
    absent = gathering.absent(FOLLOWED)
    same = gathering.refused | {(market_id, NOT_LISTED) for market_id in absent}
    return holes, not (absent <= curable.keys() and same >= set(curable.items())), asked_at


async def _ask_for_events(puller: Puller, gamma: GammaClient, event_ids: Sequence[str]) -> None:
    """Ask for events by id: among those that are closed, then for the rest among those that are not, then once more for who closed meanwhile."""
    answered: set[str] = set()

    def listings() -> Iterator[Listing]:
        for closed in (True, False, True):
            rest = [event_id for event_id in event_ids if event_id not in answered]
            for first in range(0, len(rest), _EVENTS_PER_CALL):
                yield routes.events(closed=closed, ids=rest[first : first + _EVENTS_PER_CALL])

    async for page in _listed(puller, gamma, "events", listings()):
        answered.update(str(item.get("id")) for item in page.items("events") if isinstance(item, dict))


async def _ask_for_prices(puller: Puller, clob: ClobClient, plan: PricePlan, markets: DayMarkets) -> None:
    """Request prices by the plan, and coarser ones of traded markets for which the venue answers none."""
    calls = plan.calls(markets.rows)
    await puller.calls(_PRICES, calls, accept=_UNKNOWN, client=clob, fits=_lists_prices)
    empty: set[str] = set()
    found: set[str] = set()
    for ordinal in range(len(calls)):
        page = puller.pull.page(_PRICES, ordinal)
        (found if _has_content(page) else empty).update(routes.asked_tokens(page))
    coarse = plan.coarse_calls(markets.rows, empty - found)
    await puller.calls(_COARSE, coarse, accept=_UNKNOWN, client=clob, fits=_lists_prices)


def _waiting(markets: DayMarkets, found: Iterable[Parsed]) -> list[str]:
    """The markets of the day on which another resolution is expected, in order."""
    winners = pl.concat([POLYMARKET_WINNERS.empty(), *(parsed.rows for parsed in found)])
    return resolutions(markets.rows.lazy(), winners.lazy()).filter(~pl.col("final"))["market_id"].sort().to_list()


async def pull_day(
    gamma: GammaClient,
    clob: ClobClient,
    pages: PageStore,
    day: date,
    *,
    plan: PricePlan,
    refresh: bool = False,
    today: date | None = None,
    progress: Progress | None = None,
) -> DayPull:
    """Pull everything about the markets whose scheduled end lies on `day`, or take up the stored pull of it.

    A stored pull is taken up when it is finished, nothing more was expected of its markets, no reject of it may be cured and its prices were
    pulled by the same plan, unless `refresh`; also one that rests until after `today`. One that lacks nothing but resolutions, or has curable
    rejects, is followed: only these markets are requested again, and the day as a whole where the answer about a reject, or a trading id, has changed, or a
    market is not listed any more. Else the day is pulled anew, beside it, with the markets that were known by id where they are not listed. An unfinished one is completed. Raises `VenueError` when the venue does not answer, `PagingError` when a listing
    loops.
    """
    pull = open_day(pages, day, plan.note, refresh=refresh, today=today)

    async def work(puller: Puller) -> DayPull:
        stats = PullStats()
        if puller.pull.base is not None:
            return await follow(puller, Puller(gamma, puller.pull.base), stats)
        known = _known(pages, day) if puller.pull.note is None else ()
        gathering, asked_at, holes = await _gather(puller, gamma, pages, day, known)
        markets, winners = gathering.settle(), list[Parsed]()
        if puller.pull.note is None:
            await _ask_for_events(puller, gamma, markets.event_ids)
            conditions = markets.closed_conditions
            await puller.calls("winners", [routes.clob_market(condition) for condition in conditions], accept=_UNKNOWN, client=clob)
            await _ask_for_prices(puller, clob, plan, markets)
            complete = asked_at >= datetime.combine(day + timedelta(days=1), time(), UTC) and not holes
            winners = list(winners_of((puller.pull.page("winners", ordinal) for ordinal in range(len(conditions))), day))
            end = markets.ending(asked_at, settled=not _waiting(markets, winners), complete=complete)
            puller.finish({**end, "plan": plan.note, "effort": stats.note})
        return DayPull(day, puller.pull, plan, markets, puller.requests, winners)

    async def follow(puller: Puller, base: Puller, stats: PullStats) -> DayPull:
        gathering, first_asked_at, _ = await _gather(base, gamma, pages, day)
        before = gathering.settle()
        waiting = _waiting(before, winners_of(base.pull.pages("winners"), day))
        holes, changed, asked_at = await _follow(puller, gamma, gathering, waiting)
        markets = gathering.settle()
        # Prices belong to trading ids: a market that was deployed or migrated meanwhile has none of its own yet.
        changed = changed or not markets.price_tokens <= before.price_tokens
        conditions = markets.rows.filter("closed", pl.col("step") == FOLLOWED)["condition_id"].drop_nulls().unique().sort().to_list()
        await puller.calls(_FOLLOWED_WINNERS, [routes.clob_market(one) for one in conditions], accept=_UNKNOWN, client=clob)
        if puller.pull.note is None:
            settled = not _waiting(markets, winners_of(_answers(puller.pull, len(conditions)), day))
            end = markets.ending(asked_at or first_asked_at, settled=settled, complete=not (holes or changed))
            puller.finish({**end, "changed": changed, "plan": plan.note, "effort": stats.note})
        return DayPull(day, puller.pull, plan, markets, puller.requests)

    found = await run(gamma, pages, pull, work, progress)
    if found.requests and (found.pull.note or {}).get("changed"):
        return await run(gamma, pages, pages.following(found.pull), work, progress)
    return found


def _lists_prices(page: Page) -> None:
    """Fail for a page of prices that lists none, not even an empty list."""
    if page.status not in _UNKNOWN:
        page.items("history")


def _has_content(page: Page) -> bool:
    """True for a page of prices that is more than an empty list: prices, a refusal, or something unreadable."""
    try:
        return page.status in _UNKNOWN or bool(page.items("history"))
    except (BellwetherError, MalformedBody):
        return True


def _answers(pull: StoredPull, followed: int) -> Iterator[Page]:
    """The CLOB's last answers, of a pull that follows and has not ended: `followed` of them are its own."""
    own = [pull.page(_FOLLOWED_WINNERS, ordinal) for ordinal in range(followed)]
    later = {page.request for page in own}
    yield from (page for page in (pull.base.pages("winners") if pull.base else ()) if page.request not in later)
    yield from own
