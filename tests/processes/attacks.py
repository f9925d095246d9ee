"""Runs of isolated agents that attack."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from bellwether.replay import AgentSource, Backtest, Limits, run
from tests.unit.replay.agents.scenes import market, settings

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).parent / "hostile" / "agents.py"
#: Lots that an agent buys after an attack that succeeded.
LOOT = 777
LIMITS = Limits(run=30, memory=1 << 30)
#: Real seconds of a decision: enough on a busy machine, and few for an endless decision.
SECONDS, FEW_SECONDS = 20.0, 1.5

linux = pytest.mark.skipif(sys.platform != "linux", reason="the system forbids it on Linux alone")


def source(attack: str, target: str = "") -> AgentSource:
    return AgentSource(f"{FILE}:Hostile", {"attack": attack, "target": target})


def attacked(attack: str, target: str = "", seconds: float = SECONDS) -> Backtest:
    return run(market(), source(attack, target), settings(limits=replace(LIMITS, decision=seconds)), isolated=True)


def commands() -> Iterator[str]:
    """Return the command lines of all other processes. Those of agents contain paths of their test."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with suppress(OSError):
                yield (entry / "cmdline").read_text()
