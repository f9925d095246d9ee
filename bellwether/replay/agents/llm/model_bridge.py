"""Asks a model from code that is not asynchronous: one event loop in a thread of its own, from the first question of a run to its end.

Not here: prompts (prompt.py), or claims, costs and limits of calls (bellwether/models).
"""

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

#: Spending and failures are counted under this purpose.
PURPOSE = "replay/agent"


@dataclass(frozen=True, slots=True)
class WorldModels:
    """Models of this process's world, on its journal. run: who pays. dollars: the most that is spent under that name, in all runs together."""

    run: str
    dollars: Decimal

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ModelClient]:
        """A client; the sandbox runs as long as it is open."""
        from bellwether.journal import Journal
        from bellwether.models.client import Limits, ModelClient
        from bellwether.models.transport import ProviderWire

        config, limits = settings(), Limits(dollars=self.dollars)
        with addresses(config, served=False) as venues, Journal.of(config) as journal:
            wire = ProviderWire(sandbox=venues.transport)
            async with ModelClient(journal, endpoint=endpoints(venues.models), run=self.run, limits=limits, wire=wire) as client:
                yield client


class ModelBridge:
    """Asks one model; nothing is opened before the first question.

    Ctrl-C during a request starts no other: the answer, which is paid for, is awaited and stored. A second one cancels the request.

    Attributes:
        models: where the client comes from.
        model: its id.
        parameters: sent in addition to the model's own: tools, temperature.
        sample: tells this run's answers from those of another one with the same questions.
    """

    def __init__(self, models: Models, model: Model, parameters: Mapping[str, Any], sample: int) -> None:
        self._models, self._model, self._parameters, self._sample = models, model, parameters, sample
        self._thread: threading.Thread | None = None

    def ask(self, messages: Sequence[Mapping[str, Any]], scope: str) -> Answer | NoAnswer:
        """Return the model's answer, or the reason why it is missing. scope: the decision. Raises what `ModelClient.ask` raises."""
        client = self._open()
        work = client.ask(self._model, messages, purpose=PURPOSE, scope=scope, sample=self._sample, parameters=self._parameters)
        asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result()
        except CancelledError:
            raise BellwetherError(f"asking {self._model.name}: the client ended before the answer came") from None
        except BaseException:
            if not asked.done():
                self._loop.call_soon_threadsafe(client.interrupt)
                self._await_paid(asked)
            raise

    @staticmethod
    def _await_paid(asked: Future[Any]) -> None:
        try:
            with suppress(Exception):
                asked.result()
        except BaseException:
            asked.cancel()
            raise

    def close(self) -> None:
        """End the client and its thread, if there are any."""
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
