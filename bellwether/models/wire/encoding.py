"""The body of a request in OpenAI's form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from bellwether.errors import ConfigError

if TYPE_CHECKING:
    from bellwether.models.wire.call import Call
    from bellwether.models.wire.routes import Route


def encoded(call: Call, route: Route) -> bytes:
    """The body of the request. Raises `ConfigError` for what JSON does not have."""
    whole = {"model": call.model.id, "messages": list(call.messages), **route.parameters(call.parameters)}
    try:
        return orjson.dumps(whole)
    except orjson.JSONEncodeError:
        pass  # a lone surrogate in untrusted text can be sent only as an escape
    try:
        return json.dumps(whole, default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"asking {call.model.name}: the request is no JSON ({error}); hand in plain values") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it has a {type(value).__name__}")
