"""Calls of an agent in the phases of a run: start, decisions, callbacks and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from bellwether.replay.agents.agent import CALLBACKS, Agent
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.failures import Failure, build_failure
from bellwether.replay.agents.limits import RunStopped, StepLimit
from bellwether.replay.agents.port import News
from bellwether.replay.agents.records import to_fills, to_trades, to_updates

Answer = TypeVar("Answer")
#: Function that calls an agent in a phase, with the number of the decision and, in the phase notify, the news for its callbacks. Returns the failure
#: that ends the agent's trading; None if it can continue.
PhaseCaller = Callable[[str, int, News | None], Failure | None]


def call_locally(agent: Agent, ctx: AgentContext, limit: StepLimit) -> PhaseCaller:
    """Return the function that calls an agent of this process within the time limit."""
    port: Any = ctx._port

    def call(phase: str, step: int, news: News | None) -> Failure | None:
        return call_guarded(limit, partial(call_phase, agent, ctx, phase, step, news), step, port.read("now"))

    return call


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


def call_phase(agent: Agent, ctx: AgentContext, phase: str, step: int, news: News | None) -> None:
    """Call the agent's method for a phase, or for notify the callbacks for `news`. Raises `TypeError` if a method returns a value."""
    ctx._begin(step, sends=phase in ("act", "notify"))
    if phase == "act":
        if (answer := agent.act(ctx)) is not None:  # type: ignore[func-returns-value]
            raise _return_error(answer, "act")
    elif news is not None:
        _notify(agent, ctx, news)
    elif phase == "start":
        agent.start(ctx, ctx.info)
    else:
        agent.end(ctx)


def _notify(agent: Agent, ctx: AgentContext, news: News) -> None:
    """Call the agent's callbacks, in the order of `CALLBACKS`."""
    fills, orders, trades, books, timers = news
    tickers, tags = ctx.tickers, ctx._port.tags
    batches: tuple[Sequence[Any], ...] = (
        to_fills(tickers, tags, fills),
        to_updates(tickers, tags, orders),
        to_trades(tickers, trades),
        [tickers[code] for code in books],
        timers,
    )
    for name, values in zip(CALLBACKS, batches, strict=True):
        for value in values:
            if (answer := getattr(agent, name)(ctx, value)) is not None:
                raise _return_error(answer, name)


def _return_error(answer: object, method: str) -> TypeError:
    return TypeError(f"{method} returned {answer!r:.60}; return None and send orders through ctx")


#: Files whose frames are omitted from agents' tracebacks.
FRAMES = (__file__,)
