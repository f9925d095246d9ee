"""The documentation site builds without warnings, loads nothing from elsewhere, and documents every table and public name."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
STABLE = ("arena", "calibration", "forecasting", "replay", "scoring")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as by `make docs`. A broken link or anchor fails the build."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "not included in the" not in done.stderr, done.stderr[-3000:]
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?([^\" >]+)", page.read_text(encoding="utf-8"))
        assert [address for address in loaded if address.startswith(("http", "//"))] == [], page.name


@pytest.mark.parametrize("package", STABLE)
def test_every_public_name_is_in_the_reference(site: Path, package: str) -> None:
    entries = re.findall(r'<h[2-6] id="bellwether\.[\w.]*?(\w+)"', (site / "api.html").read_text(encoding="utf-8"))
    assert set(importlib.import_module(f"bellwether.{package}").__all__) - set(entries) == set()


def test_the_search_finds_every_table(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"] for entry in index["docs"]}
    assert {f"data-dictionary.html#{name.replace('/', '')}" for name in TABLES} <= places
