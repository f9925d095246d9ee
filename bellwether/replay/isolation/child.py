"""The agent's process: it confines itself, loads the agent, and answers the simulator phase by phase.

What runs here before the agent's file is loaded can be relied on; nothing that comes from here afterwards can.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, CompiledAgent, callbacks_of, tell
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.failures import described, returned, traced
from bellwether.replay.agents.gateway import Row
from bellwether.replay.agents.load import agent_class, make_agent
from bellwether.replay.agents.records import FILL_COLUMNS, TRADE_COLUMNS, EpisodeInfo, MarketInfo
from bellwether.replay.isolation.confine import Unavailable, confine
from bellwether.replay.isolation.wire import Channel
from bellwether.units import Lots, MicroDollars, Mills

#: Message of numba without a writable cache.
_UNCACHED = "cannot cache function"


class RemoteDoor:
    """The calls of a `Gateway` that is in another process. What a decision starts with, and what an order changes, comes with the answer."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._rows: dict[int, Row | None] = {}

    def begin(self, now: int, statuses: list[int], state: Any) -> None:
        """A decision point was reached."""
        self._now, self._statuses = now, statuses
        self._show(state)

    def _show(self, state: Any) -> None:
        """Books and account are now these."""
        self._sent, self._cash, self._available, self._bids, self._positions = state
        self._rows.clear()

    def _ask(self, *message: Any) -> Any:
        self._channel.send(message)
        return self._channel.receive()

    def _change(self, *message: Any) -> Any:
        answer, state, row = self._ask(*message)
        self._show(state)
        if row is not None:
            self._rows[answer] = row
        return answer

    def now(self) -> int:
        return self._now

    def bids(self) -> np.ndarray:
        return np.array(self._bids, np.int64).reshape(-1, 2)

    def bid_rows(self) -> list[list[Mills]]:
        return self._bids

    def positions(self) -> np.ndarray:
        return np.array(self._positions, np.int64).reshape(-1, 2)

    def position_rows(self) -> list[list[Lots]]:
        return self._positions

    def statuses(self) -> np.ndarray:
        return np.array(self._statuses, np.int64)

    def status_list(self) -> list[int]:
        return self._statuses

    def sizes(self) -> np.ndarray:
        return np.array(self._ask("sizes"), np.int64).reshape(-1, 2)

    def cash(self) -> MicroDollars:
        return self._cash

    def available(self) -> MicroDollars:
        return self._available

    def equity(self) -> MicroDollars:
        return self._ask("equity")

    def sent(self) -> int:
        return self._sent

    def order(self, number: int) -> Row | None:
        if number not in self._rows:
            self._rows[number] = self._ask("order", number)
        return self._rows[number]

    def book(self, code: int, depth: int) -> Any:
        sides = self._ask("book", code, depth)
        return None if sides is None else tuple(tuple((price, lots) for price, lots in side) for side in sides)

    def resting(self, code: int) -> Any:
        return self._ask("resting", code)

    def are_resting(self, numbers: np.ndarray) -> Any:
        return _array(self._ask("are_resting", numbers), bool)

    def points(self, series: int, after: int) -> Any:
        fresh = self._ask("points", series, after)
        return None if fresh is None else (np.array(fresh[0], np.int64), np.array([float.fromhex(value) for value in fresh[1]]))

    def trades(self, code: int, after: int) -> Any:
        return _rows(self._ask("trades", code, after), len(TRADE_COLUMNS))

    def fills(self, code: int, whole: int, after: int) -> Any:
        return _rows(self._ask("fills", code, whole, after), len(FILL_COLUMNS))

    def ledger(self, code: int) -> Any:
        return self._ask("ledger", code)

    def place(self, *order: int) -> Any:
        return self._change("place", *order)

    def place_many(self, requests: np.ndarray) -> Any:
        return _array(self._change("place_many", requests), np.int64)

    def cancel(self, number: int) -> Any:
        return self._change("cancel", number)

    def cancel_many(self, numbers: np.ndarray) -> Any:
        return _array(self._change("cancel_many", numbers), bool)

    def cancel_all(self, code: int) -> Any:
        return self._change("cancel_all", code)

    def amend(self, number: int, price: Mills, lots: Lots) -> Any:
        return self._change("amend", number, price, lots)

    def quote(self, code: int, yes_price: Mills, no_price: Mills, lots: Lots, calls: int) -> Any:
        return self._change("quote", code, yes_price, no_price, lots, calls)

    def quote_many(self, prices: np.ndarray, lots: Lots, calls: int) -> Any:
        return self._change("quote_many", prices, lots, calls)


def _rows(values: Any, columns: int) -> Any:
    return None if values is None else np.array(values, np.int64).reshape(-1, columns)


def _array(values: Any, dtype: Any) -> Any:
    return None if values is None else np.array(values, dtype)


def main(descriptor: int) -> NoReturn:
    """Run this process from its start to its end."""
    channel = Channel(descriptor)
    plan = channel.receive()
    try:
        held = confine(plan["files"], plan["links"], plan["memory"], partial=plan["partial"])
    except Unavailable as error:
        channel.send(["refused", str(error)])
        os._exit(0)
    channel.send(["confined", held.network, held.files, held.processes, held.memory, held.names])
    try:
        _serve(channel, _load(channel, plan["reference"], plan))
    except BaseException as error:
        kind, message = described(error)
        channel.send(["failed", kind, message, traced(error, __file__)])
    os._exit(0)


def _load(channel: Channel, reference: str, plan: dict[str, Any]) -> Agent:
    """Return the agent; end the process without one, and after a request for a class alone. Raises what the agent's own code does."""
    try:
        found = agent_class(reference)
        if plan["params"] is None:
            channel.send(["loaded", found.name, (found.__doc__ or "").strip().partition("\n")[0][:1000], _kind(found), ""])
            os._exit(0)
        agent = make_agent(reference, plan["params"], plan["name"] or found.name)
        params = _json(agent.params)
    except ConfigError as error:
        message, cause = described(error)[1], error.__cause__
        if _UNCACHED in message:
            message = (
                f"isolating the agent {reference}: it uses code that numba compiles and keeps (cache=True), and an isolated agent can write no file. "
                "Leave cache=True away; compiled agents run within the simulator and cannot be isolated"
            )
        elif cause is not None and not (
            isinstance(cause, ModuleNotFoundError) and f"{reference.replace(':', '.')}".startswith(f"{cause.name}.")
        ):
            raise cause from None
        channel.send(["refused", message])
        os._exit(0)
    channel.send(["loaded", agent.name, params, _kind(found), str(callbacks_of(found))])
    return agent


def _kind(found: type[Agent]) -> str:
    if issubclass(found, CompiledAgent):
        return "compiled"
    return "timed" if found.timed else "waiting"


def _json(params: dict[str, Any]) -> str:
    import json

    return json.dumps(params, sort_keys=True, default=str, ensure_ascii=False)


def _serve(channel: Channel, agent: Agent) -> None:
    """Answer until the other side has no more to ask."""
    about = channel.receive()
    told = about["info"]
    markets = tuple(MarketInfo(*market) for market in told["markets"])
    info = EpisodeInfo(**{**told, "markets": markets, "exogenous": tuple(told["exogenous"])})
    door = RemoteDoor(channel)
    seed, series = int(about["seed"], 16), about["series"]
    ctx = AgentContext(door, info, seed=seed, calls_per_step=about["calls_per_step"], max_orders=about["max_orders"], series=series)  # type: ignore[arg-type]
    phases: dict[str, Callable[..., None]] = {
        "start": lambda: agent.start(ctx, info),
        "act": lambda: _act(agent, ctx),
        "tell": partial(tell, agent, ctx),
        "end": lambda: agent.end(ctx),
    }
    while True:
        phase, step, now, calls, statuses, state, *news = channel.receive()
        door.begin(now, statuses, state)
        ctx._begin(step, calls)
        phases[phase](*news)
        channel.send(["done"])


def _act(agent: Agent, ctx: AgentContext) -> None:
    answer: object = agent.act(ctx)  # type: ignore[func-returns-value]
    if answer is not None:
        raise returned(answer)
