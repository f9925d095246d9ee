"""Addresses of the venues in the current world (a local server with generated data, or the venues themselves), and clients of its models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from bellwether.models.keys import endpoints
from bellwether.settings import Settings, World, settings

if TYPE_CHECKING:
    import httpx

    from bellwether.models.client import ModelClient
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


class WorldModels:
    """Source of model clients that use the journal of this process's world. run: name under which costs are counted. dollars: their maximum."""

    def __init__(self, run: str, dollars: Decimal) -> None:
        self._run, self._dollars = run, dollars

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        """Open a model client, which is closed at the end of the `async with` block."""
        from bellwether.journal.journal import Journal
        from bellwether.models.client import Limits, ModelClient
        from bellwether.models.transport import ProviderWire

        config, limits = settings(), Limits(dollars=self._dollars)
        with addresses(config, served=False) as venues, Journal.of(config) as journal:
            wire = ProviderWire(sandbox=venues.transport)
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self._run, limits=limits, wire=wire) as client:
                yield client
