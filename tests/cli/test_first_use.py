"""First use of the command line: the demo home is read, and what cannot be done is refused before anything is written."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bellwether.settings import settings
from cli.main import main
from tests.demo_home import RELEASE, RESEARCHED, WEEKS, World

ROOT = Path(__file__).resolve().parents[2]
WEEK = WEEKS[0]
#: A week before the first cohort.
EMPTY_WEEK = WEEK - timedelta(days=35)


def call(*words: str, **variables: str) -> Result:
    """Run a command with more environment variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        settings.cache_clear()
        result = CliRunner().invoke(main, list(words))
    settings.cache_clear()
    return result


def shown(*words: str) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def said(result: Result) -> str:
    return " ".join((result.output + str(result.exception or "")).split())


def test_queries_of_the_tour_run(demo: World) -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    queries = re.findall(r"^    (?:\.venv/bin/)?bellwether (query .*)$", page, re.MULTILINE)
    assert len(queries) >= 2
    for line in queries:
        shown(*shlex.split(line, comments=True))


@pytest.mark.nightly
def test_a_dry_run_of_the_arena_shows_prompts_and_their_maximum_cost(demo: World) -> None:
    words = ("arena", "run", "--week", str(EMPTY_WEEK), "--dry-run")
    text = shown(*words)
    assert f"Week {EMPTY_WEEK}, reconstructed: " in text
    assert 0 < float(re.search(r"At most \$([\d.]+) for the calls", text)[1]) < 1, "at the prices of the sandbox"
    assert all(f"{EMPTY_WEEK}/{name}/{EMPTY_WEEK}" in text for name in ("favourite", "hold"))
    assert "At most $0.00" in call(*words, BELLWETHER_LINEUP="rules").stdout


def test_unknown_names_are_refused_with_the_probable_ones(demo: World, tmp_path: Path) -> None:
    other, meant = f"{RELEASE}x", f"did you mean {RELEASE} or {RELEASE}@{RESEARCHED}?"
    unbound = "SELECT date_diff('second', now(), CAST($until AS TIMESTAMPTZ)), $release"
    for words, text in (
        (("query", unbound), "no value for $release, $until; give --set release=VALUE --set until=VALUE"),
        (("query", "SELECT $release", "--set", "release=x", "--set", "relaese=x"), "does not use $relaese; it has $release"),
        (("leaderboard", other), meant),
        (("export", other, "--format", "report", "--to", str(tmp_path)), meant),
        (("export", other, "--to", str(tmp_path)), meant),
        (("arena", "run", "--week", "2027-01-01"), "is not in the world sandbox"),
        (("arena", "run", "--dry-run", "--weeks", "2"), "--dry-run shows one week"),
        (("arena", "explain", str(EMPTY_WEEK)), "no cohort started in this week; "),
        (("arena", "explain", f"{WEEK}/nobody"), f"`bellwether arena explain {WEEK}` lists its families"),
        (("arena", "explain", f"{WEEK}/favourit/{WEEK}"), f"did you mean {WEEK}/favourite/{WEEK}"),
        (("arena", "explain", "yesterday"), "is not a valid day"),
    ):
        result = call(*words)
        assert result.exit_code != 0
        assert text in said(result), words


def test_what_cannot_be_done_is_refused_before_anything_is_written() -> None:
    first, last = settings().first_day.date(), settings().now().date() - timedelta(days=1)
    live = {"BELLWETHER_WORLD": "live", "BELLWETHER_KALSHI_URL": "http://127.0.0.1:9", "BELLWETHER_GAMMA_URL": "http://127.0.0.1:9"}
    cases: tuple[tuple[tuple[str, ...], int, str, dict[str, str]], ...] = (
        (("query", "SELECT $release", "--set", RELEASE), 2, f"'{RELEASE}' is not NAME=VALUE", {}),
        (("leaderboard",), 1, "make demo", {}),
        (("release", f"{RELEASE}x"), 1, f"did you mean {RELEASE}", {}),
        (("demo",), 1, "bellwether pull", {"BELLWETHER_WORLD": "live"}),
        (("doctor",), 1, "BELLWETHER_KALSHI_URL", live),
        (("arena", "run", "--dry-run"), 1, "no connection (ConnectError); look at the network", live),
        (("pull", str(last), str(first)), 2, "is before", {}),
        (("pull", str(last + timedelta(days=200))), 2, f"which has {first} to {last}", {}),
        (("pull", str(first - timedelta(days=1))), 2, "BELLWETHER_FIRST_DAY", {}),
        (("evaluate", "--models", "gpt-4o"), 1, "gpt-4o: key missing: OPENAI_API_KEY", {"OPENAI_API_KEY": ""}),
        (("evaluate", "--models", "sandbox-calibrate"), 1, "did you mean sandbox-calibrated", {}),
        (("evaluate",), 2, "name at least one model", {}),
        (("evaluate", "--models", "sandbox-calibrated", "--budget", "much"), 2, "is not an amount of dollars", {}),
        (("evaluate", "--models", "sandbox-calibrated", "--release", "sandbox-1999"), 1, "no release is called 'sandbox-1999'", {}),
        (("evaluate", "--models", "sandbox-calibrated"), 1, "cannot be asked in the world live", {"BELLWETHER_WORLD": "live"}),
    )
    for words, code, text, variables in cases:
        result = call(*words, **variables)
        assert (result.exit_code, text in said(result), "Traceback" in result.output) == (code, True, False), (words, result.output)
        assert not settings().home.exists(), words


@pytest.mark.nightly
def test_commands_that_only_read_create_nothing_in_a_new_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    for words in (
        "doctor",
        "journal",
        "record",
        "release",
        f"arena run --dry-run --week {EMPTY_WEEK}",
        f"arena explain {WEEK}/hold/{WEEK}",
        "evaluate --dry-run --models sandbox-calibrated",
        "query FROM(meta.tables)",
    ):
        call(*words.split())
        assert list(tmp_path.iterdir()) == [], words
