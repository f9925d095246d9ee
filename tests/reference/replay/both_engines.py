"""Run the plain and the compiled engine with the same decisions, and compare all results exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured

from bellwether.replay.engine import ReplayOutcome, Session
from bellwether.replay.engine import codes as c
from bellwether.replay.rules import RuleSet
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.build import allowed_levels, level_words
from bellwether.replay.tape.layout import GRID, KINDS, Tape, pack, unpack
from tests.reference.replay import Reference
from tests.reference.replay.portfolio import Recording, portfolio

#: Agent that decides from the plain engine's state. Returns calls for both engines as (name, arguments).
Agent = Callable[[Any], list[tuple[str, tuple[int, ...]]]]

STATUSES = {status.name.lower(): int(status) for status in c.Status}
#: Status codes of orders that may still change.
OPEN = (STATUSES["pending"], STATUSES["resting"])
#: Fields of an order in the order of the plain engine's rows.
SENT = [
    "market", "side", "action", "price", "tif", "count", "filled", "taken", "status", "reason", "sent", "arrived", "queued", "ended", "cost",
    "fees", "mid2", "expires",
]  # fmt: skip
REASONS = {"": 0, **{reason.name.lower(): int(reason) for reason in c.Reason if reason}}


def compare(tape: Tape, rules: RuleSet, settings: BacktestSettings, agent: Callable[[], Agent]) -> Reference:
    """Run `replay_both` with a new agent. An error names the shortest beginning of the tape on which the engines differ."""
    try:
        return replay_both(tape, rules, settings, agent())
    except AssertionError as error:
        shown, agrees, differs = str(error), 0, len(tape)
        while agrees + 1 < differs:
            middle = (agrees + differs) // 2
            try:
                replay_both(beginning_of(tape, middle), rules, settings, agent())
                agrees = middle
            except AssertionError as shorter:
                differs, shown = middle, str(shorter)
        last = [(ts, KINDS[kind], *rest) for ts, kind, *rest in recording(beginning_of(tape, differs)).events[-8:]]
        raise AssertionError(f"the engines differ on the first {differs} events, of which the last are {last}:\n{shown}") from None


def beginning_of(tape: Tape, events: int) -> Tape:
    """Return the beginning of a tape."""
    return replace(tape, ts=tape.ts[:events], event=tape.event[:events])


def shift(tape: Tape, by: int, prefix: str = "") -> Tape:
    """Return a tape whose events happen `by` nanoseconds later, with other tickers."""
    return replace(
        tape,
        ts=tape.ts + by,
        start=tape.start + by,
        end=tape.end + by,
        tickers=tuple(prefix + ticker for ticker in tape.tickers),
        begins=tape.begins + by,
    )


def recording(tape: Tape) -> Recording:
    """Return a tape in the plain engine's form, with prices in place of level numbers."""
    words = zip(tape.ts.tolist(), tape.event.tolist(), strict=True)
    levels = [prices.tolist() for prices in tape.levels]
    events = [
        (ts, kind, ticker, side, levels[ticker][level], value) for ts, word in words for kind, ticker, side, level, value in [unpack(word)]
    ]
    owners = {value: ticker for _, kind, ticker, *_, value in events if kind == GRID} | {code: code for code in range(len(levels))}
    grids = [
        frozenset(p for p, allowed in zip(levels[owners[row]], grid, strict=False) if allowed) if row in owners else frozenset()
        for row, grid in enumerate(tape.grids.tolist())
    ]
    return Recording(events, tape.tickers, tape.start, grids, tape.fees.tolist(), tuple(tape.begins.tolist()))


def tape_of(recorded: Recording) -> Tape:
    """Return a recording of the plain engine as a tape. Its grids never change."""
    words = np.array([pack(kind, ticker, side, price, value) for _, kind, ticker, side, price, value in recorded.events], np.int64)
    grids = [[np.array(sorted(grid), np.int64)] for grid in recorded.grids]
    event, levels = level_words(words, grids)
    times = np.array([at for at, *_ in recorded.events], np.int64)
    return Tape(
        times,
        event,
        recorded.tickers,
        recorded.start,
        int(times[-1]),
        levels=levels,
        grids=allowed_levels(levels, grids),
        fees=np.array(recorded.fees),
    )


def merge_parts(parts: Sequence[tuple[Tape, RuleSet]]) -> Recording:
    """Merge a portfolio as the plain engine does."""
    return portfolio([(recording(tape), rules) for tape, rules in parts])


def replay_both(tape: Tape, rules: RuleSet, settings: BacktestSettings, act: Agent, *, merged: Recording | None = None) -> Reference:
    """Replay a tape with both engines and one agent. Returns the plain engine; fails at the first decision after which they differ.

    `seen`: recording for the plain engine, such as a portfolio that it merged separately.
    """
    plain, compiled = Reference(merged or recording(tape), rules, settings), Session(tape, rules, settings)
    calls_made: list[Any] = []
    states = States(plain)
    while True:
        more = plain.step()
        assert compiled.step() == more, _where(plain, calls_made)
        _same_state(plain, compiled, states, calls_made)
        if not more:
            break
        calls_made = act(plain)
        for name, arguments in calls_made:
            mine, theirs = (getattr(engine, name)(*arguments) for engine in (plain, compiled))
            mine = REASONS[mine] if name == "amend" else mine
            assert mine == theirs, f"{name} {arguments} said {mine} and {theirs}, decision {plain.steps} of {calls_made}"
    outcome = compiled.result()
    _same_tables(plain, outcome)
    _same_outcome(plain, outcome)
    assert settings.bankroll is not None
    _conserves_money(plain, settings.bankroll)
    return plain


def _where(plain: Reference, calls: list[Any]) -> str:
    return f"after decision {plain.steps} (now {plain.now}), whose calls before were {calls}"


class States:
    """Rows of orders that the agent of a plain engine knows: status, filled, price, count. Rows of ended orders are not updated."""

    def __init__(self, plain: Reference) -> None:
        self._plain = plain
        self._rows = np.zeros((0, 4), np.int64)
        self._open: list[int] = []

    def rows(self, known: dict[int, tuple[str, int, int, int]]) -> np.ndarray:
        """Return the current rows as int64[orders, 4]."""
        before, orders = len(self._rows), self._plain.orders
        self._rows = np.concatenate([self._rows, np.zeros((len(orders) - before, 4), np.int64)])
        self._open += range(before, len(orders))
        if self._open:
            states = [known.get(number, orders[number].as_sent) for number in self._open]
            self._rows[self._open] = [(STATUSES[status], filled, price, count) for status, filled, price, count in states]
            self._open = [number for number, (status, *_) in zip(self._open, states, strict=True) if STATUSES[status] in OPEN]
        return self._rows


def _same_state(plain: Reference, compiled: Session, states: States, calls: list[Any]) -> None:
    known = plain.known()
    mine, theirs = states.rows(known.orders), columns_of(compiled.orders, "status", "filled", "price", "count")
    # Access row by row takes four times as long, with up to tens of thousands of rows.
    same = len(mine) != len(theirs) or (mine == theirs).all()
    differ = () if same else np.flatnonzero((mine != theirs).any(axis=1))
    values = {
        "now": (plain.now, compiled.now),
        "fills": (known.fills, len(compiled.fills)),
        "orders": (len(plain.orders), len(compiled.orders)),
        "states of orders": ({int(n): mine[n].tolist() for n in differ}, {int(n): theirs[n].tolist() for n in differ}),
        "cash": (known.cash, compiled.cash),
        "available": (known.cash - known.reserved, compiled.available),
        "positions": (known.position, compiled.positions.tolist()),
        "costs": (known.basis, compiled.ledger[:, :2].tolist()),
        "best": ([[market.best(0), market.best(1)] for market in plain.markets], compiled.best.tolist()),
        "equity": (plain.equity(known), compiled.equity()),
    }
    resting = plain.resting()
    rows = compiled.orders[resting]
    values["resting"] = (known.resting, compiled.resting())
    values["ahead"] = ([plain.orders[number].ahead for number in resting], rows["ahead"].tolist())
    values["accumulated"] = ([plain.orders[number].accumulated for number in resting], rows["rounding"].tolist())
    for what, (mine, theirs) in values.items():
        assert mine == theirs, f"{what} is {mine} and {theirs} {_where(plain, calls)}"


def columns_of(rows: np.ndarray, *names: str) -> np.ndarray:
    """Return fields of records as the columns of an array, int64[n, k]."""
    return structured_to_unstructured(rows[list(names)], np.int64)


def _same_tables(plain: Reference, outcome: ReplayOutcome) -> None:
    orders = [
        (
            order.ticker if 0 <= order.ticker < len(plain.markets) else -1,
            order.side,
            order.action,
            order.price,
            order.tif,
            order.count,
            order.filled,
            order.taken,
            STATUSES[order.status],
            REASONS[order.reason],
            order.sent,
            order.arrived,
            order.queued,
            order.ended,
            order.cost,
            order.fees,
            order.mid2,
            order.expires,
        )
        for order in plain.orders
    ]
    roles = {"taker": int(c.Role.TAKER), "maker": int(c.Role.MAKER)}
    fills = [(f.order, f.ticker, f.side, f.action, f.price, f.lots, f.fee, roles[f.role], f.ts, f.wait) for f in plain.fills]
    _same_rows("orders", orders, columns_of(outcome.orders, *SENT))
    _same_rows("fills", fills, columns_of(outcome.fills, *c.FILL.names or ()))
    _same_rows("samples", plain.samples, columns_of(outcome.samples, *c.SAMPLE.names or ()))


def _same_rows(name: str, mine: Sequence[tuple[int, ...]], theirs: np.ndarray) -> None:
    assert len(mine) == len(theirs), name
    if not mine:
        return
    differing = np.flatnonzero((np.array(mine, np.int64) != theirs).any(axis=1))
    if len(differing):
        first = int(differing[0])
        raise AssertionError(
            f"{name}: {len(differing)} rows differ, the first is row {first}:\n{mine[first]} and\n{tuple(theirs[first].tolist())}"
        )


def _same_outcome(plain: Reference, outcome: ReplayOutcome) -> None:
    for what in ("cash", "realised", "fees"):
        assert getattr(plain.account, what) == getattr(outcome, what), what
    assert plain.equity() == outcome.equity
    assert plain.mid_equity() == outcome.mid_equity
    assert plain.account.position == outcome.positions.tolist()
    assert plain.account.basis == outcome.basis.tolist()
    assert plain.steps == outcome.steps


def _conserves_money(plain: Reference, bankroll: int) -> None:
    """Check that only trading and fees change the total of money."""
    account = plain.account
    assert account.cash + sum(map(sum, account.basis)) == bankroll + account.realised - account.fees
