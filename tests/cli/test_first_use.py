"""First use of the command line."""

from __future__ import annotations

import json
import re
import shlex
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bellwether.settings import settings
from cli.main import main
from tests.orchestration.conftest import FORECASTERS, World

ROOT = Path(__file__).resolve().parents[2]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def published(evaluated: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("BELLWETHER_HOME", str(evaluated.config.home))
    settings.cache_clear()
    return evaluated


@pytest.mark.slow
def test_the_leaderboard_is_a_table_for_people_and_json_for_programs(published: World) -> None:
    assert "market-24h" in call("leaderboard").output
    rows = json.loads(call("leaderboard", "sandbox-2026", "--json").output)["sandbox-2026"]
    assert {row["forecaster"] for row in rows} == set(FORECASTERS)


@pytest.mark.slow
def test_what_the_readme_reads_from_the_warehouse_can_be_read(published: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    shown = re.findall(r'^    \.venv/bin/bellwether ((?:query "[^"]*"|models|report|export).*)$', page, re.MULTILINE)
    shown += re.findall(r"`bellwether (query @[^`]*)`", page)
    assert len(shown) == 5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sql").symlink_to(ROOT / "sql")
    for line in shown:
        result = call(*shlex.split(line, comments=True))
        assert result.exit_code == 0, f"{line}: {result.output}"
    assert list((tmp_path / "reports" / "sandbox-2026").glob("report_*.md"))
    assert (tmp_path / "dataset" / "README.md").is_file()


@pytest.mark.slow
def test_a_query_without_a_value_for_its_parameter_says_how_to_give_one(published: World) -> None:
    result = call("query", "SELECT date_diff('second', now(), CAST($until AS TIMESTAMPTZ)), $release")
    assert result.exit_code == 1
    assert "no value for $release, $until; give --set release=VALUE --set until=VALUE" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_value_that_a_query_does_not_use_is_named(published: World) -> None:
    result = call("query", "SELECT $release", "--set", "release=sandbox-2026", "--set", "relaese=x")
    assert result.exit_code == 1
    assert "does not use $relaese; it has $release" in " ".join(result.output.split())


def test_a_value_for_a_query_needs_a_name() -> None:
    result = call("query", "SELECT $release", "--set", "sandbox-2026")
    assert result.exit_code != 0
    assert "'sandbox-2026' is not NAME=VALUE" in result.output


def test_without_a_warehouse_the_message_says_what_to_do() -> None:
    result = call("leaderboard")
    assert result.exit_code == 1
    assert "make demo" in result.output
    assert "Traceback" not in result.output


def test_a_release_that_there_is_not_is_said_before_a_day_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    settings.cache_clear()
    result = call("run", "--release", "sandbox-2027")
    assert (result.exit_code, "did you mean sandbox-2026" in result.output) == (1, True)
    assert not (tmp_path / "home").exists()


def test_a_release_that_was_not_published_is_named_with_the_one_that_was_probably_meant(published: World, tmp_path: Path) -> None:
    for words in (["leaderboard", "sandbox-2027"], ["report", "sandbox-2027"], ["export", "sandbox-2027", "--to", str(tmp_path)]):
        result = call(*words)
        assert (result.exit_code, "did you mean sandbox-2026?" in result.output) == (1, True), result.output


def test_the_demo_refuses_another_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    settings.cache_clear()
    result = call("demo")
    assert result.exit_code == 1
    assert "bellwether run" in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "doctor",
        "journal",
        "events",
        "release --list",
        "arena run --dry-run --week 2026-04-12 --lineup rules",
        "arena status",
        "arena explain 2026-05-10/hold/2026-05-10",
        "evaluate --dry-run --models sandbox-calibrated",
        "query FROM(meta.tables)",
    ],
)
def test_what_only_looks_creates_nothing_in_a_new_home(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    settings.cache_clear()
    call(*words.split())
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_the_arena_without_a_network_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "WORLD": "live",
        "HOME": str(tmp_path),
        "KALSHI_URL": "http://127.0.0.1:9",
        "GAMMA_URL": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(f"BELLWETHER_{name}", value)
    settings.cache_clear()
    result = call("arena", "run", "--dry-run")
    assert result.exit_code == 1
    assert "no connection (ConnectError); look at the network" in result.output


def test_days_in_the_wrong_order_are_refused() -> None:
    assert "is before" in call("pull", "2026-05-02", "2026-05-01").output


@pytest.mark.slow
@pytest.mark.parametrize(("day", "said"), [("2027-01-01", "which has 2025-07-01 to 2026-06-30"), ("2025-06-30", "BELLWETHER_FIRST_DAY")])
def test_a_day_that_the_world_does_not_have_is_refused_at_once(day: str, said: str) -> None:
    from bellwether.settings import settings

    result = CliRunner().invoke(main, ["pull", day])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert not settings().home.exists()


def test_an_evaluation_without_a_key_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from bellwether.settings import settings

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = CliRunner().invoke(main, ["evaluate", "--models", "gpt-4o"])
    assert result.exit_code == 1
    assert "gpt-4o: key missing: OPENAI_API_KEY" in " ".join(result.output.split())
    assert not settings().home.exists()


def test_doctor_finds_a_sound_installation(published: World) -> None:
    findings = json.loads(call("doctor", "--json").output)
    assert [found for found in findings if found["status"] == "bad"] == []
    assert {"python", "duckdb", "world", "registry", "Kalshi REST", "Polymarket Gamma", "warehouse"} <= {
        found["check"] for found in findings
    }


def test_doctor_says_how_to_mend_a_venue_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    monkeypatch.setenv("BELLWETHER_KALSHI_URL", "http://127.0.0.1:9/trade-api/v2")
    settings.cache_clear()
    result = call("doctor")
    assert result.exit_code == 1
    assert "BELLWETHER_KALSHI_URL" in result.output


def test_a_forecaster_that_fails_stops_neither_others_nor_other_releases_nor_the_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    from assets.benchmark import runs
    from assets.benchmark.runs import forecast_and_publish
    from orchestration.runner import RunFailed, Runner

    done: list[str] = []

    def release(work: Runner, release: str, forecasters: list[str]) -> dict[str, RunFailed | None]:
        done.append(release)
        return {name: RunFailed(f"{name} on {release}: no credit") if name == "broke" else None for name in forecasters}

    monkeypatch.setattr(runs, "evaluate_release", release)
    monkeypatch.setattr(runs, "publish", lambda work: done.append("published"))
    with pytest.raises(RunFailed, match=r"broke on one: no credit\. Also failed: broke on two\."):
        forecast_and_publish(None, ("one", "two"), ["broke", "good"])  # type: ignore[arg-type]
    assert done == ["one", "two", "published"]


def test_a_resumed_evaluation_has_the_budgets_that_it_began_with_unless_others_are_given() -> None:
    from assets.benchmark.evaluation import resolve_limits
    from bellwether.forecasting.evaluation import Evaluation

    one, two = Decimal("0.1"), Decimal(2)
    begun = Evaluation("evaluate-20261101T120000Z", "r", ("a",), two, {}, dollars_per_model=one)
    assert resolve_limits(None, None, begun) == (two, one)
    assert resolve_limits(one, two, begun) == (one, two)
    assert resolve_limits(None, None, None) == (settings().budget, None)
