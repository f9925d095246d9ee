"""`bellwether compat`: tables, JSON, and one-line errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from cli.main import main
from tests.reference.kalshibench import A, World
from tests.unit.kalshibench.result_folders import Write, predictions, result


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


def test_a_difference_is_named(write: Write, label_file: Path) -> None:
    folder = write(model=result(brier_score=0.1))
    notes = printed_json(folder, "--labels", label_file)["notes"]
    assert any("1 differ, first brier_score of Test-Model: 0.1 published" in note for note in notes)


@pytest.mark.parametrize("arguments", [("nowhere",), (".", "--labels", "nowhere.csv"), (".", "--model", "GPT-9")])
def test_what_cannot_be_done_is_one_line(folder: Path, arguments: tuple[str, ...]) -> None:
    done = run(*(folder if argument == "." else argument for argument in arguments))
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert len(done.output.splitlines()) == 1


def test_a_broken_file_is_a_warning_and_the_rest_is_shown(write: Write, label_file: Path) -> None:
    done = run(write(good=result("Good"), bad='{"model_name": "Bad"'), "--labels", label_file, "--json")
    assert done.exit_code == 0
    assert "bad.json: not JSON" in done.stderr
    document = json.loads(done.stdout)
    assert list(document["models"]) == ["Good"]
    assert len(document["damaged"]) == 1


def test_the_statuses_of_published_numbers_add_up(original: World, twelve: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    pl.DataFrame(original.labels(A)).write_csv(labels)
    numbers = printed_json(twelve, "--labels", labels)["published_numbers"]
    overall = numbers["overall"]
    for rows in ([overall], numbers["by_model"], numbers["by_file"]):
        assert sum(row["total"] for row in rows) == overall["total"]
        for row in rows:
            assert row["equal"] + row["differs"] + row["ties"] + row["not recomputed"] == row["total"]
            assert sum(row["needs"].values()) == row["not recomputed"]
    output = printed_tables(twelve, "--labels", labels)
    assert f"{overall['equal']} of {overall['total']} published numbers come out equal to the last bit" in output
    assert "What became of the published numbers" in output
    assert "The same by file" in output


def test_the_figures_are_written_small_and_the_same_each_time(write: Write, label_file: Path, tmp_path: Path) -> None:
    folder = write(a=result("$\\frac{1}{0}$"), b=result("B", predictions=[row | {"raw_output": None} for row in predictions()]))
    for name in ("one", "two"):
        printed_tables(folder, "--labels", label_file, "--figures", tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert set(one) == {f"kalshibench-{name}.png" for name in ("scores", "inversion", "reading", "pairs")}
    assert one == two
    assert all(png.startswith(b"\x89PNG") and len(png) < 100_000 for png in one.values())
