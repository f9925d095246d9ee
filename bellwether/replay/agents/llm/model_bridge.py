"""Synchronous access to a model client, whose event loop runs in its own thread from the first request to the end of a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bellwether.errors import BellwetherError
from bellwether.models.keys import endpoints
from bellwether.settings import settings
from bellwether.worlds import addresses

if TYPE_CHECKING:
    from bellwether.forecasting.forecaster import Models
    from bellwether.models.client import Answer, ModelClient, NoAnswer
    from bellwether.models.model import Model

#: Journal purpose under which costs and failures are counted.
PURPOSE = "replay/agent"


@dataclass(frozen=True, slots=True)
class WorldModels:
    """Source of model clients that use the journal of this process's world (sandbox or live).

    run: name under which costs are counted. dollars: maximum cost of all runs of that name.
    """

    run: str
    dollars: Decimal

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        """Open a client. In the sandbox, the model servers run until the client is closed."""
        from bellwether.journal import Journal
        from bellwether.models.client import Limits, ModelClient
        from bellwether.models.transport import ProviderWire

        config, limits = settings(), Limits(dollars=self.dollars)
        with addresses(config, served=False) as venues, Journal.of(config) as journal:
            wire = ProviderWire(sandbox=venues.transport)
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self.run, limits=limits, wire=wire) as client:
                yield client


class ModelBridge:
    """Synchronous client of one model. The connection opens at the first request.

    Ctrl-C during a request prevents further requests; the paid answer is awaited and stored. A second Ctrl-C cancels the request.

    Args:
        models: Source of the client.
        model: The model.
        parameters: Request parameters in addition to the model's own, such as tools and temperature.
        sample: Number that distinguishes this run's answers from those of another run with the same requests.
    """

    def __init__(self, models: Models, model: Model, parameters: Mapping[str, Any], sample: int) -> None:
        self._models, self._model, self._parameters, self._sample = models, model, parameters, sample
        self._thread: threading.Thread | None = None

    def request_answer(self, messages: Sequence[Mapping[str, Any]], scope: str) -> Answer | NoAnswer:
        """Request the model's answer. Returns the answer, or the reason of a missing one; raises the errors of `ModelClient.ask`. scope:
        name of the run, step and round in the journal.
        """
        client = self._open()
        work = client.ask(self._model, messages, purpose=PURPOSE, scope=scope, sample=self._sample, parameters=self._parameters)
        request = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return request.result()
        except CancelledError:
            raise BellwetherError(
                f"querying {self._model.name}: the client was closed before the answer arrived; repeat the run to continue"
            ) from None
        except BaseException:
            if not request.done():
                self._loop.call_soon_threadsafe(client.interrupt)
                self._await_paid(request)
            raise

    @staticmethod
    def _await_paid(request: Future[Any]) -> None:
        """Wait until the answer of a request, which is already paid, is stored. An interrupt during the wait cancels the request."""
        try:
            with suppress(Exception):
                request.result()
        except BaseException:
            request.cancel()
            raise

    def close(self) -> None:
        """Close the client and end its thread, if it is open."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join()

    def _open(self) -> ModelClient:
        if self._thread is None:
            opened: Future[ModelClient] = Future()
            self._thread = threading.Thread(target=self._serve, args=(opened,), name="llm-agent", daemon=True)
            self._thread.start()
            self._client = opened.result()
        return self._client

    def _serve(self, opened: Future[ModelClient]) -> None:
        async def serve() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            async with self._models.client() as client:
                opened.set_result(client)
                await self._over.wait()

        try:
            asyncio.run(serve())
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)
