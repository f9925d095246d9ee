"""Building of episodes, as drafts to be written, from the frames of a recording, one per event.

A *place* is the number of a frame in the order of arrival. `ends` contains by ticker the end of its rows: (time of the close in ns UTC,
place of the frame that emptied the book).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from bellwether.recordings.books import FrameReader, has_yes_prices, read_last_price, read_polled_trades
from bellwether.recordings.captures import event_ticker
from bellwether.recordings.exchange_times import MILLISECOND, read_exchange_time
from bellwether.recordings.gaps import BookValidator
from bellwether.recordings.recording import WATCHED, Recording, RecordingRequest
from bellwether.replay.episode.content import BookBuilder, BookColumns, Content, Trades, level_of
from bellwether.replay.episode.model import USUAL, Gap, GridChange, Market, Metadata, Ranges, Series, Settlement, grid_prices
from bellwether.replay.episode_builder.books import TRADES, Books, Rows
from bellwether.replay.episode_builder.lifecycle import RecordedTrading, build_phases, find_announced_close, find_close, find_settlement
from bellwether.replay.episode_builder.listings import ListedMarket, Listings, fee_at
from bellwether.replay.episode_builder.times import Times
from bellwether.replay.tape.layout import INVALID, LEVEL, freeze
from bellwether.replay.units import DOLLAR
from bellwether.venues.kalshi.stream.frame import (
    LIFECYCLES,
    REFERENCE,
    REST_BOOKS,
    REST_TRADES,
    TICKER,
    TRADE,
    Frame,
    parse_message,
    read_body,
    read_ticker,
)
from bellwether.venues.wire.times import END_SECOND


class Tracker:
    """Collector of the content of episodes, frame by frame. Memory grows by a few dozen bytes per frame of any size.

    recording: its name, for errors. tickers: markets to build; others are ignored. partial: gaps in the sequence numbers are expected.
    yes_prices: NO levels of books are in prices of YES. Raises `SchemaError` for an unreadable trade or reference price.
    """

    def __init__(self, recording: str, tickers: Collection[str], *, partial: bool = False, yes_prices: bool = False) -> None:
        self.yes_prices = yes_prices
        self.trades, self.times = Rows(TRADES), Times()
        self.trade_ids: list[str] = []
        #: Place and value of each reference price, by name of the series.
        self.series: dict[str, list[tuple[int, float]]] = {}
        self.validator = BookValidator(partial=partial)
        self.trades_off_book = 0
        self._reader = FrameReader(recording, yes_prices=yes_prices)
        self.books = Books(tickers, self.times, self._reader, partial=partial)

    @property
    def trades_lost(self) -> int:
        """Number of missing messages on subscriptions to trades."""
        return sum(numbers.missing for numbers in self.validator.numbers.values() if numbers.kinds[TRADE])

    def take(self, frame: Frame) -> None:
        """Process the next frame of the recording."""
        message = parse_message(frame.data)
        kind, body = message.get("type"), read_body(message)
        effect = self.validator.take(frame, message)
        for ended in self.validator.pop_ended():
            self.books.end(ended)
        if effect is not None:
            self.books.take(frame, body, effect)
        elif kind == TRADE:
            self._take_trade(frame, body)
        elif kind == REST_BOOKS:
            self.books.take_polled(frame, message, body)
        elif kind == REST_TRADES:
            for trade in read_polled_trades(body):
                self._take_trade(frame, trade)
        elif kind == REFERENCE:
            self._take_reference(frame, body)
        elif (market := self.books.markets.get(read_ticker(body) or "")) is not None:
            if kind in LIFECYCLES:
                market.lifecycle.take(body, self._add_aside(frame, message))
            elif kind == WATCHED:
                market.lifecycle.take_watched(body)
            elif kind == TICKER:
                market.last_price = read_last_price(body) or market.last_price

    def _add_aside(self, frame: Frame, message: dict[str, Any]) -> int:
        """Record the time of a frame that concerns neither books nor trades. Returns its place."""
        sent = message.get("sending_ts_ms")
        at = read_exchange_time(read_body(message)) or (sent * MILLISECOND if type(sent) is int and 0 < sent < END_SECOND * 1000 else None)
        return self.times.add(at, frame.received_at, aside=True, ordinal=frame.ordinal)

    def _take_trade(self, frame: Frame, body: dict[str, Any]) -> None:
        trade = self._reader.read_trade(frame, body)
        if trade is None:
            self.trades_off_book += 1
            return
        market = self.books.markets.get(trade.ticker)
        if market is None:
            return
        place = self.times.add(trade.at, frame.received_at, ordinal=frame.ordinal)
        self.trades.add((place, frame.ordinal, market.code, trade.side, trade.price, trade.lots))
        self.trade_ids.append(trade.trade_id)
        market.last_trade = max(market.last_trade or 0, trade.at or 0) or None
        market.last_price = trade.price

    def _take_reference(self, frame: Frame, body: dict[str, Any]) -> None:
        """Add a reference price to its series. Raises `UnusableFrame` for an invalid one."""
        name, text = body.get("name"), body.get("value")
        try:
            value = float(text) if type(text) is str else math.nan
        except ValueError:
            value = math.nan
        if type(name) is not str or not name or not math.isfinite(value):
            raise self._reader.build_error(frame, "value", text, "a reference price has a name, and a finite number as text")
        place = self.times.add(read_exchange_time(body), frame.received_at, aside=True, ordinal=frame.ordinal)
        self.series.setdefault(name, []).append((place, value))


_NONE = -1
#: Counts of book frames, stored in the metadata.
_COUNTS = (
    "unapplied",
    "repeated",
    "superseded",
    "malformed",
    "below_zero",
    "crossed",
    "snapshots_that_agree",
    "snapshots_that_differ",
)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Settlements from outside the recording: stated by the user, or inferred.

    stated: given by the user, override all others. infer: settle other markets by their last trades.
    """

    stated: Mapping[str, Settlement] = field(default_factory=dict)
    infer: bool = False


NOTHING_STATED = Outcomes()


def events_of(about: RecordingRequest) -> dict[str, tuple[str, ...]]:
    """Return the tickers of each event of a recording. Events and tickers are sorted."""
    tickers: dict[str, list[str]] = {}
    for ticker in sorted(set(about.tickers)):
        requested = [event for event in about.events if ticker.startswith(f"{event}-")]
        tickers.setdefault(max(requested, key=len, default=event_ticker(ticker)), []).append(ticker)
    return {event: tuple(tickers[event]) for event in sorted(tickers)}


def episode_ids(recording: str, about: RecordingRequest) -> dict[str, str]:
    """Return the id of the episode of each event: the recording's name if there is one event, otherwise `<recording>.<event>`."""
    events = list(events_of(about))
    return {event: recording if len(events) == 1 else f"{recording}.{event}" for event in events}


def frames_of_table(batches: Iterable[pl.DataFrame]) -> Iterator[Frame]:
    """Yield frames from rows of `raw/recordings`. batches: rows in order of arrival, in parts of any length."""
    for batch in batches:
        columns = batch.select(pl.col("received_at").cast(pl.Int64()), "connection", "ordinal", "frame")
        for received_at, connection, ordinal, text in columns.iter_rows():
            yield Frame(received_at, connection, ordinal, text.encode())


def build_recording(recording: Recording, *, known: Listings | None = None, outcomes: Outcomes = NOTHING_STATED) -> list[Content]:
    """Build the episodes of a recording in a folder; otherwise like `build`."""
    return build(recording.name, recording.about, recording.frames, known=known, outcomes=outcomes)


def build(
    recording: str,
    about: RecordingRequest,
    frames: Callable[[], Iterable[Frame]],
    *,
    known: Listings | None = None,
    outcomes: Outcomes = NOTHING_STATED,
) -> list[Content]:
    """Build the episodes of a recording, one per event whose books had a level. The same frames give the same episodes.

    recording: its name. about: its markets and events. frames: function that reads its frames in order of arrival. known: listings of the
    markets. Raises `SchemaError` for a frame that cannot be stored exactly, and for a recording without times.
    """
    events = events_of(about)
    ids = episode_ids(recording, about)
    tracker = Tracker(
        recording,
        [ticker for tickers in events.values() for ticker in tickers],
        partial=about.partial,
        yes_prices=has_yes_prices(frames(), flag=about.use_yes_price),
    )
    for frame in frames():
        tracker.take(frame)
    tracker.books.finish()
    if not tracker.books.has_rows:
        if tracker.books.unusable is not None:
            raise tracker.books.unusable
        return []
    assembly = _Assembly(recording, about, tracker, known or Listings(), outcomes)
    return [draft for event, tickers in events.items() if (draft := assembly.draft(ids[event], event, tickers)) is not None]


class _Assembly:
    """Books, trades and settlements of a whole recording, from which each event's episode is selected."""

    def __init__(self, recording: str, about: RecordingRequest, tracker: Tracker, listings: Listings, outcomes: Outcomes) -> None:
        self._recording, self._about, self._tracker, self._listings, self._outcomes = recording, about, tracker, listings, outcomes
        self._times = tracker.times.resolve(recording)
        self._books = {
            ticker: market.resolve_rows(self._times, tracker.validator.frames) for ticker, market in tracker.books.markets.items()
        }
        self._start = min(int(rows["ts"][0]) for rows in self._books.values() if len(rows["ts"]))
        self._trades = tracker.trades.columns()
        self._trades["ts"] = self._times[self._trades["place"]]
        self._trade_ids = pa.array(tracker.trade_ids, pa.string())
        self._markets = tracker.books.markets
        self._end = int(self._times.max())

    def draft(self, episode: str, event: str, tickers: tuple[str, ...]) -> Content | None:
        """Build the draft of an event's episode, which starts with the event's first book; None if its books never had a level."""
        rows = [self._books[ticker] for ticker in tickers]
        if not any((own["kind"] == LEVEL).any() for own in rows):
            return None
        markets, settlements, ends = [], [], {}
        for ticker in tickers:
            market, settlement, ends[ticker] = self._build_market(ticker)
            markets.append(market)
            settlements.append(settlement)
        start = min(int(own["ts"][0]) for own in rows if len(own["ts"]))
        book, trades = self._merge_books(ends), self._select_trades(ends, start)
        end = max(start, *(market.close or start for market in markets))
        listing = self._listings.event(event)
        metadata = Metadata(
            episode_id=episode,
            start=start,
            end=end,
            markets=tuple(markets),
            event_slug=event,
            venue=self._about.venue,
            title=listing.title,
            mutually_exclusive=listing.mutually_exclusive,
            description=f"{event}, recorded as {self._recording}",
            source=self._describe_source(ends),
            gaps=self._select_gaps(ends),
            exogenous=tuple(Series(name) for name in sorted(self._tracker.series)),
        )
        return Content(
            metadata, tuple(settlements), _build_book(book, len(tickers)), self._build_trades(trades, tickers), self._build_exogenous(end)
        )

    # --- markets -------------------------------------------------------------------------------------------------------

    def _build_market(self, ticker: str) -> tuple[Market, Settlement, tuple[int, int]]:
        """Return a market, its settlement, and the end of its rows."""
        tracked = self._markets[ticker]
        lifecycle, listing = tracked.lifecycle, self._listings.market(ticker)
        wiped = None if tracked.wiped is None else int(self._times[tracked.wiped])
        trading = RecordedTrading(self._end, wiped, tracked.last_trade, tracked.last_price)
        determined = None if lifecycle.determined is None else int(self._times[lifecycle.determined])
        close = find_close(lifecycle, listing, trading, determined)
        stated, infer = self._outcomes.stated.get(ticker), self._outcomes.infer
        settlement = find_settlement(lifecycle, listing, trading, close[0], stated=stated, infer=infer)
        price_ranges, grid_changes = self._find_grids(ticker, listing)
        market = Market(
            ticker=ticker,
            title=listing.title or lifecycle.title,
            open_time=listing.open_time or lifecycle.open_time,
            close_time=find_announced_close(lifecycle, listing),
            price_ranges=price_ranges,
            fee=fee_at(listing, self._start),
            lifecycle=build_phases(lifecycle, self._times, close),
            grid_changes=grid_changes,
        )
        # If a later trade shows that the market was not closed, its book was empty all the same.
        last = tracked.wiped if tracked.wiped is not None and wiped is not None and close[0] <= wiped else len(self._times)
        return market, settlement, (close[0], last)

    def _find_grids(self, ticker: str, listing: ListedMarket) -> tuple[Ranges, tuple[GridChange, ...]]:
        """Return a market's first price grid and the later changes, from messages or the listing, extended to the prices that occurred.

        A listing describes the market after the changes in messages, so it does not apply to the time before them.
        """
        tracked = self._markets[ticker]
        ts, prices = self._collect_prices(ticker)
        stated = [GridChange(int(self._times[place]), ranges, "lifecycle") for place, ranges in tracked.lifecycle.grids]
        start = int(ts[0]) if len(ts) else self._end
        earlier = [change.price_ranges for change in stated if change.at <= start]
        later = [change for change in stated if change.at > start]
        first_prices = prices[ts < later[0].at] if later else prices
        first = earlier[-1] if earlier else (None if later else listing.price_ranges) or _coarsest_grid(first_prices)
        allowed = np.concatenate([grid_prices(ranges) for ranges in (first, *(change.price_ranges for change in later))])
        stray = ~np.isin(prices, np.concatenate([allowed, DOLLAR - allowed]))
        if stray.any():
            at, grid = int(ts[stray.argmax()]), _coarsest_grid(prices)
            if at <= start:
                first = grid
            else:
                others = [change for change in later if change.at != at]
                later = sorted([*others, GridChange(at, grid, "prices")], key=lambda change: change.at)
        previous = [first, *(change.price_ranges for change in later)]
        return first, tuple(change for change, old in zip(later, previous, strict=False) if change.price_ranges != old)

    def _collect_prices(self, ticker: str) -> tuple[np.ndarray, np.ndarray]:
        """Return times and prices of a market's book levels and trades, in chronological order."""
        book, is_trade = self._books[ticker], self._trades["ticker"] == self._markets[ticker].code
        is_level = book["kind"] == LEVEL
        ts = np.concatenate([book["ts"][is_level], self._trades["ts"][is_trade]])
        prices = np.concatenate([book["price"][is_level], self._trades["price"][is_trade]])
        order = np.argsort(ts, kind="stable")
        return ts[order], prices[order]

    def _select_gaps(self, ends: Mapping[str, tuple[int, int]]) -> tuple[Gap, ...]:
        """Return the gaps of an event's markets that begin before the end of their rows."""
        gaps = [
            Gap(ticker, gap.start, gap.end, "; ".join(gap.causes))
            for ticker, (close, wiped) in ends.items()
            for gap in self._markets[ticker].gaps
            if gap.start <= close and gap.since < wiped
        ]
        return tuple(sorted(gaps, key=lambda gap: (gap.start, gap.ticker)))

    def _describe_source(self, ends: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
        """Return what the episode's metadata states as its source: the recording, and counts of frames by what became of them."""
        tracker = self._tracker
        return {
            "recording": self._recording,
            "recorded": self._about.source,
            "partial": self._about.partial,
            "frames": tracker.validator.frames,
            "capture": dict(self._about.capture or {}),
            **{name: tracker.books.counts[name] for name in _COUNTS},
            "uncovered": sum(self._count_uncovered(ticker, ends[ticker]) for ticker in ends),
            **({"no_levels": "converted from prices of YES"} if tracker.yes_prices else {}),
            "trades_off_book": tracker.trades_off_book,
            "trades_lost": 0 if self._about.partial else tracker.trades_lost,
        }

    def _count_uncovered(self, ticker: str, end: tuple[int, int]) -> int:
        """Count the book frames of a market that were neither applied to its book nor lie in a gap; without any book, all its frames."""
        market = self._markets[ticker]
        placed = [place for place in market.unapplied if place < end[1] and self._times[place] <= end[0]]
        return sum(market.shown is None or not any(gap.contains(place) for gap in market.gaps) for place in placed)

    # --- rows ------------------------------------------------------------------------------------------------------------

    def _merge_books(self, ends: Mapping[str, tuple[int, int]]) -> dict[str, np.ndarray]:
        """Return the rows of an event's books by time, each market's up to its close and before the frame that emptied its book.

        The column `ticker` is the market's position in `ends`.
        """
        parts = []
        for code, (ticker, (close, wiped)) in enumerate(ends.items()):
            rows = self._books[ticker]
            chosen = (rows["ts"] <= close) & (rows["place"] < wiped)
            parts.append({"ticker": np.full(int(chosen.sum()), code), **{name: column[chosen] for name, column in rows.items()}})
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        # The mark of a gap follows the rows of its own frame.
        order = np.lexsort((joined["kind"] == INVALID, joined["place"], joined["ts"]))
        return {name: column[order] for name, column in joined.items()}

    def _select_trades(self, ends: Mapping[str, tuple[int, int]], start: int) -> np.ndarray:
        """Return the indices of the trades from the episode's start up to their market's close; of equal trade ids, the first only."""
        closes = np.full(len(self._markets), _NONE, np.int64)
        for ticker, (close, _) in ends.items():
            closes[self._markets[ticker].code] = close
        rows = np.flatnonzero((self._trades["ts"] <= closes[self._trades["ticker"]]) & (self._trades["ts"] >= start))
        ids = self._trade_ids.take(pa.array(rows)).dictionary_encode().indices.to_numpy(zero_copy_only=False)
        _, first = np.unique(ids, return_index=True)
        return rows[np.sort(first)]

    def _build_trades(self, rows: np.ndarray, tickers: Sequence[str]) -> Trades:
        columns = {name: values[rows] for name, values in self._trades.items()}
        codes = np.zeros(len(self._markets), np.int64)
        codes[[self._markets[ticker].code for ticker in tickers]] = np.arange(len(tickers))
        ids = self._trade_ids.take(pa.array(rows))
        return Trades(columns["ts"], ids, codes[columns["ticker"]], columns["side"], columns["price"], columns["lots"])

    def _build_exogenous(self, end: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return all reference prices up to `end`, the end of the episode, by series, in chronological order."""
        found = {}
        for name, series in sorted(self._tracker.series.items()):
            places, values = (np.array(column) for column in zip(*series, strict=True))
            ts = self._times[places]
            order = np.argsort(ts, kind="stable")
            order = order[ts[order] <= end]
            found[name] = freeze(ts[order]), freeze(values[order], np.float64)
        return found


def _build_book(rows: Mapping[str, np.ndarray], markets: int) -> BookColumns:
    """Build the columns of a book from its rows. markets: their number."""
    columns = [rows[name].tolist() for name in ("ts", "ordinal", "ticker", "kind", "side", "price", "lots")]
    builder = BookBuilder(markets)
    for (ts, ordinal, code), message in groupby(zip(*columns, strict=True), itemgetter(0, 1, 2)):
        levels, invalid = {}, None
        for *_, kind, side, price, lots in message:
            if kind == LEVEL:
                levels[level_of(side, price)] = lots
            else:
                invalid = kind == INVALID
        builder.add(ts, ordinal, code, levels, is_whole=invalid is False, invalid=invalid)
    return builder.columns()


def _coarsest_grid(prices: np.ndarray) -> Ranges:
    """Return the coarsest of the venues' usual grids that has all of these prices."""
    grids = ((ranges, grid_prices(ranges)) for ranges in USUAL)
    return next(ranges for ranges, grid in grids if np.isin(prices, np.concatenate([grid, DOLLAR - grid])).all())
