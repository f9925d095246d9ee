"""Scenes for the original benchmark's acceptance rows. Books, orders and results are in cents and contracts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bellwether.replay.engine import ReplaySettings, Session
from bellwether.replay.engine import codes as c
from bellwether.replay.engine.state import ORDER
from bellwether.replay.rules import RuleSet, fee_terms, rule_set
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape, pack
from bellwether.replay.units import BUY, CENT, CENT_MICROS, CONTRACT, MAX_LOTS, MICROS, NO, SECOND, SELL, YES
from bellwether.units import CentiCents, Lots

#: The settings of a correct engine with fees in whole cents, and those of the original.
RIGHT, REF = rule_set("kalshi-2025-07-01"), rule_set("pmb-2026-01")
FEES = {"type": "quadratic_with_maker_fees"}
SIDES, ACTIONS = {"YES": YES, "NO": NO}, {"BUY": BUY, "SELL": SELL}
Levels = dict[int, int]
BOOK_A: tuple[Levels, Levels] = ({45: 100, 40: 200}, {52: 50, 50: 150})


@dataclass
class Scene:
    """Recorded events of one or two markets, in seconds, cents and contracts."""

    tickers: int = 1
    events: list[tuple[float, int]] = field(default_factory=list)
    rows: list[tuple[float, int]] = field(default_factory=list)
    shown: dict[tuple[int, int], Levels] = field(default_factory=dict)

    def book(self, at: float, yes: Levels, no: Levels, ticker: int = 0) -> Scene:
        """Record the whole book of a market."""
        for side, levels in ((YES, yes), (NO, no)):
            before = self.shown.get((ticker, side), {})
            for price in sorted({*before, *levels}):
                if before.get(price, 0) != levels.get(price, 0):
                    self.say(at, LEVEL, ticker, side, price, levels.get(price, 0) * CONTRACT)
            self.shown[ticker, side] = levels
        self.rows.append((at, len(self.events)))
        return self

    def until(self, at: float, ticker: int = 0) -> Scene:
        """Extend the recording to this second, with a bid for one contract at a cent."""
        self.say(at, LEVEL, ticker, YES, 1, CONTRACT)
        self.rows.append((at, len(self.events)))
        return self

    def trade(self, at: float, taker: str, price: int, count: int, ticker: int = 0) -> Scene:
        """Record a print: the taker bought `count` of that side at `price`, from bids for the other side."""
        return self.say(at, PRINT, ticker, 1 - SIDES[taker], 100 - price, count * CONTRACT)

    def settle(self, at: float, result: str, ticker: int = 0) -> Scene:
        self.say(at, CLOSE, ticker, YES, 0, 0)
        return self.say(at, SETTLE, ticker, YES, 0, MICROS if result == "YES" else 0)

    def say(self, at: float, kind: int, ticker: int, side: int, price: int, value: int) -> Scene:
        assert value <= MAX_LOTS
        self.events.append((at, pack(kind, ticker, side, price, value)))
        return self

    def tape(self, rules: RuleSet, fees: dict[str, Any] | None = None) -> Tape:
        terms = fee_terms(rules, fees or FEES)
        return Tape(
            ts=np.array([round(at * SECOND) for at, _ in self.events], np.int64),
            event=np.array([word for _, word in self.events], np.int64),
            tickers=tuple("AB"[: self.tickers]),
            start=0,
            end=round(self.events[-1][0] * SECOND),
            rows_ts=np.array([round(at * SECOND) for at, _ in self.rows], np.int64),
            rows_end=np.array([end for _, end in self.rows], np.int64),
            fees=np.array([terms] * self.tickers, np.int64),
        )


def book_a() -> Scene:
    """Return a scene with book A at second 0."""
    return Scene().book(0, *BOOK_A)


class Play:
    """A replay at its first decision, to be continued by `order` and similar methods, `go` and `end`."""

    def __init__(self, scene: Scene, rules: RuleSet, tape: Tape | None = None, **settings: Any) -> None:
        chosen = {"cadence": SECOND, "bankroll": 1000 * MICROS, "queue": "trade_only", **settings}
        self.session = Session(tape or scene.tape(rules), rules, ReplaySettings(**chosen))
        assert self.session.step()

    def order(self, order: str, tif: int | None = None, expires: int = 0) -> int:
        """Send "BUY YES 10" or "BUY YES 10 @50". The default `tif` is IOC for a market order and GTC for a limit order."""
        action, side, count, *price = order.replace("@", "").split()
        limit = CentiCents(int(price[0]) * CENT if price else 0)
        tif = (c.Tif.GTC if price else c.Tif.IOC) if tif is None else tif
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

    def fills(self, role: c.Role | None = None) -> list[tuple[float, float, float]]:
        """Return (contracts, price in cents of the side as sent, fee in cents) of each fill."""
        rows = [row for row in self.session.fills.tolist() if role is None or row[c.F_ROLE] == role]
        return [(row[c.F_LOTS] / CONTRACT, row[c.F_PRICE] / CENT, row[c.F_FEE] / CENT_MICROS) for row in rows]

    def state(self, order: int) -> str:
        """Return status and reason of an order."""
        row = self.session.orders[order]
        reason = c.Reason(row[c.O_REASON])
        return c.Status(row[c.O_STATUS]).name.lower() + (f": {reason.name.lower()}" if reason else "")

    def filled(self, order: int) -> float:
        return int(self.session.orders[order, c.O_FILLED]) / CONTRACT

    def ahead(self, order: int) -> float:
        """Return the contracts ahead of a resting order."""
        return int(self.session.orders[order, (ORDER.names or ()).index("ahead")]) / CONTRACT

    def positions(self) -> list[float]:
        return [lots / CONTRACT for lots in self.session.positions[0].tolist()]

    @property
    def cents(self) -> float:
        """Return cash in cents."""
        return self.session.cash / CENT_MICROS

    @property
    def equity(self) -> float:
        return self.session.equity() / CENT_MICROS


def without_fees(scene: Scene, rules: RuleSet) -> Tape:
    tape = scene.tape(rules)
    return replace(tape, fees=np.zeros((0, 7), np.int64))


def a_cent_a_fill(scene: Scene, rules: RuleSet) -> Tape:
    """Return a tape whose takers pay one cent per fill of any size."""
    return replace(scene.tape(rules), fees=np.array([(1, 1, 10**12, 0, 0, 1, 0)], np.int64))
