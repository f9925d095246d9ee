"""Settings of one replay: what the experimenter chooses, apart from the venue's rules."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from bellwether.errors import ConfigError
from bellwether.replay.rules.choices import Queue
from bellwether.replay.units import MICROS, MINUTE, SECOND

Execution = Literal["maker_taker", "taker_only"]
SelfTradeRule = Literal["cancel_taker", "cancel_maker"]

#: Above these, sums of money could leave 64 bits.
_LARGEST = {"queue_exponent": 100, "bankroll": 10**15, "max_orders": 2**40, "max_resting": 10**6}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a replay is run. Durations in ns, bankroll in micro-dollars. Raises `ConfigError` for values that make no sense.

    cadence: between decisions. sample_every: between samples of equity. order_latency: from a decision to the arrival of its orders. data_latency: age
    of the market data that a decision sees. execution: whether orders may rest. queue: main model of the queue; None: the rule set's. queue_exponent: of
    the model power. self_trade: which order goes when both sides are the agent's. max_orders: per run. max_resting: per ticker and side.
    """

    cadence: int = 5 * SECOND
    sample_every: int = MINUTE
    order_latency: int = 0
    data_latency: int = 0
    execution: Execution = "maker_taker"
    queue: Queue | None = None
    queue_exponent: int = 3
    self_trade: SelfTradeRule = "cancel_taker"
    bankroll: int = 1_000 * MICROS
    max_orders: int = 1_000_000
    max_resting: int = 1_000

    def __post_init__(self) -> None:
        for name, least in (
            ("cadence", 1),
            ("sample_every", 1),
            ("order_latency", 0),
            ("data_latency", 0),
            ("queue_exponent", 1),
            ("bankroll", 0),
        ):
            self._check_int(name, least)
        for name in ("max_orders", "max_resting"):
            self._check_int(name, 0)
        for name, choices in (
            ("execution", get_args(Execution)),
            ("queue", (None, *get_args(Queue))),
            ("self_trade", get_args(SelfTradeRule)),
        ):
            value = getattr(self, name)
            if value not in choices:
                raise ConfigError(f"settings of a replay: {name} is {value!r}; it is one of {', '.join(map(str, choices))}")

    def _check_int(self, name: str, least: int) -> None:
        value: Any = getattr(self, name)
        most = _LARGEST.get(name, 10**18)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ConfigError(f"settings of a replay: {name} is {value!r}; give a whole number from {least} to {most}")

    def digest(self) -> str:
        """SHA-256 in hex of all values."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
