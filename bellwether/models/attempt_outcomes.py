"""Classification of one attempt at a model call: what the response means, what it cost, and what the client does next."""

from __future__ import annotations

import math
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bellwether.journal.values import Outcome, Reply, Usage
from bellwether.models.prices import UNBILLED, build_usage
from bellwether.models.providers import BY_PREFIX
from bellwether.models.response import Ending, Message, ToolCall, decode_body, describe_flaw, parse_ending, read_reply, read_served
from bellwether.untrusted_text import one_line, redact
from bellwether.venues.http.retry import parse_http_date, seconds_until

if TYPE_CHECKING:
    from bellwether.models.model import Model

_MOST_CHARACTERS = 300
#: Minimum length of a key for redaction; shorter ones are words such as "none" and "EMPTY".
_SHORTEST_SECRET = 8

#: Providers that charge only for successful responses (Google's billing pages; OpenRouter's zero completion insurance).
_CHARGES_SUCCESS_ONLY = frozenset({"gemini", "vertex_ai", "openrouter"})
_REQUEST_IDS = ("x-request-id", "request-id", "x-generation-id", "cf-ray")


class Stop(StrEnum):
    """Reason why all further calls of a model would fail until an operator fixes the cause."""

    OUT_OF_CREDIT = "out_of_credit"
    AUTHENTICATION = "authentication"
    UNKNOWN_MODEL = "unknown_model"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """Result of one attempt at a model call, successful or not.

    Attributes:
        outcome: `OK`, or why there is no usable answer.
        reply: body, texts, usage and cost as far as known; also for failures.
        reason: of a failure, one line of at most 300 characters, without credentials; "" for `OK`.
        retry_after: seconds to wait as requested by the provider; None without a request.
        tool_calls: tools that the model calls.
        stop: set when no further call of this model can succeed.
        permanent: whether the same request would be rejected again, as an invalid one; always with `stop`.
        unreachable: whether no connection to the endpoint was made, so that nothing was sent.
    """

    outcome: Outcome
    reply: Reply
    reason: str = ""
    retry_after: float | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    stop: Stop | None = None
    permanent: bool = False
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class RawReply:
    """HTTP response as received: status and headers (names in lower case) if they arrived, and the part of the body that was read."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    latency_ms: int | None = None

    def redact(self, secret: str | None) -> RawReply:
        """Return the response with the API key `secret` removed from the body."""
        if secret is None or len(secret) < _SHORTEST_SECRET or secret.encode() not in self.body:
            return self
        return RawReply(self.status, self.headers, self.body.replace(secret.encode(), b"***"), self.latency_ms)


def tidy_reason(text: str, secret: str | None = None) -> str:
    """Shorten the reason of a failure to one line of at most 300 characters, without credentials. secret: the API key."""
    if secret is not None and len(secret) >= _SHORTEST_SECRET:
        text = text.replace(secret, "***")
    line = redact(one_line(text[: 10 * _MOST_CHARACTERS]))
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def build_lost_result(
    model: Model, outcome: Outcome, reason: str, raw: RawReply, *, secret: str | None = None, unsent: bool = False
) -> AttemptResult:
    """Build the result of an attempt without a complete response.
    The cost is unknown, or 0 if the model is free or the request was not sent (`unsent`).
    """
    usage = UNBILLED if unsent else build_usage(model)
    return AttemptResult(outcome, _build_reply(raw.redact(secret), Message(), usage), tidy_reason(reason, secret))


def build_unreachable_result(
    model: Model, url: str, cause: str, raw: RawReply, *, outcome: Outcome, secret: str | None = None
) -> AttemptResult:
    """Build the result of an attempt that could not connect, so that nothing was sent. url: address for the reason; cause: error of the connection."""
    reason = f"no connection to {_strip_address(url)} ({cause})"
    return replace(build_lost_result(model, outcome, reason, raw, secret=secret, unsent=True), unreachable=True)


def describe_cause(error: BaseException) -> str:
    """Return the innermost cause of a connection error as text, without headers and addresses."""
    while (inner := error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or type(error).__name__}"
    if not isinstance(error, OSError) or error.errno is None:
        return type(error).__name__
    return (os.strerror(error.errno) if error.errno > 0 else error.strerror) or type(error).__name__


def _strip_address(url: str) -> str:
    """Return an address without credentials and without its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def classify(model: Model, raw: RawReply, *, secret: str | None = None) -> AttemptResult:
    """Classify a complete response. Never raises, even for a malformed body. secret: API key to remove from the body."""
    raw = raw.redact(secret)
    status = raw.status or 200
    message = read_reply(raw.body)
    if 300 <= status < 400 and (target := raw.headers.get("location")):
        kind = _classify_redirect(model, status, target)
    else:
        kind = classify_status(status, ProviderError.from_body(raw.body)) if status >= 300 else _classify_answer(message)
    reply = _build_reply(raw, message, _compute_usage(model, status, message, kind))
    return AttemptResult(
        kind.outcome,
        replace(reply, served=read_served(message, raw.headers, model.model)),
        tidy_reason(kind.reason, secret),
        None if kind.outcome is Outcome.OK else retry_after(raw.status, raw.headers, raw.body),
        message.tool_calls,
        kind.stop,
        kind.permanent or kind.stop is not None,
    )


def _build_reply(raw: RawReply, message: Message, usage: Usage) -> Reply:
    request_id = next(filter(None, map(raw.headers.get, _REQUEST_IDS)), None) or message.request_id
    return Reply(
        body=raw.body,
        content=message.content,
        reasoning=message.reasoning,
        finish_reason=message.finish_reason,
        usage=usage,
        http_status=raw.status,
        request_id=tidy_reason(request_id)[:200] if request_id else None,
        latency_ms=raw.latency_ms,
    )


def _compute_usage(model: Model, status: int, message: Message, kind: Classification) -> Usage:
    """Return tokens and cost of a response. The cost is 0 if the provider does not bill it."""
    free = kind.unbilled or (status >= 300 and model.api_base is None and model.provider in _CHARGES_SUCCESS_ONLY)
    return UNBILLED if free and not message.usage else build_usage(model, message.tokens, message.usage)


def _classify_answer(message: Message) -> Classification:
    """Classify the content of a response with status 200."""
    if message.error and not message.has_answer:
        return classify_error(message.error)
    if message.flaw:
        return Classification(Outcome.MALFORMED, f"HTTP 200 with {message.flaw}")
    return _classify_ending(message) or _classify_empty(message) or Classification(Outcome.OK)


def _classify_ending(message: Message) -> Classification | None:
    """Classify an answer that a limit, a filter or an error of the provider ended; None for other answers."""
    ending = parse_ending(message.finish_reason)
    if ending is Ending.BROKEN:
        return Classification(Outcome.PROVIDER_ERROR, f"the provider ended the answer: {message.finish_reason}")
    if ending is Ending.FILTERED:
        return Classification(Outcome.REFUSAL, f"the provider withheld the answer: {message.refusal or message.finish_reason}")
    if ending is Ending.CUT:
        used = message.tokens.completion
        return Classification(Outcome.TRUNCATION, f"the answer was cut at its limit of tokens ({'unknown' if used is None else used} used)")
    return None


def _classify_empty(message: Message) -> Classification | None:
    """Classify a message with neither text nor tool calls, such as a refusal; None for other messages."""
    if message.has_answer:
        return None
    if message.refusal:
        return Classification(Outcome.REFUSAL, f"the model refused: {message.refusal}")
    problem = "reasoning without an answer" if message.reasoning else "an answer without text"
    return Classification(Outcome.MALFORMED, f"{problem} (finish reason: {message.finish_reason or 'none'})")


# --- refusals -------------------------------------------------------------------------------------------------------

_NO_CREDIT = re.compile(
    r"(?i)insufficient[_ -](?:quota|balance|credit|funds)|credit balance is too low|out of credits?|(?:no|any|not enough) credits"
    r"|billing_(?:hard_limit|not_active)|billing hard limit|spending limit|credits are depleted|requires more credits"
)
_NO_MODEL = re.compile(
    r"(?i)model[_ -]not[_ -](?:found|exist)|\bmodels?\b.{0,150}\b(?:not exist|not found|decommissioned|no longer available|not available)"
    r"|(?:invalid|unknown|not a valid) model\b|unable to access model"
)
_NO_KEY = re.compile(r"(?i)api[_ ]key[_ ](?:not valid|invalid|expired)|(?:invalid|incorrect)[_ ]api[_ ]key|invalid x-api-key")
_FILTER = re.compile(r"(?i)content[_ ]?(?:filter|policy)|requires moderation|(?:input|prompt) was flagged|responsible ?ai")
_RATE = re.compile(r"(?i)rate[_ ]limit|overloaded")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,60}")
#: Statuses from 500 on of requests rejected before any work: not implemented, unavailable, overloaded (Anthropic).
_TURNED_AWAY = frozenset({501, 503, 505, 529})
#: Statuses of limits of the provider's capacity or of the account.
_LIMITED = frozenset({429, 529})


@dataclass(frozen=True, slots=True)
class Classification:
    """Outcome of an attempt, its reason, and the consequences as in `AttemptResult`. unbilled: the provider states that it does not charge."""

    outcome: Outcome
    reason: str = ""
    stop: Stop | None = None
    permanent: bool = False
    unbilled: bool = False


@dataclass(frozen=True, slots=True)
class ProviderError:
    """Error reported by a provider. code: error codes, which never quote the request. text: codes and message."""

    code: str
    text: str

    @classmethod
    def from_object(cls, error: Any) -> ProviderError:
        """Build from a provider's error: a JSON object, or any other value as text."""
        if not isinstance(error, Mapping):
            return cls("", str(error))
        metadata = error.get("metadata")
        inner = (metadata.get("raw") or metadata.get("reasons")) if isinstance(metadata, Mapping) else None
        kinds = [str(error[name]) for name in ("code", "type", "status") if _CODE.fullmatch(str(error.get(name) or ""))]
        texts = [str(part) for part in (error.get("message"), error.get("detail"), inner) if part]
        return cls(" ".join(dict.fromkeys(kinds)), ": ".join(dict.fromkeys([*kinds, *texts])) or "no message")

    @classmethod
    def from_body(cls, body: bytes) -> ProviderError:
        """Parse the error in a body: `{"error": {…}}`, `{"error": "…"}`, a list with one error (Google), or an object that is the error."""
        answer = decode_body(body)
        if isinstance(answer, list) and answer:
            answer = answer[0]
        if isinstance(answer, Mapping):
            return cls.from_object(answer.get("error") or answer)
        return cls("", describe_flaw(body))


def classify_status(status: int, error: ProviderError) -> Classification:
    """Classify a response whose HTTP status is an error.

    Requests rejected by a content filter are billed (stated by Azure). Requests that timed out or failed in progress may be billed.
    """
    reason = f"HTTP {status}: {error.text}"
    if status == 402 or (status in (400, 403, 412, 429) and _NO_CREDIT.search(error.text)):
        return Classification(Outcome.OUT_OF_CREDIT, reason, Stop.OUT_OF_CREDIT, unbilled=True)
    if status in (400, 403) and _FILTER.search(error.text):
        return Classification(Outcome.REFUSAL, reason, permanent=True)
    if status in (401, 403) or (status == 400 and _NO_KEY.search(error.text)):
        code = f" ({error.code})" if error.code else ""  # The message may repeat the key.
        return Classification(Outcome.AUTHENTICATION, f"HTTP {status}: the key was refused{code}", Stop.AUTHENTICATION, unbilled=True)
    if status in (404, 410) or (status in (400, 422) and _NO_MODEL.search(error.text)):
        return Classification(Outcome.PROVIDER_ERROR, f"{reason}; look at the model's id and address", Stop.UNKNOWN_MODEL, unbilled=True)
    outcome = Outcome.RATE_LIMIT if status in _LIMITED else Outcome.TIMEOUT if status == 408 else Outcome.PROVIDER_ERROR
    permanent = status < 500 and status not in (408, 409, 425, 429)
    return Classification(outcome, reason, permanent=permanent, unbilled=status in _TURNED_AWAY or (status < 500 and status != 408))


def _classify_redirect(model: Model, status: int, target: str) -> Classification:
    """Classify a redirect as a failure. Redirects are not followed: prompt and key are sent only to the configured address."""
    provider = None if model.api_base else BY_PREFIX.get(model.provider)
    setting = " or ".join(provider.base_variables) if provider else "api_base in models.toml"
    reason = f"HTTP {status}: a redirect, which is not followed; correct the base address ({setting}). It names {_strip_address(target) or 'the same address'}"
    return Classification(Outcome.PROVIDER_ERROR, reason, permanent=True, unbilled=True)


def classify_error(error: Any) -> Classification:
    """Classify an error object in a response with status 200, which gateways send."""
    parsed = ProviderError.from_object(error)
    code = str(error.get("code")) if isinstance(error, Mapping) else ""
    if code.isascii() and code.isdigit() and 400 <= int(code[:9]) < 600:
        return classify_status(int(code), parsed)
    if _NO_CREDIT.search(parsed.text):
        return Classification(Outcome.OUT_OF_CREDIT, f"an error in the answer: {parsed.text}", Stop.OUT_OF_CREDIT, unbilled=True)
    limited = _RATE.search(parsed.text) is not None
    outcome = Outcome.RATE_LIMIT if limited else Outcome.PROVIDER_ERROR
    return Classification(outcome, f"an error in the answer: {parsed.text}", unbilled=limited)


# --- waits ----------------------------------------------------------------------------------------------------------

_LONGEST_WAIT = 7 * 86_400.0
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def retry_after(status: int | None, headers: Mapping[str, str], body: bytes) -> float | None:
    """Return how many seconds the provider asks to wait; None if there is no such request, or for more than a week.

    Header names are in lower case.
    """
    milliseconds = _parse_seconds(headers.get("retry-after-ms"))
    waits = (
        None if milliseconds is None else milliseconds / 1000,
        _parse_seconds(headers.get("retry-after")),
        seconds_until(
            headers.get("retry-after", ""), parse_http_date(headers.get("date", "")) or datetime.now(UTC)
        ),  # by the server's clock
        _limit_reset_seconds(headers),
        _parse_retry_info(body) if status == 429 else None,
    )
    wait = next((seconds for seconds in waits if seconds is not None), None)
    return wait if wait is not None and wait <= _LONGEST_WAIT else None


def _parse_seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text else -1.0
    except ValueError:
        return None
    return value if value >= 0 and math.isfinite(value) else None


def _limit_reset_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until all exhausted rate limits are renewed, from headers such as "6m0s" or "120ms"."""
    waits = [
        _parse_span(headers.get(f"x-ratelimit-reset-{unit}", ""))
        for unit in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{unit}") == "0"
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _parse_span(text: str) -> float | None:
    """Convert a duration such as "6m0s" or "120ms" to seconds."""
    parts = _SPAN.findall(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else _parse_seconds(text)


def _parse_retry_info(body: bytes) -> float | None:
    """Return the wait in Google's RetryInfo, which is in the details of the error: `"retryDelay": "37s"`."""
    delay = re.search(rb'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"', body[:100_000])
    return float(delay[1]) if delay else None


# --- next step ------------------------------------------------------------------------------------------------------


class NextStep(Enum):
    """Next action of the client after an attempt.

    ANSWER: store it as the answer; also a truncated or filtered text, in which the parser may find the forecast.
    FINAL: the model's final output without an answer (refused, filtered, or reasoning only): stored and never requested again.
    AGAIN: failure of the connection or the provider: retry now, and in the next run.
    REFUSED: the provider rejects this request without billing it: retry in the next run only.
    STOP: no call of this model can succeed.
    """

    ANSWER = auto()
    FINAL = auto()
    AGAIN = auto()
    REFUSED = auto()
    STOP = auto()


_FINAL_OUTCOMES = frozenset({Outcome.OK, Outcome.REFUSAL, Outcome.TRUNCATION})


def decide_next_step(result: AttemptResult) -> NextStep:
    """Decide what the client does after an attempt with this result."""
    reply = result.reply
    if result.stop is not None:
        return NextStep.STOP
    if result.outcome in _FINAL_OUTCOMES:
        has_text = bool((reply.content or "").strip())
        return NextStep.ANSWER if has_text or (result.outcome is Outcome.OK and result.tool_calls) else NextStep.FINAL
    if result.permanent:
        return NextStep.REFUSED
    has_output = reply.finish_reason is not None or bool(reply.usage.completion_tokens)
    return NextStep.FINAL if result.outcome is Outcome.MALFORMED and has_output else NextStep.AGAIN
