"""Recorded data survives every interruption, and a second recorder never writes to the same place."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError, LakeError
from bellwether.recordings.recorder import Recorder
from bellwether.recordings.recording import (
    Recording,
    RecordingStatus,
    check_name,
    find_recording,
    format_frame,
    list_recordings,
    parse_frame,
)
from bellwether.venues.kalshi.stream.frame import Frame
from tests.unit.recordings.frames import ABOUT, frames, recorded
from tests.unit.venues.stream_peer import A, delta, snapshot

SOME = [snapshot(A, 1), delta(A, 2), delta(A, 3)]


# --- lines -----------------------------------------------------------------------------------------------------------


@given(
    st.one_of(st.none(), st.integers(0, 2**63 - 1)),
    st.integers(1, 10**6),
    st.integers(0, 2**50),
    st.one_of(
        st.binary(max_size=40),
        st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.text(alphabet='{}",:\\\n\r\u2028é', max_size=30).map(lambda text: f"{{{text}}}".encode()),
    ),
)
def test_a_line_gives_its_frame_back_byte_for_byte(at: int | None, connection: int, ordinal: int, data: bytes) -> None:
    frame = Frame(at, connection, ordinal, data)
    text = format_frame(frame)
    assert parse_frame(text) == frame
    assert text.index(b"\n") == len(text) - 1


def test_a_frame_of_json_makes_a_line_of_json_that_holds_it_as_it_came() -> None:
    data = b'{ "type":"trade","msg":{"price":0.10} }'
    text = format_frame(Frame(5, 1, 2, data))
    assert text == b'{"received_at":5,"connection":1,"ordinal":2,"frame":' + data + b"}\n"
    assert json.loads(text)["frame"]["msg"] == {"price": 0.1}


def test_what_is_no_line_is_none() -> None:
    whole = format_frame(Frame(1, 1, 0, b'{"a":1}'))
    others = (b"", b"\n", b'{"type":"trade"}\n', whole[:-2], whole.replace(b"frame", b"base64"))
    assert [parse_frame(text) for text in others] == [None] * 5


# --- writing ---------------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_back_in_order_and_the_end_is_told(tmp_path: Path) -> None:
    written = frames(*SOME)
    recording = recorded(tmp_path / "one", written)
    assert list(recording.frames()) == written
    assert (recording.status, recording.about) == (RecordingStatus.FINISHED, ABOUT)
    assert recording.done is not None
    assert (recording.done["frames"], recording.done["reason"]) == (3, "test")
    assert recording.done["segments"] == {"000001.ndjson": recording.segments[0].stat().st_size}


def test_every_line_is_in_the_file_at_once(tmp_path: Path) -> None:
    with Recorder(tmp_path / "one", ABOUT) as recorder:
        for count, frame in enumerate(frames(*SOME), 1):
            recorder.write(frame)
            assert len(list(Recording(tmp_path / "one").frames())) == count
        recorder.sync()


def test_an_unfinished_recording_goes_on_in_a_new_segment_and_changes_no_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    broken_off = recorded(folder, frames(*SOME), finish=False)
    before = broken_off.segments[0].read_bytes()
    assert broken_off.status is RecordingStatus.INTERRUPTED
    with Recorder(folder, replace(ABOUT, started_at="later")) as recorder:
        assert recorder.next == (2, 3)
        recorder.write(frames(snapshot(A, 1), connection=2, first=3)[0])
    assert broken_off.segments[0].read_bytes() == before
    assert [frame.ordinal for frame in broken_off.frames()] == [0, 1, 2, 3]
    assert len(broken_off.segments) == 2
    assert broken_off.about == ABOUT


def test_a_torn_last_line_is_left_out_and_the_recording_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    recording = recorded(folder, frames(*SOME), finish=False)
    with recording.segments[0].open("ab") as file:
        file.write(b'{"received_at":1,"conn')
    assert len(list(recording.frames())) == 3
    with Recorder(folder, ABOUT) as recorder:
        assert recorder.next == (2, 3)
        recorder.write(frames(delta(A, 1), connection=2, first=3)[0])
    assert [frame.ordinal for frame in recording.frames()] == [0, 1, 2, 3]


def test_a_damaged_whole_line_names_file_and_line(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(*SOME))
    text = recording.segments[0].read_bytes().splitlines(keepends=True)
    recording.segments[0].write_bytes(text[0] + b"garbage\n" + text[2])
    with pytest.raises(LakeError, match=r"line 2 of .*000001\.ndjson"):
        list(recording.frames())


# --- one at a time ---------------------------------------------------------------------------------------------------


def test_a_second_recorder_is_refused_while_the_first_writes(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    with Recorder(folder, ABOUT):
        assert Recording(folder).status is RecordingStatus.RECORDING
        with pytest.raises(ConfigError, match="another recorder"):
            Recorder(folder, ABOUT)
        assert Recording(folder).status is RecordingStatus.RECORDING
    assert Recording(folder).status is RecordingStatus.INTERRUPTED
    Recorder(folder, ABOUT).close()


def test_a_finished_recording_and_one_of_other_events_are_not_continued(tmp_path: Path) -> None:
    recorded(tmp_path / "done", frames(*SOME))
    with pytest.raises(ConfigError, match="finished"):
        Recorder(tmp_path / "done", ABOUT)
    recorded(tmp_path / "open", frames(*SOME), finish=False)
    with pytest.raises(ConfigError, match="KXTWO"):
        Recorder(tmp_path / "open", replace(ABOUT, events=("KXTWO",)))
    assert Recording(tmp_path / "open").status is RecordingStatus.INTERRUPTED


def test_a_name_that_is_no_folders_is_refused() -> None:
    for name in ("x y", "..", ".hidden", "ä", "x" * 200, "-x", "CON", "nul.txt", "Com1", "dot."):
        with pytest.raises(ConfigError, match="naming a recording"):
            check_name(name)


def test_a_full_disk_is_told_with_the_file_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "one", ABOUT)
    first, second, third = frames(*SOME)
    recorder.write(first)

    class Full:
        closed = False

        def write(self, view: memoryview) -> int:
            if self.closed:
                raise ValueError("I/O operation on closed file")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fileno(self) -> int:
            raise ValueError("I/O operation on closed file")

        def close(self) -> None:
            self.closed = True

    recorder._file.close()
    monkeypatch.setattr(recorder, "_file", Full())
    with pytest.raises(LakeError, match=r"000001\.ndjson: No space left on device"):
        recorder.write(second)
    for again in (lambda: recorder.write(third), lambda: recorder.finish("every market has closed")):
        with pytest.raises(LakeError, match="No space left"):
            again()
    recorder.close()
    assert list(Recording(tmp_path / "one").frames()) == [first]
    assert Recording(tmp_path / "one").status is RecordingStatus.INTERRUPTED


def test_a_disk_that_does_not_take_what_was_written_ends_the_recording_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "one", ABOUT)
    first, second, _ = frames(*SOME)
    recorder.write(first)

    def broken(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(LakeError, match=r"000001\.ndjson: Input/output error"):
            recorder.sync()
    for again in (lambda: recorder.write(second), lambda: recorder.finish("time was up")):
        with pytest.raises(LakeError, match="Input/output error"):
            again()
    recorder.close()
    assert Recording(tmp_path / "one").status is RecordingStatus.INTERRUPTED
    with Recorder(tmp_path / "one", ABOUT) as later:
        assert later.next.ordinal == 1


# --- catalogue -------------------------------------------------------------------------------------------------------


def test_the_catalogue_lists_recordings_with_their_status(tmp_path: Path) -> None:
    root = tmp_path / "recordings"
    assert list_recordings(root) == []
    recorded(root / "b-done", frames(*SOME))
    recorded(root / "c-open", frames(*SOME), finish=False)
    (root / "a-folder").mkdir()
    with Recorder(root / "d-running", ABOUT):
        found = {recording.name: recording.status for recording in list_recordings(root)}
    assert found == {"b-done": RecordingStatus.FINISHED, "c-open": RecordingStatus.INTERRUPTED, "d-running": RecordingStatus.RECORDING}
    assert find_recording(root, "b-done").name == "b-done"
    with pytest.raises(ConfigError, match="a-folder"):
        find_recording(root, "a-folder")


def test_a_damaged_description_is_named(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "one", frames(*SOME))
    (recording.folder / "recording.json").write_text("{")
    with pytest.raises(LakeError, match=r"recording\.json"):
        _ = recording.about
    (recording.folder / "recording.json").write_text('{"venue":"kalshi"}')
    with pytest.raises(LakeError):
        _ = recording.about
