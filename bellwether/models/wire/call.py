"""What one HTTP request to a model's provider is made of, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self

from bellwether.journal.facts import Outcome, Reply

if TYPE_CHECKING:
    from types import TracebackType

    from bellwether.models.keys import Endpoint
    from bellwether.models.model import Model


class Stop(StrEnum):
    """Why no further call of this model can succeed until a person mends something."""

    OUT_OF_CREDIT = "out_of_credit"
    AUTHENTICATION = "authentication"
    UNKNOWN_MODEL = "unknown_model"


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request to be made.

    Attributes:
        model: the registry's entry; its id, prices and timeout are used.
        endpoint: where the model is asked, and with which key.
        messages: OpenAI's form, sent as they are.
        parameters: the model's `request_parameters`, and response_format, tools, … of this call.
    """

    model: Model
    endpoint: Endpoint
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asks for; `arguments` is the text that it wrote, usually JSON. Nothing is executed here.

    signed: further fields of the call that the provider wants back with its result.
    """

    id: str
    name: str
    arguments: str
    signed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one call.

    Attributes:
        outcome: `OK`, or why there is no answer to use.
        reply: body, texts, usage and cost, as far as they came; also of a failure.
        reason: of a failure: one line of at most 300 characters, without credentials; "" for `OK`.
        retry_after: seconds that the provider asks to wait; None where it does not say.
        tool_calls: tools that the model asks for.
        stop: set when no further call of this model can succeed.
        permanent: whether the same request will be refused again (a request that the provider calls wrong); always so with `stop`.
        unreachable: whether there was no connection to the endpoint, so that nothing was sent.
    """

    outcome: Outcome
    reply: Reply
    reason: str = ""
    retry_after: float | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    stop: Stop | None = None
    permanent: bool = False
    unreachable: bool = False


class Wire(Protocol):
    """Sends calls to providers; used as an async context manager, one per process or run."""

    async def send(self, call: Call) -> Result:
        """Send `call` once. Never raises for what a provider can do; cancelling is passed on."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...
