"""Base classes of agents, with their callbacks and parameters."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.records import EpisodeInfo, Fill, OrderUpdate, Trade
from bellwether.replay.units import CENT, CONTRACT
from bellwether.units import CentiCents, Lots

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Set of the callbacks that an agent defines. At one instant they are called in the order of the fields."""

    on_fill: bool = False
    on_order: bool = False
    on_trade: bool = False
    on_book: bool = False
    on_timer: bool = False

    @classmethod
    def of(cls, agent: type[Agent]) -> Callbacks:
        """Return which callbacks an agent class defines."""
        return cls(**{name: getattr(agent, name) is not getattr(Agent, name) for name in CALLBACKS})

    @property
    def needs_news(self) -> bool:
        """True if the agent has a callback for events other than timers, at which the replay must pause."""
        return any(astuple(self)[:-1])

    def __bool__(self) -> bool:
        return any(astuple(self))


CALLBACKS = tuple(field.name for field in fields(Callbacks))


def default_name(class_name: str) -> str:
    """Build the default name of an agent from its class name: lower-case words joined with hyphens."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", class_name).strip("_").lower()


class Agent:
    """Base class of trading agents. Subclasses implement `act`.

    Parameters are the keyword arguments of `__init__`; initialize state in `start`. An object runs once: each further run creates a new
    object with the same class and parameters, so that runs are independent.

    Attributes:
        name: Name in results. Default: the class name in lower-case words with hyphens.
        timed: Whether the time limit of a step applies. Set it to False in agents that wait for a service, such as a model.
    """

    name: str = ""
    timed: bool = True
    has_run: bool = False
    _params: Mapping[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create an instance, and record the arguments for `recreate`."""
        agent = super().__new__(cls)
        agent._params = _bind_arguments(cls, args, kwargs)
        return agent

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in vars(cls):
            cls.name = default_name(cls.__name__)

    @property
    def params(self) -> dict[str, Any]:
        """Arguments of `__init__`, including defaults."""
        return dict(self._params)

    def recreate(self) -> Self:
        """Return a new agent of the same class, parameters and name, without anything that this agent stored in a run."""
        agent = type(self)(**self._params)
        agent.name = self.name
        return agent

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set up the state of a run. Called once, before the first decision.

        `ctx` can be read as in `act`, and shows the opening books if the recording starts with them. Orders raise `OrderError`.
        """

    def act(self, ctx: AgentContext) -> None:
        """Make a decision: read `ctx`, and send orders through it. Called at each decision point."""
        raise TypeError(f"{type(self).__name__} has no act(self, ctx); write one")

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        """React to a fill of one of the agent's orders.

        Called at the time of the fill plus the latency of market data.
        """

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        """React to a change of one of the agent's orders: `update` has the new status and size. Timing as in `on_fill`."""

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        """React to a trade of other participants in the recorded market. Timing as in `on_fill`."""

    def on_book(self, ctx: AgentContext, ticker: str) -> None:
        """React to a change of a market's best bid or ask price. Called once per market and instant. Timing as in `on_fill`."""

    def on_timer(self, ctx: AgentContext, time_ns: int) -> None:
        """React to a timer set by `ctx.at`. Called at `time_ns` (ns UTC), after the other callbacks of that instant."""

    def end(self, ctx: AgentContext) -> None:
        """Finish a run. Called once, after the last event and all settlements. `ctx` can be read; orders raise `OrderError`."""


class CompiledAgent(Agent):
    """Base class of agents whose decisions are compiled code.

    The whole run is one call, which releases the GIL. The callbacks `on_fill`, `on_order`, `on_trade`, `on_book` and `on_timer` are
    compiled functions of (sim, params, number), called between decisions, within `next_step`. The time limit of a step does
    not apply.

    Attributes:
        strategy: Function of (sim, params), compiled with `@strategy` of `bellwether.replay.engine.kernel`, which contains the functions
            that a strategy can call.
    """

    strategy: Any

    def numbers(self, episode: EpisodeInfo, seed: int) -> np.ndarray:
        """Return the array that the compiled functions receive as `params`: one-dimensional, int64 or float64. seed: 256 bits, as
        `AgentContext.seed`.
        """
        raise TypeError(f"{type(self).__name__} has no numbers(self, episode, seed); write one")


@lru_cache(maxsize=256)
def _init_signature(cls: type) -> inspect.Signature:
    """Return the signature of `__init__`, including self. Raises `ConfigError` if it has a `*args` parameter."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    nameless = next(
        (parameter.name for parameter in signature.parameters.values() if parameter.kind is inspect.Parameter.VAR_POSITIONAL), None
    )
    if nameless is not None:
        raise ConfigError(f"making the agent {cls.__name__}: *{nameless} accepts positional arguments; give each parameter a name")
    return signature


def _bind_arguments(cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    signature = _init_signature(cls)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError as error:
        names = ", ".join(list(signature.parameters)[1:]) or "none"
        raise ConfigError(f"making the agent {cls.__name__}: {error}; its parameters are {names}") from None
    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        values.update(value if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return values


def derive_seed(digest: str, agent: str, seed: int) -> int:
    """Derive a seed of 256 bits: SHA-256 of the episode's digest, the agent's name and the seed of the run."""
    return int.from_bytes(hashlib.sha256(f"{digest}\n{agent}\n{seed}".encode()).digest(), "big")


def cents(value: int | float | str | Decimal, name: str = "cents") -> CentiCents:
    """Convert cents to a price in units of $0.0001. Raises `ConfigError` if the value is not a multiple of 0.01 cent. name: parameter named
    in the error.
    """
    return CentiCents(_to_units(value, CENT, name, "a hundredth of a cent"))


def contracts(value: int | float | str | Decimal, name: str = "contracts") -> Lots:
    """Convert contracts to lots of 0.01 contract. Raises `ConfigError` if the value is not a whole number of lots. name: parameter named in
    the error.
    """
    return Lots(_to_units(value, CONTRACT, name, "a hundredth of a contract"))


def _to_units(value: int | float | str | Decimal, units: int, name: str, unit: str) -> int:
    try:
        scaled = Decimal(str(value)) * units
        whole = int(scaled)
    except (InvalidOperation, ValueError, OverflowError):
        raise ConfigError(f"reading the parameter {name}: {value!r:.60} is not a number; give a number") from None
    if isinstance(value, bool) or whole != scaled:
        raise ConfigError(f"reading the parameter {name}: {value!r:.60} is finer than {unit}; give a multiple of it")
    return whole
