"""Commands for recordings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bellwether.recordings.recording import Recording, RecordingStatus, list_recordings
from bellwether.settings import settings
from cli.main import main
from tests.captures import GAME
from tests.shared import wait_until
from tests.unit.recordings.frames import frames, recorded
from tests.unit.venues.stream_peer import A, delta, snapshot


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_an_event_of_the_sandbox_is_recorded_and_listed(tmp_path: Path) -> None:
    event = GAME
    done = run("record", event, "--minutes", "0.02", "--name", "mine")
    assert done.exit_code == 0, done.output
    assert "mine: time was up" in done.output
    assert "0 lost" in done.output
    recording = Recording(settings().recordings_path / "mine")
    assert (recording.status, recording.about.source) == (RecordingStatus.FINISHED, "websocket")
    assert recording.done["frames"] > 0
    again = run("record", event, "--minutes", "0.02", "--name", "mine")
    assert again.exit_code == 1
    assert "recording mine: already finished; choose another name" in again.output


def test_polling_is_recorded_without_a_key() -> None:
    done = run("record", GAME, "--minutes", "0.02", "--rest")
    assert done.exit_code == 0, done.output
    [recording] = list_recordings(settings().recordings_path)
    assert (recording.about.source, recording.status) == ("rest", RecordingStatus.FINISHED)


def test_an_unknown_event_is_named_in_one_line() -> None:
    failed = run("record", "KXNONE-1", "--minutes", "0.02")
    assert failed.exit_code == 1
    assert "recording KXNONE-1: the venue lists no open or upcoming market" in failed.output
    assert "Traceback" not in failed.output


def test_the_live_world_without_a_key_says_which_variable_to_set_before_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    from bellwether.recordings import recording_run as recording

    async def markets(*_: object) -> dict[str, None]:
        raise AssertionError("the venue was asked")

    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    monkeypatch.delenv("KALSHI_API_KEY_ID", raising=False)
    monkeypatch.setattr(recording, "find_markets", markets)
    settings.cache_clear()
    failed = run("record", "KXONE-26NOV21")
    assert failed.exit_code == 1
    assert "KALSHI_API_KEY_ID is not set" in failed.output
    assert not settings().world_home.exists()


@pytest.mark.parametrize("words", [("record",), ("record", "KXONE-26NOV21", "--rest")], ids=" ".join)
def test_a_live_venue_that_does_not_answer_is_said_at_once(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    monkeypatch.setenv("BELLWETHER_KALSHI_URL", "http://127.0.0.1:9")
    settings.cache_clear()
    failed = run(*words)
    assert failed.exit_code == 1
    assert "no connection" in failed.output


def test_the_events_that_can_be_recorded_are_listed_and_searched() -> None:
    def listed(*words: str) -> list[list[str]]:
        lines = run("record", *words).output.splitlines()
        return [words for line in lines if (words := line.replace("│", " ").split()) and words[0].startswith("KX")]

    every = listed()
    markets, volumes = zip(*((int(words[-3]), int(words[-2])) for words in every), strict=True)
    assert len(every) > 1 and min(markets) > 0
    assert list(volumes) == sorted(volumes, reverse=True)
    event, word = every[-1][0], every[-1][-4].upper()
    assert [words[0] for words in listed("--find", event.lower(), "--find", word)] == [event]
    assert f"`bellwether record {event}` records it" in " ".join(run("record", "--find", event).output.split())


def test_a_search_without_a_hit_says_how_many_events_there_are() -> None:
    result = run("record", "--find", "no such thing")
    assert result.exit_code == 0
    assert "No open event has 'no such thing'" in result.output


def test_recordings_are_listed() -> None:
    root = settings().recordings_path
    assert "No recordings in" in run("episode", "build").output
    recorded(root / "holes", frames(snapshot(A, 1), delta(A, 9)))
    recorded(root / "open", frames(snapshot(A, 1)), finish=False)
    rows = {words[0]: words[1:] for line in run("episode", "build").output.splitlines() if (words := line.replace("│", " ").split())}
    assert (rows["holes"], rows["open"][0]) == (["finished", "2", "2", "0", "1"], "interrupted")


@pytest.mark.nightly
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_to_be_interrupted_ends_a_recording_cleanly(sent: signal.Signals) -> None:
    root = settings().recordings_path
    script = "from cli.data import record; record()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, GAME, "--name", "mine"],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        files = (root / "mine").glob
        wait_until(lambda: process.poll() is not None or sum(path.stat().st_size for path in files("*.ndjson")), "a frame is stored")
        process.send_signal(sent)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")
    assert "mine: ended by hand" in out
    recording = Recording(root / "mine")
    assert (recording.status, recording.done["reason"]) == (RecordingStatus.FINISHED, "ended by hand")
