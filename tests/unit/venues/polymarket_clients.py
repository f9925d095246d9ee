"""Polymarket's clients of a venue in a function, without waits or random draws."""

from __future__ import annotations

from random import Random
from typing import Any

import httpx

from bellwether.venues.http.client import ClobClient, GammaClient
from tests.unit.venues.venue import FAST, Handler, Naps

GAMMA = "https://gamma.example"
CLOB = "https://clob.example"


def gamma(handler: Handler, **options: Any) -> GammaClient:
    """Return a client of Gamma."""
    return GammaClient(GAMMA, **_options(handler, options))


def clob(handler: Handler, **options: Any) -> ClobClient:
    """Return a client of the CLOB."""
    return ClobClient(CLOB, **_options(handler, options))


def _options(handler: Handler, options: dict[str, Any]) -> dict[str, Any]:
    return {"limits": FAST, "transport": httpx.MockTransport(handler), "sleep": Naps(), "rng": Random(1), **options}
