"""No command compiles anything after the installation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Print functions that a backtest of another recording compiles in addition to `compile_replay`.
BACKTEST = """
import sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from bellwether.recordings.captures import import_captures
from bellwether.replay import prepare, run
from bellwether.replay.agents.builtin import RandomAgent
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.episode.folder import load, write
from bellwether.replay.results.books import books
from bellwether.replay.results.metrics import metrics
from bellwether.sandbox.replayer import CAPTURES
from bellwether.settings import Settings
from orchestration.precompile import compile_replay

def compiled():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("bellwether.replay.")]
    functions = {one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)}
    return {(one.py_func.__qualname__, signature) for one in functions for signature in one.signatures}

compile_replay()
before = compiled()
now, folder = Settings().sandbox_now, Path(sys.argv[1])
recording = import_captures(folder, CAPTURES)[-1]
for draft in build_recording(recording):
    episode = load(write(folder / "episode", draft).folder)
    metrics(run(episode, RandomAgent()))
    books(prepare(episode).tape, episode.id, now)
print(len(before) > 3, sorted(name for name, _ in compiled() - before))
"""


def test_a_backtest_compiles_nothing_afterwards(tmp_path: Path) -> None:
    environment = {**os.environ, "BELLWETHER_HOME": str(tmp_path / "home")}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-c", BACKTEST, str(tmp_path / "recordings")]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "True []\n"
    assert not (tmp_path / "home").exists()
