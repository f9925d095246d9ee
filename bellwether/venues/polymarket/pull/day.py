"""Pull of the markets whose scheduled end is on one UTC day, with their events, winners and past prices.

A step is a named group of a pull's requests. Fine prices have the period of the plan, coarse ones are hours apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from itertools import islice
from urllib.parse import urlsplit

import polars as pl

from bellwether.errors import BellwetherError
from bellwether.tables.raw import POLYMARKET_WINNERS
from bellwether.venues.http.day import BaseDayPull, DayWork
from bellwether.venues.http.day_markets import FOLLOWED, RecordType
from bellwether.venues.http.page import VenueCall, VenuePage, split_batches
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.paging import Listing, OffsetListing
from bellwether.venues.http.puller import Progress, Puller
from bellwether.venues.http.retry import parse_error_text
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.pull.day_markets import CLOSINGS, LISTED, TABLES, DayMarkets, MarketCollector, parse_requested_ids
from bellwether.venues.polymarket.pull.price_plan import COARSE_MINUTES, PricePlan
from bellwether.venues.polymarket.resolution import build_resolutions
from bellwether.venues.polymarket.wire import PriceHistory, parse_events, parse_histories, parse_prices, parse_winners
from bellwether.venues.polymarket.wire.rules import format_time
from bellwether.venues.wire.json_decoding import MalformedBody, decode_record
from bellwether.venues.wire.rejects import ParsedRecords, assign_origins, is_processed, parse_or_reject
from bellwether.venues.wire.times import parse_instant

#: Closings are requested only for days that began at most this long ago, because their listing begins with the latest.
CLOSINGS_LISTED = timedelta(days=3)
#: Steps of a pull that request prices: by the plan, and coarse ones for traded markets without prices by the plan.
_PRICES, _COARSE = "prices", "coarse_prices"
#: Steps that request the winners of closed markets from the CLOB, and those of markets that were requested again.
_WINNERS, _FOLLOWED_WINNERS = "winners", "followed_winners"
_WINNER = RecordType(POLYMARKET_WINNERS, "condition_id", "condition_id")
#: Events per call; with their nested markets they fill a page of ordinary size.
_EVENTS_PER_CALL = 50
#: Pages that are parsed together.
_PAGES_PER_FRAME = 500
#: Statuses of the CLOB for unknown markets and tokens.
_UNKNOWN = frozenset({400, 404})


@dataclass(frozen=True)
class DayPull(BaseDayPull):
    """Finished pull of one day."""

    tables = TABLES
    price_steps = (_PRICES, _COARSE)

    plan: PricePlan
    markets_of_day: DayMarkets
    _winners: list[ParsedRecords] = field(default_factory=list, repr=False, compare=False)

    def markets(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/polymarket_markets, each market once."""
        return self.markets_of_day.frames(self.pull)

    def winners(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/polymarket_winners, with the outcomes of the day's closed markets."""
        return (parsed.rows for parsed in self._all_winners() if parsed.rows.height)

    def prices(self) -> Iterator[pl.DataFrame]:
        """Yield frames of raw/polymarket_prices, each price once, limited to the plan's days before each market's close."""
        return (rows.unique(["market_id", "at"], keep="first", maintain_order=True) for rows in self.price_frames())

    def other_rejects(self) -> Iterator[pl.DataFrame]:
        """Yield rejects for markets that the CLOB lacks or describes differently, and for traded markets without prices."""
        yield from (parsed.rejects for parsed in self._all_winners())
        yield from self._without_prices()

    def parse_events(self, page: VenuePage) -> ParsedRecords:
        return parse_events(page.items("events"), page.origin, day=self.day)

    def requested(self, page: VenuePage) -> list[str]:
        return parse_requested_ids(page) or routes.parse_requested_tokens(page)

    def parse_price_pages(self, step: str, pages: Sequence[VenuePage]) -> pl.DataFrame | None:
        histories, closes = [], []
        for page in pages:
            (token,) = routes.parse_requested_tokens(page)
            market = self.markets_of_day.by_token.get(token)
            if page.status in _UNKNOWN or market is None:
                return None
            points = replace(page).items("history")
            histories.append(PriceHistory(points, page.origin, market["market_id"], token))
            closes += [market["close_time"]] * len(points)
        rows = parse_histories(histories, day=self.day, period_minutes=self._minutes(step))
        return None if rows is None else self.plan.within_window(rows, pl.Series(closes, dtype=rows["at"].dtype))

    def parse_price_page(self, step: str, page: VenuePage) -> ParsedRecords:
        (token,) = routes.parse_requested_tokens(page)
        quarantine = self.tables.prices.quarantine(self.day, page.origin)
        market = self.markets_of_day.by_token.get(token)
        if page.status in _UNKNOWN or market is None:
            reason = (
                f"the venue has no prices of this token: {parse_error_text(page.body)}" if market else "a token of no market of this day"
            )
            return ParsedRecords(self.tables.prices.table.empty(), (), quarantine.reject_missing([token], reason))
        context = {"day": self.day, "market_id": market["market_id"], "token_id": token, "period_minutes": self._minutes(step)}
        parsed = parse_or_reject(lambda: parse_prices(page.items("history"), page.origin, **context), quarantine)
        return ParsedRecords(self.plan.within_window(parsed.rows, market["close_time"]), (), parsed.rejects)

    def _minutes(self, step: str) -> int:
        """Return the period of the prices that a step requests, in minutes."""
        return COARSE_MINUTES if step == _COARSE else self.plan.period_minutes

    def _all_winners(self) -> list[ParsedRecords]:
        """Return the parsed winners of all pages, cached."""
        if not self._winners:
            self._winners.extend(parse_day_winners(_latest_winners(self.pull.pages), self.day))
        return self._winners

    def _without_prices(self) -> Iterator[pl.DataFrame]:
        """Yield a reject for each traded market without any prices, neither fine nor coarse."""
        last: dict[str, VenuePage] = {}
        priced: set[str] = set()
        for page in self.pull.pages(_COARSE):
            (token,) = routes.parse_requested_tokens(page)
            last[token] = page
            priced |= {token} if _has_content(page) else set()
        reason = f"traded, but the venue has no prices every {self.plan.period_minutes} or {COARSE_MINUTES} minutes"
        for token, page in last.items():
            if token not in priced:
                yield self.tables.prices.quarantine(self.day, page.origin).reject_missing([token], reason)


def parse_day_winners(pages: Iterator[VenuePage], day: date) -> Iterator[ParsedRecords]:
    """Parse pages of the CLOB, each with the outcomes of one market; a market unknown to the CLOB becomes a reject."""
    while group := list(islice(pages, _PAGES_PER_FRAME)):
        yield from (_reject_unknown(page, day) for page in group if page.status in _UNKNOWN)
        known = [page for page in group if page.status not in _UNKNOWN]
        if known:
            together = _parse_known_winners(known, day)
            yield from [together] if is_processed(together) else [_parse_known_winners([page], day) for page in known]


def _parse_known_winners(pages: Sequence[VenuePage], day: date) -> ParsedRecords:
    """Parse the pages of markets known to the CLOB."""
    origins = [page.origin for page in pages]
    parsed = parse_or_reject(
        lambda: parse_winners([decode_record(page.json) for page in pages], origins[0], day=day), _WINNER.quarantine(day, origins[0])
    )
    return assign_origins(parsed, origins)


def _latest_winners(pages: Callable[[str], Iterable[VenuePage]]) -> Iterator[VenuePage]:
    """Yield the last response of the CLOB about each market. pages: returns the pages of a step."""
    later = {page.request for page in pages(_FOLLOWED_WINNERS)}
    yield from (page for page in pages(_WINNERS) if page.request not in later)
    yield from pages(_FOLLOWED_WINNERS)


def _reject_unknown(page: VenuePage, day: date) -> ParsedRecords:
    """Build the reject of a market that the CLOB does not know."""
    condition = urlsplit(page.request).path.rsplit("/", 1)[-1]
    reason = f"the CLOB does not know this market: {parse_error_text(page.body)}"
    return ParsedRecords(POLYMARKET_WINNERS.empty(), (), _WINNER.quarantine(day, page.origin).reject_missing([condition], reason))


class _Day(DayWork[DayMarkets, DayPull]):
    """Requests of one day's pull, to Gamma and to the CLOB."""

    plan: PricePlan
    client: GammaClient

    def __init__(self, gamma: GammaClient, clob: ClobClient, pages: PageStore, day: date, plan: PricePlan) -> None:
        super().__init__(gamma, pages, day, plan)
        self.clob = clob

    def create_collector(self) -> MarketCollector:
        return MarketCollector(self.day)

    async def collect_markets(self, puller: Puller, known_ids: set[str]) -> MarketCollector:
        """Collect the day's markets: by scheduled end, by closing time and by id.

        Open markets are requested first, so that a market that closes meanwhile is in both lists instead of neither.
        """
        collector = MarketCollector(self.day)
        start, end = self.start - timedelta(seconds=1), self.start + timedelta(days=1)
        listings = [routes.markets(closed=closed, end_date_min=start, end_date_max=end, include_tag=True) for closed in (False, True)]
        times = []
        async for page in puller.follow(LISTED, listings):
            times.append(page.fetched_at)
            await puller.process(LISTED, page, partial(collector.add, LISTED))
        collector.responded_at = min(times)
        if collector.responded_at - self.start <= CLOSINGS_LISTED:
            async for page in self._closings(puller):
                await puller.process(CLOSINGS, page, partial(collector.add, CLOSINGS))
        collector.drop_moved(self.pages)
        await self.add_named(puller, collector, known_ids)
        return collector

    async def _closings(self, puller: Puller) -> AsyncIterator[VenuePage]:
        """Yield pages of closed markets, latest closing first, until the beginning of the day is reached; Gamma cannot filter by closing
        time.

        Yields nothing if Gamma is paged by offset, which ends too early.
        """
        listing = routes.markets(closed=True, order="closedTime", ascending=False, include_tag=True)
        if puller.pull.note is None and isinstance(await self.client.adapt_listing(listing), OffsetListing):
            return
        async with aclosing(puller.follow(CLOSINGS, [listing])) as pages:
            async for page in pages:
                yield page
                closed = [parse_instant(format_time(item.get("closedTime"))) for item in page.items("markets") if isinstance(item, dict)]
                if any(at is not None and at < self.start for at in closed):
                    return

    def list_named_calls(self, names: Iterable[str], answered: set[str | None]) -> Iterator[Listing]:
        return _by_id(partial(routes.markets, include_tag=True), sorted(names), answered, routes.MOST_MARKETS)

    async def complete(self, puller: Puller, markets: DayMarkets) -> None:
        """Request the events, the winners and the prices; for traded markets without prices, request coarse ones."""
        answered: set[str | None] = set()
        async for page in puller.follow("events", _by_id(routes.events, markets.event_ids, answered, _EVENTS_PER_CALL)):
            answered.update(str(item.get("id")) for item in page.items("events") if isinstance(item, dict))
        await self._winners(puller, _WINNERS, markets.closed_conditions)
        await self._prices(puller, _PRICES, self.plan.build_calls(markets.rows))
        empty: set[str] = set()
        priced: set[str] = set()
        for page in puller.pages(_PRICES):
            (priced if _has_content(page) else empty).update(routes.parse_requested_tokens(page))
        await self._prices(puller, _COARSE, self.plan.build_coarse_calls(markets.rows, empty - priced))

    async def complete_followed(self, puller: Puller, markets: DayMarkets) -> None:
        """Request the winners of the markets that were requested again and have closed."""
        followed = markets.rows.filter("closed", pl.col("step") == FOLLOWED)["condition_id"].drop_nulls()
        await self._winners(puller, _FOLLOWED_WINNERS, followed.unique().sort().to_list())

    async def _prices(self, puller: Puller, step: str, calls: Sequence[VenueCall]) -> None:
        await puller.request_all(step, calls, accept=_UNKNOWN, client=self.clob, fits=_lists_prices)

    async def _winners(self, puller: Puller, step: str, conditions: Iterable[str]) -> None:
        await puller.request_all(step, [routes.clob_market(condition) for condition in conditions], accept=_UNKNOWN, client=self.clob)

    def list_open_markets(self, puller: Puller, markets: DayMarkets) -> list[str]:
        """Return the sorted ids of the markets whose resolution is not final."""
        parsed = parse_day_winners(_latest_winners(puller.pages), self.day)
        winners = pl.concat([POLYMARKET_WINNERS.empty(), *(records.rows for records in parsed)])
        return build_resolutions(markets.rows.lazy(), winners.lazy()).filter(~pl.col("final"))["market_id"].sort().to_list()

    def result(self, puller: Puller, markets: DayMarkets) -> DayPull:
        return DayPull(self.day, puller.pull, self.plan, markets, puller.requests)


def _by_id(build: Callable[..., Listing], ids: Sequence[str], answered: set[str | None], most: int) -> Iterator[Listing]:
    """Yield the calls that request records by id: first among closed records, then among open ones, then again among closed ones, for
    records that closed meanwhile.

    Each call requests only ids that are not in `answered`, to which the caller adds the ids in each response. most: ids per call.
    """
    for closed in (True, False, True):
        for batch in split_batches([id_ for id_ in ids if id_ not in answered], most):
            yield build(closed=closed, ids=batch)


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
    """Pull all data of the markets whose scheduled end is on `day`, or reuse the stored pull; see `DayWork.pull`."""
    return await _Day(gamma, clob, pages, day, plan).pull(refresh=refresh, today=today, progress=progress)


def _lists_prices(page: VenuePage) -> None:
    """Raise for a page of prices without a list of prices; an empty list is valid."""
    if page.status not in _UNKNOWN:
        page.items("history")


def _has_content(page: VenuePage) -> bool:
    """Return True if a page of prices has any; an unexpected response counts as content."""
    try:
        return page.status in _UNKNOWN or bool(page.items("history"))
    except (BellwetherError, MalformedBody):
        return True
