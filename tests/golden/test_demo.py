"""The golden run, which covers every domain: results equal the recorded ones and are up to date, and reading commands change nothing and
fit the terminal.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest
from click.testing import CliRunner, Result

from bellwether.console import console
from bellwether.lake.duckdb_connection import literal
from bellwether.lake.warehouse import connect
from bellwether.settings import Settings, settings
from bellwether.tables.benchmark import HORIZONS
from cli.lazy import Lazy
from cli.main import main
from orchestration.definitions import build_defs
from tests.golden.digests import differences, digests, read
from tests.golden.scenario import COMMANDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
EPISODE = "KXGAMEESP-26JUN29"
#: Commands that only read a home, with arguments for which they print rows.
READING = (
    "agents",
    "arena equity",
    "arena explain 2026-06-07/calibrated/2026-06-07",
    "arena export 2026-06-07 {elsewhere}/cohort",
    "arena leaderboard",
    "arena leaderboard --known-at 2026-06-20",
    "arena rankings",
    "arena review",
    "arena run --week 2026-06-07 --dry-run",
    "arena show 2026-06-07",
    "arena show 2026-06-07 calibrated",
    "arena status",
    "arena table decisions",
    "backtest --agent buy-and-hold --episode " + EPISODE,
    "doctor",
    "episode list",
    "episode validate " + EPISODE,
    "events --rows 3",
    "evaluate --models sandbox-noisy --samples 50 --dry-run",
    "export sandbox-2026 --to {elsewhere}/dataset",
    "journal",
    "journal failures",
    "leaderboard",
    "models",
    'query "FROM meta.tables"',
    'query "FROM views.pnl LIMIT 5"',
    "recordings",
    "release --list",
    "release sandbox-2026 --diff",
    "report sandbox-2026 --to {elsewhere}/report",
    "trading",
    "trading --agent market-maker",
    "verify",
)
#: Those that print a table of few columns, with one line per row in every terminal.
TABLES = (
    "agents",
    "arena equity",
    "arena leaderboard",
    "arena rankings",
    "arena show 2026-06-07",
    "arena status",
    "episode list",
    "journal",
    "leaderboard",
    "models",
    "recordings",
    "trading",
)
#: Commands that change a home or do not read one.
OTHERS = {
    "agents new",
    "arena archive",
    "arena cancel",
    "arena close",
    "arena dismiss",
    "arena resolve",
    "backup",
    "compat",
    "demo",
    "episode build",
    "episode import",
    "home convert",
    "journal create",
    "journal reopen",
    "pull",
    "record",
    "recordings generate",
    "recordings import",
    "recordings store",
    "restore",
    "run",
    "sandbox",
    "score",
    "site",
    "submit",
    "ui",
    "warehouse",
    "worker",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Home of the golden run, which runs in its own process."""
    folder = tmp_path_factory.mktemp("golden") / "home"
    assert all(report["runs"] > 0 for report in replayed(folder))
    return folder


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same home, selected in this process."""
    monkeypatch.setenv("BELLWETHER_HOME", str(home))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings.cache_clear()
    console.cache_clear()
    yield home
    settings.cache_clear()
    console.cache_clear()


def replayed(folder: Path) -> list[dict[str, Any]]:
    """Output of each command of the golden run."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.golden", "replay", str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    reports, rest = [], done.stdout.strip()
    while rest:
        report, end = json.JSONDecoder().raw_decode(rest)
        reports.append(report)
        rest = rest[end:].strip()
    assert len(reports) == len(COMMANDS)
    return reports


def contents(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and modification time of every file, except SQLite's temporary ones."""
    return {
        str(path.relative_to(folder)): (found.st_ino, found.st_size, found.st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal")) and (found := path.stat())
    }


def called(words: str, elsewhere: Path) -> Result:
    return CliRunner().invoke(main, shlex.split(words.format(elsewhere=elsewhere)))


def test_every_result_is_the_recorded_one(home: Path) -> None:
    """After an intended change of a number, `make golden` rewrites the digests and prints each difference."""
    told = differences(read(), digests(home))
    assert not told, "\n".join(told[:40])


def test_again_it_makes_nothing(home: Path) -> None:
    assert [report["runs"] for report in replayed(home)] == [0] * len(COMMANDS)


def test_after_it_no_sensor_and_no_condition_requests_a_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Settings(home=here)
    defs = build_defs(config=config)
    monkeypatch.setenv("DAGSTER_HOME", str(config.dagster_home))
    looked = set()
    with dg.DagsterInstance.get() as instance:
        for sensor in defs.sensors or ():
            if isinstance(sensor, dg.RunStatusSensorDefinition):
                continue
            resources = {name: (defs.resources or {})[name] for name in sensor.required_resource_keys}
            with dg.build_sensor_context(instance=instance, definitions=defs, resources=resources, sensor_name=sensor.name) as context:
                found = sensor.evaluate_tick(context)
            assert not found.run_requests, sensor.name
            assert not found.dynamic_partitions_requests, sensor.name
            looked.add(sensor.name)
        assert looked >= {
            "registry",
            "finished_recordings",
            "recorded_episodes",
            "publisher",
            "resolutions",
            "marks",
            "past_marks",
            "automation",
        }


def test_there_is_something_in_every_table(here: Path) -> None:
    with connect(settings().warehouse_uri) as warehouse:
        names = [name for (name,) in warehouse.sql("SELECT table_schema || '.' || table_name FROM information_schema.tables").fetchall()]
        empty = {name for name in names if not warehouse.sql(f"FROM {name} LIMIT 1").fetchall()}
        # Written by users only.
        assert empty == {"arena.decision_versions", "arena.review", "arena.submissions", "raw.kalshi_series_rejects"}
        costs, cutoffs = "SELECT sum(cost) FROM benchmark.forecasts", "SELECT count(DISTINCT knowledge_cutoff) FROM benchmark.forecasts"
        assert all(warehouse.sql(query).fetchall()[0][0] > 0 for query in (costs, cutoffs))


def test_the_price_before_the_close_is_the_one_that_forecasts_are_compared_with(here: Path) -> None:
    with connect(settings().warehouse_uri) as warehouse:
        for name, hours in HORIZONS.items():
            scored = f"SELECT release, id, price_{name}_at, round(CAST(price_{name} AS DOUBLE), 6) FROM benchmark.questions WHERE price_{name} IS NOT NULL"
            viewed = f"SELECT release, question_id, price_at, round(price, 6) FROM views.price_before({hours})"
            assert len(found := warehouse.sql(scored).fetchall()) > 20
            assert sorted(found) == sorted(warehouse.sql(viewed).fetchall()), name


def test_no_table_but_those_about_the_publication_says_where_the_home_is(here: Path) -> None:
    texts = (
        "SELECT table_schema || '.' || table_name, column_name FROM information_schema.columns "
        "WHERE contains(data_type, 'VARCHAR') AND table_schema != 'meta'"
    )
    with connect(settings().warehouse_uri) as warehouse:
        columns = warehouse.sql(texts).fetchall()
        assert ("replay.episodes", "folder") in columns
        for table, column in columns:
            query = f'FROM {table} WHERE contains(CAST("{column}" AS VARCHAR), {literal(str(here))}) LIMIT 1'
            assert not warehouse.sql(query).fetchall(), (table, column)


def test_what_lists_shows_and_previews_changes_nothing(here: Path, tmp_path: Path) -> None:
    before = contents(here)
    for words in READING:
        done = called(words, tmp_path)
        assert done.exit_code == 0, (words, done.output[-2000:], done.exception)
        assert contents(here) == before, words


def names(command: click.Command, above: str = "") -> Iterator[str]:
    """Return all commands below a group, including groups that are commands themselves."""
    command = command.load() if isinstance(command, Lazy) else command
    if not isinstance(command, click.Group) or (command.invoke_without_command and above):
        yield above
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from names(below, f"{above} {name}".strip())


def test_every_command_is_among_those_that_read_or_said_to_do_more() -> None:
    every = set(names(main))
    reading = {max((name for name in every if f"{words} ".startswith(f"{name} ")), key=len) for words in READING}
    assert every - reading - OTHERS == set()
    assert OTHERS | reading <= every


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal_and_break_no_name(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in TABLES:
        shown = called(words, tmp_path).output
        ruled = [line for line in shown.splitlines() if re.search("[─━]{3}", line)]
        assert ruled, (words, shown)
        assert max(map(len, ruled)) <= width, words
    assert EPISODE in called("episode list", tmp_path).output
