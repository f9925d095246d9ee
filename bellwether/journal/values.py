"""Requests of model calls, and the values that the journal stores and returns: states of calls, outcomes of attempts, replies, their usage and cost.

The key of a call is a hash of its request, equal on all machines.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NewType

from bellwether.errors import ConfigError

_LARGEST = 2**63 - 1


def require_natural(value: object, subject: str, *, largest: int = _LARGEST) -> None:
    """Raise `ConfigError` unless `value` is None or an integer from 0 to `largest`. subject: name of the value in the message."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest):
        raise ConfigError(f"{subject} is {value!r}; give an integer from 0 to {largest}, or None where it is not known")


def require_short_text(value: object, subject: str) -> str:
    """Return `value` unchanged. Raises `ConfigError` unless it is a printable text of 1 to 400 bytes. subject: name of the value in the message."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value.encode()) > 400:
        raise ConfigError(f"{subject} is {value!r:.80}; give a printable text of at most 400 bytes that is not empty")
    return value


#: 64 hexadecimal digits: SHA-256 of the request in canonical JSON.
CallKey = NewType("CallKey", str)

#: Part of every request; another value would change every key.
RECIPE = 1
#: Integers up to this size are the same number in every JSON reader.
_LARGEST_INTEGER = 2**53


@dataclass(frozen=True)
class Request:
    """Content of a model call. Calls with equal content have the same key, and so are sent once.

    Attributes:
        model: the provider's exact model id.
        messages: messages of the request, verbatim.
        parameters: temperature, limits, response format, …; never an address, a header or a key.
        purpose: use of the answer, such as `benchmark/forecasts`; spending is counted by it.
        scope: distinguishes equal requests, such as a release or `agent/cohort/week`; "" shares the answer within the purpose.
        sample: index of the sample, from 0.

    Raises `ConfigError` for values that JSON does not have.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    purpose: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""
    sample: int = 0

    def __post_init__(self) -> None:
        for name in ("model", "purpose", "scope"):
            if name != "scope" or self.scope != "":
                require_short_text(getattr(self, name), f"a model call: {name}")
        require_natural(-1 if self.sample is None else self.sample, f"a model call to {self.model}: sample", largest=2**31 - 1)
        _ = self.text

    @cached_property
    def text(self) -> str:
        """The request as canonical JSON, as stored in the journal: sorted names, no spaces, whole floats as integers."""
        whole = {
            "model": self.model,
            "messages": self.messages,
            "parameters": self.parameters,
            "purpose": self.purpose,
            "sample": self.sample,
            "scope": self.scope,
            "v": RECIPE,
        }
        return json.dumps(_canonical(whole, "request"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def key(self) -> CallKey:
        """Key of the call: SHA-256 of `text` in UTF-8, as 64 hexadecimal digits."""
        return CallKey(hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest())


def _canonical(value: Any, where: str) -> Any:
    """Convert to plain dictionaries, lists, texts, numbers, booleans and None, so that equal values become equal JSON. where: path, for errors."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        odd = [name for name in value if not isinstance(name, str)]
        if odd:
            raise ConfigError(f"a model call: {where} has the name {odd[0]!r}; names are texts")
        return {name: _canonical(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_canonical(part, f"{where}[{place}]") for place, part in enumerate(value)]
    if isinstance(value, int | float):
        return _number(value, where)
    raise ConfigError(f"a model call: {where} is a {type(value).__name__}, which JSON does not have; convert it first")


def _number(value: int | float, where: str) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"a model call: {where} is {value}, which JSON does not have; leave it out or give a number")
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        raise ConfigError(f"a model call: {where} is {value}, which not every JSON reader keeps exact; send it as text")
    if isinstance(value, int):
        return int(value)
    return int(value) if value.is_integer() and abs(value) <= _LARGEST_INTEGER else float(value)


# --- what the journal returns --------------------------------------------------------------------------------------------


class State(StrEnum):
    """State of a call: open, answered, or failed until an operator reopens it."""

    OPEN = "open"
    ANSWERED = "answered"
    FAILED = "failed"


class Outcome(StrEnum):
    """Result category of an attempt. `ABANDONED`: no result is expected any more, and the cost is unknown."""

    OK = "ok"
    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    OUT_OF_CREDIT = "out_of_credit"
    AUTHENTICATION = "authentication"
    REFUSAL = "refusal"
    TRUNCATION = "truncation"
    MALFORMED = "malformed"
    PROVIDER_ERROR = "provider_error"
    ABANDONED = "abandoned"


#: Outcomes of requests that the provider rejected before any work; it does not bill them.
UNBILLED = frozenset({Outcome.RATE_LIMIT, Outcome.OUT_OF_CREDIT, Outcome.AUTHENTICATION})
#: Outcomes that may be reported as a failure.
FAILURES = frozenset(Outcome) - {Outcome.OK, Outcome.ABANDONED}


class CostSource(StrEnum):
    """Origin of a cost: reported by the provider, computed from a price list, or 0 because the provider does not bill the request."""

    PROVIDER = "provider"
    PRICE_LIST = "price_list"
    UNBILLED = "unbilled"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one attempt. None means unknown, and never 0.

    Attributes:
        prompt_tokens, completion_tokens, reasoning_tokens: as counted by the provider.
        cost: integer micro-dollars.
        cost_source: source of the cost; given exactly if the cost is.
        price_list: name and version of the price list, if the cost comes from one.

    Raises `ConfigError` for numbers that are not whole, negative or too large, and for a cost without a source.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: int | None = None
    cost_source: CostSource | None = None
    price_list: str | None = None

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost"):
            require_natural(getattr(self, name), f"usage of a model call: {name}")
        if (self.cost is None) != (self.cost_source is None):
            raise ConfigError(f"usage of a model call: cost is {self.cost} and its source {self.cost_source}; give both or neither")


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Served:
    """Model and provider that sent a response, as stated by its body and headers. None means not stated.

    model: the model that answered. system_fingerprint: fingerprint of its configuration. by: provider or deployment behind a gateway.
    """

    model: str | None = None
    system_fingerprint: str | None = None
    by: str | None = None


NOT_STATED = Served()


@dataclass(frozen=True, slots=True)
class Reply:
    """Response of a provider to one attempt.

    Attributes:
        body: the raw body, verbatim.
        content: the answer's text; None without one.
        reasoning: the reasoning's text, where the provider shows it.
        finish_reason: reason why the model stopped, verbatim.
        usage: tokens and cost.
        http_status, request_id: of the HTTP response.
        latency_ms: milliseconds from the request to the whole body.
        served: the model that answered.
    """

    body: bytes = field(default=b"", repr=False)
    content: str | None = None
    reasoning: str | None = field(default=None, repr=False)
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    http_status: int | None = None
    request_id: str | None = None
    latency_ms: int | None = None
    served: Served = NOT_STATED

    def __post_init__(self) -> None:
        if not isinstance(self.body, bytes):
            raise ConfigError(f"reply to a model call: body is {type(self.body).__name__}; give the bytes as they came")
        for name in ("http_status", "latency_ms"):
            require_natural(getattr(self, name), f"reply to a model call: {name}", largest=2**31 - 1)


@dataclass(frozen=True, slots=True)
class Answered:
    """Stored answer of a call: the reply, the number of the attempt that brought it, and when it was stored (UTC).

    late: whether the attempt had been abandoned before it answered.
    """

    key: CallKey
    attempt: int
    reply: Reply
    stored_at: datetime
    late: bool = False

    @property
    def content(self) -> str:
        """Text of the answer."""
        return self.reply.content or ""


@dataclass(frozen=True, slots=True)
class Busy:
    """The call has an attempt in progress. until: when its time is over, and another may begin (UTC)."""

    key: CallKey
    until: datetime


@dataclass(frozen=True, slots=True)
class Full:
    """As many requests are in flight as the registry's entry allows."""

    entry: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The call has finally failed. No attempt begins until `Journal.reopen`."""

    key: CallKey
    outcome: Outcome
    reason: str
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class CallStatus:
    """Current state of a call, without its prompt and answer.

    attempts: number of attempts. outcome, reason: those of the last failure or interruption; None without one.
    """

    key: CallKey
    model: str
    purpose: str
    scope: str
    sample: int
    state: State
    created_at: datetime
    finished_at: datetime | None
    outcome: Outcome | None
    reason: str | None
    attempts: int

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def format_dollars(micro: int) -> str:
    """Format an amount in micro-dollars as dollars."""
    whole, rest = divmod(abs(micro), 1_000_000)
    return f"{'-' if micro < 0 else ''}${whole:,}.{rest:06d}"
