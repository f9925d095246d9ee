"""Settings of a backtest, with the limits of its agent."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, Self, get_args

from bellwether.errors import ConfigError
from bellwether.replay.units import MICROS, MINUTE
from bellwether.units import MicroDollars

DEFAULT_QUEUE = "proportional"
#: Bankroll of a tape without an episode, micro-dollars: the 1,000 dollars of PredictionMarketBench's episodes.
BANKROLL = MicroDollars(1_000 * MICROS)
#: Maximum values: a larger bankroll could exceed 64 bits, and each order has a row in memory.
LARGEST: Mapping[str, int] = {"bankroll": 10**15, "max_orders": 10**7, "max_resting": 10**6, "queues": 10_000, "seed": 2**63 - 1}
#: Minimum values that are not 0.
_LEAST: Mapping[str, int] = {"cadence": 1, "sample_every": 1, "seed": -(2**63)}

Execution = Literal["maker_taker", "taker_only"]
SelfTradeRule = Literal["cancel_taker", "cancel_maker"]

_LEAST_MEMORY, _LONGEST_RUN = 256 << 20, 366 * 86_400
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_DURATIONS = {"s": 1, "min": 60, "h": 3600}
_LIMIT_UNITS = {"decision": _DURATIONS, "run": _DURATIONS, "memory": {"MiB": 1 << 20, "GiB": 1 << 30}, "calls": {"": 1}}
_LIMIT_EXAMPLES = {"decision": "5s", "run": "1h", "memory": "2GiB", "calls": "20"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of agents. Raises `ConfigError` for values out of range.

    Attributes:
        decision: Real seconds of a decision, of a callback, and of loading the agent.
        run: Real seconds of all of these in a run, and its CPU seconds; of isolated agents only.
        memory: Bytes of address space, at least 256 MiB; of isolated agents only.
        calls: Tool calls of a decision; of language models and under PredictionMarketBench's rules only.
    """

    decision: float = 60.0
    run: float = 3600.0
    memory: int = 2 << 30
    calls: int = 100

    def __post_init__(self) -> None:
        for name in ("decision", "run"):
            if not 0 < getattr(self, name) < _LONGEST_RUN:
                raise ConfigError(f"limiting an agent: {name} is {getattr(self, name)!r:.60}; give more than 0 seconds, and at most a year")
        for name, least in (("memory", _LEAST_MEMORY), ("calls", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigError(f"limiting an agent: {name} is {value!r:.60}; give an integer of {least:,} or more")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse limits such as `memory=2GiB,decision=5s,run=1h,calls=20`; those left out keep their defaults.

        Durations are in s, min or h, memory in MiB or GiB. Raises `ConfigError` naming the limit and the value.
        """
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, value = (word.strip() for word in part.partition("="))
            if name not in _LIMIT_UNITS:
                raise ConfigError(f"reading --limits: {name!r:.60} is not a limit; the limits are {', '.join(_LIMIT_UNITS)}")
            match = _QUANTITY.fullmatch(value)
            unit = _LIMIT_UNITS[name].get(match[2]) if match else None
            if match is None or unit is None:
                example = _LIMIT_EXAMPLES[name]
                raise ConfigError(f"reading --limits: {name} is {value!r:.60}; give a value such as {example}")
            amount = Decimal(match[1]) * unit
            values[name] = float(amount) if name in ("decision", "run") else int(amount)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class BacktestSettings:
    """Settings of a backtest. Durations are in ns, money in micro-dollars. Raises `ConfigError` for invalid values.

    Attributes:
        rules: Name of a rule set. Default: that of the episode, else that of the venue on the episode's first day.
        cadence: Time between decisions.
        sample_every: Time between points of the equity curve.
        order_latency: Time until an order arrives.
        data_latency: Time until the agent sees an event.
        execution: maker_taker or taker_only. Default: that of the episode.
        queue: Queue model: trade_only, proportional (with an exponent: proportional:3), optimistic, or sampled:K with the number of a
            history; under PredictionMarketBench's rules one of `pmb.QUEUES`. Default: proportional, or trade_only under these rules.
        queues: Number of sampled queue histories in which the run is repeated. Default: 20 for agents that ship with Bellwether and for
            compiled agents; 0 for isolated agents and other Python agents, which may call paid services.
        self_trade: Order that is cancelled when both are the agent's: cancel_taker or cancel_maker.
        bankroll: Starting cash. Default: that of the episode.
        max_orders: Maximum orders of the run.
        max_resting: Maximum resting orders per market and side.
        seed: Seed of the agent's random numbers.
        limits: Limits of the agent.
    """

    rules: str | None = None
    cadence: int = 5 * MINUTE
    sample_every: int = MINUTE
    order_latency: int = 0
    data_latency: int = 0
    execution: Execution | None = None
    queue: str | None = None
    queues: int | None = None
    self_trade: SelfTradeRule = "cancel_taker"
    bankroll: int | None = None
    max_orders: int = 1_000_000
    max_resting: int = 1000
    seed: int = 0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        optional = [name for name in ("queues", "bankroll") if getattr(self, name) is not None]
        for name in ("cadence", "sample_every", "order_latency", "data_latency", "max_orders", "max_resting", "seed", *optional):
            value, least, most = getattr(self, name), _LEAST.get(name, 0), LARGEST.get(name, 10**18)
            if type(value) is not int or not least <= value <= most:
                raise ConfigError(f"settings of a backtest: {name} is {value!r:.60}; give an integer from {least:,} to {most:,}")
        for name, choices in (("execution", (None, *get_args(Execution))), ("self_trade", get_args(SelfTradeRule))):
            if getattr(self, name) not in choices:
                names = ", ".join(filter(None, choices))
                raise ConfigError(f"settings of a backtest: {name} is {getattr(self, name)!r:.60}; choose one of {names}")

    def complete(self, *, execution: Execution = "maker_taker", queue: str = DEFAULT_QUEUE, bankroll: int = BANKROLL) -> BacktestSettings:
        """Return the settings with these values for those that are not set."""
        return replace(
            self,
            execution=self.execution or execution,
            queue=self.queue or queue,
            bankroll=bankroll if self.bankroll is None else self.bankroll,
        )

    def values(self) -> dict[str, Any]:
        """Return the settings that can change a result, by name. Excluded are the limits other than that of tool calls, and the number of
        sampled queue histories.
        """
        excluded = {"limits", "queues"}
        return {name: value for name, value in asdict(self).items() if name not in excluded} | {"calls": self.limits.calls}

    def digest(self) -> str:
        """Compute the SHA-256 of `values`."""
        return hashlib.sha256(json.dumps(self.values(), sort_keys=True).encode()).hexdigest()
