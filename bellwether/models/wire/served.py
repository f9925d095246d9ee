"""Served model of a response: the fields of bodies and the headers of gateways that name it."""

from __future__ import annotations

from collections.abc import Mapping

from bellwether.credentials import redact
from bellwether.journal.facts import Served
from bellwether.models.wire.message import Message
from bellwether.served_models import is_requested

#: Response headers that name the model: Cloudflare's, ngrok's and Kong's AI gateways, and LiteLLM's proxy (its group after a fallback).
MODEL_HEADERS = ("cf-aig-model", "ngrok-aig-model", "x-kong-llm-model", "x-litellm-model-group")
#: Response headers that name the provider or deployment behind a gateway: LiteLLM's proxy, Cloudflare.
ROUTE_HEADERS = ("x-litellm-model-id", "cf-aig-provider")
_LONGEST = 200


def served_of(message: Message, headers: Mapping[str, str] | None = None, requested: str | None = None) -> Served:
    """Model, fingerprint and provider that a body and headers (names in lower case) state. A name that contradicts `requested` comes first."""
    headers = headers or {}
    names = [name for name in (message.model, *(headers.get(one) for one in MODEL_HEADERS)) if name and not name.endswith("/*")]
    others = (name for name in names if requested is not None and not is_requested(requested, name))
    routes = (message.provider, *(headers.get(one) for one in ROUTE_HEADERS))
    return Served(
        _plain(next(others, None) or next(iter(names), None)),
        _plain(message.system_fingerprint),
        _plain(next((one for one in routes if one), None)),
    )


def _plain(text: str | None) -> str | None:
    """Printable text of one line without credentials; None for nothing."""
    return redact("".join(sign for sign in text if sign.isprintable()).strip()[:_LONGEST]) or None if text else None
