"""Classification of failed model calls by the provider's error: whether another attempt may help, and whether the request is billed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bellwether.formatting import one_line, redact
from bellwether.journal.values import Outcome
from bellwether.models.providers import BY_PREFIX
from bellwether.venues.http.retry import parse_http_date, seconds_until

if TYPE_CHECKING:
    from bellwether.models.model import Model

_MOST_CHARACTERS = 300
#: Characters of an error in which its meaning is looked for.
_LONGEST_ERROR = 3_000
#: Minimum length of a key for redaction; shorter ones are words such as "none" and "EMPTY".
SHORTEST_SECRET = 8


class Stop(StrEnum):
    """Reason why all further calls of a model would fail until an operator fixes the cause."""

    OUT_OF_CREDIT = "out_of_credit"
    AUTHENTICATION = "authentication"
    UNKNOWN_MODEL = "unknown_model"


@dataclass(frozen=True, slots=True)
class Classification:
    """Outcome of an attempt, its reason, and the consequences as in `AttemptResult`. unbilled: the provider states that it does not charge."""

    outcome: Outcome
    reason: str = ""
    stop: Stop | None = None
    permanent: bool = False
    unbilled: bool = False


def tidy_reason(text: str, secret: str | None = None) -> str:
    """Shorten the reason of a failure to one line of at most 300 characters, without credentials. secret: the API key."""
    if secret is not None and len(secret) >= SHORTEST_SECRET:
        text = text.replace(secret, "***")
    line = redact(one_line(text[: 10 * _MOST_CHARACTERS]))
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def strip_address(url: str) -> str:
    """Return an address without credentials and without its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("?")[0].rpartition("@")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


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
    def from_body(cls, body: Any, flaw: str) -> ProviderError:
        """Build from a decoded body: `{"error": {…}}`, `{"error": "…", "code": "…"}`, a list with one error (Google), or an object that is the
        error. flaw: description of any other body.
        """
        answer = body[0] if isinstance(body, list) and body else body
        if isinstance(answer, Mapping):
            error = answer.get("error") or answer
            return cls.from_object({**answer, "message": error} if isinstance(error, str) else error)
        return cls("", flaw)


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


def classify_redirect(model: Model, status: int, target: str) -> Classification:
    """Classify a redirect as a failure. Redirects are not followed: prompt and key are sent only to the configured address."""
    provider = None if model.api_base else BY_PREFIX.get(model.provider)
    setting = " or ".join(provider.base_variables) if provider else "api_base in models.toml"
    reason = f"HTTP {status}: a redirect, which is not followed; correct the base address ({setting}). It names {strip_address(target) or 'the same address'}"
    return Classification(Outcome.PROVIDER_ERROR, reason, permanent=True, unbilled=True)


def classify_error(error: Any) -> Classification:
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
