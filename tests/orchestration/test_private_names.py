"""No module imports private modules of Dagster, and the classes named in dagster.yaml exist in the installed Dagster."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from orchestration.home import settings_file

ROOT = Path(__file__).resolve().parents[2]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("folder", ["cli", "assets", "orchestration", "resources", "bellwether", "benchmarks", "tests"])
def test_no_private_module_of_dagster_is_imported(folder: str) -> None:
    private = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / folder).rglob("*.py")
        for name in imported(path)
        if name.startswith("dagster") and any(part.startswith("_") for part in name.split("."))
    }
    assert private == set()


def test_the_classes_that_a_home_names_exist() -> None:
    named = [value for value in yaml.safe_load(settings_file()).values() if isinstance(value, dict) and "class" in value]
    assert len(named) == 2
    for one in named:
        assert hasattr(import_module(one["module"]), one["class"])
