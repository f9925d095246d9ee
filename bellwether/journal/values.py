"""Values that the journal stores and returns: states of calls, outcomes of attempts, replies, and their usage and cost."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from bellwether.errors import ConfigError
from bellwether.journal.request import CallKey, require_natural


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
    """The call has an attempt in progress. holder: who makes it. until: when its time is over, and another may begin (UTC)."""

    key: CallKey
    holder: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Full:
    """As many requests are in flight as `limit` allows, such as "model gpt-4o"."""

    limit: str


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
