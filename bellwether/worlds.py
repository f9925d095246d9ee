"""Addresses of the venues in the current world: a local server with generated data, or the venues themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bellwether.settings import Settings, World

if TYPE_CHECKING:
    import httpx

    from bellwether.venues.kalshi.stream.signing import Credentials


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses at which the venues of a world are reached, and the key that signs requests.

    kalshi, kalshi_stream, gamma, clob: base URLs. credentials: returns the key pair for Kalshi's WebSocket; raises `ConfigError` in the live world
    if none is set. models: base URL of the world's own model endpoint; None in the live world, where each provider has one.
    transport: of requests to the venues' REST APIs and to `models`; None for the network.
    """

    kalshi: str
    kalshi_stream: str
    gamma: str
    clob: str
    credentials: Callable[[], Credentials]
    models: str | None = None
    transport: httpx.AsyncBaseTransport | None = None


@contextmanager
def addresses(config: Settings, *, running: bool = False, served: bool = True) -> Iterator[Addresses]:
    """Yield the addresses of the world's venues. In the sandbox a local server answers there until the block ends.

    running: the sandbox's clock runs at `sandbox_speed` instead of being fixed, for consumers of its streams.
    served: False for a caller that uses only REST, through `transport`: it calls the application without a port, at a third of the cost.
    """
    if config.world is World.LIVE:
        yield Addresses(config.kalshi_url, config.kalshi_stream_url, config.gamma_url, config.clob_url, _own_credentials)
        return
    from bellwether.sandbox import Site, serve
    from bellwether.sandbox.app import build_application

    app = build_application(config, running=running)
    if not served:
        import httpx

        site = Site("http://sandbox")
        transport = httpx.ASGITransport(app)
        yield Addresses(site.kalshi, site.kalshi_stream, site.gamma, site.clob, _create_credentials, site.models, transport)
        return
    with serve(app) as site:
        yield Addresses(site.kalshi, site.kalshi_stream, site.gamma, site.clob, _create_credentials, site.models)


def _create_credentials() -> Credentials:
    """Create a Kalshi key; the sandbox accepts any."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    from bellwether.venues.kalshi.stream.signing import Credentials

    return Credentials("sandbox", rsa.generate_private_key(public_exponent=65537, key_size=2048))


def _own_credentials() -> Credentials:
    """Return the user's Kalshi key from the environment."""
    from bellwether.venues.kalshi.stream.signing import Credentials

    return Credentials.from_environment()
