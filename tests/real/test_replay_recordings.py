"""Recordings of real markets become episodes: books without negative levels or crossings, quotes as the venue told them, winners, S&P ticks."""

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

from bellwether.recordings.books import BookCheck
from bellwether.recordings.gaps import GapReport
from bellwether.recordings.instants import instant
from bellwether.recordings.recording import Recording
from bellwether.replay.episode import EpisodeDraft, load, validate
from bellwether.replay.tape import build
from bellwether.replay.tape.layout import PRINT, TRADED, unpack
from bellwether.venues.kalshi.stream.frame import message
from tests.captures import Built, Captures

pytestmark = [pytest.mark.real, pytest.mark.slow]

NBA, BTC, LIST, ORDERS = "ws_nba_2026_03", "ws_btc15m_2026_05", "ws_2026_08", "orders_spx_2023"


@pytest.fixture(scope="module")
def built(captures: Captures) -> dict[str, list[Built]]:
    """The episodes of every recording by the folder of their capture."""
    return {folder: captures.built(folder) for folder in (NBA, BTC, LIST, ORDERS)}


def everything(built: dict[str, list[Built]]) -> list[Built]:
    return [one for made in built.values() for one in made]


Books = dict[str, tuple[dict[int, int], dict[int, int]]]


def instants(draft: EpisodeDraft) -> Iterator[tuple[int, Books]]:
    """Each instant of an episode with the books as it leaves them, lots by mills of yes and no; the same objects again and again."""
    books: Books = {ticker: ({}, {}) for ticker in draft.metadata.tickers}
    columns = draft.book.to_pydict()
    ts = draft.book["ts"].cast("int64").to_pylist()
    sides = {"yes": 0, "no": 1}
    rows = zip(ts, columns["ticker"], columns["kind"], columns["side"], columns["price_mills"], columns["lots"], strict=True)
    before = None
    for at, ticker, kind, side, mills, lots in rows:
        if before is not None and at != before:
            yield before, books
        before = at
        if kind == "snapshot_start":
            books[ticker][0].clear()
            books[ticker][1].clear()
        elif kind == "level":
            assert lots >= 0, (at, ticker, side, mills)
            level = books[ticker][sides[side]]
            if lots:
                level[mills] = lots
            else:
                level.pop(mills, None)
    if before is not None:
        yield before, books


def test_every_recording_builds_valid_episodes(built: dict[str, list[Built]]) -> None:
    assert set(built) == {NBA, BTC, LIST, ORDERS}
    for one in everything(built):
        report = validate(one.episode.folder)
        assert report.is_valid, report.text()
        assert report.digest == one.episode.digest == load(one.episode.folder).digest
        assert one.episode.metadata.gaps == ()
        assert one.draft.metadata.source["below_zero"] == 0


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk through the instants of an episode shows: how many there are, those that leave a book crossed, and the last books."""

    count: int
    crossed: list[tuple[int, str]]
    last: Books


def walk(draft: EpisodeDraft) -> Walk:
    count, crossed, books = 0, [], {}
    for at, books in instants(draft):
        count += 1
        crossed += [(at, ticker) for ticker, (yes, no) in books.items() if yes and no and max(yes) + max(no) > 1000]
    return Walk(count, crossed, books)


@pytest.fixture(scope="module")
def walks(built: dict[str, list[Built]]) -> dict[str, Walk]:
    """A walk through each episode, by its id."""
    return {one.episode.id: walk(one.draft) for one in everything(built)}


def test_no_level_falls_below_zero_and_no_book_is_crossed_at_the_end_of_an_instant(walks: dict[str, Walk]) -> None:
    for name, one in walks.items():
        assert one.crossed == [], name
        assert one.count > 1


def checks(captures: Captures, folder: str) -> dict[str, tuple[BookCheck, GapReport]]:
    """What replaying the frames of each recording shows, by its name."""
    return {one.name: checked for one, checked in zip(captures.recordings(folder), captures.checked(folder), strict=True)}


def test_rows_leave_the_books_that_replaying_the_frames_leaves(
    captures: Captures, built: dict[str, list[Built]], walks: dict[str, Walk]
) -> None:
    """Frames of a market that closed within its recording go on behind the episode, so that only the others end alike."""
    compared = 0
    replayed_books = {name: check.books for folder in built for name, (check, _) in checks(captures, folder).items()}
    for one in everything(built):
        books = Counter[str]()
        last = walks[one.episode.id].last
        for market in one.draft.metadata.markets:
            if market.lifecycle[-1].source != "end of recording":
                continue
            replayed = replayed_books[one.recording.name][market.ticker]
            for mine, theirs in zip(last[market.ticker], (replayed.yes.levels, replayed.no.levels), strict=True):
                assert mine == {price // 1000: size for price, size in theirs.items()}, market.ticker
            books[market.ticker] += 1
        compared += sum(books.values())
    assert compared >= 10


# --- quotes as the venue told them ----------------------------------------------------------------------------------------


def mills(text: str) -> int:
    scaled = Decimal(text) * 1000
    assert scaled == int(scaled)
    return int(scaled)


@dataclass(frozen=True, slots=True)
class Quote:
    """Best bids of a market from an instant on: mills and lots of yes and of no; 0 where there is none."""

    yes: tuple[int, int]
    no: tuple[int, int]

    @classmethod
    def of(cls, books: tuple[dict[int, int], dict[int, int]]) -> Quote:
        return cls(*((max(levels), levels[max(levels)]) if levels else (0, 0) for levels in books))


def told(body: dict[str, str]) -> Quote:
    """The quote of a ticker message. What is asked for yes is bid for no."""
    lots = [int(Decimal(body[name]) * 100) for name in ("yes_bid_size_fp", "yes_ask_size_fp")]
    return Quote((mills(body["yes_bid_dollars"]), lots[0]), (1000 - mills(body["yes_ask_dollars"]), lots[1]))


def test_best_quotes_are_those_of_the_ticker_messages_of_the_same_exchange_time(built: dict[str, list[Built]]) -> None:
    """A ticker message tells the exchange's time to the microsecond: there the rebuilt book says the same, prices and sizes."""
    total = 0
    for one in built[BTC]:
        [ticker] = one.episode.tickers
        times, quotes = [], []
        for at, books in instants(one.draft):
            times.append(at)
            quotes.append(Quote.of(books[ticker]))
        compared = same = near = 0
        for body in tickers_of(one.recording, ticker):
            at = instant(body["time"]) or 0
            if not times[0] <= at <= times[-1]:
                continue
            place = bisect_right(times, at) - 1
            compared += 1
            same += quotes[place] == told(body)
            near += told(body) in quotes[max(0, place - 1) : place + 2]
        # The last market of a recording is there for some seconds only.
        assert compared >= 5
        assert same >= 0.97 * compared, (ticker, same, compared)
        assert near >= same
        total += compared
    assert total >= 800 * len({one.recording.name for one in built[BTC]})


def test_best_quotes_at_arrival_are_those_of_the_ticker_messages_or_one_message_off(built: dict[str, list[Built]]) -> None:
    """In order of arrival books and tickers are two subscriptions, and either may be ahead; five in six agree all the same, most others soon."""
    for one in built[BTC]:
        [ticker] = one.episode.tickers
        ordinals, quotes = arrivals(one.draft, ticker)
        compared = same = soon = 0
        for ordinal, body in arrived_tickers(one.recording, ticker):
            if not ordinals[0] <= ordinal <= ordinals[-1]:
                continue
            place = bisect_right(ordinals, ordinal) - 1
            wanted = (told(body).yes[0], told(body).no[0])
            compared += 1
            same += quotes[place] == wanted
            soon += wanted in quotes[max(0, place - 60) : place + 61]
        assert same >= 0.84 * compared, (ticker, same, compared)
        assert soon >= 0.98 * compared, (ticker, soon, compared)


def tickers_of(recording: Recording, ticker: str) -> Iterator[dict[str, str]]:
    return (body for _, body in arrived_tickers(recording, ticker))


def arrived_tickers(recording: Recording, ticker: str) -> Iterator[tuple[int, dict[str, str]]]:
    for frame in recording.frames():
        found = message(frame.data)
        if found["type"] == "ticker" and found["msg"]["market_ticker"] == ticker:
            yield frame.ordinal, found["msg"]


def arrivals(draft: EpisodeDraft, ticker: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Ordinals of the frames of a market's book, and its best bids (mills) after each."""
    assert draft.metadata.tickers == (ticker,)
    book: tuple[dict[int, int], dict[int, int]] = ({}, {})
    found: dict[int, tuple[int, int]] = {}
    columns = draft.book.to_pydict()
    rows = zip(columns["sequence_id"], columns["side"], columns["price_mills"], columns["lots"], strict=True)
    for ordinal, side, price, lots in rows:
        if side is not None:
            book[side == "no"][price] = lots
            if not lots:
                del book[side == "no"][price]
        found[ordinal] = (max(book[0], default=0), max(book[1], default=0))
    return list(found), list(found.values())


# --- outcomes ------------------------------------------------------------------------------------------------------------


def test_basketball_games_have_the_winners_that_the_index_names(recordings: Path, built: dict[str, list[Built]]) -> None:
    with (recordings / "kalshi" / NBA / "EPISODES.csv").open() as file:
        wanted = {row["ticker"]: row["inferred_result"].upper() for row in csv.DictReader(file)}
    for one in built[NBA]:
        found = {settlement.ticker: settlement for settlement in one.episode.settlements}
        assert {ticker: settlement.result for ticker, settlement in found.items()} == {ticker: wanted[ticker] for ticker in found}
        assert sorted(settlement.result or "" for settlement in found.values()) == ["NO", "YES"]
        assert all((settlement.source or "").startswith("inferred") for settlement in found.values())


def test_a_market_recorded_without_trades_is_settled_by_what_its_ticker_messages_say(built: dict[str, list[Built]]) -> None:
    assert all(one.draft.trades.num_rows == 0 for one in built[BTC])
    found = [settlement for one in built[BTC] for settlement in one.episode.settlements if settlement.is_known]
    assert found
    assert all((settlement.source or "").startswith("inferred: last trade at") for settlement in found)


def test_closes_come_from_the_wiped_book_or_the_other_recorder_and_nothing_lies_behind_them(built: dict[str, list[Built]]) -> None:
    sources = Counter(market.lifecycle[-1].source for one in everything(built) for market in one.episode.metadata.markets)
    assert sources["book wiped"] >= 2
    assert sources["recorder"] >= 1
    for one in everything(built):
        closes = {market.ticker: market.close for market in one.episode.metadata.markets}
        for table in (one.draft.book, one.draft.trades):
            for ticker, at in zip(table["ticker"].to_pylist(), table["ts"].cast("int64").to_pylist(), strict=True):
                assert at <= (closes[ticker] or 0)


def test_every_trade_hits_a_level_that_the_book_showed(built: dict[str, list[Built]]) -> None:
    for one in [*built[NBA], *built[ORDERS]]:
        texts = [finding.message for finding in validate(one.episode.folder).findings if finding.check == "trades"]
        assert any("(100.0%)" in text for text in texts), texts


def test_nearly_every_trade_stands_at_the_cut_that_it_made(built: dict[str, list[Built]]) -> None:
    for one in built[NBA]:
        trades = one.episode.content.trades
        kind, *_, lots = unpack(build(one.episode.content, one.episode.digest).event)
        assert lots[kind == PRINT].sum() == trades.lots.sum()
        assert (kind == PRINT).sum() <= 1.001 * len(trades.ts)
        assert (kind == TRADED).sum() >= 0.998 * len(trades.ts)


def test_sub_cent_prices_and_parts_of_contracts_are_kept(built: dict[str, list[Built]]) -> None:
    one = built[BTC][0]
    prices, sizes = (np.array(one.draft.book[name].drop_null()) for name in ("price_mills", "lots"))
    assert (prices % 10 > 0).any()
    assert (sizes % 100 > 0).any()
    assert {market.price_ranges for market in one.episode.metadata.markets} == {((0, 100, 1), (100, 900, 10), (900, 1000, 1))}


# --- lists of order events ---------------------------------------------------------------------------------------------------


def ticks(recordings: Path, name: str) -> list[tuple[int, str]]:
    """Times (ns UTC) and prices of the underlying in the file itself."""
    [path] = (recordings / "kalshi" / ORDERS).glob(f"{name}.csv*")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = [(row["Time"], row["Price"]) for row in csv.DictReader(file) if row["Instrument"] == "0"]
    return [(round(datetime.fromisoformat(at).timestamp() * 1_000_000) * 1000, price) for at, price in rows]


def test_ticks_of_the_underlying_are_a_series_that_is_read_as_of_a_time(recordings: Path, built: dict[str, list[Built]]) -> None:
    for one in built[ORDERS]:
        wanted = [tick for tick in ticks(recordings, one.recording.name) if tick[0] <= one.episode.metadata.end]
        ts, values = one.episode.exogenous["SPX"]
        assert ts.tolist() == [at for at, _ in wanted]
        assert values.tolist() == [float(price) for _, price in wanted]
        middle = (one.episode.metadata.start + one.episode.metadata.end) // 2
        known = values[np.searchsorted(ts, middle, side="right") - 1]
        assert known == float([price for at, price in wanted if at <= middle][-1])


def test_fills_in_a_list_of_orders_take_from_levels_and_leave_books_that_never_cross(
    captures: Captures, built: dict[str, list[Built]]
) -> None:
    """Read as an order of its own, each of the crossing ones would leave the book crossed from then on."""
    checked = checks(captures, ORDERS)
    for one in built[ORDERS]:
        check, gaps = checked[one.recording.name]
        assert check.is_sound, check.first
        assert (check["passing"], check["locked"], gaps.lost) == (0, 0, 0)
        assert one.draft.trades.num_rows > 500
        taken = Counter(zip(one.draft.trades["ts"].cast("int64").to_pylist(), one.draft.trades["lots"].to_pylist(), strict=True))
        cuts = Counter[tuple[int, int]]()
        book: dict[tuple[str, int], int] = {}
        columns = one.draft.book.to_pydict()
        for at, side, price, lots in zip(
            one.draft.book["ts"].cast("int64").to_pylist(), columns["side"], columns["price_mills"], columns["lots"], strict=True
        ):
            if side is not None:
                cuts[at, book.get((side, price), 0) - lots] += 1
                book[side, price] = lots
        assert taken <= cuts
