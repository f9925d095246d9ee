"""Commands of `bellwether episode`."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from bellwether.settings import settings
from cli.main import main
from tests.unit.recordings.frames import recorded
from tests.unit.replay.episode.folders import Native
from tests.unit.replay.episode_builder.streams import ABOUT, at, frames, trade
from tests.unit.venues.stream_peer import A, B, delta, snapshot


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["episode", *words])


def a_recording(name: str = "rec") -> None:
    said = (snapshot(A, 1), snapshot(B, 2), delta(A, 3, **at(1)), trade(A, 1, price="0.9900", **at(2)), delta(B, 4, **at(1800)))
    recorded(settings().recordings_path / name, frames(*said), about=ABOUT)


def test_a_recording_is_built_listed_and_checked() -> None:
    a_recording()
    done = run("build", "rec", "--result", f"{B}=0.35", "--infer-results", "--json")
    assert done.exit_code == 0, done.output
    [made] = json.loads(done.output)
    assert (made["episode"], made["event"], made["markets"], made["settled"]) == ("rec", "KXONE-26NOV21", 2, 2)
    settled = json.loads((Path(made["folder"]) / "settlement.json").read_text())
    assert {ticker: (one["result"], one["value"], one["source"]) for ticker, one in settled.items()} == {
        A: ("YES", 1_000_000, "inferred: last trade at 0.990"),
        B: ("SCALAR", 350_000, "stated"),
    }
    [row] = json.loads(run("list", "--json").output)
    assert (row["episode"], row["hours"], row["digest"], row["problem"]) == ("rec", 0.5, made["digest"][:12], None)
    assert "rec" in run("list").output
    checked = json.loads(run("validate", "rec", "--json").output)
    assert (checked["valid"], checked["digest"], checked["counts"]["trades"]) == (True, made["digest"], 1)
    assert run("validate", made["folder"]).output.startswith("rec: valid; 2 markets")


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


def test_a_damaged_episode_is_listed_with_its_problem_and_fails_the_check() -> None:
    a_recording()
    run("build", "rec")
    (settings().episodes_path / "rec" / "settlement.json").write_text('{"KXNO": {"result": "YES"}}')
    [row] = json.loads(run("list", "--json").output)
    assert "KXNO" in row["problem"]
    assert "KXNO" in run("list").output
    done = run("validate", "rec")
    assert done.exit_code == 1
    assert "KXNO" in done.output


def test_a_folder_of_an_episode_is_imported_under_a_name(tmp_path: Path) -> None:
    a_recording()
    [made] = json.loads(run("build", "rec", "--json").output)
    shutil.copytree(made["folder"], tmp_path / "theirs")
    [again] = json.loads(run("import", str(tmp_path / "theirs"), "--name", "mine", "--json").output)
    assert (again["episode"], again["digest"]) == ("mine", made["digest"])
    assert {row["episode"] for row in json.loads(run("list", "--json").output)} == {"rec", "mine"}
    refused = run("import", str(tmp_path / "theirs"), "--name", "../out")
    assert refused.exit_code == 1
    assert "naming the episode (--name) '../out'" in refused.output


def fees(folder: str) -> dict[str, tuple[str, str, str]]:
    stated = json.loads((Path(folder) / "metadata.json").read_text())["markets"]
    return {market["ticker"]: tuple(market["fee"][name] for name in ("type", "multiplier", "source")) for market in stated}


def test_an_imported_episode_has_the_fees_that_are_stated(tmp_path: Path) -> None:
    folder = Native().write(tmp_path / "KXTEST-26JAN20")
    done = run("import", str(folder), "--fee", "quadratic_with_maker_fees", "--json")
    assert done.exit_code == 0, done.output
    assert set(fees(json.loads(done.stdout)[0]["folder"]).values()) == {("quadratic_with_maker_fees", "1", "stated")}
    kept = run("import", str(folder), "--name", "kept", "--json")
    assert set(fees(json.loads(kept.stdout)[0]["folder"]).values()) == {("quadratic", "1", "series")}


def test_a_list_reads_no_books_and_loads_no_simulator() -> None:
    a_recording()
    run("build", "rec")
    (settings().episodes_path / "rec" / "orderbook.parquet").write_bytes(b"torn")
    [row] = json.loads(run("list", "--json").output)
    assert (row["episode"], row["problem"]) == ("rec", None)
    code = "import sys; from cli.main import main; main(['episode', 'list', '--json'], standalone_mode=False); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "pyarrow", "polars", "numpy"} & set(ast.literal_eval(done.stdout.splitlines()[-1]))
