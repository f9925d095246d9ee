"""Settings of one replay, in addition to the venue's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from bellwether.errors import ConfigError
from bellwether.replay.engine.codes import Queue
from bellwether.replay.units import MICROS, MINUTE, SECOND
from bellwether.units import MicroDollars

DEFAULT_QUEUE = "proportional"
Execution = Literal["maker_taker", "taker_only"]
SelfTradeRule = Literal["cancel_taker", "cancel_maker"]

_BANKROLL = MicroDollars(1_000 * MICROS)
#: Maximum values: a larger bankroll could exceed 64 bits, and each order has a row in memory.
LARGEST = {"bankroll": 10**15, "max_orders": 10**7, "max_resting": 10**6}


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Settings of a replay. Durations in ns, bankroll in micro-dollars. Raises `ConfigError` for invalid values.

    cadence: between decisions. sample_every: between samples of equity. order_latency: from a decision to the arrival of its orders.
    data_latency: age of the market data that a decision sees. execution: whether orders may rest. queue: queue model, which the simulator
    reads. self_trade: which order is cancelled when both sides are the agent's. max_orders: per run. max_resting: per ticker and
    side.
    """

    cadence: int = 5 * SECOND
    sample_every: int = MINUTE
    order_latency: int = 0
    data_latency: int = 0
    execution: Execution = "maker_taker"
    queue: str = DEFAULT_QUEUE
    self_trade: SelfTradeRule = "cancel_taker"
    bankroll: MicroDollars = _BANKROLL
    max_orders: int = 1_000_000
    max_resting: int = 1_000

    def __post_init__(self) -> None:
        for name in ("cadence", "sample_every"):
            self._check_int(name, 1)
        for name in ("order_latency", "data_latency", "bankroll", "max_orders", "max_resting"):
            self._check_int(name, 0)
        for name, choices in (
            ("execution", get_args(Execution)),
            ("self_trade", get_args(SelfTradeRule)),
        ):
            value = getattr(self, name)
            if value not in choices:
                raise ConfigError(f"settings of a replay: {name} is {value!r}; choose one of {', '.join(map(str, choices))}")

    def _check_int(self, name: str, minimum: int) -> None:
        """Raise `ConfigError` unless the setting `name` is an integer from `minimum` to its maximum."""
        value: Any = getattr(self, name)
        maximum = LARGEST.get(name, 10**18)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ConfigError(f"settings of a replay: {name} is {value!r}; give an integer from {minimum} to {maximum}")


#: Names of queue models, with the minimum and maximum of the number that follows a colon.
_QUEUES = {"trade_only": None, "proportional": (1, 100), "optimistic": None, "sampled": (0, 10**6)}


def parse_queue(name: str) -> tuple[Queue, int]:
    """Return the queue model of a name and its number.

    Names are `trade_only`, `optimistic`, `proportional` and `proportional:E` with an exponent (without one: 1), and `sampled:K` with the number
    of a history. Raises `ConfigError` for other names.
    """
    model, colon, text = name.partition(":") if isinstance(name, str) else ("", "", "")
    limits = _QUEUES.get(model)
    if model in _QUEUES and not colon and model != "sampled":
        return Queue[model.upper()], 1
    if limits is not None and text.isascii() and text.isdecimal() and limits[0] <= int(text[:9]) <= limits[1]:
        return Queue[model.upper()], int(text)
    raise ConfigError(
        f"reading a queue model: found {name!r:.60}; give trade_only, proportional, proportional:E with an exponent from 1 to 100, "
        "optimistic, or sampled:K with the number of a history"
    )
