"""Requests of model calls. The key of a call is a hash of its request, equal on all machines."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NewType

from bellwether.errors import ConfigError
from bellwether.untrusted_text import is_credential_name

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

    Raises `ConfigError` for values that JSON does not have, and for parameters that would carry a credential.
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
        _refuse_credentials(self.parameters, "parameters")
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


def _refuse_credentials(value: Any, where: str) -> None:
    """Raise `ConfigError` for a field whose name or value looks like a credential. where: path of `value`."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if is_credential_name(str(name)):
                raise ConfigError(
                    f"a model call: {where} has {name!r}, which may carry a credential and would be stored; hand it to the client instead"
                )
            _refuse_credentials(part, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            _refuse_credentials(part, f"{where}[{place}]")
