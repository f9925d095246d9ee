"""The interface of agents: order ids and tags, timers, and time limits."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.replay import CENT, CONTRACT, DOLLAR, SECOND, YES, AgentContext, AgentSource, OrderError, run
from bellwether.replay.local_port import MOST_TIMERS
from tests.unit.replay.agents.scenes import TRADE, Scripted, at_step, market, settings, traded

SAMPLE_AGENTS = Path(__file__).parent / "sample_agents.py"


# Quotes and tags.


def test_a_quote_returns_the_ids_of_its_orders() -> None:
    found: list[Any] = []

    def act(ctx: AgentContext) -> None:
        asked = {0: (44, 49), 1: (44, 49), 2: (43, -1), 3: (0, None)}
        bid, ask = asked[ctx.step]
        ids = ctx.quote("M-0", bid * CENT if bid > 0 else bid, ask if ask in (None, -1) else ask * CENT, CONTRACT)
        found.append((ids, [order.id for order in ctx.resting()]))

    traded(lambda ctx: act(ctx) if ctx.step < 4 else None)
    assert found == [((0, 1), [0, 1]), ((0, 1), [0, 1]), ((2, 1), [2, 1]), ((None, None), [])]


def test_quotes_of_one_and_of_many_treat_0_and_minus_1_alike() -> None:
    def sent(quote: Callable[[AgentContext, int, int], Any]) -> list[list[int]]:
        def act(ctx: AgentContext) -> None:
            quote(ctx, *{0: (44, 51), 1: (-1, 0), 2: (0, 51), 3: (43, -1)}[ctx.step])

        return traded(lambda ctx: act(ctx) if ctx.step < 4 else None).outcome.orders.tolist()

    def price(cents: int) -> int:
        return cents * CENT if cents > 0 else cents

    def many(ctx: AgentContext, yes: int, no: int) -> Any:
        ids = ctx.quote_many(np.array([[price(yes), price(no)]]), CONTRACT)
        assert (ids >= 0).sum() == len(ctx.resting())

    def single(ctx: AgentContext, yes: int, no: int) -> Any:
        ctx.quote("M-0", price(yes), DOLLAR - price(no) if no > 0 else no, CONTRACT)

    assert sent(single) == sent(many)
    assert len(sent(many)) == 4


def test_tags_are_on_orders_fills_updates_and_in_the_table() -> None:
    done = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:Tags"), settings())
    assert done.failure is None, done.failure.traceback
    assert done.orders["tag"].to_list() == ["rests", "quoted", None]


def test_a_tag_is_a_short_line() -> None:
    def act(ctx: AgentContext) -> None:
        for tag in ("x" * 65, "two\nlines", 5):
            with pytest.raises(OrderError):
                ctx.buy("M-0", YES, CONTRACT, tag=tag)

    traded(at_step(act))


# Timers.


def test_timers_go_off_at_their_times() -> None:
    done = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:Timed"), settings())
    assert done.failure is None, done.failure
    assert (done.outcome.orders["sent"] // SECOND).tolist() == [30, 30]


def test_a_timer_is_later_than_now_and_of_an_agent_that_hears_it() -> None:
    class Hears(Scripted):
        def on_timer(self, ctx: AgentContext, time_ns: int) -> None: ...

    def past(ctx: AgentContext) -> None:
        with pytest.raises(OrderError):
            ctx.at(ctx.now_ns)

    def unheard(ctx: AgentContext) -> None:
        with pytest.raises(OrderError):
            ctx.at(ctx.now_ns + 1)

    def too_many(ctx: AgentContext) -> None:
        for after in range(MOST_TIMERS):
            ctx.at(ctx.now_ns + 10**15 + after)
        with pytest.raises(OrderError):
            ctx.at(ctx.now_ns + 1)

    assert run(market(), Hears(past), settings()).failure is None
    assert run(market(), Scripted(unheard), settings()).failure is None
    assert run(market(), Hears(at_step(too_many)), settings()).failure is None


# Time limits and failures.


def waits_for_a_lock(ctx: AgentContext) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def reads_a_socket(ctx: AgentContext) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)


@pytest.mark.parametrize("act", [waits_for_a_lock, reads_a_socket])
def test_a_blocking_call_ends_at_the_time_limit(act: Callable[[AgentContext], None]) -> None:
    begun = time.monotonic()
    failure = run(market(), Scripted(at_step(act, 2)), settings(decision=0.2)).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("StepTimeout", 2)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(("how", "kind"), [("breaks", "ZeroDivisionError"), ("hangs", "StepTimeout")])
def test_a_failure_of_init_fails_the_agent_alone(how: str, kind: str) -> None:
    done = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:Breaks", {"how": how}), settings(decision=0.3))
    assert done.failure is not None
    assert (done.failure.type, done.failure.step, len(done.outcome.orders), done.agent) == (kind, -1, 0, "breaks")
    assert done.outcome.pnl == 0
