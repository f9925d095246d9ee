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
#: Characters of an error in which its meaning is looked for.
_LONGEST_ERROR = 3_000
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
        kind = _classify_rejection(status, raw.body, message) if status >= 300 else _classify_answer(message)
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


def _classify_rejection(status: int, body: bytes, message: Message) -> Classification:
    """Classify a response with an error status. Some providers send a filtered completion as its body."""
    if parse_ending(message.finish_reason) is Ending.FILTERED or message.refusal:
        return Classification(
            Outcome.REFUSAL, f"HTTP {status}: the provider withheld the answer: {message.refusal or message.finish_reason}", permanent=True
        )
    return classify_failure(status, ProviderError.from_body(body))


def _classify_answer(message: Message) -> Classification:
    """Classify the content of a response with status 200."""
    if message.error and not message.has_answer:
        return _classify_error(message.error)
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

#: The account cannot pay, or has reached a limit of spending that lasts longer than a run.
_NO_CREDIT = re.compile(
    r"(?i)insufficient[_ -](?:\w+[_ -])?(?:quota|balance|credits?|funds)|balance (?:is )?(?:too low|not enough|insufficient)|out of credits?"
    r"|(?:no|any|not enough|monthly included) (?:credits|balance|funds)|credits (?:are|have been|were) (?:depleted|exhausted|used)"
    r"|billing_(?:hard_limit|not_active|error)|billing hard limit|spend(?:ing)? (?:limit|cap)|credit limit|requires more credits"
    r"|(?:key|budget|exceeded_current_quota)[_ ](?:limit )?(?:has been )?(?:exceeded|error)\b|api usage limits?\b|(?:reached|exceeded) (?:\w+ ){0,4}usage limits?\b"
    r"|usage[_ ]limit[_ ](?:reached|exceeded)|free (?:tier|quota|allocated quota)\b.{0,60}\bexhausted|FreeTierOnly|arrear|overdue"
)
_NO_MODEL = re.compile(
    r"(?i)model[_ -]not[_ -](?:found|exist)|\bmodels?\b.{0,150}\b(?:not exist|not found|decommissioned|no longer available|not available)"
    r"|(?:invalid|unknown|not a valid) model\b|unable to access model|not have access to (?:the )?model"
)
#: The key is wrong, or the account is closed to all requests.
_NO_KEY = re.compile(
    r"(?i)(?:invalid|incorrect|missing|wrong|expired|revoked|unknown)[_ ](?:x-)?(?:api[_ -]?)?(?:key|token)\b|invalid x-api-key"
    r"|api[_ -]?key\b.{0,30}\b(?:not valid|invalid|incorrect|expired|revoked|missing|disabled|not found)|authentication[_ ](?:error|fail)"
    r"|\b(?:account|organi[sz]ation|workspace|access)(?:[_ ][^\W_]+){0,5}[_ ](?:suspended|deactivated|disabled|terminated|banned|revoked|violated)\b"
    r"|(?:location|country|region|territory)\b.{0,40}\bnot (?:supported|available)|unsupported_(?:country|region)"
)
#: A filter rejected the content of one request.
_FILTER = re.compile(
    r"(?i)content[_ -]?(?:filter|polic|moderat|management policy|exists risk|violat|restrict|block)|violat\w* (?:\w+ ){0,5}(?:polic|guideline|terms|rules)"
    r"|moderation|\bflagged\b|(?:prompt|request|content|input|output|message)s? (?:\w+ ){0,3}blocked|high risk|responsible ?ai|data_?inspection"
    r"|inappropriate|sensitive (?:content|word|information|topic)|new_sensitive|prohibited[_ ]content|guardrail|harmful|invalid_prompt|cyber_policy"
    r"|safety[_ ](?:check|system|filter|polic|guideline|reason|violation|concern)|(?:for|due to|by) safety|blocklist|block_?reason"
)
#: The provider lacks capacity at the moment.
_BUSY = re.compile(
    r"(?i)rate[_ ]?limit(?!.{0,200}too large)|overloaded|(?:at|over|no|insufficient|out of) capacity|capacity[_ ](?:is )?(?:exceeded|reached|constrain|limit)|too many requests|throttl|temporarily unavailable|(?:server|model)[_ ](?:is )?busy"
)
#: A message of a refused key names it, the account or its rights.
_ACCESS = re.compile(
    r"(?i)\bkeys?\b|token|credential|auth|permission|forbidden|access|account|organi[sz]ation|project|team|workspace|subscription|billing|plan\b"
)
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,60}")
#: Statuses from 500 on of requests rejected before any work: not implemented, unavailable, overloaded (Anthropic).
_TURNED_AWAY = frozenset({501, 503, 505, 529})
#: Statuses of limits of the provider's capacity (498: Groq, 529: Anthropic) or of the account.
_LIMITED = frozenset({429, 498, 529})
#: Statuses below 500 after which the same request may succeed.
_PASSING = frozenset({408, 409, 425})


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
            return cls("", str(error)[:_LONGEST_ERROR])
        metadata = error.get("metadata")
        inner = (metadata.get("raw") or metadata.get("reasons")) if isinstance(metadata, Mapping) else None
        kinds = [str(error[name]) for name in ("code", "type", "status") if _CODE.fullmatch(str(error.get(name) or ""))]
        texts = [str(part) for part in (error.get("message"), error.get("detail"), inner) if part]
        return cls(" ".join(dict.fromkeys(kinds)), ": ".join(dict.fromkeys([*kinds, *texts]))[:_LONGEST_ERROR] or "no message")

    @classmethod
    def from_body(cls, body: bytes) -> ProviderError:
        """Parse the error in a body: `{"error": {…}}`, `{"error": "…", "code": "…"}`, a list with one error (Google), or an object that is the error."""
        answer = decode_body(body)
        if isinstance(answer, list) and answer:
            answer = answer[0]
        if isinstance(answer, Mapping):
            error = answer.get("error") or answer
            return cls.from_object({**answer, "message": error} if isinstance(error, str) else error)
        return cls("", describe_flaw(body))


def classify_failure(status: int | None, error: ProviderError) -> Classification:
    """Classify an error of the provider by its text and status. status: None for an error without one, in a response with status 200.

    Requests rejected by a content filter are billed (stated by Azure). Requests that timed out or failed in progress may be billed.
    """
    where = "an error in the answer" if status is None else f"HTTP {status}"
    reason = f"{where}: {error.text}"
    is_rejected = status is None or status < 500
    is_filtered = _FILTER.search(error.text if is_rejected else error.code) is not None
    is_busy = status in _LIMITED or (is_rejected and status not in (401, 413) and _BUSY.search(error.text) is not None)
    stop = _find_stop(status, error, is_passing=is_filtered or is_busy) if is_rejected else None
    if stop is not None:
        if stop is Stop.AUTHENTICATION:  # The message may repeat the key.
            reason = f"{where}: the key was refused{f' ({error.code})' if error.code else ''}"
        elif stop is Stop.UNKNOWN_MODEL:
            reason = f"{reason}; look at the model's id and address"
        return Classification(_STOPPED[stop], reason, stop, unbilled=True)
    if is_filtered:
        return Classification(Outcome.REFUSAL, reason, permanent=True)
    if is_busy:
        return Classification(Outcome.RATE_LIMIT, reason, unbilled=True)
    if status is None:
        return Classification(Outcome.PROVIDER_ERROR, reason)
    outcome = Outcome.TIMEOUT if status == 408 else Outcome.PROVIDER_ERROR
    return Classification(
        outcome,
        reason,
        permanent=is_rejected and status not in _PASSING,
        unbilled=status in _TURNED_AWAY or (is_rejected and status != 408),
    )


#: Outcomes of attempts that stop a model.
_STOPPED = {
    Stop.OUT_OF_CREDIT: Outcome.OUT_OF_CREDIT,
    Stop.AUTHENTICATION: Outcome.AUTHENTICATION,
    Stop.UNKNOWN_MODEL: Outcome.PROVIDER_ERROR,
}


def _find_stop(status: int | None, error: ProviderError, *, is_passing: bool) -> Stop | None:
    """Return why no further call can succeed: because of the key, the account or the model. None if only this request was rejected.

    is_passing: the error is one of a filter or of missing capacity, unless it names the key or the account.
    """
    if status == 402 or _NO_CREDIT.search(error.text):
        return Stop.OUT_OF_CREDIT
    if _NO_KEY.search(error.text):
        return Stop.AUTHENTICATION
    if is_passing:
        return None
    if status in (404, 410) or (status in (400, 403, 422) and _NO_MODEL.search(error.text)):
        return Stop.UNKNOWN_MODEL
    return Stop.AUTHENTICATION if status == 401 or (status == 403 and _ACCESS.search(error.text)) else None


def _classify_redirect(model: Model, status: int, target: str) -> Classification:
    """Classify a redirect as a failure. Redirects are not followed: prompt and key are sent only to the configured address."""
    provider = None if model.api_base else BY_PREFIX.get(model.provider)
    setting = " or ".join(provider.base_variables) if provider else "api_base in models.toml"
    reason = f"HTTP {status}: a redirect, which is not followed; correct the base address ({setting}). It names {_strip_address(target) or 'the same address'}"
    return Classification(Outcome.PROVIDER_ERROR, reason, permanent=True, unbilled=True)


def _classify_error(error: Any) -> Classification:
    """Classify an error object in a response with status 200, which gateways send."""
    code = str(error.get("code")) if isinstance(error, Mapping) else ""
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 and 400 <= int(code) < 600 else None
    return classify_failure(status, ProviderError.from_object(error))


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
