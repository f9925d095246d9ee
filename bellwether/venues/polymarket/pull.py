"""Pull of the Polymarket markets whose scheduled end is on one UTC day, with their events, winners and past prices.

Fine prices are hourly, coarse ones 12 hours apart: some time after a market resolves, the venue has only coarse
prices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from datetime import date, timedelta
from itertools import islice
from urllib.parse import parse_qs, urlsplit

import polars as pl

from bellwether.tables.raw import (
    POLYMARKET_EVENTS,
    POLYMARKET_MARKETS,
    POLYMARKET_PRICES,
    POLYMARKET_PULLS,
    POLYMARKET_REJECTS,
    POLYMARKET_WINNERS,
)
from bellwether.venues.day import FOLLOWED, LISTING, NAMED, Markets, PullPlan, VenueDay
from bellwether.venues.http.client import ClobClient, GammaClient
from bellwether.venues.http.page import VenueCall, VenuePage, split_batches
from bellwether.venues.http.pages import PageStore, Puller, StoredPull
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.retry import parse_error_text
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.resolution import list_unresolved
from bellwether.venues.polymarket.routes import COARSE_MINUTES, FINE_MINUTES, MOST_DAYS, UNKNOWN
from bellwether.venues.polymarket.wire import DISTANT, ID, format_time, parse_events, parse_markets, parse_prices, parse_winners
from bellwether.venues.wire.rejects import ParsedRecords, RecordType
from bellwether.venues.wire.times import parse_instant, split_span

#: Step that requests markets by closing time, for markets without a useful scheduled end. Closings are requested only for days that began at
#: most this long ago, because their listing begins with the latest.
_CLOSINGS, _CLOSINGS_LISTED = "closings", timedelta(days=3)
#: Steps of a pull that request prices: fine ones, and coarse ones for traded markets without fine ones.
_PRICES, _COARSE = "prices", "coarse_prices"
#: Steps that request the winners of closed markets from the CLOB, and those of markets that were requested again.
_WINNERS, _FOLLOWED_WINNERS = "winners", "followed_winners"
_WINNER = RecordType(POLYMARKET_WINNERS, "condition_id", "condition_id")
#: Events per call; with their nested markets they fill a page of ordinary size.
_EVENTS_PER_CALL = 50
#: Pages that are parsed together.
_PAGES_PER_FRAME = 500


class PolymarketDay(VenueDay):
    """Polymarket's markets of a day."""

    markets = RecordType(POLYMARKET_MARKETS, "id", "market_id")
    events = RecordType(POLYMARKET_EVENTS, "id", "event_id")
    prices = RecordType(POLYMARKET_PRICES, "token_id", "token_id")
    pulls, rejects = POLYMARKET_PULLS, POLYMARKET_REJECTS
    names, cursor = ID, "next_cursor"
    market_steps = ("markets", _CLOSINGS, NAMED, FOLLOWED)
    price_steps = (_PRICES, _COARSE)
    #: Those that the choice of a record and the resolution need.
    columns = tuple(name for name in POLYMARKET_MARKETS.names if name not in ("body", "description", "page", "question", "request", "tags"))
    moved = ("endDate", "end_time", "the market was open on this day and is to end on another one now; pull that day to have it")
    price_key = ("market_id", "at")

    client: GammaClient

    def __init__(self, gamma: GammaClient, clob: ClobClient, day: date, plan: PullPlan) -> None:
        super().__init__(gamma, day, plan)
        self._clob = clob

    def parse_markets(self, step: str, page: VenuePage, markets: Markets) -> ParsedRecords:
        if step == NAMED:
            self._find_early(self._parse_markets(page, None).rows, markets)
        return self._parse_markets(page, None if step == _CLOSINGS else markets.by_close)

    def _parse_markets(self, page: VenuePage, by_close: Collection[str] | None) -> ParsedRecords:
        """Parse the markets of a page. by_close: ids of the markets that belong to the day on which they closed; None: all."""
        return parse_markets(page.items("markets"), page.origin, day=self.day, by_close=by_close)

    def _find_early(self, rows: pl.DataFrame, markets: Markets) -> pl.DataFrame:
        """Return the markets that closed long before their scheduled end, or that have no scheduled end. Note the ids of those that closed
        on this day.
        """
        early = rows.filter((pl.col("end_time") == pl.col("closed_at")) | (pl.col("end_time") > pl.col("closed_at") + DISTANT))
        markets.by_close.update(early.filter(pl.col("day") == self.day)["market_id"])
        return early

    def admit(self, step: str, keys: pl.DataFrame, markets: Markets) -> pl.DataFrame:
        rows = self._find_early(keys, markets) if step == _CLOSINGS else keys
        return rows.filter(pl.col("day") == self.day)

    def parse_events(self, page: VenuePage) -> ParsedRecords:
        return parse_events(page.items("events"), page.origin, day=self.day)

    def parse_prices(self, step: str, pages: Sequence[VenuePage], markets: Markets) -> ParsedRecords:
        priced = markets.rows.filter(pl.col("price_token").is_not_null())
        market_of = dict(priced.select("price_token", "market_id").iter_rows())
        known, rejects = [], []
        for page in pages:
            (token,) = routes.parse_requested_tokens(page)
            if page.status not in UNKNOWN and token in market_of:
                known.append(page)
                continue
            reason = f"the venue has no prices of this token: {parse_error_text(page.body)}"
            reason = reason if token in market_of else "a token of no market of this day"
            rejects.append(self.prices.quarantine(self.day, page.origin).reject_missing([token], reason))
        minutes = COARSE_MINUTES if step == _COARSE else FINE_MINUTES
        parsed = parse_prices(known, market_of, day=self.day, period_minutes=minutes)
        rows = self.plan.within_window(parsed.rows, markets.rows, "market_id", "at")
        return ParsedRecords(rows, (), pl.concat([parsed.rejects, *rejects]).sort("page", maintain_order=True))

    def parse_winners(self, pull: StoredPull | Puller) -> Iterator[ParsedRecords]:
        """Parse the CLOB's last response about each closed market; a market that it does not know becomes a reject."""
        later = {page.request for page in pull.pages(_FOLLOWED_WINNERS)}
        pages = (
            page for step in (_WINNERS, _FOLLOWED_WINNERS) for page in pull.pages(step) if step != _WINNERS or page.request not in later
        )
        while group := list(islice(pages, _PAGES_PER_FRAME)):
            yield from (_reject_unknown(page, self.day) for page in group if page.status in UNKNOWN)
            known = [page for page in group if page.status not in UNKNOWN]
            if known:
                yield parse_winners(known, day=self.day)

    def requested(self, page: VenuePage) -> list[str]:
        return parse_qs(urlsplit(page.request.removeprefix("GET ")).query).get("id") or routes.parse_requested_tokens(page)

    def rank(self) -> list[tuple[str | pl.Expr, bool]]:
        """Closed records count before open ones, then the one with the latest update."""
        return [("closed", True), ("updated_at", True), ("page", False), ("ordinal", False), ("listing", False)]

    def describe(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add price_token (of YES, or of the first of two named outcomes) and close_time (the earlier of the actual and the scheduled end)."""
        of_names = pl.when(pl.col("market_type") == "named").then(pl.col("token_ids").list.first())
        token = pl.when(pl.col("market_type") == "binary").then("yes_token").otherwise(of_names)
        return rows.with_columns(price_token=token, close_time=pl.min_horizontal("closed_at", "end_time"))

    def list_event_ids(self, rows: pl.DataFrame) -> list[str]:
        return rows["event_id"].drop_nulls().unique().sort().to_list()

    def price_tokens(self, rows: pl.DataFrame) -> set[tuple[str, str | None]]:
        return set(rows.select("market_id", "price_token").iter_rows())

    def other_rejects(self, pull: StoredPull, markets: Markets) -> Iterator[pl.DataFrame]:
        """Yield a reject for each traded market without any prices, neither fine nor coarse."""
        last: dict[str, VenuePage] = {}
        priced: set[str] = set()
        for page in pull.pages(_COARSE):
            (token,) = routes.parse_requested_tokens(page)
            last[token] = page
            priced |= {token} if _has_prices(page) else set()
        reason = f"traded, but the venue has no prices every {FINE_MINUTES} or {COARSE_MINUTES} minutes"
        for token, page in last.items():
            if token not in priced:
                yield self.prices.quarantine(self.day, page.origin).reject_missing([token], reason)

    async def collect(self, puller: Puller, markets: Markets, pages: PageStore, known_ids: set[str]) -> None:
        """Collect the day's markets: by scheduled end, by closing time and by id.

        Open markets are requested first, so that a market that closes meanwhile is in both lists instead of neither.
        """
        start, end = self.start - timedelta(seconds=1), self.start + timedelta(days=1)
        listings = [routes.markets(closed=closed, end_date_min=start, end_date_max=end) for closed in (False, True)]
        await markets.collect(puller, "markets", listings)
        if markets.responded_at is not None and markets.responded_at - self.start <= _CLOSINGS_LISTED:
            await self._collect_closings(puller, markets)
        self.drop_moved(markets, pages)
        await markets.collect_named(puller, NAMED, known_ids - markets.seen_ids())

    async def _collect_closings(self, puller: Puller, markets: Markets) -> None:
        """Add closed markets, latest closing first, until the beginning of the day is reached; Gamma cannot filter by closing time."""
        listing = routes.markets(closed=True, order="closedTime", ascending=False)
        async with aclosing(puller.follow(_CLOSINGS, [listing])) as pages:
            async for page in pages:
                markets.add(_CLOSINGS, page)
                closed = [parse_instant(format_time(item.get("closedTime"))) for item in page.items("markets") if isinstance(item, dict)]
                if any(at is not None and at < self.start for at in closed):
                    return

    def drop_moved(self, markets: Markets, pages: PageStore) -> None:
        """Remove markets that closed long before their scheduled end and belong to the day on which they closed."""
        listed = pl.concat(markets.keys).filter(pl.col("listing") == self.market_steps.index("markets"))
        early = listed.filter(pl.col("end_time") > pl.col("closed_at") + DISTANT)
        days = early["closed_at"].dt.date()
        pulls = {day: pages.latest_finished(LISTING, day.isoformat()) for day in days.unique() if day != self.day}
        stored = [day for day, pull in pulls.items() if pull is not None and pull.count(_CLOSINGS)]
        left_out = early.filter(days.is_in(stored))["market_id"].implode()
        markets.keys = [rows.filter(~pl.col("market_id").is_in(left_out)) for rows in markets.keys]

    def list_named_calls(self, names: Iterable[str], answered: set[str | None]) -> Iterator[Listing]:
        return _by_id(routes.markets, sorted(names), answered, routes.MOST_MARKETS)

    async def complete(self, puller: Puller, markets: Markets) -> None:
        """Request the events, the winners and the prices; for traded markets without prices, request coarse ones."""
        answered: set[str | None] = set()
        calls = _by_id(routes.events, self.list_event_ids(markets.rows), answered, _EVENTS_PER_CALL)
        async for page in puller.follow("events", calls):
            answered.update(str(item.get("id")) for item in page.items("events") if isinstance(item, dict))
        await self._request_winners(puller, _WINNERS, markets.rows.filter("closed"))
        await self._request_prices(puller, _PRICES, build_price_calls(self.plan, markets.rows))
        empty: set[str] = set()
        priced: set[str] = set()
        for page in puller.pages(_PRICES):
            (priced if _has_prices(page) else empty).update(routes.parse_requested_tokens(page))
        await self._request_prices(puller, _COARSE, build_coarse_calls(self.plan, markets.rows, empty - priced))

    async def complete_followed(self, puller: Puller, markets: Markets) -> None:
        """Request the winners of the markets that were requested again and have closed."""
        followed = markets.rows.filter("closed", pl.col("listing") == self.market_steps.index(FOLLOWED))
        await self._request_winners(puller, _FOLLOWED_WINNERS, followed)

    async def _request_prices(self, puller: Puller, step: str, calls: Sequence[VenueCall]) -> None:
        await puller.request_all(step, calls, accept=UNKNOWN, client=self._clob)

    async def _request_winners(self, puller: Puller, step: str, markets: pl.DataFrame) -> None:
        conditions = markets["condition_id"].drop_nulls().unique().sort()
        await puller.request_all(step, [routes.clob_market(condition) for condition in conditions], accept=UNKNOWN, client=self._clob)

    def list_open_markets(self, puller: Puller, markets: Markets) -> list[str]:
        """Return the sorted ids of the markets whose resolution is not final."""
        winners = pl.concat([POLYMARKET_WINNERS.empty(), *(records.rows for records in self.parse_winners(puller))])
        return list_unresolved(markets.rows.lazy(), winners.lazy())


def _reject_unknown(page: VenuePage, day: date) -> ParsedRecords:
    """Build the reject of a market that the CLOB does not know."""
    condition = urlsplit(page.request).path.rsplit("/", 1)[-1]
    reason = f"the CLOB does not know this market: {parse_error_text(page.body)}"
    return ParsedRecords(POLYMARKET_WINNERS.empty(), (), _WINNER.quarantine(day, page.origin).reject_missing([condition], reason))


def _by_id(build: Callable[..., Listing], ids: Sequence[str], answered: set[str | None], most: int) -> Iterator[Listing]:
    """Yield the calls that request records by id: first among closed records, then among open ones, then again among closed ones, for
    records that closed meanwhile.

    Each call requests only ids that are not in `answered`, to which the caller adds the ids in each response. most: ids per call.
    """
    for closed in (True, False, True):
        for batch in split_batches([id_ for id_ in ids if id_ not in answered], most):
            yield build(closed=closed, ids=batch)


def _has_prices(page: VenuePage) -> bool:
    """Return False for a page without prices; an unknown token counts as one with prices, because coarse ones are not requested for it."""
    return page.status in UNKNOWN or bool(page.items("history"))


def build_price_calls(plan: PullPlan, markets: pl.DataFrame, minutes: int = FINE_MINUTES) -> list[VenueCall]:
    """Build the calls for the prices of markets, sorted by id: all with a token, or a reproducible sample if there are more than the plan's
    `markets`.

    `markets` has the columns market_id, price_token and close_time. minutes: period.
    """
    chosen = plan.sample(markets.filter(pl.col("price_token").is_not_null()), "market_id").sort("market_id")
    return [
        routes.prices_history(token, start=start, end=end, fidelity_minutes=minutes)
        for token, close in chosen.select("price_token", "close_time").rows()
        for start, end in split_span(close - plan.window, close, timedelta(days=MOST_DAYS))
    ]


def build_coarse_calls(plan: PullPlan, markets: pl.DataFrame, empty: Collection[str]) -> list[VenueCall]:
    """Build the calls for coarse prices of traded markets. empty: tokens for which the venue has no fine prices.

    `markets` also has the columns volume and start_time; markets shorter than the coarse period are left out.
    """
    lasted = (pl.col("close_time") - pl.col("start_time")).fill_null(plan.window)
    traded = pl.col("price_token").is_in(list(empty)) & (pl.col("volume") > 0)
    return build_price_calls(plan, markets.filter(traded, lasted >= pl.duration(minutes=COARSE_MINUTES)), COARSE_MINUTES)
