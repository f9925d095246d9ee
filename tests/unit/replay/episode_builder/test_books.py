"""Books of recordings become exact changes of levels, with marks where they are invalid."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.errors import SchemaError
from bellwether.recordings.recording import RecordingRequest
from bellwether.replay.episode.folder import write
from bellwether.replay.episode.model import Gap
from tests.unit.replay.episode_builder.streams import ABOUT, PARTIAL, Json, at, built, frames, levels, nanoseconds_at, rows
from tests.unit.venues.stream_peer import A, B, delta, snapshot


def test_a_snapshot_starts_a_book_and_deltas_set_levels() -> None:
    draft = built(frames(snapshot(A, 1), delta(A, 2, price="0.4150", by="2.50", **at(1)), delta(A, 3, by="-10.00", side="no", **at(2))))
    assert rows(draft) == [
        (1, "level", "yes", 400, 1000),
        (1, "level", "no", 400, 1000),
        (1, "level", "yes", 415, 250),
        (2, "level", "no", 400, 0),
    ]
    assert draft.book.sequence.tolist() == [0, 1, 2]
    assert draft.metadata.tickers == (A, B)


@pytest.mark.parametrize(
    "sides",
    [
        {"yes_dollars_fp": [["0.4000", "10.00"]], "no_dollars_fp": [["0.0010", "0.01"]]},
        {"yes_dollars": [["0.40", 10]], "no_dollars": [["0.001", "0.01"]]},
        {"yes": [[40, 10]], "no_dollars_fp": [["0.001", "0.010"]], "yes_dollars": None},
    ],
)
def test_current_transitional_and_old_fields_say_the_same(sides: Json) -> None:
    assert levels(built(frames(snapshot(A, 1, **sides), delta(B, 2, **at(1))))) == {("yes", 400): 1000, ("no", 1): 1}


def test_a_snapshot_that_agrees_with_its_book_changes_nothing() -> None:
    again = snapshot(A, 3, yes_dollars_fp=[["0.4000", "11.00"]], no_dollars_fp=[["0.4000", "10.00"]])
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), again, delta(A, 4, **at(2))))
    assert [row[:2] for row in rows(draft)[2:]] == [(1, "level"), (2, "level")]
    assert draft.metadata.gaps == ()
    assert (draft.metadata.source["snapshots_that_agree"], draft.metadata.source["snapshots_that_differ"]) == (1, 0)


def test_a_snapshot_that_differs_from_its_book_makes_all_since_the_last_agreement_a_gap() -> None:
    agreed = snapshot(A, 3, yes_dollars_fp=[["0.4000", "11.00"]], no_dollars_fp=[["0.4000", "10.00"]])
    other = snapshot(A, 5, yes_dollars_fp=[["0.4000", "4.00"], ["0.3000", "1.00"]])
    said = [snapshot(A, 1), delta(A, 2, **at(1)), agreed, delta(A, 4, **at(2)), other, delta(A, 6, **at(3))]
    draft = built(frames(*said))
    assert rows(draft)[2:] == [
        (1, "level", "yes", 400, 1100),
        (1, "invalid", None, None, None),
        (2, "level", "yes", 300, 100),
        (2, "level", "yes", 400, 400),
        (2, "level", "no", 400, 0),
        (2, "valid", None, None, None),
        (3, "level", "yes", 400, 500),
    ]
    assert draft.metadata.gaps == (Gap(A, nanoseconds_at(1), nanoseconds_at(2), "snapshot at frame 4 differs in 3 levels"),)
    assert draft.metadata.source["snapshots_that_differ"] == 1


def test_a_skipped_number_invalidates_every_book_of_the_subscription_until_its_snapshot() -> None:
    draft = built(
        frames(
            snapshot(A, 1),
            snapshot(B, 2),
            delta(A, 3, **at(1)),
            delta(A, 5, **at(3)),
            snapshot(A, 6, yes_dollars_fp=[["0.2000", "1.00"]]),
            delta(A, 7, price="0.2000", **at(4)),
        )
    )
    assert rows(draft)[3:] == [
        (1, "invalid", None, None, None),
        (3, "level", "yes", 200, 100),
        (3, "level", "yes", 400, 0),
        (3, "level", "no", 400, 0),
        (3, "valid", None, None, None),
        (4, "level", "yes", 200, 200),
    ]
    assert rows(draft, B)[-1] == (1, "invalid", None, None, None)
    assert draft.metadata.gaps == (Gap(A, nanoseconds_at(1), nanoseconds_at(3), "gap"), Gap(B, nanoseconds_at(1), None, "gap"))
    assert draft.metadata.source["unapplied"] == 1


def test_a_lost_connection_invalidates_until_the_snapshot_of_the_next() -> None:
    before = frames(snapshot(A, 1), delta(A, 2, **at(1)), received=True)
    draft = built([*before, *frames(snapshot(A, 1), delta(A, 2, **at(9)), connection=2, first=7, received=True)])
    # The frame of second 9 was received at 8.5, because the receiver's clock is half a second behind.
    assert [row[:2] for row in rows(draft)[3:]] == [(1, "invalid"), (8, "level"), (8, "valid"), (9, "level")]
    assert draft.metadata.gaps == (Gap(A, nanoseconds_at(1), nanoseconds_at(8), "break"),)


def test_a_level_below_zero_shows_that_something_was_lost() -> None:
    draft = built(frames(snapshot(A, 1), delta(A, 2, by="-11.00", **at(1)), delta(A, 3, **at(2)), snapshot(A, 4), delta(A, 5, **at(3))))
    assert [kind for _, kind, *_ in rows(draft)[2:]] == ["invalid", "valid", "level"]
    assert [gap.cause for gap in draft.metadata.gaps] == ["level below zero at frame 1"]
    assert draft.metadata.source["below_zero"] == 1


def test_a_frame_that_cannot_be_kept_exactly_ends_the_book_until_its_next_snapshot() -> None:
    for body, field in (
        (delta(A, 2, price="0.40005"), "price_dollars"),
        (delta(A, 2, price="1.0000"), "price_dollars"),
        (delta(A, 2, by="99999999.00"), "delta_fp"),
        (delta(A, 2, side="maybe"), "side"),
        (snapshot(A, 2, yes_dollars_fp=[["0.4000", "-1.00"]]), "yes_dollars_fp"),
        (snapshot(A, 2, yes_dollars_fp=[["0.40", "1"], ["0.400", "2"]]), "price"),
        (snapshot(A, 2, yes=[[40.5, 1]]), "yes"),
    ):
        said = [snapshot(A, 1), snapshot(B, 2), delta(A, 3, **at(1)), {**body, "seq": 4}, delta(A, 5, **at(2)), snapshot(A, 6)]
        draft = built(frames(*said))
        [gap] = draft.metadata.gaps
        assert (gap.ticker, gap.start, gap.end) == (A, nanoseconds_at(1), nanoseconds_at(2))
        assert "frame 3" in gap.cause and field in gap.cause
        assert [row[:2] for row in rows(draft)[3:]] == [(1, "invalid"), (2, "level"), (2, "valid")]
        assert [draft.metadata.source[name] for name in ("malformed", "unapplied", "uncovered")] == [1, 2, 0]


UNREADABLE = snapshot(A, 1, yes_dollars_fp=[[0.4, 10.0]])


@pytest.mark.parametrize(
    ("first", "cause"), [([UNREADABLE, UNREADABLE | {"seq": 2}], "frame 0 has yes_dollars_fp 0.4"), ([], "no snapshot")]
)
def test_a_book_is_a_gap_up_to_its_first_readable_snapshot(first: list[Json], cause: str, tmp_path: Path) -> None:
    seq = len(first)
    said = [*first, delta(A, seq + 1, **at(1)), snapshot(B, seq + 2), delta(B, seq + 3, **at(2)), delta(A, seq + 4, **at(3))]
    draft = built(frames(*said))
    [gap] = draft.metadata.gaps
    assert (gap.ticker, gap.start, gap.end) == (A, nanoseconds_at(1), None)
    assert gap.cause.startswith(cause) and "; frame" not in gap.cause
    assert rows(draft) == [(1, "invalid", None, None, None)]
    assert draft.metadata.source["uncovered"] == draft.metadata.source["unapplied"] == len(first) + 2
    with pytest.raises(SchemaError, match=f"{A} has no book"):
        write(tmp_path / "episode", draft)

    later = built(frames(*said, snapshot(A, seq + 5), delta(A, seq + 6, **at(5))))
    assert [(gap.start, gap.end) for gap in later.metadata.gaps] == [(nanoseconds_at(1), nanoseconds_at(3))]
    assert [row[:2] for row in rows(later)] == [(1, "invalid"), (3, "level"), (3, "level"), (3, "valid"), (5, "level")]
    assert later.metadata.source["uncovered"] == 0
    write(tmp_path / "later", later)


def test_other_messages_blank_lines_and_other_markets_change_nothing() -> None:
    said: list[Json | bytes] = [snapshot(A, 1), delta(A, 2, **at(1))]
    noise: list[Json | bytes] = [
        b"",
        b" ",
        {"type": "ticker", "sid": 3, "seq": 1, "msg": {"market_ticker": A, "ts": 4_000_000_000}},
        {"type": "news", "msg": "of old"},
        {"type": "subscribed", "msg": {"channel": "trade", "sid": 2}},
        snapshot("KXOTHER-1-X", 1, sid=9),
    ]
    assert rows(built(frames(*said, *noise))) == rows(built(frames(*said)))


def polled(second: int, yes: list[list[str]], ticker: str = A) -> Json:
    return {
        "type": "orderbook_rest",
        "request": "GET /markets/orderbooks",
        "fetched_at": at(second)["ts"],
        "msg": {"orderbooks": [{"ticker": ticker, "orderbook_fp": {"yes_dollars": yes, "no_dollars": None}}, "odd"]},
    }


def test_polled_books_are_snapshots_whose_changes_are_kept() -> None:
    trades = {"trades": [{**trade, "ticker": A, "count_fp": "1.00", "taker_side": "yes", "yes_price_dollars": "0.4000"} for trade in news]}
    page = {"type": "trade_rest", "fetched_at": at(5)["ts"], "msg": trades}
    draft = built(frames(polled(0, [["0.40", "2.00"]]), polled(5, [["0.40", "1.00"]]), page, page, polled(10, [["0.40", "1.00"]])))
    assert rows(draft) == [(0, "level", "yes", 400, 200), (5, "level", "yes", 400, 100)]
    assert draft.trades.trade_id.to_pylist() == ["older", "newer"]
    assert draft.trades.ts.tolist() == [nanoseconds_at(5), nanoseconds_at(5)]


news = [{"trade_id": "newer", "created_time": at(4)["ts"]}, {"trade_id": "older", "created_time": at(3)["ts"]}]


def test_a_book_that_an_instant_leaves_crossed_is_invalid_until_it_is_mended() -> None:
    said = [
        snapshot(A, 1),
        snapshot(B, 2),
        delta(A, 3, price="0.6500", **at(1)),
        delta(B, 4, **at(2)),
        delta(A, 5, price="0.2000", **at(3)),
        delta(A, 6, price="0.6500", by="-1.00", **at(4)),
        delta(A, 7, price="0.2000", **at(5)),
    ]
    draft = built(frames(*said))
    assert rows(draft)[2:] == [
        (1, "level", "yes", 650, 100),
        (1, "invalid", None, None, None),
        (4, "level", "yes", 200, 100),
        (4, "level", "yes", 650, 0),
        (4, "valid", None, None, None),
        (5, "level", "yes", 200, 200),
    ]
    assert draft.metadata.gaps == (Gap(A, nanoseconds_at(1), nanoseconds_at(4), "crossed book"),)
    assert draft.book.ts.tolist() == sorted(draft.book.ts.tolist())
    assert "invalid" not in [kind for _, kind, *_ in rows(draft, B)]


def test_a_book_that_stays_locked_where_losses_do_not_show_in_the_numbers_was_wrong_since_its_snapshot() -> None:
    said = [
        snapshot(A, 4),
        delta(A, 9, **at(1)),
        delta(A, 12, price="0.6000", **at(2)),
        delta(A, 15, **at(2.5)),
        delta(A, 16, **at(3.5)),
        delta(A, 20, price="0.6000", by="-1.00", **at(4)),
        snapshot(A, 21),
        delta(A, 25, **at(5)),
    ]
    draft = built(frames(*said), about=PARTIAL)
    assert draft.metadata.gaps == (Gap(A, nanoseconds_at(1), nanoseconds_at(4), "locked book from frame 2 on; locked book"),)
    assert [kind for _, kind, *_ in rows(draft)] == ["level", "level", "invalid", "valid", "level"]
    momentary = [*said[:3], delta(A, 15, price="0.6000", by="-1.00", **at(2.5)), delta(A, 16, **at(9))]
    assert built(frames(*momentary), about=PARTIAL).metadata.gaps == (Gap(A, nanoseconds_at(2), nanoseconds_at(2.5), "locked book"),)


# --- a book on two subscriptions -----------------------------------------------------------------------------------------------


def again(lots: str = "11.00") -> Json:
    """Return a snapshot on another subscription."""
    return snapshot(A, 1, sid=3, yes_dollars_fp=[["0.4000", lots]], no_dollars_fp=[["0.4000", "10.00"]])


@pytest.mark.parametrize("about", [ABOUT, PARTIAL])
def test_what_two_subscriptions_say_is_counted_once(about: RecordingRequest) -> None:
    both = [delta(A, 3, **at(2)), delta(A, 2, sid=3, **at(2)), delta(A, 3, sid=3, **at(3)), delta(A, 4, **at(3)), delta(A, 5, **at(9))]
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), again(), *both, delta(A, 4, sid=3, **at(9))), about=about)
    assert (levels(draft)["yes", 400], draft.metadata.gaps) == (1400, ())


@pytest.mark.parametrize("about", [ABOUT, PARTIAL])
def test_a_snapshot_of_another_subscription_that_differs_shows_a_loss_and_begins_the_next_book(about: RecordingRequest) -> None:
    own = [delta(A, 2, sid=3, **at(1.5)), delta(A, 3, sid=3, **at(9))]
    draft = built(frames(snapshot(A, 1), delta(A, 2, **at(1)), again("50.00"), *own), about=about)
    assert levels(draft)["yes", 400] == 5200
    [gap] = draft.metadata.gaps
    assert (gap.start, gap.end, gap.cause) == (nanoseconds_at(1), nanoseconds_at(1), "snapshot at frame 2 differs in 1 level")
