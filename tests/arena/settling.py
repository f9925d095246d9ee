"""A settlement that is killed at every write: an operator cancels a market, the others are looked at, and the books are folded.

`python -m tests.arena.settling HOME LIVES LOG STRIDE MARKET...` settles the week of HOME in copies below LIVES, each life killed STRIDE writes of the journal or of
the lake later, until one survives.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import sqlalchemy as sa

from bellwether.arena.records import Intervention, interventions
from bellwether.arena.weekly.operators import cancel_market, close_agent
from bellwether.journal import Journal
from bellwether.tables import TABLES
from bellwether.tables import arena as tables
from bellwether.venues.polymarket import routes
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from tests.arena.weeks import Arena

#: When the week starts, and when it is settled: most of its markets are resolved.
START = datetime(2026, 3, 1, 0, 10, tzinfo=UTC)
SETTLED = START + timedelta(days=40)
_WRITES = ("os.rename", "os.link", "os.mkdir", "os.remove")


def settle(arena: Arena, journal: Callable[[], Journal] | None = None) -> None:
    """Cancel a market, close an agent, look at all markets that are due, and fold the books."""
    with (journal or arena.journal)() as opened:
        world = arena.world(opened)
        held = sorted(arena.read(tables.TRADES)["market_id"])
        cancel_market(world, held[0], "ann", "withdrawn")
        close_agent(world, sorted(arena.read(tables.AGENTS)["agent_id"])[0], "ann", "unwanted")
    arena.evidence(arena.now.date() - timedelta(days=(arena.now.weekday() + 1) % 7))
    arena.books()


def contents(arena: Arena) -> tuple[dict[tuple[str, tuple[str, ...]], str], list[Intervention]]:
    """The SHA-256 of every partition, after reading its file, and the interventions of the journal."""
    found = {}
    for name, declared in TABLES.items():
        for partition, manifest in arena.lake.manifests(declared).items():
            arena.lake.verify(manifest)
            found[name, partition] = manifest.sha256
    with arena.journal() as journal:
        return found, interventions(arena.world(journal).records)


def looked(arena: Arena) -> pl.DataFrame:
    """Looks at the venue that are stored."""
    return arena.read(tables.EVIDENCE).filter(pl.col("cancelled_by").is_null()).select("market_id", "known_at")


class _Countdown:
    """Kills this process before the write number `left` of the journal or below a folder."""

    def __init__(self, left: int, folder: str) -> None:
        self._left, self._folder = left, folder

    def write(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def file(self, event: str, args: tuple[Any, ...]) -> None:
        writes = event in _WRITES or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes and str(args[0]).startswith(self._folder):
            self.write()

    def statement(self, _: Any, __: Any, statement: str, *___: Any) -> None:
        if not statement.lstrip().startswith(("SELECT", "BEGIN", "PRAGMA")):
            self.write()


def _warm(home: str, market_ids: Sequence[str]) -> None:
    """Let the sandbox make its markets once, for all lives, and load what DuckDB does. Polars is not used before the fork: its threads would be missing in the child."""
    import pandas  # noqa: F401

    async def ask(gamma: GammaClient, clob: ClobClient) -> None:
        pages = [page for closed in (False, True) async for page in gamma.markets(closed=closed, ids=market_ids, include_tag=True)]
        found = [market["conditionId"] for page in pages for market in page.json["markets"]]
        await clob.answers([routes.clob_market(condition) for condition in found], accept=frozenset(range(600)))

    Arena(Path(home), now=SETTLED, lineup="few")._ask(ask)


def main(home: str, lives: str, log: str, stride: str, *market_ids: str) -> None:
    """Print how many lives were needed."""
    _warm(home, market_ids)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for life in range(1, 1000, int(stride)):
        copy = Path(shutil.copytree(home, f"{lives}/{life}"))
        child = os.fork()
        if child == 0:
            arena = Arena(copy, now=SETTLED, lineup="few")
            arena.breaks = lambda life=life: os.write(out, f"{life} looked\n".encode())  # type: ignore[assignment,misc]
            count = _Countdown(life, str(copy / "lake"))

            def journal(arena: Arena = arena, count: _Countdown = count) -> Journal:
                opened = arena.journal()
                opened.database.open()
                sa.event.listen(opened.database._engine, "after_cursor_execute", count.statement)
                return opened

            sys.addaudithook(count.file)
            settle(arena, journal)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            sys.stdout.write(f"{life}\n")
            sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
