"""The same replay gives the same bytes in every process and thread."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bellwether.replay.engine import Session, Settings
from bellwether.replay.units import SECOND
from tests.replay.engine.small_tapes import LIVE, busy_tape
from tests.replay.engine.test_growth import follow

ROOT = Path(__file__).parents[3]
PROGRAM = """
from tests.replay.engine.test_determinism import digest
print(digest())
"""


def digest() -> str:
    opened = Session(busy_tape(), LIVE, Settings(cadence=SECOND))
    opened.run_compiled(follow, np.array([200, 0]))
    assert len(opened.fills) > 100
    return opened.result().digest()


@pytest.mark.slow
def test_hash_seeds_of_processes_do_not_matter() -> None:
    seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "0"
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    other = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest()


def test_sessions_in_threads_do_not_disturb_each_other() -> None:
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: digest(), range(8))) == {digest()}
