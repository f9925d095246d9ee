"""Meaning of HTTP statuses that are no success, and of error objects, in the words of all providers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bellwether.journal.facts import Outcome
from bellwether.models.wire.call import Stop
from bellwether.models.wire.message import decoded, flaw_of

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
#: Statuses from 500 on by which a provider turns a request away before any work: not implemented, unavailable, overloaded (Anthropic).
_TURNED_AWAY = frozenset({501, 503, 505, 529})
#: Statuses that are a limit of the provider's capacity, or of the account.
_LIMITED = frozenset({429, 529})


@dataclass(frozen=True, slots=True)
class Classification:
    """An outcome with its reason, and what the caller can do; see `Result`. unbilled: the provider states that it does not charge for it."""

    outcome: Outcome
    reason: str = ""
    stop: Stop | None = None
    permanent: bool = False
    unbilled: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """A provider's words for what is wrong. code: its kinds of error, which repeat nothing of the request. text: all that it says."""

    code: str
    text: str

    @classmethod
    def of(cls, error: Any) -> Words:
        """The words of an error object, or of whatever stands in its place."""
        if not isinstance(error, Mapping):
            return cls("", str(error))
        metadata = error.get("metadata")
        inner = (metadata.get("raw") or metadata.get("reasons")) if isinstance(metadata, Mapping) else None
        kinds = [str(error[name]) for name in ("code", "type", "status") if _CODE.fullmatch(str(error.get(name) or ""))]
        said = [str(part) for part in (error.get("message"), error.get("detail"), inner) if part]
        return cls(" ".join(dict.fromkeys(kinds)), ": ".join(dict.fromkeys([*kinds, *said])) or "no message")

    @classmethod
    def within(cls, body: bytes) -> Words:
        """The words in a body: `{"error": {…}}`, `{"error": "…"}`, a list of one (Google), or the members at the top."""
        answer = decoded(body)
        if isinstance(answer, list) and answer:
            answer = answer[0]
        if isinstance(answer, Mapping):
            return cls.of(answer.get("error") or answer)
        return cls("", flaw_of(body))


def refused(status: int, words: Words) -> Classification:
    """Meaning of an HTTP status that is no success.

    Requests refused by a content filter are billed (Azure states so), and so may be requests that timed out or failed in progress.
    """
    reason = f"HTTP {status}: {words.text}"
    if status == 402 or (status in (400, 403, 412, 429) and _NO_CREDIT.search(words.text)):
        return Classification(Outcome.OUT_OF_CREDIT, reason, Stop.OUT_OF_CREDIT, unbilled=True)
    if status in (400, 403) and _FILTER.search(words.text):
        return Classification(Outcome.REFUSAL, reason, permanent=True)
    if status in (401, 403) or (status == 400 and _NO_KEY.search(words.text)):
        code = f" ({words.code})" if words.code else ""  # the message may repeat the key
        return Classification(Outcome.AUTHENTICATION, f"HTTP {status}: the key was refused{code}", Stop.AUTHENTICATION, unbilled=True)
    if status in (404, 410) or (status in (400, 422) and _NO_MODEL.search(words.text)):
        return Classification(Outcome.PROVIDER_ERROR, f"{reason}; look at the model's id and address", Stop.UNKNOWN_MODEL, unbilled=True)
    outcome = Outcome.RATE_LIMIT if status in _LIMITED else Outcome.TIMEOUT if status == 408 else Outcome.PROVIDER_ERROR
    permanent = status < 500 and status not in (408, 409, 425, 429)
    return Classification(outcome, reason, permanent=permanent, unbilled=status in _TURNED_AWAY or (status < 500 and status != 408))


def reported(error: Any) -> Classification:
    """Meaning of an error in a body with a good status, as gateways send it."""
    words = Words.of(error)
    code = str(error.get("code")) if isinstance(error, Mapping) else ""
    if code.isascii() and code.isdigit() and 400 <= int(code[:9]) < 600:
        return refused(int(code), words)
    if _NO_CREDIT.search(words.text):
        return Classification(Outcome.OUT_OF_CREDIT, f"an error in the answer: {words.text}", Stop.OUT_OF_CREDIT, unbilled=True)
    limited = _RATE.search(words.text) is not None
    outcome = Outcome.RATE_LIMIT if limited else Outcome.PROVIDER_ERROR
    return Classification(outcome, f"an error in the answer: {words.text}", unbilled=limited)
