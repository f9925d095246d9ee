"""Commands that are killed or interrupted lose nothing: repeated, they give the bytes of an undisturbed run and send no model call twice."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from fnmatch import fnmatch
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from bellwether.journal.journal import Journal
from bellwether.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.lake.recovery import verify
from bellwether.settings import Venue
from bellwether.tables import TABLES, table
from tests.demo_home import LAST, RELEASE, copy_home
from tests.shared import wait_until
from tests.unit.models.failing_provider import KEY, VARIABLE, provider, write_models

pytestmark = pytest.mark.nightly

TOOK = ("attempts", "input_tokens", "output_tokens", "reasoning_tokens", "cost", "cost_source", "latency")
#: Columns with the source of a row of raw markets, because a market that was open at the kill is requested again.
ORIGIN = ("request", "page")
ROOT = Path(__file__).resolve().parents[2]
DAYS = [str(LAST - timedelta(days=back)) for back in (2, 1, 0)]
PULL = ("-m", "bellwether", "pull", DAYS[0], DAYS[-1])
MODEL = "sandbox-calibrated"
#: Three days, and a release with few forecasters.
COMMANDS = f"""
from cli.main import main
main(["pull", "{DAYS[0]}", "{DAYS[-1]}"], standalone_mode=False)
main(["release", "{RELEASE}", "--forecaster", "market-24h", "--forecaster", "{MODEL}", "--forecaster", "sandbox-noisy"])
"""


def begin(home: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start Python with these arguments on a home."""
    environment = {**os.environ, "BELLWETHER_HOME": str(home), "PYTHONPATH": str(ROOT), **variables}
    environment.pop("DAGSTER_HOME", None)
    return subprocess.Popen([sys.executable, *words], env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start(home: Path) -> subprocess.Popen[str]:
    return begin(home, "-c", COMMANDS)


def finish(home: Path) -> None:
    process = start(home)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]


def contents(home: Path) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return the SHA-256 of every partition, after reading every file completely.

    Requests, tokens, money and seconds depend on the number of kills and are excluded, like the source of each row of raw markets and the order of its
    rows.
    """
    lake = Lake(str(home / "sandbox" / "lake"))
    found = {(name, partition): manifest for name, declared in TABLES.items() for partition, manifest in lake.manifests(declared).items()}
    for manifest in found.values():
        lake.verify(manifest)
    digests = {place: manifest.digest for place, manifest in found.items() if not place[0].endswith("_pulls")}
    left_out = {"benchmark/forecasts": TOOK, "raw/kalshi_markets": ORIGIN, "raw/polymarket_markets": ORIGIN}
    for name, partition in [place for place in digests if place[0] in left_out]:
        rows = lake.slice(table(name), [partition]).read().drop(left_out[name])
        digests[name, partition] = hashlib.sha256(rows.sort(table(name).key).write_ndjson().encode()).hexdigest()
    return digests


def exists(lake: Path, pattern: str) -> bool:
    """Return True if there is such a file. Files may disappear meanwhile, such as drafts."""
    names = (os.path.relpath(os.path.join(folder, name), lake) for folder, _, names in os.walk(lake) for name in names)
    return any(fnmatch(name, pattern) for name in names)


def kill_when(home: Path, pattern: str) -> bool:
    """Start a run, and kill it when the lake has a file like `pattern`. Returns False if the run ended before."""
    process = start(home)
    wait_until(lambda: process.poll() is not None or exists(home / "sandbox" / "lake", pattern), f"{pattern} is in the lake")
    alive = process.poll() is None
    kill(process)
    return alive


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def statuses(home: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the statuses of the runs of a home."""
    folder = str(home / "sandbox" / "dagster")
    monkeypatch.setenv("DAGSTER_HOME", folder)
    with dg.DagsterInstance.from_config(folder) as instance:
        return {run.status.value for run in instance.get_runs()}


def test_a_run_killed_again_and_again_ends_as_an_undisturbed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while it uses the venue's pool, between two tables of a day, and between two forecasts."""
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    rough.mkdir()
    finish(calm)
    for pattern in ("raw/kalshi_pages/day/*", "raw/kalshi_markets/*/*.parquet", "benchmark/forecasts/*/*/*.parquet"):
        assert kill_when(rough, pattern)
        contents(rough)
    finish(rough)
    assert contents(rough) == contents(calm)
    assert statuses(calm, monkeypatch) == {"SUCCESS"}
    assert statuses(rough, monkeypatch) == {"SUCCESS", "FAILURE"}, "the next command ends the runs of a killed one"


def pages(lake: Path) -> set[str]:
    """Return the files of pages."""
    return {f"{folder}/{name}" for venue in Venue for folder, _, names in os.walk(lake / f"raw/{venue}_pages/day") for name in names}


def test_a_pull_that_is_frozen_while_another_process_repeats_it_keeps_the_rows_of_the_other(tmp_path: Path, postgres_url: str) -> None:
    """Two machines share a lake and Postgres. One freezes in a pull for longer than its leases; meanwhile the other pulls the same day."""
    shared = {"BELLWETHER_LAKE": str(tmp_path / "lake"), "BELLWETHER_JOURNAL": postgres_url}
    frozen_home, other_home = tmp_path / "frozen", tmp_path / "other"
    frozen_home.mkdir()
    other_home.mkdir()
    words, lake = ("-m", "bellwether", "pull", DAYS[0], DAYS[0]), Lake(shared["BELLWETHER_LAKE"], catalog=postgres_url)
    frozen = begin(frozen_home, *words, **shared)
    wait_until(lambda: frozen.poll() is not None or pages(tmp_path / "lake"), "a page is stored")
    frozen.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    other = begin(other_home, *words, **shared)
    _, said = other.communicate(timeout=300)
    assert other.returncode == 0, said

    def current() -> dict[str, list[tuple[Partition, int, str]]]:
        return {
            name: [(partition, manifest.number, manifest.file) for partition, manifest in lake.manifests(declared).items()]
            for name, declared in TABLES.items()
        }

    stored = current()
    assert len(stored["raw/kalshi_markets"]) == len(stored["raw/polymarket_markets"]) == 1
    time.sleep(max(0.0, 75.0 - (time.monotonic() - stopped)))
    frozen.send_signal(signal.SIGCONT)
    out, said = frozen.communicate(timeout=300)
    # Both read the same markets of a world whose clock stands, so the rows are equal, and the outrun run keeps the other's.
    assert frozen.returncode == 0, out + said
    assert current() == stored
    assert not verify(lake).damaged


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_keeps_what_it_has_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    lake, folder = tmp_path / "sandbox" / "lake", str(tmp_path / "sandbox" / "dagster")
    process = begin(tmp_path, *PULL)
    wait_until(lambda: process.poll() is not None or pages(lake), "a page is stored")
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert f"Stopped at: days {DAYS[0]} to {DAYS[-1]}. Kept: " in said
    assert "continues from there" in said
    process = begin(tmp_path, *PULL)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said + out
    assert len(Lake(str(lake)).manifests(table("clean/markets"))) == 3
    monkeypatch.setenv("DAGSTER_HOME", folder)
    with dg.DagsterInstance.from_config(folder) as instance:
        found = [run.status for run in instance.get_runs(dg.RunsFilter(job_name="days"))]
    assert sorted(status.value for status in found) == ["CANCELED", "SUCCESS"]


def test_a_killed_evaluation_continues_and_no_stored_answer_is_requested_again(demo_home: Path, tmp_path: Path) -> None:
    """One request at most is lost with the process, because the model is called with concurrency 1. It is repeated when the model's timeout is over."""
    home, questions, samples = copy_home(demo_home, tmp_path / "home"), 6, 4
    expected = questions * samples

    def answers() -> int:
        with Journal(f"sqlite:///{home / 'sandbox' / 'journal.db'}") as journal:
            return int(journal.counts().filter(pl.col("model").str.ends_with("@many"), state="answered")["calls"].sum())

    with provider(latency=0.02) as (served, url):
        write_models(
            home / "registry",
            url,
            {"many": {"model": "openai/calibrated", "samples": samples, "combine": "median", "concurrency": 1, "timeout": 5.0}},
        )
        variables = {"BELLWETHER_REGISTRY": str(home / "registry"), VARIABLE: KEY}
        words = ("-m", "bellwether", "evaluate", "--models", "many", "--samples", str(questions))
        process = begin(home, *words, **variables)
        wait_until(lambda: process.poll() is not None or served.calls("calibrated") >= 5, "five requests")
        assert process.poll() is None, process.communicate(timeout=60)
        kill(process)
        answered, asked = answers(), served.calls("calibrated")
        assert 4 <= answered <= asked < expected
        assert asked - answered <= 1
        process = begin(home, *words, **variables)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert answers() == expected
        assert served.calls("calibrated") == expected + (asked - answered)
    found = Lake(str(home / "sandbox" / "lake")).slice(table("benchmark/forecasts"), [(f"{RELEASE}@{questions}", "many")]).read()
    assert found.group_by("question_id").len()["len"].to_list() == [samples] * questions
