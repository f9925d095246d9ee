"""The base class of agents, their callbacks and parameters."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.records import CALLBACKS, Callbacks, EpisodeInfo, Fill, OrderUpdate, Trade
from bellwether.replay.units import CENT, CONTRACT
from bellwether.units import CentiCents, Lots

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext


def default_name(class_name: str) -> str:
    """Return the name of a class in words with hyphens."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", class_name).strip("_").lower()


class Agent:
    """A trading agent. Write `act`; parameters are the keyword arguments of `__init__`, state belongs in `start`.

    name: what results call it; the class's name in words with hyphens if omitted. api: version of the interface; declare `api = 3`, which states prices in
    $0.0001. Agents without it get and give mills (tenths of a cent) until 0.4. timed: the time limit of a step holds; an agent that waits for others,
    such as a model, sets it to False. An object runs once: each further run gets a new one of its class and parameters, so no run can learn from another.
    """

    name: str = ""
    api: int = 2
    timed: bool = True
    has_run: bool = False
    _params: Mapping[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments: an isolated agent is rebuilt from them."""
        agent = super().__new__(cls)
        agent._params = _arguments(cls, args, kwargs)
        return agent

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = default_name(cls.__name__)

    @property
    def params(self) -> dict[str, Any]:
        """The arguments that it was made with, defaults included."""
        return dict(self._params)

    def anew(self) -> Self:
        """An agent of the same class, parameters and name that has not run."""
        agent = type(self)(**self._params)
        agent.name = self.name
        return agent

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Called once before the first decision: set up the state of this run.

        `ctx` shows the opening books where the recording has them at the start, and can be read as in `act`; orders are for `act`.
        """

    def act(self, ctx: AgentContext) -> None:
        """Called at each decision point: look at `ctx`, send orders through it."""
        raise TypeError(f"{type(self).__name__} has no act(self, ctx); write one")

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        """Called for each own fill as soon as it can be known: at its time, later by the latency of market data. Has the calls of a decision."""

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        """Called when an own order was accepted, rejected, filled in part or whole, amended, cancelled or has expired, as `on_fill`."""

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        """Called for each trade of the recorded market as soon as it can be known, as `on_fill`."""

    def on_book(self, ctx: AgentContext, ticker: str) -> None:
        """Called for each market whose best bid or ask price has changed, as soon as it can be known: once per instant, as `on_fill`."""

    def on_timer(self, ctx: AgentContext, time_ns: int) -> None:
        """Called at each time, ns UTC, for which `ctx.at` was called, after the other callbacks of that instant. Has the calls of a decision."""

    def end(self, ctx: AgentContext) -> None:
        """Called once after the last event, when what settles has settled."""


class CompiledAgent(Agent):
    """An agent whose decisions are compiled code: the whole run happens in one call that holds no lock of Python.

    strategy: a compiled function of (sim, params), under `@strategy` of `bellwether.replay.engine.kernel`, which also has what it can call. Neither
    the tool-call budget nor the time limit of a step applies to it. The callbacks `on_fill`, `on_order`, `on_trade`, `on_book` and `on_timer`, each a
    compiled function of (sim, params, number), are called between decisions, within `next_step`.
    """

    #: The compiled function.
    strategy: Any

    def numbers(self, episode: EpisodeInfo, seed: int) -> np.ndarray:
        """The array that the strategy gets as `params`; one-dimensional, int64 or float64. seed: 256 bits, stable per episode, agent and seed."""
        raise TypeError(f"{type(self).__name__} has no numbers(self, episode, seed); write one")


def callbacks_of(agent: type[Agent]) -> Callbacks:
    """The callbacks that a class defines."""
    return Callbacks(**{name: getattr(agent, name) is not getattr(Agent, name) for name in CALLBACKS})


@lru_cache(maxsize=256)
def _signature(cls: type) -> inspect.Signature:
    """Of the class's `__init__`, self first. Raises `ConfigError` for arguments that have no names."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    nameless = next((one.name for one in signature.parameters.values() if one.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if nameless is not None:
        raise ConfigError(f"making the agent {cls.__name__}: *{nameless} has no names; give the parameters names")
    return signature


def _arguments(cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    signature = _signature(cls)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:]) or "none"
        raise ConfigError(f"making the agent {cls.__name__}: {error}; its parameters are {known}") from None
    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        values.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return values


def stable_seed(digest: str, agent: str, seed: int) -> int:
    """A number of 256 bits, the same on every machine: SHA-256 of the episode's digest, the agent's name and the seed of the run."""
    return int.from_bytes(hashlib.sha256(f"{digest}\n{agent}\n{seed}".encode()).digest(), "big")


def cents(value: int | float | str | Decimal, name: str = "cents") -> CentiCents:
    """Convert cents to $0.0001 exactly. Raises `ConfigError`, naming the parameter, for what is finer than a hundredth of a cent or no number."""
    return CentiCents(_units(value, CENT, name, "a hundredth of a cent"))


def contracts(value: int | float | str | Decimal, name: str = "contracts") -> Lots:
    """Convert contracts to lots (0.01 contract) exactly. Raises `ConfigError`, naming the parameter, for what is finer than a hundredth or no number."""
    return Lots(_units(value, CONTRACT, name, "a hundredth of a contract"))


def _units(value: int | float | str | Decimal, units: int, name: str, unit: str) -> int:
    try:
        scaled = Decimal(str(value)) * units
        whole = int(scaled)
    except (InvalidOperation, ValueError, OverflowError):
        raise ConfigError(f"reading the parameter {name}: {value!r:.60} is no number; give one") from None
    if isinstance(value, bool) or whole != scaled:
        raise ConfigError(f"reading the parameter {name}: {value!r:.60} is finer than {unit}; give a multiple of it")
    return whole
