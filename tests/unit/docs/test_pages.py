"""README, tour and pages of the documentation: links, commands, settings and examples."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bellwether.forecasting import forecaster
from bellwether.questions import release
from cli.main import Lazy, main
from tests import readme

ROOT = Path(__file__).resolve().parents[3]
README = "\n".join(page.read_text(encoding="utf-8") for page in readme.PAGES)
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy" / "README.md")


def test_the_python_example_runs_and_gives_the_number_shown() -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert code
    names: dict[str, object] = {}
    for block in code:
        exec(compile(block, "README.md", "exec"), names)
    brier, comparison = names["scores"]["brier"], names["comparison"]  # type: ignore[index]
    shown = [float(value) for value in re.findall(r"(?:value|lower|upper)=([\d.]+)", README)]
    assert shown == [round(brier.value, 3), round(brier.lower, 3), round(brier.upper, 3)]
    assert (comparison.pairs.height, comparison.ranking["forecaster"].to_list()) == (1, ["mine", "half"])  # type: ignore[attr-defined]


def test_a_block_is_replaced_by_what_its_command_prints() -> None:
    page = "a\n\n<!-- bellwether leaderboard x -->\n\n    old\n\n    old\n\nb\n\n<!-- bellwether models | All -->\n\n    old\n"
    printed = {"leaderboard": "new  \n\nlegend\n", "models": "One\n1\n\nAll\n2\n\nrest\n"}
    text = readme.rewritten(page, lambda words: printed[words[0]])
    assert (
        text
        == "a\n\n<!-- bellwether leaderboard x -->\n\n    new\n\n    legend\n\nb\n\n<!-- bellwether models | All -->\n\n    All\n    2\n"
    )


@pytest.mark.nightly
@pytest.mark.skipif("README_HOME" not in os.environ, reason="the whole demo takes minutes: make check-readme runs this")
def test_its_tables_are_those_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """README_HOME is the folder of the demo. A previous run there is reused within seconds."""
    monkeypatch.setenv("BELLWETHER_HOME", os.environ["README_HOME"])
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    import dagster as dg

    readme.bellwether(["demo"])
    assert readme.rewritten(README, readme.bellwether) == README
    monkeypatch.setenv("DAGSTER_HOME", f"{os.environ['README_HOME']}/sandbox/dagster")
    with dg.DagsterInstance.get() as instance:
        events = [instance.get_latest_materialization_event(asset) for asset in instance.all_asset_keys()]
    made = [event.asset_materialization for event in events if event is not None]
    shown = {one.asset_key.to_user_string(): one.metadata for one in made if one is not None}
    drawn = [name for name, metadata in shown.items() if any("data:image/png" in str(value.value) for value in metadata.values())]
    assert "benchmark/leaderboard" in shown and not drawn  # pictures are on the site and in reports


def test_every_link_leads_somewhere() -> None:
    for page in {*PAGES, *(ROOT / "docs" / "decisions").glob("*.md"), ROOT / "benchmarks" / "README.md", ROOT / "examples" / "README.md"}:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def commands(page: Path) -> list[str]:
    """Return the arguments of each `bellwether` command in the page's code, inline or at the beginning of a line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^(?: {4}|)(?:\.venv/bin/)?bellwether ([a-z].*)$", text, flags=re.MULTILINE)
    return [re.split(r" {2,}|#", found)[0].strip() for found in (*blocks, *re.findall(r"`(?:\.venv/bin/)?bellwether ([^`]+)`", text))]


def test_every_command_shown_exists_with_its_options() -> None:
    for shown in (command for page in PAGES for command in commands(page)):
        command: click.Command = main
        words = shown.split()
        while isinstance(command, click.Group) and words and (found := command.commands.get(words[0])) is not None:
            command, words = found.load() if isinstance(found, Lazy) else found, words[1:]
        assert not isinstance(command, click.Group) or (command is not main and all(word.startswith("-") for word in words)), shown
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, shown


def test_every_command_is_named() -> None:
    assert {shown.split()[0] for page in readme.PAGES for shown in commands(page)} >= set(main.commands) - {"demo", "ui", "home"}


def test_the_environment_example_names_every_setting() -> None:
    from bellwether.settings import Settings

    text = (ROOT / ".env.example").read_text()
    named = set(re.findall(r"BELLWETHER_([A-Z_]+)=", text))
    assert named == {name.upper() for name in Settings.model_fields}


SCORING = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    """Return a code block of the page."""
    return re.findall(rf"```{language}\n(.*?)```", SCORING, flags=re.DOTALL)[number]


@pytest.fixture
def scoring_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the forecasts of the page."""
    (tmp_path / "forecasts.csv").write_text(block("csv"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_prints_the_tables_shown(scoring_folder: Path) -> None:
    done = CliRunner().invoke(main, ["score", "forecasts.csv"])
    assert done.exit_code == 0
    assert [line.rstrip() for line in done.output.rstrip().splitlines()] == block("text").rstrip().splitlines()


@pytest.mark.nightly
def test_the_python_example_of_scoring_runs(scoring_folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "scoring.md", "exec"), names)
    assert names["gpt"].height == 14
    for name in ("reliability.png", "differences.png"):
        assert (scoring_folder / name).read_bytes().startswith(b"\x89PNG")
    assert (scoring_folder / "scores.html").read_text(encoding="utf-8").startswith("<!doctype html>")


BENCHMARK = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """Registry folder with the examples of the page."""
    releases, forecasters = re.findall(r"```toml\n(.*?)```", BENCHMARK, re.DOTALL)
    (tmp_path / "releases.toml").write_text(releases, encoding="utf-8")
    (tmp_path / "forecasters.toml").write_text(forecasters, encoding="utf-8")
    return tmp_path


def test_the_examples_load(registry: Path) -> None:
    made = release("politics-2026", registry)
    assert (made.sample_size, made.per_series, made.require_open_after_cutoff) == (200, 1, True)
    assert forecaster("coin", registry).knowledge_cutoff == datetime(2025, 9, 1, tzinfo=UTC)
