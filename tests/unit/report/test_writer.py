"""Writing of reports: reproducible bytes, an atomic replacement, and safe file names."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.lake.storage import Folder
from bellwether.lake.warehouse import publish
from bellwether.places import place
from bellwether.report import writer
from bellwether.report.inputs import TABLES, ReportInputs, read_inputs
from bellwether.report.writer import file_name, safe_name, write_report
from bellwether.settings import settings
from bellwether.tables import table
from cli.main import main
from tests.unit.report import frames
from tests.unit.report.folders import replace_figures
from tests.unit.report.frames import example

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_figures(monkeypatch)


@pytest.fixture
def tiny() -> ReportInputs:
    return frames.tiny()


def later(inputs: ReportInputs, **more: object) -> ReportInputs:
    """The same release with a fact that became known an hour later."""
    board = inputs.leaderboard.with_columns(pl.col("known_at") + timedelta(hours=1))
    return replace(inputs, leaderboard=board, **more)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_same_inputs_in_any_order_give_the_same_bytes(tiny: ReportInputs, tmp_path: Path) -> None:
    shuffled = replace(tiny, **{name: getattr(tiny, name).reverse() for name in TABLES})
    write_report(tiny, tmp_path / "a")
    write_report(shuffled, str(tmp_path / "b"))
    assert contents(tmp_path / "a" / "q") == contents(tmp_path / "b" / "q")


def test_a_newer_report_takes_the_place_of_the_older_one_and_of_nothing_else(tiny: ReportInputs, tmp_path: Path) -> None:
    write_report(tiny, tmp_path)
    (tmp_path / "q" / "notes_20200101_000000.md").write_text("mine")
    (tmp_path / "q" / "metadata_20200101_000000.json").write_text("not JSON")
    (tmp_path / "q" / "metadata_20251217_205502.json").write_text('{"benchmark": "KalshiBench"}')
    files = write_report(later(tiny), tmp_path)
    left = {file.name for file in (tmp_path / "q").iterdir()} - {Path(file).name for file in files}
    assert left == {"notes_20200101_000000.md", "metadata_20200101_000000.json", "metadata_20251217_205502.json"}
    assert all("_20260105_070708." in file for file in files)


def test_an_older_report_stays_whole_when_a_figure_cannot_be_drawn(
    tiny: ReportInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(tiny, tmp_path)
    before = contents(tmp_path / "q")

    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(writer, "release_page", broken)
    with pytest.raises(ZeroDivisionError):
        write_report(later(tiny), tmp_path)
    assert contents(tmp_path / "q") == before


def test_an_older_report_stays_whole_when_the_disk_is_full_and_the_next_try_completes(tiny: ReportInputs, tmp_path: Path) -> None:
    class Full(Folder):
        room = 4

        def put(self, name: str, data: bytes) -> None:
            self.room -= 1
            if self.room < 0:
                raise LakeError("writing: no space left")
            super().put(name, data)

    write_report(tiny, tmp_path)
    before = contents(tmp_path / "q")
    with pytest.raises(LakeError, match="no space"):
        write_report(later(tiny), Full(tmp_path))
    there = contents(tmp_path / "q")
    assert before.items() <= there.items()
    assert not [name for name in there if name.startswith("metadata_20260105_07")]
    write_report(later(tiny), tmp_path)
    assert not [name for name in contents(tmp_path / "q") if "_20260105_060708" in name]


def test_an_object_store_takes_reports_too(tiny: ReportInputs, bucket: str) -> None:
    files = write_report(tiny, bucket)
    metadata, report = (place(f"{bucket}/q/{name}_20260105_060708.{kind}") for name, kind in (("metadata", "json"), ("report", "md")))
    assert len(json.loads(metadata.read_bytes())["files"]) == len(files) - 1
    assert report.read_bytes().startswith(b"# Benchmark report")


def test_metadata_of_someone_else_removes_nothing_outside_of_the_folder(tiny: ReportInputs, tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    (tmp_path / "precious.json").write_text("{}")
    (tmp_path / "q" / "metadata_20200101_000000.json").write_text(
        '{"benchmark": "Bellwether", "files": {"../precious.json": {}, "absent.json": {}, "": {}}}'
    )
    write_report(tiny, tmp_path)
    assert (tmp_path / "precious.json").is_file()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish a warehouse of the example's tables."""
    folder, made = tmp_path_factory.mktemp("published"), example("good-model")
    lake, declared = Lake(str(folder / "lake")), {name: table(one.name) for name, one in TABLES.items()}
    for name, one in declared.items():
        for key, rows in getattr(made, name).partition_by(*one.partitioned_by, as_dict=True).items():
            lake.write(one, tuple(str(part) for part in key), rows.sort(one.order), run_id="r1")
    return Path(publish(lake, folder / "warehouse.duckdb", tables=declared.values()).path)


@pytest.fixture
def warehouse(published: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ReportInputs:
    """The example, published."""
    monkeypatch.setenv("BELLWETHER_WAREHOUSE", str(published))
    monkeypatch.setenv("BELLWETHER_REPORTS", str(tmp_path / "reports"))
    settings.cache_clear()
    return example("good-model")


def test_the_warehouse_gives_the_report_that_the_frames_give(warehouse: ReportInputs, tmp_path: Path) -> None:
    read = read_inputs(settings().warehouse_uri, "q")
    for name in TABLES:
        assert getattr(read, name).equals(getattr(warehouse, name)), name


def test_the_command_writes_the_report_and_names_its_files(warehouse: ReportInputs, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["export", "q", "--format", "report", "--to", str(tmp_path / "reports")])
    assert result.exit_code == 0, result.output
    files = [Path(file) for file in result.output.splitlines()]
    assert all(file.is_file() and file.parent == tmp_path / "reports" / "q" for file in files)
    assert sum(file.name.startswith("metadata") for file in files) == 1


def test_names_of_files_are_safe_and_distinct() -> None:
    names = ("../../etc/passwd", "a/b", "A", ".hidden", "", "con\x00trol", "x" * 300, "Ünïcode", "a b", "a\nb", "..", "-")
    for name in names:
        safe = safe_name(name)
        assert not set(safe) - set("abcdefghijklmnopqrstuvwxyz0123456789.-_@")
        assert 0 < len(safe) < 100
        assert not safe.startswith(".")
        assert safe == name or safe_name(name + "!") != safe
    for name in ("summary", "metadata", "report", "dataset_analysis", "summary_of_all", "run_config"):
        assert file_name(name).startswith("model-")
        assert file_name(name) != file_name(f"model-{name}")
