"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs_and_gives_the_number_shown() -> None:
    code = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert code
    names: dict[str, object] = {}
    for block in code:
        exec(compile(block, "README.md", "exec"), names)
    scores = names["scores"]
    assert scores["brier"].value == pytest.approx(0.105)  # type: ignore[index]


def test_every_link_leads_somewhere() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "deploy" / "README.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_make_target_and_command_named_exists() -> None:
    from bellwether.cli import main

    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"make ([a-z0-9-]+)", README)) <= targets
    named = set(re.findall(r"bellwether (demo|run|pull|release|leaderboard|query|sandbox|doctor|ui)\b", README))
    for command in named:
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0, command


def test_the_environment_example_names_every_setting() -> None:
    from bellwether.settings import Settings

    text = (ROOT / ".env.example").read_text()
    named = set(re.findall(r"BELLWETHER_([A-Z_]+)=", text))
    assert named == {name.upper() for name in Settings.model_fields}
