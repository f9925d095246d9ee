"""Exported episodes in the original simulators: the best bid and ask at 1,000 instants are ours."""

from __future__ import annotations

import json
import random
import subprocess
from bisect import bisect_right
from pathlib import Path
from typing import Any

import pytest

from bellwether.bridges import hftbacktest, nautilus
from bellwether.recordings.captures import import_captures
from bellwether.replay.episode.folder import load, write
from bellwether.replay.episode_builder.build import build_recording
from bellwether.replay.units import DOLLAR
from benchmarks._replay.environments import CACHE
from tests.unit.bridges.test_simulators import quotes

pytestmark = pytest.mark.nightly

WORKER = Path(__file__).with_name("peer_quotes.py")


@pytest.mark.parametrize(("peer", "bridge"), [("hftbacktest", hftbacktest), ("nautilus_trader", nautilus)])
def test_the_simulator_has_our_quotes(tmp_path: Path, peer: str, bridge: Any) -> None:
    python = CACHE / peer / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{peer} has no environment; `make bench-replay` creates it")
    (recordings := tmp_path / "recordings").mkdir()
    captures = Path(__file__).parents[2] / "bellwether" / "sandbox" / "captures"
    drafts = [draft for recording in import_captures(recordings, captures) for draft in build_recording(recording)]
    write(tmp_path / "E", max(drafts, key=lambda draft: len(draft.book.words)))
    episode = load(tmp_path / "E")
    bridge.write_episode(tmp_path / "out", episode)
    expected, instants = {}, {}
    for code, ticker in enumerate(episode.tickers):
        known = quotes(episode.content, code)
        times = [at for at, _, _ in known]
        instants[ticker] = sorted(random.Random(code).choices(range(times[0], episode.metadata.end), k=1_000))
        expected[ticker] = [known[bisect_right(times, at) - 1][1:] for at in instants[ticker]]
    done = subprocess.run([python, WORKER, peer, tmp_path / "out"], input=json.dumps(instants), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for ticker, rows in expected.items():
        theirs = [(round((bid or 0) * DOLLAR), round((1 if ask is None else ask) * DOLLAR)) for bid, ask in found[ticker]]
        assert theirs == rows, ticker
