"""No attribute reachable from an agent's context leads to the tape, the settlement, another agent or memory of the account."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bellwether.replay import BUY, CENT, CONTRACT, YES, AgentContext, BudgetError, Prepared, requests, run
from bellwether.replay.agents.gateway import Gateway
from bellwether.replay.agents.interface import CALLS, SimulatorProxy, hide_function
from bellwether.replay.engine import ReplayOutcome, Session
from bellwether.replay.tape import Tape
from tests.unit.replay.agents.scenes import TRADE, Scripted, at_step, market, settings, traded
from tests.unit.replay.agents.test_context import with_series

#: Objects that no agent may reach.
SECRET = (Session, Tape, Gateway, Prepared, ReplayOutcome, Scripted)
#: Dunder names that may lead to other objects. `__call__` and similar ones lead to themselves.
_FOLLOWED = {
    "__dict__",
    "__self__",
    "__func__",
    "__globals__",
    "__wrapped__",
    "__defaults__",
    "__kwdefaults__",
    "__class__",
    "__base__",
}
#: Classes whose objects the walk follows. Objects of other packages know nothing of runs.
_HOMES = ("bellwether.replay", "tests.unit.replay", "builtins", "numpy", "functools", "collections", "types", "random")
_LEAVES = (int, float, str, bytes, bool, type(None), complex, range, slice)


def reached(start: Any, most: int = 30_000) -> Iterator[tuple[str, Any]]:
    """Return all objects that attributes, items, closures, memory owners and this package's modules lead to, each with its path."""
    waiting, seen, kept = deque([("ctx", start)]), set[int](), []
    while waiting and len(seen) < most:
        way, thing = waiting.popleft()
        if isinstance(thing, _LEAVES):
            continue
        if not _module(type(thing)).startswith(_HOMES):
            yield way, thing
            continue
        # Each look-up of a bound method gives another object.
        owner = getattr(thing, "__self__", None)
        mark = id(thing) if owner is None or isinstance(owner, type(sys)) else hash((id(owner), str(getattr(thing, "__name__", ""))))
        if mark in seen:
            continue
        seen.add(mark)
        kept.append(thing)
        yield way, thing
        waiting.extend((f"{way}{step}", found) for step, found in _next(thing))


def _module(found: type) -> str:
    """Return the module of a class, or an empty text if another package computes a name that is no text."""
    name = found.__module__
    return name if isinstance(name, str) else ""


def _next(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r:.30}]", value) for key, value in [*thing.items(), *((key, key) for key in thing)])
        return
    if isinstance(thing, list | tuple | set | frozenset | deque):
        yield from ((f"[{place}]", value) for place, value in enumerate(list(thing)[:5000]))
        return
    if isinstance(thing, type(sys)) and not thing.__name__.startswith("bellwether.replay"):
        return
    if isinstance(thing, type) and not _module(thing).startswith("bellwether.replay"):
        return
    if isinstance(thing, np.ndarray | memoryview):
        # Other views of the same memory have the same owners.
        names = {"base", "obj", "__dict__"}
    else:
        names = {name for name in {*dir(thing), *getattr(type(thing), "__slots__", ())} if not name.startswith("__") or name in _FOLLOWED}
    for name in sorted(names):
        try:
            yield f".{name}", getattr(thing, name)
        except Exception:
            continue
    with contextlib.suppress(Exception):
        yield ".__reduce__()", thing.__reduce__()
    for cell in getattr(thing, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield ".__closure__.cell_contents", cell.cell_contents


def shares(thing: Any, arrays: list[np.ndarray]) -> bool:
    """Return True if an array or a buffer shows memory of one of `arrays`."""
    try:
        shown = np.frombuffer(thing, np.uint8) if isinstance(thing, memoryview | bytearray) else thing
    except (ValueError, TypeError):
        return False
    return isinstance(shown, np.ndarray) and any(np.may_share_memory(shown, array) for array in arrays if array.size)


def find_leaks(ctx: AgentContext, arrays: list[np.ndarray]) -> list[str]:
    return [way for way, thing in reached(ctx) if isinstance(thing, SECRET) or shares(thing, arrays)]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Session]]:
    """The sessions of the runs of a test."""
    made: list[Session] = []
    first = Session.__init__

    def noted(self: Session, *arguments: Any, **named: Any) -> None:
        first(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(Session, "__init__", noted)
    yield made


def test_no_attribute_leads_to_the_simulator(session: list[Session]) -> None:
    ways: list[str] = []
    counted: list[int] = []

    def act(ctx: AgentContext) -> None:
        ctx.buy("M-0", YES, CONTRACT, 44 * CENT)
        held = [ctx.positions, ctx.quotes.bids, ctx.quotes.active, ctx.quotes.yes_bid_lots, ctx.exogenous("spx"), ctx.resting()]
        held += [ctx.trades(), ctx.fills(), ctx.portfolio()]
        ctx._markets[0].yes_bid  # noqa: B018
        (one,) = session
        tape = one.tape
        arrays = [*one._arrays.values(), tape.ts, tape.event, *with_series_arrays]
        counted.append(sum(1 for _ in reached([ctx, held])))
        ways.extend(find_leaks([ctx, held], arrays))

    prepared = with_series()
    with_series_arrays = [array for pair in prepared.exogenous.values() for array in pair]
    assert run(prepared, Scripted(at_step(act, 1)), settings()).failure is None
    assert counted[0] > 500, "the walk is a walk"
    assert ways == []


@pytest.mark.parametrize(
    "hold",
    [
        lambda session: lambda: session,
        lambda session: session.place,
        lambda session: np.ndarray((2,), np.int64, session._arrays["shown"]),
        lambda session: functools.lru_cache(maxsize=0)(session.place),
    ],
)
def test_the_walk_finds_what_is_not_hidden(hold: Callable[[Session], Any], session: list[Session]) -> None:
    run(market(), Scripted(lambda ctx: None), settings())
    assert find_leaks(hold(session[0]), list(session[0]._arrays.values()))
    assert not find_leaks(hide_function(lambda: hold(session[0])), list(session[0]._arrays.values()))


def test_the_door_has_every_call_of_the_gateway() -> None:
    calls = {name for name in vars(Gateway) if not name.startswith("_")} - {"begin", "end", "wake", "watch", "news"}
    assert calls | {"bids", "positions", "status"} == {*CALLS, "conditions"} == set(SimulatorProxy.__slots__)


def reset(ctx: AgentContext) -> None:
    ctx._left = 10**9
    ctx._excess_calls = -(10**9)
    ctx._begin(ctx.step, 10**9)


RESETS: list[Callable[[AgentContext], Any]] = [
    lambda ctx: ctx.buy("M-0", YES, 1, 40 * CENT),
    lambda ctx: ctx.place_many(requests(0, YES, BUY, np.full(3, 40 * CENT), 1)),
    lambda ctx: ctx.quote("M-0", (40 + ctx._simulator.sent() % 2) * CENT, None, 1),
    lambda ctx: ctx.quote_many(np.array([[(40 + ctx._simulator.sent() % 2) * CENT, 0]]), 1),
]


@pytest.mark.parametrize("order", RESETS)
def test_a_budget_that_is_set_anew_is_the_same_budget(order: Callable[[AgentContext], Any]) -> None:
    def act(ctx: AgentContext) -> None:
        for _ in range(50):
            reset(ctx)
            try:
                order(ctx)
            except BudgetError:
                refused.append(ctx.step)

    refused: list[int] = []
    backtest = traded(at_step(act), calls_per_step=9)
    assert 4 <= len(backtest.outcome.orders) <= 9
    assert refused


def test_memory_of_the_account_cannot_be_written(session: list[Session]) -> None:
    def act(ctx: AgentContext) -> None:
        for array in (ctx.positions, ctx.quotes.bids, ctx.quotes.active):
            assert array.base is None
            array.setflags(write=True)
            array[...] = 1
        assert not session[-1].positions.any()

    assert traded(at_step(act, 1), TRADE).failure is None
