"""What a provider's answer amounts to: an outcome of the journal, its reason in one line, and what the caller can do."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from yarl import URL

from bellwether.credentials import redact
from bellwether.journal.facts import Outcome, Reply, Usage
from bellwether.models.ending import Ending, ending_of
from bellwether.models.wire.call import Result
from bellwether.models.wire.message import Message, read_reply
from bellwether.models.wire.refusals import Classification, Words, refused, reported
from bellwether.models.wire.served import served_of
from bellwether.models.wire.usage import UNBILLED, usage_of
from bellwether.models.wire.waiting import retry_after

if TYPE_CHECKING:
    from bellwether.models.model import Model

_MOST_CHARACTERS = 300
#: Shorter keys are words such as "none" and "EMPTY"; taking those out of a text would spoil it.
_SHORTEST_SECRET = 8

#: Providers that charge for successful responses alone (Google's billing pages; OpenRouter's zero completion insurance).
_CHARGES_SUCCESS_ONLY = frozenset({"gemini", "vertex_ai", "openrouter"})
_REQUEST_IDS = ("x-request-id", "request-id", "x-generation-id", "cf-ray")


@dataclass(frozen=True, slots=True)
class RawReply:
    """What came over the wire: status and headers (names in lower case) where there were any, and the body as far as it came."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    latency_ms: int | None = None

    def without(self, secret: str | None) -> RawReply:
        """The same; where the body repeats the key, without it."""
        if secret is None or len(secret) < _SHORTEST_SECRET or secret.encode() not in self.body:
            return self
        return RawReply(self.status, self.headers, self.body.replace(secret.encode(), b"***"), self.latency_ms)


def tidy(text: str, secret: str | None = None) -> str:
    """`text` as a reason: one line without credentials, at most 300 characters."""
    if secret is not None and len(secret) >= _SHORTEST_SECRET:
        text = text.replace(secret, "***")
    line = redact(" ".join("".join(sign if sign.isprintable() else " " for sign in text[: 10 * _MOST_CHARACTERS]).split()))
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def lost(model: Model, outcome: Outcome, reason: str, raw: RawReply, *, secret: str | None = None, unsent: bool = False) -> Result:
    """A call without a whole answer. Its cost is unknown, unless the model is free or nothing was sent."""
    usage = UNBILLED if unsent else usage_of(model, Message())
    return Result(outcome, _reply(raw.without(secret), Message(), usage), tidy(reason, secret))


def unreachable(model: Model, url: str, cause: str, raw: RawReply, *, outcome: Outcome, secret: str | None = None) -> Result:
    """A call whose endpoint could not be connected to, so that nothing was sent. The reason names the address."""
    found = lost(model, outcome, f"no connection to {_address(url)} ({cause})", raw, secret=secret, unsent=True)
    return replace(found, unreachable=True)


def cause_of(error: BaseException) -> str:
    """The innermost cause of a broken connection, without headers and addresses."""
    while (inner := getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error.__cause__) is not None:
        error = inner
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or type(error).__name__}"
    if not isinstance(error, OSError) or error.errno is None:
        return type(error).__name__
    return (os.strerror(error.errno) if error.errno > 0 else error.strerror) or type(error).__name__


def _address(url: str) -> str:
    """An address without credentials and query."""
    try:
        return str(URL(url).with_user(None).with_query(None).with_fragment(None))
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]


def classify(model: Model, raw: RawReply, *, secret: str | None = None) -> Result:
    """What a whole answer amounts to. Never raises, whatever the body holds."""
    raw = raw.without(secret)
    status = raw.status or 200
    message = read_reply(raw.body)
    found = refused(status, Words.within(raw.body)) if status >= 300 else _answered(message)
    return Result(
        found.outcome,
        replace(_reply(raw, message, _usage(model, status, message, found)), served=served_of(message, raw.headers, model.model)),
        tidy(found.reason, secret),
        None if found.outcome is Outcome.OK else retry_after(raw.status, raw.headers, raw.body),
        message.tool_calls,
        found.stop,
        found.permanent or found.stop is not None,
    )


def _reply(raw: RawReply, message: Message, usage: Usage) -> Reply:
    named = next((one for name in _REQUEST_IDS if (one := raw.headers.get(name))), None) or message.request_id
    return Reply(
        body=raw.body,
        content=message.content,
        reasoning=message.reasoning,
        finish_reason=message.finish_reason,
        usage=usage,
        http_status=raw.status,
        request_id=tidy(named)[:200] if named else None,
        latency_ms=raw.latency_ms,
    )


def _usage(model: Model, status: int, message: Message, found: Classification) -> Usage:
    """Usage of a response, useful or not. A request for which the provider does not charge costs nothing."""
    free = found.unbilled or (status >= 300 and model.api_base is None and model.provider in _CHARGES_SUCCESS_ONLY)
    return UNBILLED if free and not message.usage else usage_of(model, message)


def _answered(message: Message) -> Classification:
    """What a body amounts to that came with a good status."""
    if message.error and not message.answers:
        return reported(message.error)
    if message.flaw:
        return Classification(Outcome.MALFORMED, f"HTTP 200 with {message.flaw}")
    return _ended_early(message) or _empty(message) or Classification(Outcome.OK)


def _ended_early(message: Message) -> Classification | None:
    """An answer that somebody ended, by the finish reason."""
    ending = ending_of(message.finish_reason)
    if ending is Ending.BROKEN:
        return Classification(Outcome.PROVIDER_ERROR, f"the provider ended the answer: {message.finish_reason}")
    if ending is Ending.FILTERED:
        return Classification(Outcome.REFUSAL, f"the provider withheld the answer: {message.refusal or message.finish_reason}")
    if ending is Ending.CUT:
        used = message.tokens.completion
        return Classification(Outcome.TRUNCATION, f"the answer was cut at its limit of tokens ({'unknown' if used is None else used} used)")
    return None


def _empty(message: Message) -> Classification | None:
    """A message without an answer."""
    if message.answers:
        return None
    if message.refusal:
        return Classification(Outcome.REFUSAL, f"the model refused: {message.refusal}")
    found = "reasoning without an answer" if message.reasoning else "an answer without text"
    return Classification(Outcome.MALFORMED, f"{found} (finish reason: {message.finish_reason or 'none'})")
