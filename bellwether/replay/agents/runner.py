"""Phases of a run: start, decisions, callbacks and end. The agent runs in this process or in an isolated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bellwether.replay.agents.agent import Agent
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.failures import Failure, build_failure
from bellwether.replay.agents.gateway import Gateway
from bellwether.replay.agents.limits import RunStopped, StepLimit
from bellwether.replay.agents.records import CALLBACKS, Callbacks

if TYPE_CHECKING:
    from bellwether.replay.engine import Session


Answer = TypeVar("Answer")


class AgentRunner(Protocol):
    """Interface through which a session calls an agent, in this process or an isolated one. Phases: start, act, notify (callbacks, with a
    `News`) and end.
    """

    def call(self, phase: str, *news: Any) -> Failure | None:
        """Call the agent in a phase, at the session's present time. Returns the failure that ends the agent's trading; None if the agent
        can continue.
        """
        ...


def run_phases(session: Session, gateway: Gateway, runner: AgentRunner, callbacks: Callbacks) -> Failure | None:
    """Run an agent through all phases of a session. Returns the failure that stopped the agent early; None without one."""
    from bellwether.replay.engine.clock import AT_DECISION

    if callbacks:
        gateway.watch(callbacks)
    opened = session.open()
    gateway.begin(sends=False)
    failed = runner.call("start")
    advance = session.advance
    stop = AT_DECISION if opened else failed is None and advance()
    while stop and failed is None:
        if stop == AT_DECISION:
            gateway.begin()
            failed = runner.call("act")
        else:
            gateway.wake(stopped=True)
        if callbacks:
            while failed is None and (news := gateway.news()) is not None:
                gateway.wake(stopped=False)
                failed = runner.call("notify", *news)
        stop = failed is None and advance()
    gateway.end()
    finish_session(session, failed)
    return failed or runner.call("end")


def finish_session(session: Session, failed: Failure | None) -> None:
    """Replay the rest of a session without the agent. After a failure, the agent's resting orders are cancelled first."""
    if failed is not None:
        session.cancel_all()
    while session.step():
        pass


def decision_number(session: Session, phase: str) -> int:
    """Return the number of the present decision: -1 in the phase start, the number of all decisions in the phase end."""
    return session.step_index if phase in ("act", "notify") else session.steps if phase == "end" else -1


class LocalRunner:
    """Runner of an agent in this process."""

    def __init__(self, agent: Agent, ctx: AgentContext, session: Session, limit: StepLimit) -> None:
        self._agent, self._ctx, self._session, self._limit = agent, ctx, session, limit
        self._calls = ctx._limit

    def call(self, phase: str, *news: Any) -> Failure | None:
        """Call the agent in a phase, as `AgentRunner.call`."""
        step = decision_number(self._session, phase)
        self._ctx._begin(step, 0 if phase == "end" else self._calls)
        return call_guarded(self._limit, partial(call_phase, self._agent, self._ctx, phase, news), step, self._session.now)


def call_guarded(limit: StepLimit, call: Callable[[], Answer], step: int, at: int) -> Answer | Failure:
    """Call a function of an agent within the time limit. Returns its result, or a `Failure` for an error. step: number of the decision. at:
    simulated time, ns UTC.

    `RunStopped` and `KeyboardInterrupt` are raised.
    """
    try:
        limit.begin()
        answer = call()
        limit.finish()
    except (RunStopped, KeyboardInterrupt):
        raise
    except BaseException as error:  # includes asyncio errors that are not an `Exception`
        limit.stop()
        return build_failure(error, step, at, omitted=FRAMES)
    return answer


def call_phase(agent: Agent, ctx: AgentContext, phase: str, news: Sequence[Any]) -> None:
    """Call the agent's method for a phase, or for notify the callbacks for `news`. Raises `TypeError` if a method returns a value."""
    if phase == "act":
        if (answer := agent.act(ctx)) is not None:  # type: ignore[func-returns-value]
            raise _return_error(answer, "act")
    elif phase == "notify":
        _notify(agent, ctx, *news)
    elif phase == "start":
        agent.start(ctx, ctx.info)
    else:
        agent.end(ctx)


def _notify(agent: Agent, ctx: AgentContext, *news: Sequence[Any]) -> None:
    """Call the agent's callbacks for the rows of a `News`, in the order of `CALLBACKS`."""
    fills, orders, trades, books, timers = news
    reader = ctx._record_reader
    tickers = [ctx.tickers[code] for code in books]
    batches: tuple[Sequence[Any], ...] = (reader.fills(fills), reader.updates(orders), reader.trades(trades), tickers, timers)
    for name, values in zip(CALLBACKS, batches, strict=True):
        for value in values:
            if (answer := getattr(agent, name)(ctx, value)) is not None:
                raise _return_error(answer, name)


def _return_error(answer: object, method: str) -> TypeError:
    return TypeError(f"{method} returned {answer!r:.60}; return None and send orders through ctx")


#: Files whose frames are omitted from agents' tracebacks.
FRAMES = (__file__,)
