"""Episodes of real markets: books without negative levels or crossings, quotes as reported by the venue, winners, and S&P ticks."""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from bellwether.recordings.exchange_times import parse_time
from bellwether.recordings.recording import Recording
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import load, validate
from bellwether.replay.tape.layout import LEVEL, unpack
from bellwether.venues.kalshi.stream.frame import parse_message
from tests.captures import BuiltEpisode, Captures

pytestmark = pytest.mark.real

NBA, BTC, LIST, ORDERS = "ws_nba_2026_03", "ws_btc15m_2026_05", "ws_2026_08", "orders_spx_2023"


@pytest.fixture(scope="module")
def built(captures: Captures) -> dict[str, list[BuiltEpisode]]:
    """The episodes of every recording, by the folder of the capture."""
    return {folder: captures.built(folder) for folder in (NBA, BTC, LIST, ORDERS)}


def everything(built: dict[str, list[BuiltEpisode]]) -> list[BuiltEpisode]:
    return [one for made in built.values() for one in made]


Books = dict[str, tuple[dict[int, int], dict[int, int]]]


def instants(draft: Content) -> Iterator[tuple[int, Books]]:
    """Yield each instant of an episode with the books after it, as lots by price of yes and no. The yielded objects are reused."""
    books: Books = {ticker: ({}, {}) for ticker in draft.metadata.tickers}
    ts = np.repeat(draft.book.ts, draft.book.counts).tolist()
    before = None
    for at, kind, code, side, price, lots in zip(ts, *(column.tolist() for column in unpack(draft.book.words)), strict=True):
        if before is not None and at != before:
            yield before, books
        before = at
        if kind == LEVEL:
            assert lots >= 0, (at, code, side, price)
            level = books[draft.metadata.tickers[code]][side]
            if lots:
                level[price] = lots
            else:
                level.pop(price, None)
    if before is not None:
        yield before, books


def test_every_recording_builds_valid_episodes(built: dict[str, list[BuiltEpisode]]) -> None:
    assert set(built) == {NBA, BTC, LIST, ORDERS}
    for one in everything(built):
        report = validate(one.episode.folder)
        assert report.is_valid, report.text()
        assert report.digest == one.episode.digest == load(one.episode.folder).digest
        assert one.episode.metadata.gaps == ()
        assert one.draft.metadata.source["below_zero"] == 0


@dataclass(frozen=True, slots=True)
class Walk:
    """Results of an iteration over an episode: number of instants, instants with a crossed book, and the last books."""

    count: int
    crossed: list[tuple[int, str]]
    last: Books


def walk(draft: Content) -> Walk:
    count, crossed, books = 0, [], {}
    for at, books in instants(draft):
        count += 1
        crossed += [(at, ticker) for ticker, (yes, no) in books.items() if yes and no and max(yes) + max(no) > 10_000]
    return Walk(count, crossed, books)


@pytest.fixture(scope="module")
def walks(built: dict[str, list[BuiltEpisode]]) -> dict[str, Walk]:
    """A `Walk` of each episode, by its id."""
    return {one.episode.id: walk(one.draft) for one in everything(built)}


def test_no_level_falls_below_zero_and_no_book_is_crossed_at_the_end_of_an_instant(walks: dict[str, Walk]) -> None:
    for name, one in walks.items():
        assert one.crossed == [], name
        assert one.count > 1


# --- quotes as the venue told them ----------------------------------------------------------------------------------------


def price_of(text: str) -> int:
    scaled = Decimal(text) * 10_000
    assert scaled == int(scaled)
    return int(scaled)


@dataclass(frozen=True, slots=True)
class Quote:
    """Best bids of a market: price and lots of yes and of no; 0 if there is none."""

    yes: tuple[int, int]
    no: tuple[int, int]

    @classmethod
    def of(cls, books: tuple[dict[int, int], dict[int, int]]) -> Quote:
        return cls(*((max(levels), levels[max(levels)]) if levels else (0, 0) for levels in books))


def quote_of(body: dict[str, str]) -> Quote:
    """Return the quote of a ticker message. The ask of yes is a bid of no."""
    lots = [int(Decimal(body[name]) * 100) for name in ("yes_bid_size_fp", "yes_ask_size_fp")]
    return Quote((price_of(body["yes_bid_dollars"]), lots[0]), (10_000 - price_of(body["yes_ask_dollars"]), lots[1]))


def test_best_quotes_are_those_of_the_ticker_messages_of_the_same_exchange_time(built: dict[str, list[BuiltEpisode]]) -> None:
    """A ticker message has the exchange's time in microseconds. At that time the rebuilt book must have its prices and sizes."""
    total = 0
    for one in built[BTC]:
        [ticker] = one.episode.tickers
        times, quotes = [], []
        for at, books in instants(one.draft):
            times.append(at)
            quotes.append(Quote.of(books[ticker]))
        compared = same = near = 0
        for body in tickers_of(one.recording, ticker):
            at = parse_time(body["time"]) or 0
            if not times[0] <= at <= times[-1]:
                continue
            place = bisect_right(times, at) - 1
            compared += 1
            same += quotes[place] == quote_of(body)
            near += quote_of(body) in quotes[max(0, place - 1) : place + 2]
        # The last market of a recording exists for some seconds only.
        assert compared >= 5
        assert same >= 0.97 * compared, (ticker, same, compared)
        assert near >= same
        total += compared
    assert total >= 800 * len({one.recording.name for one in built[BTC]})


def tickers_of(recording: Recording, ticker: str) -> Iterator[dict[str, str]]:
    """Yield the ticker messages of a market."""
    found = (parse_message(frame.data) for frame in recording.frames())
    return (one["msg"] for one in found if one["type"] == "ticker" and one["msg"]["market_ticker"] == ticker)


# --- outcomes ------------------------------------------------------------------------------------------------------------


def test_basketball_games_have_the_winners_that_the_index_names(recordings: Path, built: dict[str, list[BuiltEpisode]]) -> None:
    with (recordings / "kalshi" / NBA / "EPISODES.csv").open() as file:
        wanted = {row["ticker"]: row["inferred_result"].upper() for row in csv.DictReader(file)}
    for one in built[NBA]:
        found = {settlement.ticker: settlement for settlement in one.episode.content.settlements}
        assert {ticker: settlement.result for ticker, settlement in found.items()} == {ticker: wanted[ticker] for ticker in found}
        assert sorted(settlement.result or "" for settlement in found.values()) == ["NO", "YES"]
        assert all((settlement.source or "").startswith("inferred") for settlement in found.values())


def test_a_market_recorded_without_trades_is_settled_by_what_its_ticker_messages_say(built: dict[str, list[BuiltEpisode]]) -> None:
    assert all(len(one.draft.trades.ts) == 0 for one in built[BTC])
    found = [settlement for one in built[BTC] for settlement in one.episode.content.settlements if settlement.is_known]
    assert found
    assert all((settlement.source or "").startswith("inferred: last trade at") for settlement in found)


def test_closes_come_from_the_wiped_book_or_the_other_recorder_and_nothing_lies_behind_them(built: dict[str, list[BuiltEpisode]]) -> None:
    sources = Counter(market.lifecycle[-1].source for one in everything(built) for market in one.episode.metadata.markets)
    assert sources["book wiped"] >= 2
    assert sources["recorder"] >= 1
    for one in everything(built):
        closes = np.array([market.close for market in one.episode.metadata.markets])
        for columns in (one.draft.book, one.draft.trades):
            assert (columns.ts <= closes[columns.ticker]).all()


def test_every_trade_hits_a_level_that_the_book_showed(built: dict[str, list[BuiltEpisode]]) -> None:
    for one in [*built[NBA], *built[ORDERS]]:
        assert (
            len(one.episode.content.trades.ts)
            and [finding for finding in validate(one.episode.folder).findings if finding.check == "trades"] == []
        )


# --- lists of order events ---------------------------------------------------------------------------------------------------


def ticks(recordings: Path, name: str) -> list[tuple[int, str]]:
    """Return times (ns UTC) and prices of the underlying from the original file."""
    [path] = (recordings / "kalshi" / ORDERS).glob(f"{name}.csv*")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = [(row["Time"], row["Price"]) for row in csv.DictReader(file) if row["Instrument"] == "0"]
    return [(round(datetime.fromisoformat(at).timestamp() * 1_000_000) * 1000, price) for at, price in rows]


def test_ticks_of_the_underlying_are_a_series_that_is_read_as_of_a_time(recordings: Path, built: dict[str, list[BuiltEpisode]]) -> None:
    for one in built[ORDERS]:
        wanted = [tick for tick in ticks(recordings, one.recording.name) if tick[0] <= one.episode.metadata.end]
        ts, values = one.episode.content.exogenous["SPX"]
        assert ts.tolist() == [at for at, _ in wanted]
        assert values.tolist() == [float(price) for _, price in wanted]
        middle = (one.episode.metadata.start + one.episode.metadata.end) // 2
        known = values[np.searchsorted(ts, middle, side="right") - 1]
        assert known == float([price for at, price in wanted if at <= middle][-1])
