"""Base classes of agents, with their callbacks and parameters, and the calls of an agent in the phases of a run."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.agents.limits import Failure, RunStopped, StepLimit, build_failure
from bellwether.replay.agents.port import News
from bellwether.replay.agents.records import EpisodeInfo, Fill, OrderUpdate, Trade, to_fills, to_trades, to_updates
from bellwether.replay.units import CENT, CONTRACT
from bellwether.units import CentiCents, Lots

if TYPE_CHECKING:
    from bellwether.replay.agents.context import AgentContext


#: Methods that are called at events, in the order of their calls at one instant.
CALLBACKS = ("on_fill", "on_order", "on_trade", "on_book", "on_timer")


def callbacks_of(agent: type[Agent]) -> tuple[str, ...]:
    """Return which of `CALLBACKS` an agent class defines."""
    return tuple(name for name in CALLBACKS if getattr(agent, name) is not getattr(Agent, name))


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


Answer = TypeVar("Answer")
#: Function that calls an agent in a phase, with the number of the decision and, in the phase notify, the news for its callbacks. Returns the failure
#: that ends the agent's trading; None if it can continue.
PhaseCaller = Callable[[str, int, News | None], Failure | None]


def call_locally(agent: Agent, ctx: AgentContext, limit: StepLimit) -> PhaseCaller:
    """Return the function that calls an agent of this process within the time limit."""
    now = partial(ctx._port.read, "now")

    def call(phase: str, step: int, news: News | None) -> Failure | None:
        return call_guarded(limit, partial(call_phase, agent, ctx, phase, step, news), step, now)

    return call


def call_guarded(limit: StepLimit, call: Callable[[], Answer], step: int, now: Callable[[], int]) -> Answer | Failure:
    """Call a function of an agent within the time limit. Returns its result, or a `Failure` for an error. step: number of the decision.
    now: returns the simulated time, ns UTC.

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
        return build_failure(error, step, now(), omitted=FRAMES)
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
