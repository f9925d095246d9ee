"""What the README and the tour show is what happens."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from cli.lazy import Lazy
from cli.main import main
from tests import readme

ROOT = Path(__file__).resolve().parents[1]
README = "\n".join(page.read_text(encoding="utf-8") for page in readme.PAGES)
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy" / "README.md")
#: Pages that the build of the site makes (docs/hooks.py).
MADE = {"data-dictionary.md", "benchmarks.md", "examples.md", "replay-speed.md"}


def test_the_python_example_runs_and_gives_the_number_shown() -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert code
    names: dict[str, object] = {}
    for block in code:
        exec(compile(block, "README.md", "exec"), names)
    brier, comparison = names["scores"]["brier"], names["comparison"]  # type: ignore[index]
    shown = [float(value) for value in re.findall(r"(?:value|lower|upper|df)=([\d.]+)", README)]
    assert shown == [round(brier.value, 3), round(brier.lower, 3), round(brier.upper, 3), round(brier.df, 1)]
    assert (comparison.pairs.height, comparison.ranking["forecaster"].to_list()) == (1, ["mine", "half"])  # type: ignore[attr-defined]


def test_the_own_endpoint_takes_four_lines_and_no_key(tmp_path: Path) -> None:
    from bellwether.models.registry import models

    example = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)[0]
    assert len(example.strip().splitlines()) == 4
    (tmp_path / "models.toml").write_text(example, encoding="utf-8")
    assert models(tmp_path)["my-llama"].is_free


def test_its_tables_are_those_of_named_commands_and_fit_eighty_columns() -> None:
    found = readme.BLOCK.findall(README)
    assert [command.split(" |")[0] for command, _ in found] == [
        "leaderboard sandbox-2026",
        "trading",
        "arena leaderboard",
        "query, as above",
    ]
    assert max(len(line) - 4 for _, text in found for line in text.splitlines()) <= readme.WIDTH
    drawn = {text for _, text in found}
    others = [block for block in re.findall(r"(?:^ {4}.*\n)+", README, re.MULTILINE) if "──" in block or "━━" in block]
    assert [block for block in others if not any(block in text for text in drawn) and "Scores\n" not in block] == []


def test_a_block_is_replaced_by_what_its_command_prints() -> None:
    page = "a\n\n<!-- bellwether leaderboard x -->\n\n    old\n\n    old\n\nb\n\n<!-- bellwether trading | All -->\n\n    old\n"
    printed = {"leaderboard": "new  \n\nlegend\n", "trading": "One\n1\n\nAll\n2\n\nrest\n"}
    text = readme.rewritten(page, lambda words: printed[words[0]])
    assert (
        text
        == "a\n\n<!-- bellwether leaderboard x -->\n\n    new\n\n    legend\n\nb\n\n<!-- bellwether trading | All -->\n\n    All\n    2\n"
    )


@pytest.mark.slow
@pytest.mark.skipif("README_HOME" not in os.environ, reason="the whole demo takes minutes: make check-readme runs this")
def test_its_tables_are_those_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """README_HOME is a folder in which the demo runs; where it has run before, that takes seconds."""
    monkeypatch.setenv("BELLWETHER_HOME", os.environ["README_HOME"])
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    readme.bellwether(["demo"])
    assert readme.rewritten(README, readme.bellwether) == README


def test_the_models_that_it_names_are_registered() -> None:
    from bellwether.models.registry import models

    named = {name for shown in re.findall(r"--models (.*?)(?: --|`)", README) for name in shown.split()}
    assert named and named <= set(models())


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("http") and target not in MADE:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"make ([a-z0-9-]+)", README)) <= targets


def commands(page: Path) -> list[str]:
    """What follows `bellwether` wherever the page shows it as code: in line, or at the beginning of a line of a block."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^(?: {4}|)(?:\.venv/bin/)?bellwether ([a-z].*)$", text, flags=re.MULTILINE)
    return [re.split(r" {2,}|#", found)[0].strip() for found in (*blocks, *re.findall(r"`(?:\.venv/bin/)?bellwether ([^`]+)`", text))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    for shown in commands(page):
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
