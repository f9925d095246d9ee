"""Reconstructing an arena week of 500 markets: our own CPU, and how many of the calls are for the prices of the past.

The sandbox has a hundred markets that end in a week; here each stands for several with ids and tokens of their own. What the venue answers is recorded first,
so that its own work is not ours.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from bellwether import interruptible
from bellwether.arena.weekly import rows
from bellwether.arena.weekly.deciding import decide_week
from bellwether.arena.weekly.means import World, decided_at
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.settings import Settings
from bellwether.tables import table
from bellwether.venues.http.client import RateLimit
from bellwether.venues.polymarket import looks
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.worlds import addresses

WEEK, NOW = date(2026, 4, 19), datetime(2026, 7, 1, tzinfo=UTC)
MARKETS, COPIES, ROUNDS = 500, 6, 3
SECONDS, OTHER_CALLS = 2.0, 0.1
_PRICES = "/prices-history"


class Multiplied(httpx.AsyncBaseTransport):
    """A venue of which every market is there `COPIES` times; copies have the prices of the original."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.path.endswith(_PRICES):
            url = url.copy_set_param("market", url.params["market"][:-1])
        answer = await self._inner.handle_async_request(httpx.Request(request.method, url, headers=request.headers))
        body = json.loads(await answer.aread())
        if not url.path.endswith(_PRICES):
            body = {name: [copy for one in value for copy in _copies(one)] if name == "markets" else value for name, value in body.items()}
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(body).encode())


def _copies(market: dict[str, Any]) -> list[dict[str, Any]]:
    tokens = json.loads(market["clobTokenIds"])
    return [
        {
            **market,
            "id": f"{market['id']}{number}",
            "conditionId": f"{market['conditionId'][:-1]}{number}",
            "clobTokenIds": json.dumps([f"{token}{number}" for token in tokens]),
        }
        for number in range(COPIES)
    ]


class Recorded(httpx.AsyncBaseTransport):
    """Answers as they were given the first time, and counts them by path. Without them it asks `inner` and keeps what it says."""

    def __init__(self) -> None:
        self.inner: httpx.AsyncBaseTransport | None = None
        self.calls: Counter[str] = Counter()
        self._answers: dict[str, tuple[int, httpx.Headers, bytes]] = {}

    @property
    def tokens(self) -> list[str]:
        """The tokens whose past prices were asked for."""
        asked = (httpx.URL(name) for name in self._answers)
        return [url.params["market"] for url in asked if url.path.endswith(_PRICES)]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = str(request.url)
        self.calls[request.url.path.rpartition("/")[2]] += 1
        if name not in self._answers:
            assert self.inner is not None, f"{name} was not asked before"
            answer = await self.inner.handle_async_request(request)
            self._answers[name] = (answer.status_code, answer.headers, await answer.aread())
        status, headers, body = self._answers[name]
        return httpx.Response(status, headers=headers, content=body)


class Reconstruction:
    """A past week in a home of its own, below a folder."""

    def __init__(self, folder: Path, venue: Recorded) -> None:
        self._venue, self._folder = venue, folder
        self.lake = Lake(str(folder / "lake"))
        registry = folder / "registry"
        registry.mkdir(parents=True)
        self._registry = registry

    def run(self) -> int:
        """Universe, prompts, decisions of four rules, quotes, trades and their rows; returns how many markets the universe has."""
        with Journal(f"sqlite:///{self._folder / 'journal.db'}") as journal:
            world = World(journal, self.lake, self.ask, None, lambda: NOW, "bench", "rules", self._registry)
            done = decide_week(world, WEEK)
            for name, frame in {
                "arena/universe": rows.universe_rows(WEEK, done.universe),
                "arena/agents": rows.agents_rows(world, done.cohort),
                "arena/decisions": rows.decisions_rows(world, done)[0],
                "arena/trades": rows.trades_rows(done),
            }.items():
                self.lake.write(table(name), (WEEK.isoformat(),), frame, run_id="bench")
            assert all(str(one.state) == "finished" for _, one in done.decisions)
        return len(done.universe.universe.markets)

    def prices(self, tokens: list[str]) -> None:
        """The price calls of the universe alone."""
        at = decided_at(WEEK)
        self.ask(lambda _, clob: looks.past_prices(clob, dict.fromkeys(tokens, (at - timedelta(days=1), at))))

    def ask(self, work: Callable[[GammaClient, ClobClient], Awaitable[Any]]) -> Any:
        """Run `work` with clients of the recorded venue."""

        async def session() -> Any:
            how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": self._venue}
            async with GammaClient("http://sandbox/gamma", **how) as gamma, ClobClient("http://sandbox/clob", **how) as clob:
                return await work(gamma, clob)

        return interruptible.run(session())


def run() -> list[dict[str, Any]]:
    """Best of a few rounds: CPU seconds, and the share of calls that are not for prices: [{name, ratio, target, detail}]."""
    with tempfile.TemporaryDirectory() as name:
        folder, venue = Path(name), Recorded()
        with addresses(Settings(sandbox_now=NOW, home=folder), served=False) as site:
            assert site.transport is not None
            venue.inner = Multiplied(site.transport)
            tokens = _record(Reconstruction(folder / "first", venue), venue)
        venue.inner = None
        whole, prices = list[float](), list[float]()
        for number in range(ROUNDS):
            week = Reconstruction(folder / str(number), venue)
            venue.calls.clear()
            whole.append(_seconds(week.run))
            calls = dict(venue.calls)
            prices.append(_seconds(lambda week=week: week.prices(tokens)))  # type: ignore[misc]
    best, priced, asked = min(whole), min(prices), sum(calls.values())
    said = ", ".join(f"{path} {count}" for path, count in sorted(calls.items()))
    detail = f"{MARKETS} markets: {best:.2f} s of CPU, {priced:.2f} s of it for {calls['prices-history']} price calls; calls: {said}"
    return [
        {"name": "reconstructing a week, CPU seconds", "ratio": best, "target": SECONDS, "detail": detail},
        {
            "name": "reconstructing a week, calls not for prices",
            "ratio": 1 - calls["prices-history"] / asked,
            "target": OTHER_CALLS,
            "detail": detail,
        },
    ]


def _record(week: Reconstruction, venue: Recorded) -> list[str]:
    """Reconstruct once to know the answers; returns the tokens that were priced."""
    found = week.run()
    assert found == MARKETS, f"the universe has {found} markets"
    return venue.tokens


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
