"""`bellwether compat`: tables, JSON, and one-line errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.reference.kalshibench import World, world
from tests.unit.kalshibench.result_folders import Write, predictions, result, write_folder, write_labels, write_one_model


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_folder, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_one_model(tmp_path)


@pytest.fixture
def label_file(tmp_path: Path) -> Path:
    return write_labels(tmp_path)


@pytest.fixture(scope="module")
def original() -> World:
    """Twelve models in three tiers, as KalshiBench publishes them."""
    return world()


@pytest.fixture(scope="module")
def twelve(original: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all twelve models."""
    return original.write(tmp_path_factory.mktemp("twelve"))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from bellwether.console import console

    monkeypatch.setenv("COLUMNS", "200")
    console.cache_clear()
    yield
    console.cache_clear()


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compat", *map(str, arguments), "--replicates", "200"])


def printed_tables(*arguments: str | Path) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def printed_json(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.output)
    return document


def test_the_tables_show_published_and_corrected_numbers(folder: Path, label_file: Path) -> None:
    output = printed_tables(folder, "--labels", label_file)
    assert "0.1460" in output  # published
    assert "0.1860" in output  # answer-consistent, labels as scored
    assert "0.0660 [" in output  # corrected
    assert "1/3" in output  # inverted
    assert "published numbers come out equal to the last bit" in output


def test_the_json_holds_every_number(folder: Path, label_file: Path) -> None:
    document = printed_json(folder, "--labels", label_file)
    model = document["models"]["Test-Model"]
    numbers = {row["metric"]: row for row in model["numbers"]}
    assert numbers["brier_score"]["recomputed"] == pytest.approx(0.146)
    assert numbers["brier_score"]["difference"] == 0
    assert model["corrected"]["metrics"]["brier"]["value"] == pytest.approx(0.066)
    assert model["findings"]["inverted"] == 1
    assert document["labels"] == "labels.csv"


def test_a_broken_file_is_a_warning_and_the_rest_is_shown(write: Write, label_file: Path) -> None:
    done = run(write(good=result("Good"), bad='{"model_name": "Bad"'), "--labels", label_file, "--json")
    assert done.exit_code == 0
    assert "bad.json: not JSON" in done.stderr
    document = json.loads(done.stdout)
    assert list(document["models"]) == ["Good"]
    assert len(document["damaged"]) == 1


@pytest.mark.nightly
def test_the_figures_are_written_small_and_the_same_each_time(write: Write, label_file: Path, tmp_path: Path) -> None:
    folder = write(a=result("$\\frac{1}{0}$"), b=result("B", predictions=[row | {"raw_output": None} for row in predictions()]))
    for name in ("one", "two"):
        printed_tables(folder, "--labels", label_file, "--figures", tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert set(one) == {f"kalshibench-{name}.png" for name in ("scores", "inversion", "reading", "pairs")}
    assert one == two
    assert all(png.startswith(b"\x89PNG") and len(png) < 100_000 for png in one.values())
