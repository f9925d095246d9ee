"""Acceptance rows of the original benchmark's specification, by id: behaviour of a correct engine, and of the original under its rules."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.errors import SchemaError
from bellwether.replay import AgentContext, BacktestSettings, OrderError, load, prepare, run
from bellwether.replay.engine import codes as c
from bellwether.replay.results.curve import max_drawdown, sharpe
from bellwether.replay.results.metrics import metrics
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape.layout import HALT, INVALID, LEVEL, OPEN, PRINT, SETTLE, TRADED, VALID, unpack
from bellwether.replay.units import CENT, CONTRACT, MICROS, SECOND, YES
from tests.unit.replay.acceptance import BOOK_A, REF, RIGHT, Play, Scene, a_cent_a_fill, book_a, without_fees
from tests.unit.replay.agents.scenes import Scripted
from tests.unit.replay.episode.folders import Native

IOC, GTC, POST_ONLY, FOK, GTD = c.Tif
COVERED: set[str] = set()


def row(name: str, right: Any, ref: Any = None) -> Any:
    """Parametrize a test with the rules and expectation of one acceptance row. `ref`: expectation of the original, if different."""
    return rows({name: (right, right if ref is None else ref)})


def rows(table: dict[str, tuple[Any, Any]]) -> Any:
    """Parametrize a test with several rows: id -> (right, ref)."""
    COVERED.update(table)
    given = [
        pytest.param(rules, expected[which], id=f"{name}-{('right', 'ref')[which]}")
        for name, expected in table.items()
        for which, rules in enumerate((RIGHT, REF))
    ]
    return pytest.mark.parametrize(("rules", "expected"), given)


def traded(scene: Scene, rules: RuleSet, what: Callable[[AgentContext], None]) -> Any:
    """Return the backtest of a function that acts at every decision."""
    settings = BacktestSettings(rules=rules.name, cadence=SECOND, bankroll=1000 * MICROS, queue="trade_only")
    return run(scene.tape(rules), Scripted(what), settings)


def first_value(scene: Scene, rules: RuleSet, what: Callable[[AgentContext], Any]) -> Any:
    """Return the value of a function at the first decision."""
    seen: list[Any] = []
    assert traded(scene, rules, lambda ctx: seen.append(what(ctx))).failure is None
    return seen[0]


# Books


@row("U1", ((5 * CENT, 100 * CONTRACT), (10 * CENT, 50 * CONTRACT)))
def test_asks_are_the_bids_of_the_other_side(rules: RuleSet, expected: Any) -> None:
    scene = Scene().book(0, {}, {95: 100, 90: 50})
    assert first_value(scene, rules, lambda ctx: ctx.book("A").yes_asks) == expected


@row("U2", (60 * CENT, 65 * CENT))
def test_no_asks_are_the_yes_bids(rules: RuleSet, expected: Any) -> None:
    scene = Scene().book(0, {40: 200, 35: 100}, {})
    assert first_value(scene, rules, lambda ctx: tuple(price for price, _ in ctx.book("A").no_asks)) == expected


@row("U3", (45 * CENT, 48 * CENT, 52 * CENT, 55 * CENT))
def test_the_touch_of_both_sides(rules: RuleSet, expected: Any) -> None:
    def touch(ctx: AgentContext) -> Any:
        (market,) = ctx.markets()
        return market.yes_bid, market.yes_ask, market.no_bid, market.no_ask

    assert first_value(book_a(), rules, touch) == expected


# Fees


def _taker_fee(rules: RuleSet, count: int, price: int) -> float:
    play = Play(Scene().book(0, {}, {100 - price: count}), rules)
    play.order(f"BUY YES {count}")
    return play.fills()[0][2]


def _maker_fee(rules: RuleSet, count: int, price: int) -> float:
    scene = Scene().book(0, {price - 1: 1}, {}).trade(1, "NO", 100 - price, count)
    play = Play(scene, rules)
    play.order(f"BUY YES {count} @{price}")
    return play.end().fills()[0][2]


@rows(
    {
        "U4": ({(1, 50): 2, (10, 50): 18}, {(1, 50): 2, (10, 50): 18}),
        "U5": ({(1, 5): 1, (1, 95): 1}, {(1, 5): 1, (1, 95): 1}),
        "U6": ({(1, 30): 2, (1, 10): 1, (3, 48): 6, (25, 50): 44}, {(1, 30): 2, (1, 10): 1, (3, 48): 6, (25, 50): 44}),
        "S14 float fee": ({(4, 50): 7, (100, 50): 175, (200, 40): 336}, {(4, 50): 8, (100, 50): 176, (200, 40): 337}),
    }
)
def test_taker_fees_in_cents(rules: RuleSet, expected: dict[tuple[int, int], int]) -> None:
    assert {order: _taker_fee(rules, *order) for order in expected} == expected


@rows(
    {
        "U7": ({(10, 50): 5, (1, 50): 1, (3, 48): 2, (25, 50): 11}, {(10, 50): 5, (1, 50): 1, (3, 48): 2, (25, 50): 11}),
        "S3 post-only and maker fee": ({(16, 50): 7, (25, 20): 7}, {(16, 50): 8, (25, 20): 8}),
    }
)
def test_maker_fees_in_cents(rules: RuleSet, expected: dict[tuple[int, int], int]) -> None:
    assert {order: _maker_fee(rules, *order) for order in expected} == expected
    assert _taker_fee(rules, 10, 50) == 18


# Takers: fills of an order in book A, its money and its state

TWO_LEVELS = [(100, 45, 174), (200, 40, 336)]


@rows(
    {
        "U8": (("BUY YES 10", None, [(10, 48, 18)], "filled"),) * 2,
        "U9": (("SELL YES 50", None, [(50, 45, 87)], "filled"),) * 2,
        "U10": (
            ("SELL YES 500", None, TWO_LEVELS, "cancelled: remainder"),
            ("SELL YES 500", None, [(100, 45, 174), (200, 40, 337)], "cancelled: remainder"),
        ),
        "U12": (("BUY YES 10 @50", IOC, [(10, 48, 18)], "filled"),) * 2,
        "T1": (
            ("BUY NO 150", None, [(100, 55, 174), (50, 60, 84)], "filled"),
            ("BUY NO 150", None, [(100, 55, 174), (50, 60, 85)], "filled"),
        ),
        "T2": (("BUY YES 80 @49", IOC, [(50, 48, 88)], "cancelled: remainder"),) * 2,
        "T3": (("BUY YES 80 @49", GTC, [(50, 48, 88)], "resting"), ("BUY YES 80 @49", GTC, [(50, 48, 88)], "cancelled: remainder")),
        "T4": (("BUY YES 10 @48", POST_ONLY, [], "rejected: would_cross"),) * 2,
        "T5": (("BUY YES 10 @47", IOC, [], "cancelled: remainder"),) * 2,
        "S4 partial fill across levels": (
            ("SELL YES 150", None, [(100, 45, 174), (50, 40, 84)], "filled"),
            ("SELL YES 150 @41", IOC, [(100, 45, 174)], "cancelled: remainder"),
        ),
        "S6 uncapped market walk": (("BUY YES 1000", None, [(50, 48, 88), (150, 50, 263)], "cancelled: remainder"),) * 2,
        "S15 per-level fee rounding": (("BUY YES 51", None, [(50, 48, 88), (1, 50, 2)], "filled"),) * 2,
    }
)
def test_a_taker_walks_book_a(rules: RuleSet, expected: tuple[str, int | None, list[Any], str]) -> None:
    order, tif, fills, state = expected
    play = Play(book_a(), rules)
    before = play.cents
    number = play.order(order, tif)
    assert (play.fills(), play.state(number)) == (fills, state)
    if rules is REF or order.startswith("BUY"):
        sign = -1 if order.startswith("BUY") else 1
        assert play.cents - before == sum(sign * count * price - fee for count, price, fee in fills)


@row("U9 in cash", 2163)
def test_a_sale_of_what_is_held_brings_its_proceeds(rules: RuleSet, expected: int) -> None:
    play = Play(book_a(), rules)
    play.order("BUY YES 50")
    before = play.cents
    play.order("SELL YES 50")
    assert play.cents - before == expected
    assert play.positions() == [0, 0]


@row("U13", OrderError)
def test_a_limit_order_without_a_price_or_a_size_is_the_agents_error(rules: RuleSet, expected: type[ValueError]) -> None:
    def ask(ctx: AgentContext) -> str:
        for price, lots in ((0, CONTRACT), (45 * CENT, 0)):
            with pytest.raises(expected):
                ctx.place("A", YES, 0, price, lots, "gtc")
        return ctx.place("A", YES, 0, None, CONTRACT, "gtc").status

    assert first_value(book_a(), rules, ask) == "rejected"


@row("T3, what rests", [49, 30], [])
def test_the_rest_of_a_crossing_order_rests_at_its_limit(rules: RuleSet, expected: list[int]) -> None:
    play = Play(book_a().trade(1, "NO", 51, 30), rules)
    number = play.order("BUY YES 80 @49")
    play.end()
    assert play.fills(c.Role.MAKER) == ([(30, 49, 14)] if expected else [])
    assert play.filled(number) == 50 + sum(expected[1:])


@rows(
    {
        "U11": (("BUY YES 10 @40", None, "rejected: would_not_cross"),) * 2,
        "T4, below the ask": (("BUY YES 10 @47", POST_ONLY, "resting"),) * 2,
        "T5, with an expiry": (("BUY YES 10 @47", GTD, "resting"), ("BUY YES 10 @47", GTD, "cancelled: remainder")),
        "T6": (("BUY YES 10", None, "cancelled: remainder"),) * 2,
    }
)
def test_an_order_that_fills_nothing(rules: RuleSet, expected: tuple[str, int | None, str]) -> None:
    order, tif, state = expected
    scene = book_a() if "@" in order else Scene().book(0, {45: 100}, {})
    play = Play(scene, rules, execution="taker_only" if "would_not_cross" in state else "maker_taker")
    number = play.order(order, tif, expires=10**18 if tif == GTD else 0)
    assert (play.state(number), play.fills()) == (state, [])


@rows(
    {
        "T7": ([(50, 48, 88), (50, 50, 88)], [(50, 48, 88), (50, 48, 88)]),
        "S5 liquidity reuse": ([(50, 48, 88), (50, 50, 88)], [(50, 48, 88), (50, 48, 88)]),
    }
)
def test_what_an_order_took_is_gone_for_the_next(rules: RuleSet, expected: list[Any]) -> None:
    play = Play(book_a(), rules)
    play.order("BUY YES 50")
    play.order("BUY YES 50")
    assert play.fills() == expected


@row("T8", Decimal("0.15"))
def test_slippage_is_what_was_paid_beyond_the_middle(rules: RuleSet, expected: Decimal) -> None:
    backtest = traded(book_a(), rules, lambda ctx: ctx.buy("A", YES, 10 * CONTRACT) and None)
    assert metrics(backtest)["slippage"] == expected


@row("T9", ["rejected: no_book"], [])
def test_an_order_before_the_first_book_is_rejected(rules: RuleSet, expected: list[str]) -> None:
    scene = Scene(tickers=2).book(0, *BOOK_A, ticker=1)
    play = Play(scene, rules)
    number = play.order("BUY YES 10")
    assert [play.state(order) for order in range(len(play.session.orders))] == expected
    assert number == (0 if expected else -1)


@rows(
    {
        "T10": (([0, 10], -550 - 18), ([-10, 0], 450 - 18)),
        "S9 negative cash": (([0, 10], -550 - 18), ([-10, 0], 450 - 18)),
    }
)
def test_a_sale_of_what_is_not_held_is_paid_for(rules: RuleSet, expected: tuple[list[int], int]) -> None:
    play = Play(book_a(), rules)
    before = play.cents
    play.order("SELL YES 10")
    assert (play.positions(), play.cents - before) == expected


@row("T10, without the money", "rejected: insufficient_cash", "filled")
def test_nothing_trades_on_money_it_does_not_have(rules: RuleSet, expected: str) -> None:
    for order in ("SELL YES 10", "BUY YES 10"):
        play = Play(book_a(), rules, bankroll=4 * MICROS)
        assert play.state(play.order(order)) == expected
        assert (play.session.cash >= 0) == (expected != "filled" or order.startswith("SELL"))


def test_who_has_put_all_cash_into_contracts_can_offer_them() -> None:
    play = Play(Scene().book(0, {}, {50: 100}).trade(3, "YES", 60, 100).until(5), RIGHT, bankroll=51_750_000)
    play.order("BUY YES 100")
    assert play.cents == 0
    number = play.order("SELL YES 100 @60")
    assert (play.state(number), play.session.available) == ("resting", 0)
    play.end()
    assert (play.positions(), play.cents) == ([0, 0], 6000 - 42)


# Money


@rows({"U14": ((9499, 10),) * 2, "U15": ((9773, 5),) * 2})
def test_cash_after_a_purchase_and_a_sale(rules: RuleSet, expected: tuple[int, int]) -> None:
    cash, held = expected
    scene = Scene().book(0, {55: 5}, {50: 10})
    play = Play(scene, rules, a_cent_a_fill(scene, rules), bankroll=100 * MICROS)
    play.order("BUY YES 10")
    if held == 5:
        play.order("SELL YES 5")
        assert play.end().session.result().realised == 250_000
    assert (play.positions(), play.cents) == ([held, 0], cash)


@pytest.mark.parametrize("result", ["YES", "NO"])
@row("U16", {"YES": 1000, "NO": 0})
def test_settlement_pays_the_winners(rules: RuleSet, expected: dict[str, int], result: str) -> None:
    scene = Scene().book(0, {30: 1}, {60: 10}).settle(5, result)
    play = Play(scene, rules, without_fees(scene, rules))
    play.order("BUY YES 10")
    before = play.cents
    play.end()
    assert (play.cents - before, play.positions()) == (expected[result], [0, 0])


@row("U17", 450)
def test_a_long_position_is_marked_at_the_bid(rules: RuleSet, expected: int) -> None:
    play = Play(book_a(), rules)
    play.order("BUY YES 10")
    assert play.equity - play.cents == expected


@row("U18", 0.8)
def test_the_fill_ratio_of_a_partial_fill(rules: RuleSet, expected: float) -> None:
    scene = Scene().book(0, {45: 100}, {52: 80})
    backtest = traded(scene, rules, lambda ctx: ctx.buy("A", YES, 100 * CONTRACT) and None)
    assert metrics(backtest)["fill_ratio"] == expected


# Queues: YES bid 45 shows 100, the order is GTC BUY YES 10 @45


def _queued(rules: RuleSet, *trades: tuple[float, str, int, int], order: str = "BUY YES 10 @45", **settings: Any) -> tuple[Play, int]:
    scene = book_a()
    for trade in trades:
        scene.trade(*trade)
    play = Play(scene.until(90), rules, **settings)
    return play, play.order(order)


@rows({"Q1": ((0, 40), (0, 40)), "S1 queue position": ((0, 40), (0, 40))})
def test_prints_take_what_is_ahead_first(rules: RuleSet, expected: tuple[int, int]) -> None:
    play, number = _queued(rules, (10, "NO", 55, 60))
    play.go(20)
    assert (play.filled(number), play.ahead(number)) == expected


@rows({"Q2": ([(10, 45, 5)], [(10, 45, 5)]), "S2 resting GTC": ([(10, 45, 5)], [(10, 45, 5)])})
def test_an_order_fills_once_its_turn_has_come(rules: RuleSet, expected: list[Any]) -> None:
    play, number = _queued(rules, (10, "NO", 55, 60), (11, "NO", 55, 60))
    play.end()
    assert (play.fills(), play.ahead(number), play.state(number)) == (expected, 0, "filled")


@row("Q3", {56: [(10, 45, 5)], 54: []}, {56: [], 54: []})
def test_a_print_through_the_price_fills(rules: RuleSet, expected: dict[int, list[Any]]) -> None:
    for price, fills in expected.items():
        play, _ = _queued(rules, (10, "NO", price, 500))
        assert play.end().fills() == fills


@row("Q4", [])
def test_a_print_against_the_other_side_does_nothing(rules: RuleSet, expected: list[Any]) -> None:
    play, number = _queued(rules, (10, "YES", 55, 500))
    assert (play.end().fills(), play.ahead(number)) == (expected, 100)


@pytest.mark.parametrize("queue", ["trade_only", "reconciled"])
@row("Q5", {"trade_only": [100, 100], "reconciled": [30, 30]})
def test_a_smaller_display_moves_an_order_up_only_when_reconciled(rules: RuleSet, expected: dict[str, list[int]], queue: str) -> None:
    yes, no = BOOK_A
    scene = book_a().book(10, {**yes, 45: 30}, no).book(20, {**yes, 45: 200}, no)
    play = Play(scene, rules, queue=queue)
    number = play.order("BUY YES 10 @45")
    ahead = [play.go(10).ahead(number), play.go(20).ahead(number)]
    assert ahead == expected[queue]


@row("Q6", (10, 0), (10, 2))
def test_a_later_order_of_ones_own_waits_for_what_came_between(rules: RuleSet, expected: tuple[int, int]) -> None:
    yes, no = BOOK_A
    scene = book_a().book(10, {**yes, 45: 500}, no).trade(20, "NO", 55, 112).until(30)
    play = Play(scene, rules)
    first = play.order("BUY YES 10 @45")
    second = play.go(10).order("BUY YES 5 @45")
    if rules is RIGHT:
        assert play.ahead(second) - play.ahead(first) >= 400
    play.end()
    assert (play.filled(first), play.filled(second)) == expected


@row("Q7", [(10, 46, 5)], [])
def test_an_order_inside_the_spread_fills_before_worse_prices(rules: RuleSet, expected: list[Any]) -> None:
    play, _ = _queued(rules, (10, "NO", 55, 200), order="BUY YES 10 @46")
    assert play.end().fills() == expected


@row("Q8", 595, 395)
def test_a_makers_sale_is_booked_at_its_own_price(rules: RuleSet, expected: int) -> None:
    scene = book_a().trade(10, "YES", 60, 10).until(20)
    play = Play(scene, rules)
    play.order("BUY YES 10")
    before = play.cents
    play.order("SELL YES 10 @60")
    play.end()
    assert play.cents - before == expected
    assert play.fills(c.Role.MAKER)[0][2] == 5


@row("Q9", (1.0, [2, 3]), (0.5, [2, 3]))
def test_two_fills_of_one_order_pay_two_fees_and_count_once(rules: RuleSet, expected: tuple[float, list[int]]) -> None:
    yes = {44: 1}
    scene = Scene().book(0, yes, {52: 50}).trade(10, "NO", 55, 4).trade(11, "NO", 55, 6).book(20, yes, {52: 50})

    def once(ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy("A", YES, 10 * CONTRACT, 45 * CENT)

    backtest = traded(scene, rules, once)
    fees = [fee // 10_000 for fee in backtest.outcome.fills[:, c.F_FEE].tolist()]
    assert (metrics(backtest)["fill_ratio"], fees) == expected


@row("Q10", (True, 0, False), (True, 0, True))
def test_a_cancelled_order_never_fills_and_a_filled_one_cannot_be_cancelled(rules: RuleSet, expected: tuple[bool, int, bool]) -> None:
    play, number = _queued(rules, (10, "NO", 55, 500))
    cancelled = play.session.cancel(number)
    filled = play.end().filled(number)
    scene = book_a().trade(10, "NO", 55, 500).until(20)
    other = Play(scene, rules)
    second = other.order("BUY YES 10 @45")
    other.go(20)
    assert other.state(second) == "filled"
    assert (cancelled, filled, other.session.cancel(second)) == expected


@rows({"Q11": (0, 10), "S11 book before trade at one time": (0, 10)})
def test_a_print_at_the_instant_of_arrival_does_not_fill(rules: RuleSet, expected: int) -> None:
    scene = Scene().book(0, {44: 100}, {52: 50}).trade(0, "NO", 55, 50).book(5, {44: 100}, {52: 50})
    play = Play(scene, rules)
    number = play.order("BUY YES 10 @45")
    assert play.end().filled(number) == expected


@row("Q12", ("cancelled: closed", [(10, 48, 18)], [0, 0]))
def test_settlement_cancels_what_rests(rules: RuleSet, expected: tuple[str, list[Any], list[int]]) -> None:
    play = Play(book_a().settle(10, "YES").trade(11, "NO", 55, 500), rules)
    play.order("BUY YES 10")
    number = play.order("BUY YES 10 @45")
    play.end()
    assert (play.state(number), play.fills(), play.positions()) == expected


@row("Q13", [(10, 45, 5)], [])
def test_a_book_that_comes_to_a_resting_order_fills_it(rules: RuleSet, expected: list[Any]) -> None:
    scene = book_a().book(10, {43: 100}, {56: 70})
    play = Play(scene, rules)
    play.order("BUY YES 10 @45")
    assert play.end().fills() == expected


# The harness


def _in_any_order(folder: Path, order: int) -> Any:
    """Return an episode in which a book row, a trade and a settlement have one time."""
    native = Native()
    native.metadata["markets"][0]["lifecycle"] = []
    native.metadata["markets"][0]["close_time"] = "2026-01-20T00:00:05Z"
    native.settlement["KXTEST-A"]["settled_ts"] = "2026-01-20T00:00:05Z"
    native.book = [entry for entry in native.book if entry[2] == "KXTEST-A" and entry[0] <= 5]
    native.trades = native.trades[:1]
    if order:
        native.settlement = dict(reversed(native.settlement.items()))
    return load(native.write(folder))


@pytest.mark.parametrize("order", [0, 1])
@row("H1", None)
def test_book_trade_and_settlement_of_one_time_in_this_order(rules: RuleSet, expected: None, order: int, tmp_path: Path) -> None:
    tape = prepare(_in_any_order(tmp_path / "episode", order), rules).tape
    kinds, *_ = unpack(tape.event)
    last = tape.ts == tape.ts[kinds == PRINT][0]
    at_once = [kind for kind in kinds[last].tolist() if kind in (LEVEL, TRADED, PRINT, SETTLE)]
    # A correct engine knows the cut of the print, and puts the print before it.
    assert at_once == ([PRINT, TRADED, SETTLE] if rules is RIGHT else [LEVEL, PRINT, SETTLE])


def _calls(rules: RuleSet, *seconds: float) -> list[float]:
    scene = Scene()
    for number, second in enumerate(seconds):
        scene.book(second, {45: 100 + number}, {52: 50})
    play = Play(scene, rules, cadence=5 * SECOND)
    calls = [play.session.now / SECOND]
    while play.session.step():
        calls.append(play.session.now / SECOND)
    return calls


@rows({"H2": ((0, 3, 5, 9, 10), (0, 3, 5, 9, 10))})
def test_decisions_every_five_seconds(rules: RuleSet, expected: tuple[float, ...]) -> None:
    assert _calls(rules, *expected) == [0, 5, 10]


@row("H3", {(0, 7): [0, 5], (0, 7, 11): [0, 5, 10], (0, 7, 12): [0, 5, 10]}, {(0, 7): [0, 7], (0, 7, 11): [0, 7], (0, 7, 12): [0, 7, 12]})
def test_decisions_are_on_the_grid_or_at_book_rows(rules: RuleSet, expected: dict[tuple[float, ...], list[float]]) -> None:
    assert {seconds: _calls(rules, *seconds) for seconds in expected} == expected


@rows({"H4": (("rejected: settled", 0), ("filled", 10)), "S13 settlement at close time": (("rejected: settled", 0), ("filled", 10))})
def test_nothing_trades_after_settlement(rules: RuleSet, expected: tuple[str, int]) -> None:
    scene = Scene(tickers=2).book(0, *BOOK_A).book(0, *BOOK_A, ticker=1).settle(5, "NO").until(10, ticker=1)
    play = Play(scene, rules)
    play.order("BUY YES 10")
    before = play.cents
    number = play.go(6).order("BUY YES 10")
    assert play.cents - before == (0 if rules is RIGHT else -498)
    assert (play.state(number), play.positions()[YES]) == expected


@rows({"H5": (0, 500), "S12 mark with missing bid": (0, 500)})
def test_a_position_without_a_bid_is_worth_nothing(rules: RuleSet, expected: int) -> None:
    play = Play(Scene().book(0, {}, {97: 10}), rules)
    play.order("BUY YES 10")
    assert play.equity - play.cents == expected


@row("H6", 0.1)
def test_the_maximum_drawdown_is_the_largest_fall_from_the_peak(rules: RuleSet, expected: float) -> None:
    assert max_drawdown(np.array([100_000, 110_000, 99_000, 105_000]) * 10_000) == pytest.approx(expected, rel=1e-15)


@row("H7", (None, 0.0))
def test_a_flat_curve_has_no_sharpe_ratio(rules: RuleSet, expected: tuple[None, float]) -> None:
    scene = Scene().book(0, *BOOK_A).book(600, *BOOK_A).book(601, {45: 1}, {52: 1})
    found = metrics(traded(scene, rules, lambda ctx: None))
    assert (found["sharpe"], found["max_drawdown"]) == expected
    ts = np.arange(10) * 60 * SECOND
    assert sharpe(ts, np.full(10, 10**9), 60 * SECOND).ratio is None


@pytest.mark.parametrize("name", ["H8", "S10 multi-bracket settlement"])
def test_an_event_with_two_winners_is_refused(name: str, tmp_path: Path) -> None:
    native = Native()
    native.settlement["KXTEST-B"].update(result="YES", value="1")
    with pytest.raises(SchemaError, match=r"KXTEST-A.*KXTEST-B.*YES"):
        load(native.write(tmp_path / name))


# Findings of the survey without an acceptance row


@row("S7 zero latency", {0: [(10, 48, 18)], SECOND: []})
def test_latency_is_a_setting_and_a_late_order_meets_the_book_of_its_arrival(rules: RuleSet, expected: dict[int, list[Any]]) -> None:
    for latency, fills in expected.items():
        play = Play(book_a().book(1, {45: 100}, {50: 150}).until(3), rules, order_latency=latency)
        play.order("BUY YES 10 @48", IOC)
        assert play.end().fills() == fills


@pytest.mark.parametrize("name", ["S8 stale book"])
def test_a_book_that_is_not_to_be_trusted_is_not_traded(name: str) -> None:
    scene = book_a().say(1, INVALID, 0, YES, 0, 0).say(3, VALID, 0, YES, 0, 0).book(5, {45: 1}, {52: 1})
    play = Play(scene, RIGHT)
    states = [play.state(play.go(second).order("BUY YES 1")) for second in (0, 1, 2, 3)]
    assert states == ["filled", "rejected: invalid_book", "rejected: invalid_book", "filled"]


@pytest.mark.parametrize("name", ["S16 swallowed agent errors"])
def test_an_error_of_the_agent_ends_its_episode_and_is_kept(name: str) -> None:
    def act(ctx: AgentContext) -> None:
        ctx.buy("A", YES, CONTRACT, 40 * CENT)
        raise ZeroDivisionError("by nothing")

    backtest = traded(book_a().book(5, *BOOK_A).settle(9, "YES"), RIGHT, act)
    assert str(backtest.failure) == "ZeroDivisionError: by nothing"
    assert backtest.outcome.orders[:, c.O_REASON].tolist() == [c.Reason.AGENT]
    assert len(backtest.outcome.orders) == 1


@pytest.mark.parametrize("name", ["B17 halts"])
def test_a_halt_rejects_orders_and_keeps_what_rests(name: str) -> None:
    scene = book_a().say(1, HALT, 0, YES, 0, 0).say(3, OPEN, 0, YES, 0, 0).book(5, {45: 1}, {52: 1})
    play = Play(scene, RIGHT)
    resting = play.order("BUY YES 1 @40")
    assert [play.state(play.go(second).order("BUY YES 1")) for second in (1, 3)] == ["rejected: halted", "filled"]
    assert play.state(resting) == "resting"


def test_every_row_of_the_specification_is_here() -> None:
    elsewhere = {"H8", "H9", "S8", "S10", "S16"}
    ids = {name.split(" ")[0].rstrip(",") for name in COVERED} | elsewhere
    wanted = {f"U{n}" for n in range(1, 19)} | {f"T{n}" for n in range(1, 11)} | {f"Q{n}" for n in range(1, 14)}
    wanted |= {f"H{n}" for n in range(1, 10)} | {f"S{n}" for n in range(1, 17)}
    assert ids >= wanted
