"""Closes and settlements of markets from the recording, from listings, by hand, or inferred, each with its source."""

from __future__ import annotations

import pytest

from bellwether.errors import ConfigError
from bellwether.replay.episode.content import Content
from bellwether.replay.episode.model import Market, Settlement
from bellwether.replay.episode_builder.build import Outcomes
from bellwether.replay.episode_builder.listings import ListedMarket, Listings, parse_results
from bellwether.venues.kalshi.stream.frame import COMBO_LIFECYCLE, LIFECYCLE
from tests.unit.replay.episode_builder.streams import NOON, SECOND, Json, at, built, frames, lifecycle, nanoseconds_at, rows, trade
from tests.unit.venues.stream_peer import A, B, delta, snapshot

EMPTY: Json = {"type": "orderbook_snapshot", "sid": 1, "seq": 3, "msg": {"market_ticker": A}}


def seconds(second: int) -> int:
    return nanoseconds_at(second) // SECOND


def market(draft: Content, ticker: str = A) -> Market:
    return next(market for market in draft.metadata.markets if market.ticker == ticker)


def settlement(draft: Content, ticker: str = A) -> Settlement:
    return next(found for found in draft.settlements if found.ticker == ticker)


def phases(draft: Content, ticker: str = A) -> list[tuple[float, str, str | None]]:
    return [((phase.at - NOON) / SECOND, phase.event, phase.source) for phase in market(draft, ticker).lifecycle]


@pytest.mark.parametrize("kind", [LIFECYCLE, COMBO_LIFECYCLE])
def test_a_whole_life_is_told_by_its_messages(kind: str) -> None:
    draft = built(
        [
            frame._replace(data=frame.data.replace(LIFECYCLE.encode(), kind.encode()))
            for frame in frames(
                lifecycle("created", -1, open_ts=seconds(1), close_ts=seconds(99), additional_metadata={"title": "Will it?", "name": "it"}),
                lifecycle("activated", 1, seq=2, is_deactivated=False),
                snapshot(A, 1),
                delta(A, 2, **at(2)),
                lifecycle("deactivated", 3, seq=3, is_deactivated=True),
                lifecycle("activated", 4, seq=4, is_deactivated=False),
                delta(A, 3, **at(5)),
                lifecycle("close_date_updated", 6, seq=5, close_ts=seconds(6)),
                lifecycle("deactivated", 6, seq=6, is_deactivated=True),
                {**EMPTY, "seq": 4, "msg": {**EMPTY["msg"], **at(6.2)}},
                lifecycle("determined", 20, seq=7, determination_ts=seconds(20), result="yes", settlement_value="1.0000"),
                lifecycle("settled", 30, seq=8, settled_ts=seconds(30)),
            )
        ]
    )
    assert phases(draft) == [(1, "open", "lifecycle"), (3, "halt", "lifecycle"), (4, "open", "lifecycle"), (6, "close", "lifecycle")]
    found = market(draft)
    assert (found.title, found.open_time, found.close_time) == ("Will it?", nanoseconds_at(1), nanoseconds_at(99))
    assert settlement(draft) == Settlement(A, "YES", 1_000_000, nanoseconds_at(30), "lifecycle")
    assert rows(draft)[-1] == (5, "level", "yes", 400, 1200)


def test_determinations_of_every_kind() -> None:
    for told, result, value in (
        ({"result": "no", "settlement_value": "0.0000"}, "NO", 0),
        ({"result": "scalar", "settlement_value": "0.3500"}, "SCALAR", 350_000),
        ({"result": "void"}, "VOID", None),
        ({"result": "odd"}, None, None),
        ({"result": "scalar"}, None, None),
    ):
        draft = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), lifecycle("determined", 9, determination_ts=seconds(9), **told)))
        found = settlement(draft)
        assert (found.result, found.value, found.at) == (result, value, nanoseconds_at(9) if result else None)
        assert phases(draft) == [(9, "close", "lifecycle")]


def test_a_book_that_is_wiped_for_good_tells_the_close() -> None:
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(5)), EMPTY, snapshot(B, 4), delta(B, 5, **at(60))))
    assert phases(draft) == [(5, "close", "book wiped")]
    assert [kind for _, kind, *_ in rows(draft)] == ["level", "level", "level"]
    assert phases(draft, B) == [(60, "close", "end of recording")]
    assert market(draft).close_time is None


def test_another_recorders_note_tells_the_close_and_nothing_behind_it_is_kept() -> None:
    note = {"type": "watch_market", "msg": {"market_ticker": A, "close_time": at(3)["ts"], "status": "active"}}
    draft = built(frames(note, snapshot(A, 1), delta(A, 2, **at(3)), delta(A, 3, **at(4)), EMPTY | {"seq": 4}))
    assert phases(draft) == [(3, "close", "recorder")]
    assert rows(draft)[-1] == (3, "level", "yes", 400, 1100)
    assert draft.metadata.end == nanoseconds_at(4)
    assert phases(draft, B) == [(4, "close", "end of recording")]


def test_agents_are_told_the_close_that_was_announced_and_never_the_real_one_of_an_early_close() -> None:
    note = {"type": "watch_market", "msg": {"market_ticker": A, "close_time": at(50)["ts"]}}
    early = lifecycle("close_date_updated", 4, close_ts=seconds(5))
    book = (snapshot(A, 1), delta(A, 2, **at(3)), EMPTY)
    listed = Listings({A: ListedMarket(A, close_time=nanoseconds_at(5))})
    assert market(built(frames(note, *book, early), known=listed)).close_time == nanoseconds_at(50)
    assert market(built(frames(*book, early), known=listed)).close_time is None
    assert market(built(frames(lifecycle("created", 1, close_ts=seconds(900)), *book, early), known=listed)).close_time == nanoseconds_at(
        900
    )


def test_a_trade_proves_that_a_stated_close_is_wrong() -> None:
    known = Listings({A: ListedMarket(A, close_time=nanoseconds_at(3))})
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(5)), trade(A, 1, **at(5)), EMPTY), known=known)
    assert phases(draft) == [(5, "close", "book wiped")]
    assert len(draft.trades.ts) == 1


def test_results_come_from_the_surest_source() -> None:
    told = lifecycle("determined", 9, result="no", determination_ts=seconds(9))
    listed = Listings(
        {A: ListedMarket(A, close_time=nanoseconds_at(6), outcome=Settlement(A, "YES", 1_000_000, nanoseconds_at(70), "listing"))}
    )
    base = (snapshot(A, 1), delta(A, 2, **at(5)), trade(A, 1, price="0.9900", **at(5)))
    guess = Outcomes(infer=True)
    stated = Outcomes(parse_results([f"{A}=0.35"]), infer=True)
    assert settlement(built(frames(*base), results=guess)) == Settlement(
        A, "YES", 1_000_000, nanoseconds_at(5), "inferred: last trade at 0.990"
    )
    assert settlement(built(frames(*base), known=listed, results=guess)).source == "listing"
    assert settlement(built(frames(*base, told), known=listed, results=guess)) == Settlement(A, "NO", 0, nanoseconds_at(9), "lifecycle")
    assert settlement(built(frames(*base, told), results=stated)) == Settlement(A, "SCALAR", 350_000, nanoseconds_at(9), "stated")
    assert settlement(built(frames(*base), known=listed, results=stated)) == Settlement(A, "SCALAR", 350_000, nanoseconds_at(70), "stated")
    assert settlement(built(frames(*base))) == Settlement(A)


def test_only_a_last_trade_at_the_edge_tells_a_result() -> None:
    base = (snapshot(A, 1), delta(A, 2, **at(0)))
    for prices, result in ((["0.9900"], "YES"), (["0.0100"], "NO"), (["0.9800"], None), (["0.9900", "0.5000"], None), ([], None)):
        said = [trade(A, seq, price=price, **at(seq)) for seq, price in enumerate(prices, 1)]
        assert settlement(built(frames(*base, *said), results=Outcomes(infer=True))).result == result, prices
    # Without trades, the last price of a ticker message.
    for told, result in (
        ({"price_dollars": "0.9950"}, "YES"),
        ({"price": 1}, "NO"),
        ({"price_dollars": "0.0000"}, None),
        ({"price": 50}, None),
    ):
        said = [{"type": "ticker", "sid": 9, "seq": 1, "msg": {"market_ticker": A, **told}}]
        assert settlement(built(frames(*base, *said), results=Outcomes(infer=True))).result == result, told


def test_stated_results_are_words_or_dollars() -> None:
    found = parse_results(["a=yes", "b=NO", "c=void", "d=0.35", "x=y=no"])
    assert [(one.result, one.value) for one in found.values()] == [
        ("YES", 1_000_000),
        ("NO", 0),
        ("VOID", None),
        ("SCALAR", 350_000),
        ("NO", 0),
    ]
    assert list(found) == ["a", "b", "c", "d", "x=y"]


def test_other_results_are_refused() -> None:
    for texts in (["a"], ["=yes"], ["a=maybe"], ["a=1.5"], ["a=NaN"], ["a=yes", "a=no"]):
        with pytest.raises(ConfigError):
            parse_results(texts)
