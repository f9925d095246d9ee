"""The interface of agents: one definition, order ids and tags, timers, time limits, units of earlier versions, and the band."""

from __future__ import annotations

import inspect
import socket
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import (
    CENT,
    CONTRACT,
    DOLLAR,
    NO,
    SECOND,
    YES,
    Agent,
    AgentContext,
    AgentSource,
    OrderError,
    requests,
    run,
)
from bellwether.replay.agents.interface import CALLS, MOST_TIMERS, Simulator
from bellwether.replay.agents.loader import AgentReference, load_agent_class
from bellwether.replay.engine import kernel
from bellwether.replay.engine.codes import O_PRICE, O_TAG
from bellwether.replay.isolation.wire_protocol import REQUESTS
from bellwether.replay.tape.layout import LEVEL, Tape
from bellwether.replay.units import MICROS
from tests.unit.replay.agents.legacy_agent import LegacyScripted
from tests.unit.replay.agents.scenes import BOOK, END, TRADE, Scripted, at_step, book, market, settings, tape, traded

SAMPLE_AGENTS = Path(__file__).parents[1] / "isolation" / "sample_agents.py"


# One definition.


@pytest.mark.parametrize("name", ["now", "cash", "available", "equity", "place", "cancel", "cancel_all", "amend", "quote"])
def test_compiled_functions_have_the_names_and_arguments_of_the_interface(name: str) -> None:
    own = [one for one in inspect.signature(getattr(Simulator, name)).parameters if one not in ("self", "calls", "tag")]
    compiled = list(inspect.signature(getattr(kernel, name).py_func).parameters)
    assert compiled == ["sim", *own]


def test_every_call_that_is_not_sent_along_can_be_requested() -> None:
    assert {name: len(call.arguments) for name, call in CALLS.items() if call.kind != "state"} == {
        name: len(types) for name, types in REQUESTS.items()
    }
    assert all(inspect.getdoc(getattr(Simulator, name)) for name in CALLS)


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


@pytest.mark.parametrize("isolated", [False, True])
def test_tags_are_on_orders_fills_updates_and_in_the_table(isolated: bool) -> None:
    done = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:Tags"), settings(), isolated=isolated)
    assert done.failure is None, done.failure.traceback
    assert done.orders["tag"].to_list() == ["rests", "quoted", "many", None]


@pytest.mark.parametrize("tag", ["x" * 65, "two\nlines", 5])
def test_a_tag_is_a_short_line(tag: Any) -> None:
    def act(ctx: AgentContext) -> None:
        with pytest.raises(OrderError, match="tag is"):
            ctx.buy("M-0", YES, CONTRACT, tag=tag)

    traded(at_step(act))


# Timers.


@pytest.mark.parametrize("isolated", [False, True])
def test_timers_go_off_at_their_times(isolated: bool) -> None:
    done = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:Timed"), settings(), isolated=isolated)
    assert done.failure is None, done.failure
    assert (done.outcome.orders[:, 10] // SECOND).tolist() == [30, 30]


def test_a_timer_is_later_than_now_and_of_an_agent_that_hears_it() -> None:
    class Hears(Scripted):
        def on_timer(self, ctx: AgentContext, time_ns: int) -> None: ...

    def past(ctx: AgentContext) -> None:
        with pytest.raises(OrderError, match=r"not later than now \(\d+\); give a later time$"):
            ctx.at(ctx.now_ns)

    def unheard(ctx: AgentContext) -> None:
        with pytest.raises(OrderError, match=r"^setting a timer: the agent has no on_timer"):
            ctx.at(ctx.now_ns + 1)

    def too_many(ctx: AgentContext) -> None:
        for after in range(MOST_TIMERS):
            ctx.at(ctx.now_ns + 10**15 + after)
        with pytest.raises(OrderError, match=r"^setting a timer: 10,000 timers are already pending"):
            ctx.at(ctx.now_ns + 1)

    assert run(market(), Hears(past), settings()).failure is None
    assert run(market(), Scripted(unheard), settings()).failure is None
    assert run(market(), Hears(at_step(too_many)), replace(settings(), calls_per_step=2 * MOST_TIMERS)).failure is None


# Time limits and failures.


def sleeps(ctx: AgentContext) -> None:
    time.sleep(30)


def waits_for_a_lock(ctx: AgentContext) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def reads_a_socket(ctx: AgentContext) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)


@pytest.mark.parametrize("act", [sleeps, waits_for_a_lock, reads_a_socket])
def test_a_blocking_call_ends_at_the_time_limit(act: Callable[[AgentContext], None]) -> None:
    begun = time.monotonic()
    failure = run(market(), Scripted(at_step(act, 2)), settings(seconds_per_step=0.2)).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("StepTimeout", 2)
    assert time.monotonic() - begun < 20


def test_alarms_of_the_program_are_kept() -> None:
    import signal

    rung: list[int] = []
    previous = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    outer = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        run(market(), Scripted(lambda ctx: None), settings(seconds_per_step=5))
        limit = time.monotonic() + 10
        while not rung and time.monotonic() < limit:
            time.sleep(0.01)
        assert rung == [1]
    finally:
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, *outer)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(("how", "kind"), [("breaks", "ZeroDivisionError"), ("hangs", "StepTimeout")])
def test_a_failure_of_init_fails_the_agent_alone(isolated: bool, how: str, kind: str) -> None:
    source = AgentSource(f"{SAMPLE_AGENTS}:Breaks", {"how": how})
    done = run(market(TRADE), source, settings(seconds_per_step=5.0 if isolated else 0.3), isolated=isolated)
    assert done.failure is not None
    assert (done.failure.type, done.failure.step, len(done.outcome.orders), done.agent) == (kind, -1, 0, "breaks")
    assert done.outcome.pnl[0] == 0


# Prices of earlier versions.

OLD = """
from bellwether.replay import CENT, CONTRACT, DOLLAR, YES, Agent, cents

LIMIT = 47 * CENT

class Old(Agent):
    def __init__(self, under=cents(46.5)):
        self.under = under
    def act(self, ctx):
        market, = ctx.markets()
        assert (market.yes_bid, market.yes_ask, market.mid, market.spread) == (450, 480, 465.0, 30) == (450, 480, self.under, 3 * CENT)
        assert (DOLLAR, LIMIT, ctx.quotes.no_ask.tolist(), ctx.book("M-0").yes_bids[0]) == (1000, 470, [550], (450, 10_000))
        if ctx.step == 0:
            order = ctx.buy("M-0", YES, CONTRACT, market.yes_bid + CENT // 2)
            assert (order.price, order.cost) == (455, 0)
            ctx.quote("M-0", 440, DOLLAR - 510, CONTRACT)
            ctx.amend(order, LIMIT - 20, CONTRACT)
            assert ctx.order(0).price == 450
        if ctx.step == 3:
            assert [(fill.price, fill.cost) for fill in ctx.fills(whole_run=True)] == [(450, 450_000)]
            assert [(trade.yes_price, trade.no_price) for trade in ctx.trades()] == [] and ctx.position("M-0").yes_average == 450.0
            ctx.cancel_all()
"""


def test_a_file_of_an_earlier_version_gets_and_gives_mills(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(OLD)
    with pytest.warns(DeprecationWarning, match=r"agent old states prices in tenths of a cent.*api = 3"):
        done = run(market(TRADE), AgentReference(f"{tmp_path / 'old.py'}:Old"), settings())
    assert done.failure is None, done.failure.traceback
    assert done.outcome.orders[:, O_PRICE].tolist() == [45 * CENT, 44 * CENT, 51 * CENT]


def test_both_versions_send_the_same_orders() -> None:
    def act(unit: int) -> Callable[[AgentContext], None]:
        def quote(ctx: AgentContext) -> None:
            ctx.quote("M-0", (44 - ctx.step % 2) * unit, 49 * unit, CONTRACT)
            ctx.quote_many(np.array([[-1, 51 * unit]]), CONTRACT)
            ctx.place_many(requests(0, NO, 0, np.array([50 * unit, 0]), CONTRACT))

        return quote

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        first = run(market(TRADE), LegacyScripted(act(10)), settings())
    second = run(market(TRADE), Scripted(act(CENT)), settings())
    assert (first.failure, first.digest) == (None, second.digest)
    assert len(first.outcome.orders) > 10


def fine_market() -> Tape:
    """Return a market with ticks of a quarter of a cent."""
    prices = np.arange(0, DOLLAR + 1, 25)
    base = tape(*BOOK, *END, end=601)
    words = [int(word) for word in base.event]
    from bellwether.replay.tape.layout import pack

    level = pack(LEVEL, 0, YES, 4525 // 25, 100)
    return Tape(base.ts[:1], np.array([level]), base.tickers, 0, base.end, levels=(prices,), digest=str(len(words)))


def test_a_market_with_finer_prices_needs_the_present_version() -> None:
    refused = run(fine_market(), LegacyScripted(lambda ctx: None), settings())
    assert refused.failure is not None
    assert refused.failure.step == -1
    assert "tenths of a cent, and a market has finer prices; declare api = 3" in str(refused.failure)
    assert refused.orders.is_empty()
    seen: list[Any] = []
    assert run(fine_market(), Scripted(at_step(lambda ctx: seen.append(ctx.market("M-0").yes_bid))), settings()).failure is None
    assert seen == [4525]


@pytest.mark.parametrize("name", ["folder", Path("folder")])
def test_the_name_of_a_folder_is_no_episode(name: Any) -> None:
    with pytest.raises(ConfigError, match="'folder': it is the name of a folder; load the episode first"):
        run(name, Scripted(lambda ctx: None), settings())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import bellwether.replay as b\nclass Old(b.Agent):\n    def act(self, ctx):\n        b.CENT", r"b\.CENT is in \$0\.0001"),
        ("from bellwether.replay import Agent\nclass Old(Agent):\n    api = 4\n    def act(self, ctx): ...", "declares api = 4"),
        (
            "from bellwether.replay import CompiledAgent\nclass Old(CompiledAgent):\n    strategy = len\n    def numbers(self, episode, seed): ...",
            "compiled agents use",
        ),
    ],
)
def test_what_could_be_misread_is_refused(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "old.py").write_text(source)
    with pytest.raises(ConfigError, match=message):
        load_agent_class(f"{tmp_path / 'old.py'}:Old")


def test_a_class_in_memory_that_uses_present_constants_without_the_version_is_refused() -> None:
    class Mixed(Agent):
        def act(self, ctx: AgentContext) -> None:
            ctx.buy("M-0", YES, CONTRACT, 45 * CENT)

    with pytest.raises(ConfigError, match=r"uses CENT, DOLLAR in \$0\.0001; declare api = 3"):
        run(market(), Mixed(), settings())


# The band.


def reads(name: str) -> Callable[[AgentContext], Any]:
    return {
        "nothing": lambda ctx: None,
        "prices": lambda ctx: [ctx.markets()[0].mid, ctx.trades(), ctx.book("M-0")],
        "cash": lambda ctx: ctx.cash,
        "equity": lambda ctx: ctx.equity,
        "positions": lambda ctx: ctx.positions,
        "position": lambda ctx: ctx.market("M-0").yes_position,
        "ledger": lambda ctx: ctx.portfolio(),
        "fills": lambda ctx: ctx.fills(),
        "resting": lambda ctx: ctx.resting(),
        "order": lambda ctx: ctx.order(0).filled,
    }[name]


@pytest.mark.parametrize("name", ["nothing", "prices", "cash", "equity", "positions", "position", "ledger", "fills", "resting", "order"])
def test_an_agent_that_reads_its_fills_is_run_again(name: str) -> None:
    decisions: list[int] = []

    def act(ctx: AgentContext) -> None:
        decisions.append(ctx.step)
        if ctx.step == 0:
            ctx.buy("M-0", YES, 50 * CONTRACT, 45 * CENT)
        reads(name)(ctx)

    done = run(market(TRADE), Scripted(act), settings(band="auto"))
    assert done.failure is None
    again = name not in ("nothing", "prices")
    assert done.band == ("rerun" if again else "fills")
    assert len(decisions) == done.steps * (3 if again else 1)
    assert done.outcome.pnl[1] <= done.outcome.pnl[0] <= done.outcome.pnl[2]


def test_orders_that_trade_at_once_are_not_run_again() -> None:
    def act(ctx: AgentContext) -> None:
        if ctx.cash > 990 * MICROS:
            ctx.buy("M-0", YES, CONTRACT)

    done = run(market(TRADE), Scripted(act), settings(band="auto"))
    assert (done.band, len(set(done.outcome.pnl))) == ("fills", 1)
    assert len(done.outcome.fills) > 0


def test_an_agent_with_a_language_model_keeps_the_bounds_of_its_orders() -> None:
    class Waits(Scripted):
        timed = False

    def act(ctx: AgentContext) -> None:
        if ctx.step == 0 and ctx.cash:
            ctx.buy("M-0", YES, 50 * CONTRACT, 45 * CENT)

    assert run(market(TRADE), Waits(act), settings(band="auto")).band == "fills"
    assert run(market(TRADE), Waits(act), settings(band="rerun")).band == "rerun"


@pytest.mark.parametrize("isolated", [False, True])
def test_callbacks_of_fills_and_orders_react(isolated: bool) -> None:
    done = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:RestsAndHears"), settings(band="auto"), isolated=isolated)
    assert (done.failure, done.band) == (None, "rerun")


def test_compiled_agents_react_by_what_they_call() -> None:
    from bellwether.replay.agents.compiled_maker import CompiledMarketMaker

    done = run(market(TRADE), CompiledMarketMaker(size=1, spread_cents=2), settings(band="auto", cadence=5 * SECOND))
    assert (done.failure, done.band) == (None, "rerun")


def test_the_rules_of_the_original_have_no_band() -> None:
    two = [(0, LEVEL, 0, YES, 45 * CENT, 100), (0, LEVEL, 0, NO, 52 * CENT, 100)]
    rowed = tape(*two, *book(60, 46 * CENT, 47 * CENT), end=120)
    from dataclasses import replace

    base = replace(rowed, rows_ts=np.array([0, 60 * SECOND]), rows_end=np.array([2, 4]))
    done = run(base, Scripted(lambda ctx: None), settings(rules="pmb-2026-01", band="auto"))
    assert (done.failure, done.band) == (None, "none")


def test_a_tag_of_a_compiled_agent_is_in_the_table() -> None:
    done = run(market(TRADE), Scripted(at_step(lambda ctx: ctx.buy("M-0", YES, CONTRACT, 45 * CENT) and None)), settings())
    done.outcome.orders[0, O_TAG] = 7
    assert done.orders["tag"].to_list() == ["7"]
