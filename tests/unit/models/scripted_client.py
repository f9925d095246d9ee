"""Models, replies, a scripted transport and simulated time for tests of the client."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Self

from bellwether.journal.journal import Journal
from bellwether.journal.values import CostSource, Outcome, Reply, Usage
from bellwether.models.client import ModelClient
from bellwether.models.keys import Endpoint
from bellwether.models.model import Model
from bellwether.models.response import AttemptResult
from bellwether.models.transport import ModelCall

#: Maximum and actual cost of a call in micro-dollars.
MOST, COST = 100, 20


def model(name: str = "oracle", **changes: Any) -> Model:
    """Return an entry of the registry."""
    return Model.model_validate({"name": name, "model": f"acme/{name}", **changes})


def question(number: int = 0) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Will event {number} happen?"}]


def make_result(
    content: str | None = "0.7", *, finish: str | None = "stop", cost: int | None = COST, outcome: Outcome = Outcome.OK
) -> AttemptResult:
    """Return a complete reply."""
    body = json.dumps({"choices": [{"message": {"content": content}, "finish_reason": finish}]}).encode()
    usage = Usage(100, 20, 5, cost, None if cost is None else CostSource.PROVIDER)
    reason = "" if outcome is Outcome.OK else f"it was {outcome.value}"
    return AttemptResult(outcome, Reply(body, content, None, finish, usage, 200, "req-1", 900), reason)


def make_failure(outcome: Outcome, status: int | None = 500, **more: Any) -> AttemptResult:
    """Return a call without a reply. It is unbilled if the provider rejected it."""
    turned_away = outcome in (Outcome.RATE_LIMIT, Outcome.OUT_OF_CREDIT, Outcome.AUTHENTICATION) or more.get("permanent")
    usage = Usage(cost=0, cost_source=CostSource.UNBILLED) if turned_away else Usage()
    return AttemptResult(outcome, Reply(usage=usage, http_status=status), f"HTTP {status}", **more)


class SimulatedTime:
    """Simulated time that advances when all tasks wait. Sleepers wake in order of their time, without real waits.

    `is_busy`: returns True while work without a sleep is in progress, such as that of the journal's thread.
    """

    def __init__(self) -> None:
        self.is_busy: Callable[[], bool] = lambda: False
        self.seconds = 0.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._waking: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        wakes = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._numbers), wakes))
        if self._waking is None or self._waking.done():
            self._waking = asyncio.create_task(self._wake())
        await wakes

    async def _wake(self) -> None:
        while self._sleepers:
            await self._quiet()
            until, _, wakes = heapq.heappop(self._sleepers)
            if not wakes.done():
                self.seconds = max(self.seconds, until)
                wakes.set_result(None)

    async def _quiet(self) -> None:
        """Wait until no task has been busy for a while."""
        calm = 0
        while calm < 50:
            busy = self.is_busy()
            await asyncio.sleep(0.001 if busy else 0)
            calm = 0 if busy else calm + 1


class FakeWire:
    """Transport that answers each call with the result or coroutine of `script`, and counts calls."""

    def __init__(self, script: Callable[[ModelCall], Any] | Iterable[Any] = lambda call: make_result()) -> None:
        results = iter(()) if callable(script) else iter(script)
        self._script = script if callable(script) else lambda call: next(results)
        self.sent: Counter[str] = Counter()
        self.calls: list[ModelCall] = []
        self.most = self._under_way = 0
        self.closed = False

    async def send(self, call: ModelCall) -> AttemptResult:
        self.sent[str(call.messages[-1]["content"])] += 1
        self.calls.append(call)
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            result = self._script(call)
            return await result if asyncio.iscoroutine(result) else result
        finally:
            self._under_way -= 1

    @property
    def count(self) -> int:
        return len(self.calls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True


def client(journal: Journal, wire: Any, time: SimulatedTime | None = None, **options: Any) -> ModelClient:
    """Return a client whose waits take no time."""
    time = time or SimulatedTime()
    defaults: dict[str, Any] = {
        "endpoint": lambda model: Endpoint(None, "sk-secret"),
        "run": "run",
        "most_cost": lambda model, messages, parameters: MOST,
        "sleep": time.sleep,
        "now": time.now,
        "seed": 7,
    }
    model_client = ModelClient(journal, wire=wire, **{**defaults, **options})
    time.is_busy = lambda: bool(model_client.journal_work)
    return model_client


async def ask(client: ModelClient, number: int = 0, of: Model | None = None, **options: Any) -> Any:
    return await client.ask(of or model(), question(number), purpose="benchmark/forecasts", **options)


async def ask_all(client: ModelClient, numbers: Iterable[int], of: Model | None = None) -> list[Any]:
    """Return the answers, or the exceptions in their place."""
    return await asyncio.gather(*(ask(client, number, of) for number in numbers), return_exceptions=True)
