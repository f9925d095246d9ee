"""Commands of `bellwether episode`."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from bellwether.recordings.recording import Recording, RecordingStatus
from bellwether.replay.episode.model import list_episodes
from bellwether.settings import settings
from cli.main import main
from tests.unit.recordings.frames import recorded
from tests.unit.replay.episode.folders import Native
from tests.unit.replay.episode_builder.streams import ABOUT, NOON, at, frames, trade
from tests.unit.venues.stream_peer import A, B, delta, snapshot


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["episode", *words])


def a_recording(name: str = "rec") -> None:
    said = (snapshot(A, 1), snapshot(B, 2), delta(A, 3, **at(1)), trade(A, 1, price="0.9900", **at(2)), delta(B, 4, **at(1800)))
    recorded(settings().recordings_path / name, frames(*said), about=ABOUT)


def test_a_recording_is_listed_and_built_into_an_episode_that_is_listed() -> None:
    a_recording()
    assert "rec " in run("build").output and not settings().episodes_path.exists()
    done = run("build", "rec", "--result", f"{B}=0.35", "--infer-results")
    assert done.exit_code == 0, done.output
    [row] = list_episodes(settings().episodes_path)
    assert done.stdout == f"rec: 2 markets, 0.5 h, 2 settled, digest {row['digest']}\n"
    assert (row["episode"], row["event"], row["problem"]) == ("rec", "KXONE-26NOV21", None)
    settled = json.loads((settings().episodes_path / "rec" / "settlement.json").read_text())
    assert {ticker: (one["result"], one["value"], one["source"]) for ticker, one in settled.items()} == {
        A: ("YES", 1_000_000, "inferred: last trade at 0.990"),
        B: ("SCALAR", 350_000, "stated"),
    }
    assert row["digest"] in run().output


def test_captures_are_imported_as_recordings_and_built(tmp_path: Path) -> None:
    capture = tmp_path / "capture.json"
    said = (snapshot(A, 1), delta(A, 2, **at(1)), delta(A, 3, **at(9)))
    capture.write_text(json.dumps({"frames": [{"received_ms": NOON // 1_000_000, "frame": frame} for frame in said]}))
    done = run("build", str(capture), "--name", "taken")
    assert done.stdout.startswith("taken: 3 frames, 0 lost, 1 markets\ntaken: 1 markets, 0.0 h, 0 settled, digest "), done.output
    assert Recording(settings().recordings_path / "taken").status is RecordingStatus.FINISHED
    assert run("build", "taken").stdout == done.stdout.splitlines(keepends=True)[1]
    other = tmp_path / "other"
    other.mkdir()
    assert "other has no file of a known form" in run("build", str(other)).output


def test_a_build_with_unknown_markets_or_fees_is_refused() -> None:
    a_recording()
    for words in (
        ("rec", "--result", "KXNO=yes"),
        ("rec", "--result", "x"),
        ("none",),
        ("rec", "--fee", "free"),
        ("rec", "--fee", "quadratic:x"),
    ):
        assert run("build", *words).exit_code == 1, words
    assert not settings().episodes_path.exists()


def test_a_damaged_episode_is_listed_with_its_problem() -> None:
    a_recording()
    run("build", "rec")
    (settings().episodes_path / "rec" / "settlement.json").write_text('{"KXNO": {"result": "YES"}}')
    assert "KXNO" in run().output


def test_a_folder_of_an_episode_is_imported_under_a_name(tmp_path: Path) -> None:
    a_recording()
    run("build", "rec")
    shutil.copytree(settings().episodes_path / "rec", tmp_path / "theirs")
    assert run("import", str(tmp_path / "theirs"), "--name", "mine").exit_code == 0
    mine, rec = list_episodes(settings().episodes_path)
    assert (mine["episode"], rec["episode"], mine["digest"]) == ("mine", "rec", rec["digest"])
    refused = run("import", str(tmp_path / "theirs"), "--name", "../out")
    assert refused.exit_code == 1
    assert "naming the episode (--name) '../out'" in refused.output


def fees(episode: str) -> set[tuple[str, str, str]]:
    stated = json.loads((settings().episodes_path / episode / "metadata.json").read_text())["markets"]
    return {tuple(market["fee"][name] for name in ("type", "multiplier", "source")) for market in stated}


def test_an_imported_episode_has_the_fees_that_are_stated(tmp_path: Path) -> None:
    folder = Native().write(tmp_path / "KXTEST-26JAN20")
    done = run("import", str(folder), "--fee", "quadratic_with_maker_fees")
    assert done.exit_code == 0, done.output
    assert fees(folder.name) == {("quadratic_with_maker_fees", "1", "stated")}
    run("import", str(folder), "--name", "kept")
    assert fees("kept") == {("quadratic", "1", "series")}


def test_a_list_reads_no_books_and_loads_no_simulator() -> None:
    a_recording()
    run("build", "rec")
    (settings().episodes_path / "rec" / "orderbook.parquet").write_bytes(b"torn")
    [row] = list_episodes(settings().episodes_path)
    assert (row["episode"], row["problem"]) == ("rec", None)
    code = "import sys; from cli.main import main; main(['episode'], standalone_mode=False); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rec" in done.stdout and not {"numba", "pyarrow"} & set(ast.literal_eval(done.stdout.splitlines()[-1]))
