"""A backtest: when agents are called, how it ends, and reproducible results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bellwether.errors import ConfigError
from bellwether.replay import (
    CENT,
    CONTRACT,
    MICROS,
    SECOND,
    YES,
    Agent,
    AgentContext,
    BacktestSettings,
    CompiledAgent,
    Limits,
    prepare,
    run,
)
from bellwether.replay.agents.builtin import Passive, RandomAgent
from bellwether.replay.agents.limits import RunStopped
from bellwether.replay.engine.codes import Status
from tests.unit.replay.agents.scenes import TRADE, CallRecorder, Scripted, at_step, market, settings


def test_an_agent_is_started_asked_at_each_decision_and_told_of_the_end() -> None:
    notes: list[Any] = []
    backtest = run(market(), CallRecorder(notes), settings(cadence=200 * SECOND))
    acts = [("act", step, 200 * step) for step in range(4)]
    assert notes == [("start", 0, ("M-0",)), *acts, ("end", 1000 * MICROS)]
    assert (backtest.steps, backtest.failure) == (4, None)


def failing(error: BaseException | None = None, answer: Any = None) -> Callable[[AgentContext], Any]:
    """Place and rest an order at the first decision, and fail at the third."""

    def act(ctx: AgentContext) -> Any:
        if ctx.step == 0:
            ctx.buy("M-0", YES, 10 * CONTRACT)
            ctx.buy("M-0", YES, 10 * CONTRACT, 44 * CENT)
        if ctx.step == 2 and error is not None:
            raise error
        return answer if ctx.step == 2 else None

    return act


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


FAILURES: list[tuple[str, Callable[[AgentContext], Any], str, str]] = [
    ("an error that cannot be read", failing(Unreadable()), "Unreadable", "the error message could not be read"),
    (
        "an object at an address",
        failing(answer=iter([])),
        "TypeError",
        "act returned <list_iterator object>; return None and send orders through ctx",
    ),
    ("signs that steer a terminal", failing(ValueError("a\x1b[31mb")), "ValueError", "a [31mb"),
]


@pytest.mark.parametrize(("act", "kind", "message"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES])
def test_a_failure_ends_the_trading_and_the_rest_is_replayed_and_settled(
    act: Callable[[AgentContext], Any], kind: str, message: str
) -> None:
    backtest = run(market(TRADE, (300, *TRADE[1:])), Scripted(act), settings())
    failure = backtest.failure
    assert failure is not None
    assert (failure.type, failure.message, failure.step, failure.at) == (kind, message, 2, 120 * SECOND)
    outcome = backtest.outcome
    assert outcome.orders["status"].tolist().count(Status.CANCELLED) == 1, "what rested is cancelled"
    assert not outcome.positions.any(), "what was held is settled"
    bought = 10 * 480_000
    assert outcome.pnl == 10 * MICROS - bought - outcome.fees
    assert outcome.samples["ts"][-1] == 601 * SECOND
    assert str(failure) == f"{kind}: {message}".removesuffix(": ")


def test_a_failure_before_the_first_decision_and_after_the_last_is_told_apart() -> None:
    class Late(Passive):
        def end(self, ctx: AgentContext) -> None:
            raise ValueError("late")

    class Early(Passive):
        def start(self, ctx: AgentContext, episode: Any) -> None:
            raise ValueError("early")

    early, late = (run(market(), cls(), settings()).failure for cls in (Early, Late))
    assert early is not None
    assert late is not None
    assert (early.message, early.step, late.message, late.step) == ("early", -1, "late", 11)


def test_what_cannot_be_run_is_refused() -> None:
    wrong: list[tuple[Any, Any, BacktestSettings]] = [
        (market(), object(), settings()),
        (market(), type("NoAct", (Agent,), {})(), settings()),
        (market(), type("NoStrategy", (CompiledAgent,), {})(), settings()),
        (market(), Passive(), BacktestSettings()),
        (prepare(market(), "kalshi-2025-07-01"), Passive(), settings()),
    ]
    for source, agent, chosen in wrong:
        with pytest.raises(ConfigError):
            run(source, agent, chosen)


def test_a_program_that_is_interrupted_stops_and_so_does_a_run_without_a_result() -> None:
    for error in (KeyboardInterrupt, RunStopped):
        with pytest.raises(error):
            run(market(), Scripted(failing(error())), settings())


def forever(ctx: AgentContext) -> None:
    while True:
        pass


def forever_without_hearing(ctx: AgentContext) -> None:
    while True:
        try:
            while True:
                ctx.cash  # noqa: B018
        except Exception:
            pass


def stubborn(ctx: AgentContext) -> None:
    """Ignore the exception that stops the agent, and end the step a little later."""
    with contextlib.suppress(BaseException):
        forever(ctx)


@pytest.mark.parametrize("act", [forever, forever_without_hearing, stubborn])
def test_an_agent_that_loops_is_stopped(act: Callable[[AgentContext], None]) -> None:
    backtest = run(market(), Scripted(at_step(act, 3)), settings(decision=0.1))
    assert backtest.failure is not None
    assert (backtest.failure.type, backtest.failure.step) == ("StepTimeout", 3)


def test_orders_beyond_the_limit_are_counted_as_refused() -> None:
    done = run(market(), Scripted(at_step(send_many)), settings(max_orders=500))
    assert (len(done.outcome.orders), done.outcome.refused) == (500, 100)


def send_many(ctx: AgentContext) -> None:
    for _ in range(600):
        ctx.buy("M-0", YES, 1, 40 * CENT)


def test_an_object_that_has_run_is_made_anew() -> None:
    class Learner(Agent):
        def __init__(self) -> None:
            self.seen = 0

        def act(self, ctx: AgentContext) -> None:
            self.seen += 1
            if self.seen == 1:
                ctx.buy("M-0", YES, CONTRACT)

    agent = Learner()
    assert run(market(), agent, settings()).digest == run(market(), agent, settings()).digest == run(market(), Learner, settings()).digest
    assert agent.seen == 11


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 2**63),
        ("bankroll", -1),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        BacktestSettings(**{name: value})


def test_limits_are_read_from_text() -> None:
    assert Limits.parse("memory=1.5GiB, decision=5s,run=2h,calls=20") == Limits(5.0, 7200.0, 3 << 29, 20)
    assert Limits.parse("") == Limits()


@pytest.mark.parametrize("text", ["memory=1MiB", "memory=2GB", "decision=0s", "run=1", "calls=1.5s", "calls=0", "seconds=1s", "run"])
def test_limits_that_make_no_sense_are_refused_with_their_name(text: str) -> None:
    with pytest.raises(ConfigError, match=text.partition("=")[0]):
        Limits.parse(text)


def test_the_digest_of_settings_tells_all_apart_that_can_change_a_result() -> None:
    base = BacktestSettings()
    others = [replace(base, seed=1), replace(base, cadence=1), replace(base, limits=Limits(calls=7)), replace(base, queue="trade_only")]
    assert len({base.digest(), *(other.digest() for other in others)}) == 5
    assert replace(base, limits=Limits(decision=1.0)).digest() == base.digest()


def test_the_seed_decides_what_is_drawn() -> None:
    def digests(seed: int) -> set[str]:
        return {run(market(TRADE), RandomAgent(trade_probability=0.9), settings(seed=seed, cadence=10 * SECOND)).digest for _ in range(2)}

    assert len(digests(1)) == len(digests(2)) == 1
    assert digests(1) != digests(2)
