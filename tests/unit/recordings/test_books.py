"""Books rebuilt in integers from frames of every format, and errors of frames."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.recordings.books import (
    BookSide,
    MalformedFrame,
    RecordedBook,
    convert_no_prices,
    has_yes_prices,
    parse_price,
    parse_size,
    scale_decimal,
)
from tests.unit.recordings.book_replay import BookCheck, BookReplay, check_books, differences
from tests.unit.recordings.frames import frames, recorded
from tests.venues.stream.peer import A, B, delta, snapshot

CENT = 10_000


def replay(*bodies: dict[str, Any]) -> BookCheck:
    played = BookReplay()
    for frame in frames(*bodies):
        played.apply(frame)
    return played.finish()


@given(st.decimals(-(10**6), 10**6, places=6, allow_nan=False))
def test_a_decimal_text_is_scaled_exactly(value: Decimal) -> None:
    assert scale_decimal(str(value), 6) == int(value * 10**6) if "E" not in str(value) else True


@pytest.mark.parametrize(("text", "found"), [("-75.00", -7500), ("0.05", 5), (12, 1200), (-3, -300), ("-0.50", -50)])
def test_sizes_are_hundredths_of_a_contract(text: Any, found: int) -> None:
    assert parse_size(text) == found


@pytest.mark.parametrize("text", ["0.1234567", "abc", "", None, "1.2.3", ".5", "1_0", " 1", "-", True, 1.5, ["1"]])
def test_what_is_no_such_number_is_refused(text: Any) -> None:
    with pytest.raises(MalformedFrame):
        parse_price(text)


FORMATS = {
    "current": {"yes_dollars_fp": [["0.4000", "10.00"]], "no_dollars_fp": [["0.5500", "2.50"]]},
    "transitional": {
        "yes": [[40, 9]],
        "yes_dollars": [["0.4000", 9]],
        "yes_dollars_fp": [["0.4000", "10.00"]],
        "no": [[55, 2]],
        "no_dollars_fp": [["0.5500", "2.50"]],
    },
    "dollars": {"yes_dollars": [["0.40", 10]], "no_dollars": [["0.55", "2.50"]]},
    "null sides": {"yes_dollars_fp": [["0.4000", "10.00"]], "no_dollars_fp": None, "no": [[55, "2.50"]]},
}


@pytest.mark.parametrize("body", FORMATS.values(), ids=FORMATS)
def test_a_snapshot_of_any_format_makes_the_same_book(body: dict[str, Any]) -> None:
    book = RecordedBook.of(body)
    assert (book.yes.levels, book.no.levels) == ({40 * CENT: 1000}, {55 * CENT: 250})


def test_a_snapshot_in_cents_alone_is_read() -> None:
    book = RecordedBook.of({"yes": [[1, 888475], [41, 2559]], "no": None})
    assert (book.yes.levels, book.yes.best, book.no.levels) == ({CENT: 88847500, 41 * CENT: 255900}, 41 * CENT, {})


@pytest.mark.parametrize(
    "body",
    [{"price": 40, "delta": -4, "side": "yes"}, {"price_dollars": "0.4000", "delta_fp": "-4.00", "price": 99, "delta": 1, "side": "yes"}],
)
def test_a_delta_of_any_format_changes_the_same_level(body: dict[str, Any]) -> None:
    book = RecordedBook.of(FORMATS["current"])
    assert book.apply(body) == 600


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(-3, 3)), max_size=60))
def test_the_best_price_is_that_of_the_levels_after_every_change(changes: list[tuple[int, int]]) -> None:
    side = BookSide({})
    for price, by in changes:
        side.change(price, by)
        assert side.best == max(side.levels, default=0)
        assert 0 not in side.levels.values()


def test_a_level_below_zero_is_found() -> None:
    found = replay(snapshot(A, 1), delta(A, 2, by="-11.00"))
    assert found["negative"] == 1
    assert not found.is_sound
    assert found.first["negative"] == f"frame 1: {A}: a level of -100 hundredths of a contract"


LATER = {"ts": "2026-03-11T01:03:42.657285Z"}
INSTANT = {"ts": "2026-03-11T01:03:42.657284Z"}


def test_a_book_that_stays_crossed_is_found() -> None:
    found = replay(snapshot(A, 1), delta(A, 2, price="0.6100", **INSTANT), delta(A, 3, **LATER))
    assert (found["crossed"], found["passing"]) == (2, 2)
    assert not found.is_sound


def test_a_book_that_is_crossed_at_the_end_is_found() -> None:
    assert replay(snapshot(A, 1), delta(A, 2, price="0.6100", **INSTANT))["crossed"] == 1


def test_a_book_that_is_crossed_within_one_action_of_the_exchange_is_sound() -> None:
    found = replay(
        snapshot(A, 1), delta(A, 2, price="0.6100", **INSTANT), delta(A, 3, side="no", by="-10.00", **INSTANT), delta(A, 4, **LATER)
    )
    assert (found["crossed"], found["passing"]) == (0, 1)
    assert found.is_sound


def test_a_locked_book_is_sound_only_within_one_action_of_the_exchange() -> None:
    action = [snapshot(A, 1), delta(A, 2, price="0.6000", **INSTANT), delta(A, 3, side="no", by="-10.00", **INSTANT)]
    found = replay(*action, delta(A, 4, **LATER))
    assert (found["locked"], found["crossed"], found.is_sound) == (1, 0, True)
    left = replay(*action[:2], delta(A, 3, **LATER))
    assert (left["locked"], left["crossed"], left.is_sound) == (2, 2, False)


def test_a_snapshot_of_a_valid_book_is_compared_with_it() -> None:
    same = snapshot(A, 3, yes_dollars_fp=[["0.4000", "11.00"]], no_dollars_fp=[["0.4000", "10.00"]])
    assert replay(snapshot(A, 1), delta(A, 2), same)["agreed"] == 1
    found = replay(snapshot(A, 1), delta(A, 2), snapshot(A, 3))
    assert (found["mismatched"], found.is_sound) == (1, False)
    assert found.first["mismatched"].endswith("1 levels differ from the book that deltas had made")


def test_after_a_gap_nothing_is_applied_until_a_snapshot_which_is_not_compared() -> None:
    found = replay(snapshot(A, 1), delta(A, 3, by="-99.00"), delta(A, 4, by="-99.00"), snapshot(A, 5), delta(A, 6))
    assert (found["unapplied"], found["mismatched"], found["negative"], found["deltas"]) == (2, 0, 0, 1)
    assert found.books[A].yes.levels == {40 * CENT: 1100}


@pytest.mark.parametrize(
    "broken",
    [
        delta(A, 2, price="x"),
        delta(A, 2, side="maybe"),
        delta(A, 2, by="0.001"),
        snapshot(A, 2, yes_dollars_fp=[["0.4"]]),
        snapshot(A, 2, yes_dollars_fp=[7]),
        {"type": "orderbook_delta", "sid": 1, "seq": 2, "msg": {"market_ticker": A, "side": "yes"}},
    ],
)
def test_a_frame_that_cannot_be_read_is_found_and_its_book_given_up(broken: dict[str, Any]) -> None:
    found = replay(snapshot(A, 1), snapshot(B, 1, sid=2), broken, delta(A, 3), delta(B, 2, sid=2))
    assert (found["malformed"], found["unapplied"], found["deltas"], found.is_sound) == (1, 1, 1, False)
    assert A not in found.books


# --- the leg of NO prices ---------------------------------------------------------------------------------------------

DEEP = {"yes_dollars_fp": [["0.0100", "9.00"], ["0.4000", "10.00"]], "no_dollars_fp": [["0.0100", "5.00"], ["0.5500", "7.00"]]}
DEEP_IN_YES = {"yes_dollars_fp": DEEP["yes_dollars_fp"], "no_dollars_fp": [["0.9900", "5.00"], ["0.4500", "7.00"]]}
THIN = {"yes_dollars_fp": [["0.3900", "5.00"], ["0.4000", "10.00"]], "no_dollars_fp": [["0.4200", "7.00"], ["0.4500", "10.00"]]}


def taken(market: str, price: str, side: str = "yes") -> dict[str, Any]:
    return {"type": "trade", "sid": 2, "seq": 1, "msg": {"market_ticker": market, "yes_price_dollars": price, "taker_outcome_side": side}}


@pytest.mark.parametrize(
    ("bodies", "flag", "expected"),
    [
        ([snapshot(A, 1, **DEEP)], True, False),
        ([snapshot(A, 1, **DEEP_IN_YES)], False, True),
        ([snapshot(A, 1, **THIN)], None, False),
        ([snapshot(A, 1, **THIN)], True, True),
        ([snapshot(A, 1, **THIN), taken(A, "0.4200")], False, True),
        ([snapshot(A, 1, **THIN), taken(A, "0.5500")], True, False),
        ([snapshot(A, 1, **THIN), taken(A, "0.4000", "no")], None, False),
        ([snapshot(A, 1, yes_dollars_fp=[["0.7000", "1.00"]], no_dollars_fp=[]), delta(A, 2, price="0.7500", side="no")], None, True),
        ([], None, False),
    ],
)
def test_books_decide_the_leg_of_no_prices_then_trades_then_the_flag(
    bodies: list[dict[str, Any]], flag: bool | None, expected: bool
) -> None:
    assert has_yes_prices(frames(*bodies), flag=flag) is expected


@given(st.integers(1, 9999), st.integers(1, 99))
def test_conversion_gives_the_complement_of_every_no_price_and_nothing_else(price: int, cents: int) -> None:
    text, other = f"0.{price:04d}", f"0.{10_000 - price:04d}"
    body = {"yes_dollars_fp": [[text, "1.00"]], "no_dollars_fp": [[text, "2.00"]], "no": [[cents, 3]]}
    assert convert_no_prices(body) == {"yes_dollars_fp": [[text, "1.00"]], "no_dollars_fp": [[other, "2.00"]], "no": [[100 - cents, 3]]}
    for side, expected in (("yes", text), ("no", other)):
        assert convert_no_prices({"side": side, "price_dollars": text}) == {"side": side, "price_dollars": expected}


@pytest.mark.parametrize("level", [["x", "1.00"], [None, "1.00"], [], "0.40", 7])
def test_what_is_no_price_is_left_for_its_reader(level: Any) -> None:
    assert convert_no_prices({"no_dollars_fp": [level]}) == {"no_dollars_fp": [level]}


def test_a_recording_in_yes_prices_has_the_books_of_one_in_own_prices(tmp_path: Path) -> None:
    changes = [("no", "0.5600", "0.4400", "3.00"), ("yes", "0.4100", "0.4100", "1.00"), ("no", "0.5500", "0.4500", "-7.00")]
    own = [snapshot(A, 1, **DEEP), *(delta(A, seq, side=side, price=price, by=by) for seq, (side, price, _, by) in enumerate(changes, 2))]
    yes = [
        snapshot(A, 1, **DEEP_IN_YES),
        *(delta(A, seq, side=side, price=price, by=by) for seq, (side, _, price, by) in enumerate(changes, 2)),
    ]
    found = [check_books(recorded(tmp_path / name, frames(*bodies)))[0] for name, bodies in (("own", own), ("yes", yes))]
    assert found[0].is_sound and found[1].is_sound
    assert not differences(found[0].books[A], found[1].books[A])
    assert found[1].books[A].no.levels == {10_000: 500, 560_000: 300}
