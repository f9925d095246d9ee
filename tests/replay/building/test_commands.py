"""`bellwether episode`, as a person types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner, Result

from bellwether.cli import main
from bellwether.settings import settings
from tests.recordings.frames import recorded
from tests.replay.building.streams import ABOUT, at, frames, trade
from tests.venues.stream.peer import A, B, delta, snapshot


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
        A: ("YES", "1", "inferred: last trade at 0.990"),
        B: ("SCALAR", "0.35", "stated"),
    }
    [row] = json.loads(run("list", "--json").output)
    assert (row["episode"], row["hours"], row["digest"], row["problem"]) == ("rec", 0.5, made["digest"][:12], None)
    assert "rec" in run("list").output
    checked = json.loads(run("validate", "rec", "--json").output)
    assert (checked["valid"], checked["digest"], checked["counts"]["trades"]) == (True, made["digest"], 1)
    assert run("validate", made["folder"]).output.startswith("rec: valid; 2 markets")


def test_building_again_gives_the_same_digest() -> None:
    a_recording()
    digests = [json.loads(run("build", "rec", "--json").output)[0]["digest"] for _ in range(2)]
    assert digests[0] == digests[1]


def test_results_of_markets_that_are_not_there_are_refused() -> None:
    a_recording()
    done = run("build", "rec", "--result", "KXNO=yes")
    assert done.exit_code == 1
    assert "it has no market KXNO" in done.output
    assert not settings().episodes_path.exists()
    assert "looking for the recording 'none'" in run("build", "none").output
    assert "reading the result 'x'" in run("build", "rec", "--result", "x").output


def test_a_recording_without_any_book_is_told() -> None:
    recorded(settings().recordings_path / "empty", frames(delta(A, 1, **at(1))), about=ABOUT)
    done = run("build", "empty")
    assert done.exit_code == 1
    assert "no book of any of its markets was recorded" in done.output


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


def test_an_episode_that_is_not_there_is_told() -> None:
    done = run("validate", "nothing")
    assert done.exit_code == 1
    assert "checking the episode 'nothing'" in done.output
    assert "There is no episode" in run("list").output


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


def test_a_folder_in_the_original_format_is_imported(tmp_path: Path) -> None:
    import polars as pl

    folder = tmp_path / "KXGAME-26JAN01"
    folder.mkdir()
    about = {
        "episode_id": "KXGAME-26JAN01",
        "event_slug": "KXGAME-26JAN01",
        "tickers": ["KXGAME-26JAN01-A"],
        "start_ts": "2026-01-01T00:00:00.000000+00:00",
        "end_ts": "2026-01-01T01:00:00.000000+00:00",
        "initial_bankroll_cents": 100000,
        "fee_model_version": "kalshi_oct_2025",
        "execution_mode": "maker_taker",
        "observation_depth": -1,
        "has_trades_tape": False,
    }
    (folder / "metadata.json").write_text(json.dumps(about))
    (folder / "settlement.json").write_text(json.dumps({"KXGAME-26JAN01-A": {"result": "YES", "settled_ts": "2026-01-01T01:00:00+00:00"}}))
    book = {"ts": ["2026-01-01T00:00:01+00:00"], "sequence_id": [1], "ticker": ["KXGAME-26JAN01-A"]}
    bids = {f"{side}_bids": [[{"price_cents": price, "size": 5}]] for side, price in (("yes", 40), ("no", 55))}
    pl.DataFrame(book | bids).with_columns(pl.col("ts").str.to_datetime(time_zone="UTC")).write_parquet(folder / "orderbook.parquet")
    done = run("import", str(folder), "--json")
    assert done.exit_code == 0, done.output
    [made] = json.loads(done.output)
    assert (made["episode"], made["settled"]) == ("KXGAME-26JAN01", 1)
    assert run("validate", "KXGAME-26JAN01").exit_code == 0
