"""Program of an isolated agent's process: it confines itself, loads the agent, and runs one phase (such as a decision) per message of the
simulator.

Messages sent before the agent's file is loaded can be trusted, later messages cannot.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from functools import partial
from typing import Any, NoReturn

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, find_callbacks
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.failures import describe_error, format_traceback
from bellwether.replay.agents.interface import CALLS, STATE
from bellwether.replay.agents.loader import AgentReference, load_agent_class
from bellwether.replay.agents.records import EpisodeInfo, MarketInfo
from bellwether.replay.agents.runner import FRAMES, call_phase
from bellwether.replay.isolation.confinement import IsolationUnavailable, confine
from bellwether.replay.isolation.settings import kind_of
from bellwether.replay.isolation.wire_protocol import MessageChannel, restore_result

#: Part of numba's error message without a writable cache.
_UNCACHED = "cannot cache function"


class RemoteSimulator:
    """Implementation of `Simulator` by messages. The state of books and account arrives at the start of a phase and with the result of each
    change.
    """

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._rows: dict[int, Any] = {}

    def replace_state(self, state: Any) -> None:
        """Store a newer state of books and account, and discard the cached rows of orders."""
        self._state = dict(zip(STATE, state, strict=True))
        self._rows.clear()

    def call(self, name: str, *arguments: Any) -> Any:
        """Return the result of a method of `Simulator`, from the stored state or cache, or by a message to the simulator's process."""
        signature = CALLS[name]
        if signature.kind == "state":
            return restore_result(self._state[name], signature)
        if name == "order" and arguments[0] in self._rows:
            return self._rows[arguments[0]]
        self._channel.send([name, *arguments])
        result = self._channel.receive()
        if signature.kind == "change":
            result, state, row = result
            self.replace_state(state)
            if row is not None:
                self._rows[result] = tuple(row)
        result = restore_result(result, signature)
        if name == "order":
            self._rows[arguments[0]] = result
        return result

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            raise AttributeError(name)
        return partial(self.call, name)


def main(descriptor: int) -> NoReturn:
    """Run the agent process until it exits. descriptor: socket to the simulator."""
    channel = MessageChannel(descriptor)
    plan = channel.receive()
    try:
        confinement = confine(plan["files"], plan["links"], plan["memory"], partial=plan["partial"])
    except IsolationUnavailable as error:
        channel.send(["refused", str(error)])
        os._exit(0)
    channel.send(["confined", *astuple(confinement)])
    try:
        _serve(channel, _load(channel, plan["reference"], plan))
    except BaseException as error:
        kind, message = describe_error(error)
        channel.send(["failed", kind, message, format_traceback(error, (*FRAMES, __file__))])
    os._exit(0)


def _load(channel: MessageChannel, reference: str, plan: dict[str, Any]) -> Agent:
    """Load the agent and send its description to the simulator. plan: first message of the simulator, with the agent's parameters.

    Without parameters in the plan, only the class is described. Then, and if the agent cannot be isolated, the process exits. Raises the
    errors of the agent's own code.
    """
    try:
        cls = load_agent_class(reference)
        if plan["params"] is None:
            channel.send(["loaded", cls.name, (cls.__doc__ or "").strip().partition("\n")[0][:1000], kind_of(cls), ""])
            os._exit(0)
        agent = AgentReference(reference, plan["params"], plan["name"]).make()
        params = json.dumps(agent.params, sort_keys=True, default=str, ensure_ascii=False)
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
    channel.send(["loaded", agent.name, params, kind_of(cls), str(find_callbacks(cls))])
    return agent


def _serve(channel: MessageChannel, agent: Agent) -> None:
    """Run each phase that the simulator requests, until the simulator closes the connection."""
    about = channel.receive()
    fields = about.pop("info")
    markets = tuple(MarketInfo(*market) for market in fields["markets"])
    info = EpisodeInfo(**{**fields, "markets": markets, "exogenous": tuple(fields["exogenous"])})
    simulator: Any = RemoteSimulator(channel)
    ctx = AgentContext(simulator, info, seed=int(about.pop("seed"), 16), **about)
    while True:
        phase, step, calls, state, *news = channel.receive()
        simulator.replace_state(state)
        ctx._begin(step, calls)
        call_phase(agent, ctx, phase, news)
        channel.send(["done", int(ctx._reacts)])
