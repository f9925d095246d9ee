"""Agent process: confines itself, loads the agent, and answers the simulator phase by phase.

Messages sent before the agent's file is loaded can be trusted; later ones cannot.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NoReturn

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, callbacks_of
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.failures import describe_error, format_traceback
from bellwether.replay.agents.interface import CALLS, STATE
from bellwether.replay.agents.loader import AgentReference, load_agent_class
from bellwether.replay.agents.mills import scale_prices
from bellwether.replay.agents.records import EpisodeInfo, MarketInfo
from bellwether.replay.agents.runner import FRAMES, call_phase
from bellwether.replay.isolation.confinement import IsolationUnavailable, confine
from bellwether.replay.isolation.wire_protocol import MessageChannel, restore_result

#: Part of numba's error message without a writable cache.
_UNCACHED = "cannot cache function"


class RemoteSimulator:
    """`Simulator` in another process. Its state arrives at the start of a decision and with the answer to each order."""

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._rows: dict[int, Any] = {}

    def show(self, state: Any) -> None:
        """Replace the state of books and account."""
        self._state = dict(zip(STATE, state, strict=True))
        self._rows.clear()

    def call(self, name: str, *arguments: Any) -> Any:
        """Return the result of a call, from the state or from the other process."""
        call = CALLS[name]
        if call.kind == "state":
            return restore_result(self._state[name], call)
        if name == "order" and arguments[0] in self._rows:
            return self._rows[arguments[0]]
        self._channel.send([name, *arguments])
        answer = self._channel.receive()
        if call.kind == "change":
            answer, state, row = answer
            self.show(state)
            if row is not None:
                self._rows[answer] = tuple(row)
        answer = restore_result(answer, call)
        if name == "order":
            self._rows[arguments[0]] = answer
        return answer

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            raise AttributeError(name)
        return partial(self.call, name)


def main(descriptor: int) -> NoReturn:
    """Run the agent process until it exits. descriptor: socket to the simulator."""
    channel = MessageChannel(descriptor)
    plan = channel.receive()
    try:
        held = confine(plan["files"], plan["links"], plan["memory"], partial=plan["partial"])
    except IsolationUnavailable as error:
        channel.send(["refused", str(error)])
        os._exit(0)
    channel.send(["confined", held.network, held.files, held.processes, held.memory, held.names])
    try:
        _serve(channel, _load(channel, plan["reference"], plan))
    except BaseException as error:
        kind, message = describe_error(error)
        channel.send(["failed", kind, message, format_traceback(error, (*FRAMES, __file__))])
    os._exit(0)


def _load(channel: MessageChannel, reference: str, plan: dict[str, Any]) -> Agent:
    """Load the agent. Exits the process if the agent cannot be isolated, or after describing its class if no parameters are given.

    Raises the errors of the agent's own code.
    """
    try:
        found = load_agent_class(reference)
        if plan["params"] is None:
            channel.send(["loaded", found.name, (found.__doc__ or "").strip().partition("\n")[0][:1000], _kind(found), "", found.api])
            os._exit(0)
        agent = AgentReference(reference, plan["params"], plan["name"]).make()
        params = _json(agent.params)
    except ConfigError as error:
        message, cause = describe_error(error)[1], error.__cause__
        if _UNCACHED in message:
            message = (
                f"isolating the agent {reference}: it uses numba with cache=True, and an isolated agent cannot write files. "
                "Remove cache=True; compiled agents run within the simulator and cannot be isolated"
            )
        elif cause is not None and not (
            isinstance(cause, ModuleNotFoundError) and f"{reference.replace(':', '.')}".startswith(f"{cause.name}.")
        ):
            raise cause from None
        channel.send(["refused", message])
        os._exit(0)
    channel.send(["loaded", agent.name, params, _kind(found), str(callbacks_of(found)), found.api])
    return agent


def _kind(found: type[Agent]) -> str:
    if issubclass(found, CompiledAgent):
        return "compiled"
    return "timed" if found.timed else "waiting"


def _json(params: dict[str, Any]) -> str:
    import json

    return json.dumps(params, sort_keys=True, default=str, ensure_ascii=False)


def _serve(channel: MessageChannel, agent: Agent) -> None:
    """Answer phases until the simulator closes the connection."""
    about = channel.receive()
    fields = about.pop("info")
    markets = tuple(MarketInfo(*market) for market in fields["markets"])
    info = EpisodeInfo(**{**fields, "markets": markets, "exogenous": tuple(fields["exogenous"])})
    simulator: Any = RemoteSimulator(channel)
    ctx = AgentContext(scale_prices(simulator, about["unit"]), info, seed=int(about.pop("seed"), 16), **about)
    while True:
        phase, step, calls, state, *news = channel.receive()
        simulator.show(state)
        ctx._begin(step, calls)
        call_phase(agent, ctx, phase, news)
        channel.send(["done", int(ctx._reacts)])
