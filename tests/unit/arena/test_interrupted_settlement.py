"""An interrupted settlement continues where it stopped, tested for every write of the journal and the lake. Real kills: tests/journal,
tests/lake.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bellwether.arena.records import Intervention, load_interventions
from bellwether.arena.weekly.interventions import cancel_market, close_agent
from bellwether.journal.records import Records
from bellwether.lake import Lake
from bellwether.tables import TABLES
from bellwether.tables import arena as tables
from tests.arena.weeks import Arena

#: Start of the week, and a time at which most of its markets are resolved.
START = datetime(2026, 3, 1, 0, 10, tzinfo=UTC)
SETTLED = START + timedelta(days=40)


class Killed(BaseException):
    """Exception that replaces a kill."""


def settle(arena: Arena) -> None:
    """Cancel a market, close an agent, collect evidence of all due markets, and rebuild the ledger."""
    with arena.journal() as journal:
        world = arena.world(journal)
        cancel_market(world, sorted(arena.read(tables.TRADES)["market_id"])[0], "ann", "withdrawn")
        close_agent(world, sorted(arena.read(tables.AGENTS)["agent_id"])[0], "ann", "unwanted")
    arena.evidence(arena.now.date() - timedelta(days=(arena.now.weekday() + 1) % 7))
    arena.books()


def contents(arena: Arena) -> tuple[dict[Any, str], list[Intervention]]:
    """Return the SHA-256 of every partition, and the interventions in the journal."""
    found = {(name, place): one.sha256 for name, table in TABLES.items() for place, one in arena.lake.manifests(table).items()}
    with arena.journal() as journal:
        return found, load_interventions(arena.world(journal).records)


def killing(patch: pytest.MonkeyPatch, step: int, done: Counter[str]) -> None:
    """Raise `Killed` after write number `step` of the journal or the lake."""

    def kill_at(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **more: Any) -> Any:
            made = real(*args, **more)
            done[kind] += 1
            if done.total() == step:
                raise Killed
            return made

        return write

    patch.setattr(Records, "once", kill_at("record", Records.once))
    patch.setattr(Lake, "write", kill_at("partition", Lake.write))


def test_a_settlement_that_stops_at_any_write_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    decided = Arena(tmp_path / "home", now=START, lineup="few")
    decided.decide(START.date())

    def copy(name: str) -> Arena:
        return Arena(Path(shutil.copytree(decided.home, tmp_path / name)), now=SETTLED, lineup="few")

    undisturbed = copy("undisturbed")
    settle(undisturbed)
    assert undisturbed.results().frames["arena/settlements"].height > 2
    expected = contents(undisturbed)
    for step in count(1):
        arena, done, looks = copy(str(step)), Counter[str](), Counter[str]()
        arena.breaks = lambda looks=looks: looks.update(["look"])  # type: ignore[misc]
        with pytest.MonkeyPatch.context() as patch:
            killing(patch, step, done)
            try:
                settle(arena)
            except Killed:
                pass
            else:
                break
        stored = arena.read(tables.EVIDENCE).height > 0
        settle(arena)
        assert contents(arena) == expected, step
        assert looks["look"] <= (1 if stored else 2), "a stored look is not repeated"
    assert (done["record"], done["partition"]) >= (2, 7)
