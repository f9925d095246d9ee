"""Resources of the venues in the world of the settings.

Not here: requests to a venue (bellwether/venues) or tables made of the answers (assets/).
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
    from bellwether.journal.shared_limits import SharedLimits
    from bellwether.venues.http.client import RateLimit
    from bellwether.venues.kalshi.client import KalshiClient
    from bellwether.venues.polymarket.client import ClobClient, GammaClient

T = TypeVar("T")

_FROM_SETTINGS = "that of the settings when left out, which keeps a password in it out of Dagster's configuration"


def _unlimited() -> "RateLimit":
    from bellwether.venues.http.client import RateLimit

    return RateLimit(tokens_per_second=1e9)


def _public_url(address: str) -> str | None:
    """Return an address for messages; None for one with credentials."""
    return address if strip_user(address) == address else None


class WorldResource(dg.ConfigurableResource):
    """Addresses of the venues: sandbox, playback or live."""

    world: str = Field(default="sandbox", description="sandbox, playback or live")
    kalshi_url: str | None = Field(default=None, description=f"Kalshi's base URL in the live world; {_FROM_SETTINGS}")
    gamma_url: str | None = Field(default=None, description=f"base URL of Polymarket's Gamma interface in the live world; {_FROM_SETTINGS}")
    clob_url: str | None = Field(default=None, description=f"base URL of Polymarket's CLOB interface in the live world; {_FROM_SETTINGS}")
    sandbox_seed: int = Field(default=7, description="seed of the generated world")
    sandbox_now: str | None = Field(default=None, description="ISO time that the sandbox's clock shows")
    sandbox_faults: str = Field(default="", description="faults of the sandbox")
    playback: str | None = Field(default=None, description="folder of recorded bodies")
    playback_now: str | None = Field(default=None, description="ISO time that playback's clock shows")

    @classmethod
    def of(cls, config: Settings) -> "WorldResource":
        """Create the resource of the world of the settings."""
        return cls(
            world=config.world.value,
            kalshi_url=_public_url(config.kalshi_url),
            gamma_url=_public_url(config.gamma_url),
            clob_url=_public_url(config.clob_url),
            sandbox_seed=config.sandbox_seed,
            sandbox_now=config.sandbox_now.isoformat(),
            sandbox_faults=config.sandbox_faults,
            playback=str(config.playback) if config.playback else None,
            playback_now=config.playback_now.isoformat() if config.playback_now else None,
        )

    @property
    def is_live(self) -> bool:
        """True for the real venues."""
        return World(self.world) is World.LIVE

    @contextmanager
    def addresses(self, *, served: bool = True) -> Iterator[Addresses]:
        """Open the addresses of the venues. If `served`, sandbox and playback are served on a loopback port until the context ends."""
        chosen = {name: value for name, value in self.model_dump(include=set(type(self).model_fields)).items() if value is not None}
        with addresses(Settings(**chosen), served=served) as found:
            yield found


#: Reason of a step that a signal has ended.
STOPPED = "stopped by a signal"
_stopped = threading.Event()


def resume_requests() -> None:
    """Allow requests to venues again after a signal."""
    _stopped.clear()


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work()` in a new event loop.

    SIGINT and SIGTERM end it for good, and later sessions of the process. A failure that would repeat (a setting, a missing table, a refusal of the
    venue) is a `dg.Failure` that is not retried.
    """
    from bellwether.venues.http.response_body import TooLargeError

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
    """Access to the interfaces of a venue, and limits on the prices to pull."""

    #: Name of the venue in tables.
    venue: ClassVar[str]

    asked: bool = Field(default=True, description="whether this venue is pulled at all")
    candle_days: int = Field(default=8, description="days of hourly prices pulled before each market's close")
    candle_markets: int = Field(default=2000, description="most markets per day for which prices are pulled")

    _shared: "SharedLimits | None" = PrivateAttr(default=None)

    @property
    def shared(self) -> "SharedLimits | None":
        """Limits that processes share through the journal; None on SQLite."""
        if self._shared is None and settings().shares_limits:
            from bellwether.journal import Journal

            self._shared = Journal.of(settings()).shared_limits()
        return self._shared

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close the connection of the shared limits."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    async def alone(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work()` while no other process pulls `what` of this venue."""
        if self.shared is None:
            return await work()
        async with self.shared.slots(f"pull {self.venue} {what} of {settings().lake_uri}", 1).hold():
            return await work()

    @abstractmethod
    def clients(self) -> AbstractAsyncContextManager[tuple[Any, ...]]:
        """Create connected clients, with rate limits in the live world only."""

    def run(self, work: Callable[..., Awaitable[T]]) -> T:
        """Run `work` with the clients. Raises the failures of `run`."""

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
        """Create a connected client."""
        from bellwether.venues.http.client import RateLimit
        from bellwether.venues.kalshi.client import KalshiClient

        limits = RateLimit(tokens_per_second=self.tokens_per_second, shared=self.shared) if self.world.is_live else _unlimited()
        with self.world.addresses(served=False) as found:
            async with KalshiClient(found.kalshi, limits=limits, transport=found.transport) as client:
                yield (client,)


class PolymarketVenue(VenueResource):
    """Polymarket's Gamma and CLOB interfaces."""

    venue = "polymarket"

    world: dg.ResourceDependency[WorldResource]

    @asynccontextmanager
    async def clients(self) -> AsyncIterator["tuple[GammaClient, ClobClient]"]:
        """Create connected clients."""
        from bellwether.venues.polymarket.client import ClobClient, GammaClient

        with self.world.addresses(served=False) as found:
            gamma = GammaClient(found.gamma, limits=self._limits(GammaClient), transport=found.transport)
            clob = ClobClient(found.clob, limits=self._limits(ClobClient), transport=found.transport)
            async with gamma, clob:
                yield gamma, clob

    def _limits(self, client: "type[GammaClient] | type[ClobClient]") -> "RateLimit":
        return replace(client.usual_limits, shared=self.shared) if self.world.is_live else _unlimited()
