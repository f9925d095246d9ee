"""A settlement that is killed anywhere goes on where it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bellwether.tables import arena as tables
from tests.arena.settling import SETTLED, START, contents, looked, settle
from tests.arena.weeks import Arena

ROOT = Path(__file__).resolve().parents[2]


#: Writes between two kills: 1 kills at every write, and takes a minute. A prime, so that kills fall into different steps.
STRIDE = 17


@pytest.mark.slow
def test_a_settlement_killed_at_its_writes_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    """Every life is killed some writes of the journal or of the lake later; the next run gives the bytes of an undisturbed one and looks at nothing twice."""
    home, log = tmp_path / "home", tmp_path / "log"
    decided = Arena(home, now=START, lineup="few")
    decided.decide(START.date())
    markets = sorted(set(decided.read(tables.TRADES)["market_id"]))
    undisturbed = Arena(Path(shutil.copytree(home, tmp_path / "undisturbed")), now=SETTLED, lineup="few")
    settle(undisturbed)
    assert undisturbed.results().frames["arena/settlements"].height > 2
    expected = contents(undisturbed)
    command = [sys.executable, "-m", "tests.arena.settling", str(home), str(tmp_path / "lives"), str(log), str(STRIDE), *markets]
    survived = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert survived.returncode == 0, survived.stderr
    lives = int(survived.stdout)
    assert lives > 40
    before = Counter(int(line.split()[0]) for line in log.read_text().splitlines())
    for life in range(1, lives + 1, STRIDE):
        arena, after = Arena(tmp_path / "lives" / str(life), now=SETTLED, lineup="few"), [0]

        def look(after: list[int] = after) -> None:
            after[0] += 1

        stored = looked(arena).height > 0
        arena.breaks = look
        settle(arena)
        assert contents(arena) == expected, life
        assert (before[life] > 0, after[0]) in ((True, 0),) if stored else after[0] == 1, "a look that is stored is not made again"
