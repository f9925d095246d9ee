"""Episodes of recordings: trades, series, events, grids, data from other sources, and reproducible bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import SchemaError
from bellwether.recordings.frames import read_batches
from bellwether.recordings.recording import RecordingRequest
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.folder import load, validate, write
from bellwether.replay.episode_builder.build import Outcomes, build, build_recording, episode_ids, events_of, frames_of_table
from bellwether.replay.episode_builder.listings import ListedEvent, ListedMarket, Listings, fee_at, parse_fee, parse_listings
from bellwether.replay.episode_builder.times import Times
from bellwether.tables import TABLES
from tests.unit.recordings.frames import recorded
from tests.unit.replay.episode_builder.streams import (
    ABOUT,
    EVENT,
    NOON,
    SECOND,
    Json,
    at,
    built,
    frames,
    levels,
    lifecycle,
    nanoseconds_at,
    trade,
)
from tests.unit.venues.stream_peer import A, B, delta, snapshot

GRID = ((0, 1000, 10), (1000, 9000, 100), (9000, 10_000, 10))


def reference(value: str, second: float, name: str = "SPX") -> Json:
    return {"type": "reference_price", "msg": {"name": name, "value": value, **at(second)}}


# --- trades ----------------------------------------------------------------------------------------------------------


def test_trades_of_every_wire_form_are_kept_exactly() -> None:
    old = {
        "trade_id": "old",
        "market_ticker": A,
        "yes_price": 41,
        "no_price": 59,
        "count": 3,
        "taker_side": "no",
        "ts": nanoseconds_at(2) // 10**9,
    }
    new = {"trade_id": "new", "market_ticker": A, "no_price_dollars": "0.5850", "count_fp": "0.25", "taker_outcome_side": "yes", **at(3)}
    bids = {"trade_id": "bid", "market_ticker": A, "yes_price_dollars": "0.4000", "count_fp": "1.00", "taker_book_side": "ask", **at(4)}
    said = [{"type": "trade", "sid": 2, "seq": seq, "msg": body} for seq, body in enumerate((old, new, bids), 1)]
    found = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), *said)).trades
    assert [list(row.values())[1:] for row in found.table().to_pylist()] == [
        ["old", 0, 1, 4100, 300],
        ["new", 0, 0, 4150, 25],
        ["bid", 0, 1, 4000, 100],
    ]
    assert found.ts.tolist() == [nanoseconds_at(2), nanoseconds_at(3), nanoseconds_at(4)]


def test_trades_off_the_book_without_a_taker_or_told_twice_are_no_prints() -> None:
    said = [
        trade(A, 1, **at(1)),
        trade(A, 1, **at(2)) | {"seq": 2},
        trade(A, 3, is_block_trade=True, **at(3)),
        trade(A, 4, taker_side=None, **at(4)),  # type: ignore[arg-type]
    ]
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(0)), *said))
    assert draft.trades.trade_id.to_pylist() == ["t1"]
    assert draft.metadata.source["trades_off_book"] == 2


def test_trades_that_cannot_be_kept_are_refused() -> None:
    for name, value in (("market_ticker", None), ("yes_price_dollars", "0.40001"), ("count_fp", "0.00"), ("taker_side", "both")):
        body = trade(A, 1, **at(1))
        body["msg"][name] = value
        with pytest.raises(SchemaError, match=f"frame 2 has {name}"):
            built(frames(snapshot(A, 1), delta(A, 2, **at(0)), body))


# --- series beside -----------------------------------------------------------------------------------------------------


def test_reference_prices_become_series_in_order_of_time_up_to_the_end() -> None:
    said = [reference("4079.3899", 0), reference("1.5", 0.5, "VIX"), reference("4080", 2), reference("4081", 90)]
    draft = built(frames(*said[:2], snapshot(A, 1), delta(A, 2, **at(1)), said[2], delta(A, 3, **at(3)), said[3], delta(A, 4, **at(60))))
    assert [series.name for series in draft.metadata.exogenous] == ["SPX", "VIX"]
    assert {name: values.tolist() for name, (_, values) in draft.exogenous.items()} == {"SPX": [4079.3899, 4080.0, 4081.0], "VIX": [1.5]}


# --- events ------------------------------------------------------------------------------------------------------------


def test_a_recording_of_several_events_makes_an_episode_of_each() -> None:
    other = "KXTWO-26NOV21-C"
    about = RecordingRequest("kalshi", "websocket", (EVENT, "KXTWO-26NOV21"), (other, A, B), (), "test")
    assert events_of(about) == {EVENT: (A, B), "KXTWO-26NOV21": (other,)}
    assert episode_ids("rec", about) == {EVENT: f"rec.{EVENT}", "KXTWO-26NOV21": "rec.KXTWO-26NOV21"}
    assert episode_ids("rec", ABOUT) == {EVENT: "rec"}
    found = build("rec", about, lambda: frames(snapshot(A, 1), snapshot(other, 2), delta(A, 3, **at(1)), delta(other, 4, **at(2))))
    assert [(draft.metadata.episode_id, draft.metadata.tickers) for draft in found] == [
        (f"rec.{EVENT}", (A, B)),
        ("rec.KXTWO-26NOV21", (other,)),
    ]
    assert [len(draft.book.words) for draft in found] == [3, 3]


def test_an_event_whose_book_never_had_a_level_makes_none() -> None:
    assert (
        build("rec", ABOUT, lambda: frames({"type": "orderbook_snapshot", "sid": 1, "seq": 1, "msg": {"market_ticker": A, **at(1)}})) == []
    )
    assert build("rec", ABOUT, lambda: frames(delta(A, 1, **at(1)), trade(A, 1, **at(1)))) == []
    assert build("rec", ABOUT, list) == []


# --- the same bytes ------------------------------------------------------------------------------------------------------


def stream() -> list[Json]:
    return [
        reference("4079.3899", 0),
        snapshot(A, 1),
        snapshot(B, 2),
        delta(A, 3, price="0.4150", **at(1)),
        trade(A, 1, price="0.4150", side="no", **at(2)),
        delta(B, 4, price="0.0010", **at(3)),
        delta(A, 6, **at(4)),
        snapshot(A, 7),
        delta(A, 8, **at(5)),
    ]


def test_files_and_table_give_the_same_episode_the_same_bytes_each_time(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "recordings" / "rec", frames(*stream(), received=True), about=ABOUT)
    drafts = [*build_recording(recording), *build("rec", ABOUT, lambda: frames_of_table(read_batches(recording, size=3)))]
    for place, draft in enumerate(drafts):
        write(tmp_path / str(place) / "rec", draft)
    names = sorted(path.name for path in (tmp_path / "0" / "rec").iterdir())
    assert names == ["exogenous.parquet", "metadata.json", "orderbook.parquet", "settlement.json", "trades.parquet"]
    for name in names:
        assert (tmp_path / "0" / "rec" / name).read_bytes() == (tmp_path / "1" / "rec" / name).read_bytes(), name
    found = load(tmp_path / "0" / "rec")
    assert found.metadata == drafts[0].metadata
    assert validate(found.folder).is_valid


def test_grids_that_nobody_states_are_the_coarsest_that_hold_the_prices() -> None:
    draft = built(frames(snapshot(A, 1), snapshot(B, 2), delta(A, 3, price="0.4150", **at(1)), delta(B, 4, price="0.0010", **at(2))))
    assert [market.price_ranges for market in draft.metadata.markets] == [((0, 10_000, 10),), GRID]
    assert built(frames(snapshot(A, 1), delta(A, 2, **at(1)))).metadata.markets[0].price_ranges == ((0, 10_000, 100),)


# --- what is known from elsewhere ------------------------------------------------------------------------------------------

CLOSE = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def table(name: str, *given: dict[str, object]) -> pl.DataFrame:
    schema = TABLES[f"raw/{name}"].schema
    return pl.DataFrame([{column: row.get(column) for column in schema} for row in given], schema=schema)


def listed(ticker: str, body: str = "{}", **given: object) -> dict[str, object]:
    told = {"event_ticker": EVENT, "title": f"Will {ticker}?", "open_time": CLOSE - timedelta(days=1), "close_time": CLOSE, "result": ""}
    return {"day": CLOSE.date(), "ticker": ticker, "body": body, "fetched_at": CLOSE, **told, **given}


def test_listings_tell_outcomes_grids_and_fees() -> None:
    ranges = '{"price_ranges":[{"start":"0.1000","end":"0.9000","step":"0.0100"},{"start":"0.0000","end":"0.1000","step":"0.0010"}]}'
    waiver = '{"fee_waiver_expiration_time":"2026-12-01T00:00:00Z"}'
    late = CLOSE + timedelta(hours=1)
    markets = table(
        "kalshi_markets",
        listed(A, ranges, result="yes", settled_at=late, settlement_value=Decimal(1), fetched_at=late),
        listed(A, result="no", fetched_at=CLOSE, day=CLOSE.date() - timedelta(days=1)),
        listed(B, waiver, result="scalar", settlement_value=Decimal("0.24")),
    )
    events = table("kalshi_events", {"event_ticker": EVENT, "series_ticker": "KXONE", "title": "One?", "mutually_exclusive": True})
    series = table("kalshi_series", {"series_ticker": "KXONE", "fee_type": "quadratic_with_maker_fees", "fee_multiplier": Decimal("0.5")})
    known = parse_listings(markets, events, series)
    one, two = known.market(A), known.market(B)
    assert (one.title, one.close_time, one.price_ranges) == (f"Will {A}?", nanoseconds_at(1800), ((0, 1000, 10), (1000, 9000, 100)))
    assert one.outcome is not None
    assert (one.outcome.result, one.outcome.value, one.outcome.at) == ("YES", 1_000_000, nanoseconds_at(5400))
    assert one.fee == {"type": "quadratic_with_maker_fees", "multiplier": "0.5", "waiver_until": None, "source": "series"}
    assert two.outcome is not None
    assert (two.outcome.result, two.outcome.value, two.outcome.at) == ("SCALAR", 240_000, None)
    assert two.fee["waiver_until"] == "2026-12-01T00:00:00Z"
    assert known.event(EVENT) == ListedEvent(EVENT, "One?", True)
    draft = built(frames(snapshot(A, 1), delta(A, 2, price="0.4100", **at(1))), known=known)
    assert (draft.metadata.title, draft.metadata.mutually_exclusive) == ("One?", True)
    assert [market.title for market in draft.metadata.markets] == [f"Will {A}?", f"Will {B}?"]


def test_an_override_of_the_event_wins_over_its_series() -> None:
    markets = table("kalshi_markets", listed(A))
    override = {"event_ticker": EVENT, "series_ticker": "KXONE", "fee_type_override": "quadratic", "fee_multiplier_override": Decimal(2)}
    series = table("kalshi_series", {"series_ticker": "KXONE", "fee_type": "flat", "fee_multiplier": Decimal(1)})
    known = parse_listings(markets, table("kalshi_events", override), series)
    assert known.market(A).fee == {"type": "quadratic", "multiplier": "2", "waiver_until": None, "source": "event"}


def test_a_series_that_is_not_known_pays_the_general_fee_and_says_so() -> None:
    known = parse_listings(table("kalshi_markets", listed(A)), table("kalshi_events"), table("kalshi_series"))
    general = {"type": "quadratic", "multiplier": "1", "waiver_until": None, "source": "default"}
    assert known.market(A).fee == known.market("KXNEVER-1").fee == Listings().market(A).fee == general
    assert known.market(A).outcome is None


def test_an_unlisted_market_has_the_fees_of_the_series_in_its_ticker_unless_the_user_states_them() -> None:
    series = table("kalshi_series", {"series_ticker": "KXONE", "fee_type": "quadratic_with_maker_fees", "fee_multiplier": Decimal(1)})
    known = parse_listings(table("kalshi_markets"), table("kalshi_events"), series)
    assert known.market(A).fee == {"type": "quadratic_with_maker_fees", "multiplier": "1", "waiver_until": None, "source": "series"}
    stated = {"type": "quadratic", "multiplier": "0.5", "waiver_until": None, "source": "stated"}
    assert parse_fee("quadratic:0.5") == Listings(known.markets, known.events, known.series, stated).market(A).fee == stated


def test_index_markets_paid_half_until_july_2026() -> None:
    changed = int(datetime(2026, 7, 3, 17, tzinfo=UTC).timestamp()) * 10**9
    for ticker, by, source, multiplier in (
        ("INXD-23APR10-T4100", -1, "default", "0.5"),
        ("KXNASDAQ100U-26JUL03H1200-T20000", -1, "series", "0.5"),
        ("KXINX-26JUL06-T7000", 0, "series", "1"),
        ("KXINX-26JUL02-T7000", -1, "event", "1"),
        ("KXBTCD-26JUL02-T90000", -1, "default", "1"),
    ):
        market = ListedMarket(ticker, fee={"type": "quadratic", "multiplier": "1", "waiver_until": None, "source": source})
        assert fee_at(market, changed + by)["multiplier"] == multiplier, ticker


def test_a_grid_that_cannot_be_read_is_refused() -> None:
    for ranges in ('[{"start":"0.0000"}]', '[{"start":"0","end":"1","step":"0.00001"}]', '[{"start":"0","end":"2","step":"0.01"}]'):
        markets = table("kalshi_markets", listed(A, f'{{"price_ranges":{ranges}}}'))
        with pytest.raises(SchemaError, match="price_ranges"):
            parse_listings(markets, table("kalshi_events"), table("kalshi_series"))


# The time of a replay: the exchange's time from frames, never backwards

S = 1_000_000_000


def resolved(*heard: tuple[float | None, float | None] | tuple[float | None, float | None, bool]) -> list[float]:
    """Return the replay times of frames given as (exchange time, time of receipt) in seconds. A third value marks a frame that concerns
    neither books nor trades.
    """
    times = Times()
    for said, received, *beside in heard:
        times.add(
            None if said is None else int(said * S), None if received is None else int(received * S), aside=bool(beside and beside[0])
        )
    return [float(at) / S for at in times.resolve("rec")]


def test_times_never_run_backwards_and_undated_frames_lie_between_dated_ones() -> None:
    assert resolved((10, None), (12, None), (11, None), (13, None)) == [10, 12, 12, 13]
    assert resolved((10, 10.5), (None, 14), (15, 15.5), (None, 16), (15.8, 16.2), (None, 20)) == [10, 14, 15, 15.8, 15.8, 20]
    # Receipts of another clock only state how long it took.
    assert resolved((1000, 50_000), (None, 50_003), (None, 50_004)) == [1000, 1003, 1004]
    # Messages of neither books nor trades do not move their clock.
    assert resolved((10, None), (99, None, True), (11, None), (None, None)) == [10, 99, 11, 11]


def test_without_any_time_there_is_no_replay() -> None:
    with pytest.raises(SchemaError, match="rec: no frame has a time"):
        resolved((None, None), (None, None))


# Price grids: from messages and listings, from prices, and their changes


DECI, CENTI = ((0, 10_000, 10),), ((0, 100, 1), (100, 9900, 10), (9900, 10_000, 1))


def structure(second: float, *spans: tuple[str, str, str]) -> Json:
    """Return a message that changes the price grid of market A."""
    ranges = [dict(zip(("start", "end", "step"), span, strict=True)) for span in spans]
    return lifecycle("price_level_structure_updated", second, price_ranges=ranges)


def grids(draft: Content) -> list[tuple[float, object]]:
    """Return (seconds after noon, ranges) of each grid of market A. The first grid has no start time."""
    market = draft.metadata.markets[0]
    changes = [((change.at - NOON) / SECOND, change.price_ranges) for change in market.grid_changes]
    return [(0, market.price_ranges), *changes]


def test_a_stated_grid_holds_from_its_message_on(tmp_path: Path) -> None:
    told = structure(5, ("0.0000", "0.0100", "0.0001"), ("0.0100", "0.9900", "0.0010"), ("0.9900", "1.0000", "0.0001"))
    said = (snapshot(A, 1), delta(A, 2, **at(1)), told, delta(A, 3, price="0.0085", **at(6)), delta(A, 4, price="0.4140", **at(7)))
    draft = built(frames(*said))
    assert grids(draft) == [(0, ((0, 10_000, 100),)), (5, CENTI)]
    episode = write(tmp_path / "rec", draft)
    [(start, cents), (changed, fine)] = episode.metadata.markets[0].price_grids()
    assert (start, cents.tolist()) == (0, list(range(100, 10_000, 100)))
    assert (changed, fine.tolist()) == (nanoseconds_at(5), [*range(1, 100), *range(100, 9900, 10), *range(9900, 10_000)])
    assert load(tmp_path / "rec").metadata == episode.metadata == draft.metadata


def test_a_grid_stated_before_the_book_is_the_first_and_a_listing_does_not_count_for_the_time_before_a_change() -> None:
    tenths = structure(0, ("0.0000", "1.0000", "0.0010"))
    known = Listings({A: ListedMarket(A, price_ranges=CENTI)})
    book = (snapshot(A, 1), delta(A, 2, **at(1)))
    assert grids(built(frames(tenths, *book), known=known)) == [(0, DECI)]
    assert grids(built(frames(*book), known=known)) == [(0, CENTI)]
    assert grids(built(frames(*book, structure(5, ("0", "1", "0.001"))), known=known)) == [(0, ((0, 10_000, 100),)), (5, DECI)]
    assert grids(built(frames(tenths, *book, tenths))) == [(0, DECI)]


def test_a_price_off_the_stated_grid_shows_that_it_changed_and_loses_no_book() -> None:
    known = Listings({A: ListedMarket(A, price_ranges=((0, 10_000, 100),))})
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), delta(A, 3, price="0.0085", **at(6)), delta(A, 4, **at(7))), known=known)
    assert grids(draft) == [(0, ((0, 10_000, 100),)), (6, CENTI)]
    assert draft.metadata.markets[0].grid_changes[0].source == "prices"
    assert levels(draft)["yes", 8.5] == 100 and not draft.metadata.gaps


def test_frames_behind_the_close_that_were_not_applied_are_counted_as_plain_integers(tmp_path: Path) -> None:
    late = delta(A, 4, price="1.5", **at(9))
    draft = built(
        frames(snapshot(A, 1), delta(A, 2, **at(1)), delta(A, 3, **at(2)), lifecycle("determined", 5), late), results=Outcomes(infer=True)
    )
    assert draft.metadata.source["unapplied"] == 1 and type(draft.metadata.source["uncovered"]) is int
    assert draft.metadata.source["uncovered"] == 0
    write(tmp_path / "rec", draft)
