"""Acceptance rows of the original benchmark's specification, by id, for a correct engine. Books, orders and results are in cents and contracts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.replay import AgentContext, Backtest, BacktestSettings, load, prepare, run
from bellwether.replay.engine import Session
from bellwether.replay.engine import codes as c
from bellwether.replay.results.metrics import metrics
from bellwether.replay.rules import fee_terms, rule_set
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, TRADED, Tape, pack, unpack
from bellwether.replay.units import BUY, CENT, CENT_MICROS, CONTRACT, MICROS, NO, SECOND, SELL, YES
from bellwether.units import CentiCents, Lots
from tests.unit.replay.agents.scenes import Scripted
from tests.unit.replay.episode.folders import Native

IOC, GTC, POST_ONLY, _, GTD = c.Tif
#: Rules with fees in whole cents.
RULES = rule_set("kalshi-2025-07-01")
FEES = {"type": "quadratic_with_maker_fees"}
SIDES, ACTIONS = {"YES": YES, "NO": NO}, {"BUY": BUY, "SELL": SELL}
Levels = dict[int, int]
BOOK_A: tuple[Levels, Levels] = ({45: 100, 40: 200}, {52: 50, 50: 150})
Fills = list[tuple[float, float, float]]


@dataclass
class Scene:
    """Recorded events of one or two markets, in seconds, cents and contracts."""

    tickers: int = 1
    events: list[tuple[float, int]] = field(default_factory=list)
    shown: dict[tuple[int, int], Levels] = field(default_factory=dict)

    def book(self, at: float, yes: Levels, no: Levels, ticker: int = 0) -> Scene:
        """Record the whole book of a market."""
        for side, levels in ((YES, yes), (NO, no)):
            before = self.shown.get((ticker, side), {})
            for price in sorted({*before, *levels}):
                if before.get(price, 0) != levels.get(price, 0):
                    self.say(at, LEVEL, ticker, side, price, levels.get(price, 0) * CONTRACT)
            self.shown[ticker, side] = levels
        return self

    def until(self, at: float, ticker: int = 0) -> Scene:
        """Extend the recording to this second, with a bid for one contract at a cent."""
        return self.say(at, LEVEL, ticker, YES, 1, CONTRACT)

    def trade(self, at: float, taker: str, price: int, count: int) -> Scene:
        """Record a print: the taker bought `count` of that side at `price`, from bids for the other side."""
        return self.say(at, PRINT, 0, 1 - SIDES[taker], 100 - price, count * CONTRACT)

    def settle(self, at: float, result: str) -> Scene:
        self.say(at, CLOSE, 0, YES, 0, 0)
        return self.say(at, SETTLE, 0, YES, 0, MICROS if result == "YES" else 0)

    def say(self, at: float, kind: int, ticker: int, side: int, price: int, value: int) -> Scene:
        self.events.append((at, pack(kind, ticker, side, price, value)))
        return self

    def tape(self) -> Tape:
        return Tape(
            ts=np.array([round(at * SECOND) for at, _ in self.events], np.int64),
            event=np.array([word for _, word in self.events], np.int64),
            tickers=tuple("AB"[: self.tickers]),
            start=0,
            end=round(self.events[-1][0] * SECOND),
            fees=np.array([fee_terms(RULES, FEES)] * self.tickers, np.int64),
        )


def book_a() -> Scene:
    """Return a scene with book A at second 0."""
    return Scene().book(0, *BOOK_A)


class Play:
    """A replay at its first decision, to be continued by `order` and similar methods, `go` and `end`."""

    def __init__(self, scene: Scene, fees: tuple[int, ...] | None = None, **settings: Any) -> None:
        chosen = {"cadence": SECOND, "bankroll": 1000 * MICROS, "queue": "trade_only", **settings}
        tape = scene.tape() if fees is None else replace(scene.tape(), fees=np.array([fees], np.int64))
        self.session = Session(tape, RULES, BacktestSettings(**chosen))
        assert self.session.step()

    def order(self, order: str, tif: int | None = None, expires: int = 0) -> int:
        """Send "BUY YES 10" or "BUY YES 10 @50". The default `tif` is IOC for a market order and GTC for a limit order."""
        action, side, count, *price = order.replace("@", "").split()
        limit = CentiCents(int(price[0]) * CENT if price else 0)
        tif = (GTC if price else IOC) if tif is None else tif
        return self.session.place(0, SIDES[side], ACTIONS[action], limit, Lots(int(count) * CONTRACT), tif, expires)

    def go(self, to: float) -> Play:
        """Advance to the first decision at this second or later."""
        while self.session.now < to * SECOND:
            assert self.session.step()
        return self

    def end(self) -> Play:
        while self.session.step():
            pass
        return self

    def fills(self, role: c.Role | None = None) -> Fills:
        """Return (contracts, price in cents of the side as sent, fee in cents) of each fill."""
        rows = [row for row in self.session.fills if role is None or row["role"] == role]
        return [(row["lots"] / CONTRACT, row["price"] / CENT, row["fee"] / CENT_MICROS) for row in rows]

    def state(self, order: int) -> str:
        """Return status and reason of an order."""
        row = self.session.orders[order]
        reason = c.Reason(row["reason"])
        return c.Status(row["status"]).name.lower() + (f": {reason.name.lower()}" if reason else "")

    def filled(self, order: int) -> float:
        return int(self.session.orders["filled"][order]) / CONTRACT

    def ahead(self, order: int) -> float:
        """Return the contracts ahead of a resting order."""
        return int(self.session.orders["ahead"][order]) / CONTRACT

    def positions(self) -> list[float]:
        return [lots / CONTRACT for lots in self.session.positions[0].tolist()]

    @property
    def cents(self) -> float:
        """Return cash in cents."""
        return self.session.cash / CENT_MICROS

    @property
    def equity(self) -> float:
        return self.session.equity() / CENT_MICROS


def traded(scene: Scene, what: Callable[[AgentContext], None]) -> Backtest:
    """Return the backtest of a function that acts at every decision."""
    settings = BacktestSettings(rules=RULES.name, cadence=SECOND, bankroll=1000 * MICROS, queue="trade_only")
    return run(scene.tape(), Scripted(what), settings)


# Takers: fills of an order in book A, its money and its state

#: Row -> order, time in force, fills, state.
TAKERS: dict[str, tuple[str, int | None, Fills, str]] = {
    "U8": ("BUY YES 10", None, [(10, 48, 18)], "filled"),
    "U9": ("SELL YES 50", None, [(50, 45, 87)], "filled"),
    "U10": ("SELL YES 500", None, [(100, 45, 174), (200, 40, 336)], "cancelled: remainder"),
    "U12": ("BUY YES 10 @50", IOC, [(10, 48, 18)], "filled"),
    "T1": ("BUY NO 150", None, [(100, 55, 174), (50, 60, 84)], "filled"),
    "T2": ("BUY YES 80 @49", IOC, [(50, 48, 88)], "cancelled: remainder"),
    "T3": ("BUY YES 80 @49", GTC, [(50, 48, 88)], "resting"),
    "T4": ("BUY YES 10 @48", POST_ONLY, [], "rejected: would_cross"),
    "T4, below the ask": ("BUY YES 10 @47", POST_ONLY, [], "resting"),
    "T5": ("BUY YES 10 @47", IOC, [], "cancelled: remainder"),
    "T5, with an expiry": ("BUY YES 10 @47", GTD, [], "resting"),
    "S4": ("SELL YES 150", None, [(100, 45, 174), (50, 40, 84)], "filled"),
    "S6": ("BUY YES 1000", None, [(50, 48, 88), (150, 50, 263)], "cancelled: remainder"),
    "S15": ("BUY YES 51", None, [(50, 48, 88), (1, 50, 2)], "filled"),
}


@pytest.mark.parametrize("row", TAKERS)
def test_a_taker_walks_book_a(row: str) -> None:
    order, tif, fills, state = TAKERS[row]
    play = Play(book_a())
    before = play.cents
    number = play.order(order, tif, expires=10**18 if tif == GTD else 0)
    assert (play.fills(), play.state(number)) == (fills, state)
    if order.startswith("BUY"):
        assert play.cents - before == -sum(count * price + fee for count, price, fee in fills)


def test_a_sale_of_what_is_held_brings_its_proceeds_u9() -> None:
    play = Play(book_a())
    play.order("BUY YES 50")
    before = play.cents
    play.order("SELL YES 50")
    assert (play.cents - before, play.positions()) == (2163, [0, 0])


def test_orders_that_cannot_trade_u11_t6_t9() -> None:
    play = Play(book_a(), execution="taker_only")
    assert play.state(play.order("BUY YES 10 @40")) == "rejected: would_not_cross"
    play = Play(Scene().book(0, {45: 100}, {}))
    assert play.state(play.order("BUY YES 10")) == "cancelled: remainder"
    play = Play(Scene(tickers=2).book(0, *BOOK_A, ticker=1))
    assert play.state(play.order("BUY YES 10")) == "rejected: no_book"


def test_the_rest_of_a_crossing_order_rests_at_its_limit_t3() -> None:
    play = Play(book_a().trade(1, "NO", 51, 30))
    number = play.order("BUY YES 80 @49")
    assert (play.end().fills(c.Role.MAKER), play.filled(number)) == ([(30, 49, 14)], 80)


def test_what_an_order_took_is_gone_for_the_next_t7() -> None:
    play = Play(book_a())
    play.order("BUY YES 50")
    play.order("BUY YES 50")
    assert play.fills() == [(50, 48, 88), (50, 50, 88)]


# Money


def test_a_sale_of_what_is_not_held_buys_the_other_side_t10() -> None:
    play = Play(book_a())
    before = play.cents
    play.order("SELL YES 10")
    assert (play.positions(), play.cents - before) == ([0, 10], -550 - 18)
    for order in ("SELL YES 10", "BUY YES 10"):
        poor = Play(book_a(), bankroll=4 * MICROS)
        assert poor.state(poor.order(order)) == "rejected: insufficient_cash"
        assert poor.session.cash == 4 * MICROS


def test_who_has_put_all_cash_into_contracts_can_offer_them() -> None:
    play = Play(Scene().book(0, {}, {50: 100}).trade(3, "YES", 60, 100).until(5), bankroll=51_750_000)
    play.order("BUY YES 100")
    assert play.cents == 0
    number = play.order("SELL YES 100 @60")
    assert (play.state(number), play.session.available) == ("resting", 0)
    play.end()
    assert (play.positions(), play.cents) == ([0, 0], 6000 - 42)


def test_cash_after_a_purchase_and_a_sale_u14_u15() -> None:
    # Takers pay one cent per fill of any size.
    play = Play(Scene().book(0, {55: 5}, {50: 10}), fees=(1, 1, 10**12, 0, 0, 1, 0), bankroll=100 * MICROS)
    play.order("BUY YES 10")
    assert (play.positions(), play.cents) == ([10, 0], 9499)
    play.order("SELL YES 5")
    assert play.end().session.result().realised == 250_000
    assert (play.positions(), play.cents) == ([5, 0], 9773)


@pytest.mark.parametrize(("result", "paid"), [("YES", 1000), ("NO", 0)])
def test_settlement_pays_the_winners_u16(result: str, paid: int) -> None:
    play = Play(Scene().book(0, {30: 1}, {60: 10}).settle(5, result), fees=(0, 0, 1, 0, 0, 1, 0))
    play.order("BUY YES 10")
    before = play.cents
    play.end()
    assert (play.cents - before, play.positions()) == (paid, [0, 0])


def test_a_long_position_is_marked_at_the_bid_and_at_nothing_without_one_u17_h5() -> None:
    for scene, worth in ((book_a(), 450), (Scene().book(0, {}, {97: 10}), 0)):
        play = Play(scene)
        play.order("BUY YES 10")
        assert play.equity - play.cents == worth


# Queues: YES bid 45 shows 100, the order is GTC BUY YES 10 @45


def queued(*trades: tuple[float, str, int, int], order: str = "BUY YES 10 @45", **settings: Any) -> tuple[Play, int]:
    scene = book_a()
    for trade in trades:
        scene.trade(*trade)
    play = Play(scene.until(90), **settings)
    return play, play.order(order)


#: Row -> order, prints (taker, price, contracts), fills, contracts ahead at the end.
PRINTS: dict[str, tuple[str, list[tuple[str, int, int]], Fills, int]] = {
    "Q1": ("BUY YES 10 @45", [("NO", 55, 60)], [], 40),
    "Q2": ("BUY YES 10 @45", [("NO", 55, 60), ("NO", 55, 60)], [(10, 45, 5)], 0),
    "Q3, through": ("BUY YES 10 @45", [("NO", 56, 500)], [(10, 45, 5)], 0),
    "Q3, above": ("BUY YES 10 @45", [("NO", 54, 500)], [], 100),
    "Q4": ("BUY YES 10 @45", [("YES", 55, 500)], [], 100),
    "Q7": ("BUY YES 10 @46", [("NO", 55, 200)], [(10, 46, 5)], 0),
}


@pytest.mark.parametrize("row", PRINTS)
def test_prints_take_what_is_ahead_first(row: str) -> None:
    order, prints, fills, ahead = PRINTS[row]
    play, number = queued(*((10 + at, *one) for at, one in enumerate(prints)), order=order)
    play.end()
    assert (play.fills(), play.ahead(number)) == (fills, ahead)


def test_a_later_order_of_ones_own_waits_for_what_came_between_q6() -> None:
    yes, no = BOOK_A
    play = Play(book_a().book(10, {**yes, 45: 500}, no).trade(20, "NO", 55, 112).until(30))
    first = play.order("BUY YES 10 @45")
    second = play.go(10).order("BUY YES 5 @45")
    assert play.ahead(second) - play.ahead(first) >= 400
    play.end()
    assert (play.filled(first), play.filled(second)) == (10, 0)


def test_a_makers_sale_is_booked_at_its_own_price_q8() -> None:
    play = Play(book_a().trade(10, "YES", 60, 10).until(20))
    play.order("BUY YES 10")
    before = play.cents
    play.order("SELL YES 10 @60")
    assert (play.end().cents - before, play.fills(c.Role.MAKER)[0][2]) == (595, 5)


def test_two_fills_of_one_order_pay_two_fees_and_count_once_q9() -> None:
    scene = Scene().book(0, {44: 1}, {52: 50}).trade(10, "NO", 55, 4).trade(11, "NO", 55, 6).until(20)

    def once(ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy("A", YES, 10 * CONTRACT, 45 * CENT)

    backtest = traded(scene, once)
    assert metrics(backtest)["fill_ratio"] == 1.0
    assert (backtest.outcome.fills["fee"] // CENT_MICROS).tolist() == [2, 3]


def test_a_cancelled_order_never_fills_and_a_filled_one_cannot_be_cancelled_q10() -> None:
    play, number = queued((10, "NO", 55, 500))
    assert play.session.cancel(number)
    assert play.end().filled(number) == 0
    other, second = queued((10, "NO", 55, 500))
    assert other.go(20).state(second) == "filled"
    assert not other.session.cancel(second)


def test_a_print_at_the_instant_of_arrival_does_not_fill_q11() -> None:
    play = Play(Scene().book(0, {44: 100}, {52: 50}).trade(0, "NO", 55, 50).until(5))
    number = play.order("BUY YES 10 @45")
    assert play.end().filled(number) == 0


def test_settlement_cancels_what_rests_q12() -> None:
    play = Play(book_a().settle(10, "YES").trade(11, "NO", 55, 500))
    play.order("BUY YES 10")
    number = play.order("BUY YES 10 @45")
    play.end()
    assert (play.state(number), play.fills(), play.positions()) == ("cancelled: closed", [(10, 48, 18)], [0, 0])


def test_a_book_that_comes_to_a_resting_order_fills_it_q13() -> None:
    play = Play(book_a().book(10, {43: 100}, {56: 70}))
    play.order("BUY YES 10 @45")
    assert play.end().fills() == [(10, 45, 5)]


# The harness


@pytest.mark.parametrize("order", [0, 1])
def test_book_trade_and_settlement_of_one_time_in_this_order_h1(order: int, tmp_path: Path) -> None:
    native = Native()
    native.metadata["markets"][0]["lifecycle"] = []
    native.metadata["markets"][0]["close_time"] = "2026-01-20T00:00:05Z"
    native.settlement["KXTEST-A"]["at"] = "2026-01-20T00:00:05Z"
    native.book = [entry for entry in native.book if entry[2] == "KXTEST-A" and entry[0] <= 5]
    native.trades = native.trades[:1]
    if order:
        native.settlement = dict(reversed(native.settlement.items()))
    tape = prepare(load(native.write(tmp_path / "episode")), RULES).tape
    kinds, *_ = unpack(tape.event)
    last = kinds[tape.ts == tape.ts[kinds == PRINT][0]].tolist()
    # The cut of the print is known, and the print precedes it.
    assert [kind for kind in last if kind in (LEVEL, TRADED, PRINT, SETTLE)] == [PRINT, TRADED, SETTLE]


def test_nothing_trades_after_settlement_h4() -> None:
    play = Play(Scene(tickers=2).book(0, *BOOK_A).book(0, *BOOK_A, ticker=1).settle(5, "NO").until(10, ticker=1))
    play.order("BUY YES 10")
    before = play.cents
    number = play.go(6).order("BUY YES 10")
    assert (play.state(number), play.positions()[YES], play.cents - before) == ("rejected: settled", 0, 0)


# Findings of the survey without an acceptance row


@pytest.mark.parametrize(("latency", "fills"), [(0, [(10, 48, 18)]), (SECOND, [])])
def test_a_late_order_meets_the_book_of_its_arrival_s7(latency: int, fills: Fills) -> None:
    play = Play(book_a().book(1, {45: 100}, {50: 150}).until(3), order_latency=latency)
    play.order("BUY YES 10 @48", IOC)
    assert play.end().fills() == fills
