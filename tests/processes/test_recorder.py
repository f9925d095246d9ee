"""A recorder that is killed leaves whole lines, and a restarted one continues."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import Recording, RecordingStatus, format_frame
from tests.shared import wait_until
from tests.unit.recordings.frames import ABOUT

BUSY = """
import sys
from pathlib import Path
from bellwether.recordings.recorder import Recorder
from bellwether.venues.kalshi.stream.frame import Frame
from tests.unit.recordings.frames import ABOUT
from tests.unit.venues.stream_peer import A, delta
import orjson
with Recorder(Path(sys.argv[1]), ABOUT) as recorder:
    connection, ordinal = recorder.next
    while True:
        recorder.write(Frame(ordinal, connection, ordinal, orjson.dumps(delta(A, ordinal + 1))))
        ordinal += 1
"""


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.ndjson"))


@pytest.mark.nightly
def test_a_killed_recorder_leaves_whole_lines_and_a_restarted_one_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    seen = 0
    for run in (1, 2, 3):
        process = subprocess.Popen([sys.executable, "-c", BUSY, str(folder)], cwd=Path(__file__).parents[2])
        wait_until(
            lambda process=process, enough=seen + 400_000: process.poll() is not None or size(folder) >= enough, "400 kB are written"
        )
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        recording = Recording(folder)
        found = list(recording.frames())
        assert recording.status is RecordingStatus.INTERRUPTED
        assert [frame.ordinal for frame in found] == list(range(len(found)))
        assert {frame.connection for frame in found} == set(range(1, run + 1))
        assert all(json.loads(frame.data)["seq"] == frame.ordinal + 1 for frame in found)
        seen = sum(path.stat().st_size for path in recording.segments)
        whole = (path.read_bytes().rpartition(b"\n") for path in recording.segments)
        assert b"".join(map(format_frame, found)) == b"".join(text + end for text, end, _ in whole)
    with Recorder(folder, ABOUT) as recorder:
        recorder.finish("test")
    assert Recording(folder).done["connections"] == 3
