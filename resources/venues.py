"""Dagster resources of the venues (Kalshi and Polymarket) in the world of the settings: sandbox or live.

Not here: requests to a venue (bellwether/venues), and tables built from its pages (assets/).
Concept: https://docs.dagster.io/guides/build/external-resources
"""

import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import dagster as dg
from pydantic import Field, PrivateAttr

from bellwether import concurrency
from bellwether.errors import ConfigError, LakeError
from bellwether.settings import Settings, World, settings
from bellwether.venues.http.page import strip_user
from bellwether.venues.http.retry import RefusedError
from bellwether.worlds import Addresses, addresses

# HTTP clients are imported where they connect: loading the definitions does not need them.
if TYPE_CHECKING:
    from bellwether.journal.limits import SharedLimits
    from bellwether.venues.http.client import ClobClient, GammaClient, KalshiClient, RateLimit

T = TypeVar("T")

_FROM_SETTINGS = "that of the settings when left out, which keeps a password in it out of Dagster's configuration"


def _public_url(address: str) -> str | None:
    """Return an address that Dagster may show; None if the address contains credentials."""
    return address if strip_user(address) == address else None


class WorldResource(dg.ConfigurableResource):
    """World whose venues are queried (sandbox or live), and the addresses of these venues."""

    world: str = Field(default="sandbox", description="sandbox or live")
    kalshi_url: str | None = Field(default=None, description=f"Kalshi's base URL in the live world; {_FROM_SETTINGS}")
    gamma_url: str | None = Field(default=None, description=f"base URL of Polymarket's Gamma interface in the live world; {_FROM_SETTINGS}")
    clob_url: str | None = Field(default=None, description=f"base URL of Polymarket's CLOB interface in the live world; {_FROM_SETTINGS}")
    sandbox_seed: int = Field(default=7, description="seed of the generated world")
    sandbox_now: str | None = Field(default=None, description="ISO time that the sandbox's clock shows")

    @classmethod
    def of(cls, config: Settings) -> "WorldResource":
        """Create the resource from settings."""
        return cls(
            world=config.world.value,
            kalshi_url=_public_url(config.kalshi_url),
            gamma_url=_public_url(config.gamma_url),
            clob_url=_public_url(config.clob_url),
            sandbox_seed=config.sandbox_seed,
            sandbox_now=config.sandbox_now.isoformat(),
        )

    @property
    def is_live(self) -> bool:
        """True if the venues are the real ones."""
        return World(self.world) is World.LIVE

    @contextmanager
    def addresses(self, *, served: bool = True) -> Iterator[Addresses]:
        """Yield the addresses of the venues. served: serve the sandbox on a loopback port until the context ends."""
        chosen = {name: value for name, value in self.model_dump(include=set(type(self).model_fields)).items() if value is not None}
        with addresses(Settings(**chosen), served=served) as opened:
            yield opened


#: Failure description of a step that a signal has ended.
STOPPED = "stopped by a signal"
_stopped = threading.Event()


def resume_requests() -> None:
    """Allow calls of `run` again after a signal has stopped them."""
    _stopped.clear()


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work()` in a new event loop and return the result.

    After SIGINT or SIGTERM it fails, as do later calls of this process until `resume_requests`. Failures that would repeat, such as a wrong setting or a
    refusal of the venue, are raised as `dg.Failure` without retries.
    """
    from bellwether.venues.http.retry import TooLargeError

    async def session() -> T:
        return await work()

    if _stopped.is_set():
        raise dg.Failure(STOPPED, allow_retries=False)
    try:
        return concurrency.run(session())
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as error:
        # Dagster's retry policies apply to interrupts too: the step would be retried, and parallel steps would continue.
        _stopped.set()
        raise dg.Failure(STOPPED, allow_retries=False) from error
    except (ConfigError, LakeError, RefusedError, TooLargeError) as error:
        raise dg.Failure(str(error), allow_retries=False) from error


class VenueResource(dg.ConfigurableResource):
    """Clients of one venue, and limits on how many prices are pulled."""

    #: Name of the venue in tables.
    venue: ClassVar[str]

    asked: bool = Field(default=True, description="whether this venue is pulled at all")
    candle_days: int = Field(default=8, description="days of hourly prices pulled before each market's close")
    candle_markets: int = Field(default=2000, description="most markets per day for which prices are pulled")

    _shared: "SharedLimits | None" = PrivateAttr(default=None)

    @property
    def shared(self) -> "SharedLimits":
        """Limits that all processes on the journal share."""
        if self._shared is None:
            from bellwether.journal.journal import Journal

            self._shared = Journal.of(settings()).limits
        return self._shared

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close the connections to the shared limits."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    async def run_exclusively(self, part: str, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work()` while no other process of a fleet pulls the same part of this venue. On one machine, Dagster's pools ensure that.

        part: a UTC day, or a listing such as series.
        """
        if not settings().shares_limits:
            return await work()
        async with self.shared.exclusively(f"pull {self.venue} {part} of {settings().lake_uri}"):
            return await work()

    @abstractmethod
    def clients(self) -> AbstractAsyncContextManager[tuple[Any, ...]]:
        """Open one client for each HTTP interface of the venue. Rate limits apply in the live world only."""

    def run(self, work: Callable[..., Awaitable[T]]) -> T:
        """Run `work` with the venue's clients in a new event loop. Raises the same exceptions as the function `run` of this module."""

        async def session() -> T:
            async with self.clients() as clients:
                return await work(*clients)

        return run(session)


class KalshiVenue(VenueResource):
    """Kalshi's REST interface."""

    venue = "kalshi"

    world: dg.ResourceDependency[WorldResource]
    tokens_per_second: float = Field(
        default=200.0, description="read tokens per second of your Kalshi tier; a read costs 10. Applies to the live world"
    )

    @asynccontextmanager
    async def clients(self) -> AsyncIterator["tuple[KalshiClient]"]:
        """Open the client of Kalshi's REST interface."""
        from bellwether.venues.http.client import KalshiClient, RateLimit

        limits = RateLimit(tokens_per_second=self.tokens_per_second, shared=self.shared if self.world.is_live else None)
        with self.world.addresses(served=False) as venues:
            async with KalshiClient(venues.kalshi, limits=limits, transport=venues.transport) as client:
                yield (client,)


class PolymarketVenue(VenueResource):
    """Polymarket's Gamma and CLOB interfaces."""

    venue = "polymarket"

    world: dg.ResourceDependency[WorldResource]

    @asynccontextmanager
    async def clients(self) -> AsyncIterator["tuple[GammaClient, ClobClient]"]:
        """Open the clients of Gamma and CLOB."""
        from bellwether.venues.http.client import ClobClient, GammaClient

        with self.world.addresses(served=False) as venues:
            gamma = GammaClient(venues.gamma, limits=self._limits(GammaClient), transport=venues.transport)
            clob = ClobClient(venues.clob, limits=self._limits(ClobClient), transport=venues.transport)
            async with gamma, clob:
                yield gamma, clob

    def _limits(self, client: "type[GammaClient] | type[ClobClient]") -> "RateLimit":
        return replace(client.usual_limits, shared=self.shared if self.world.is_live else None)
