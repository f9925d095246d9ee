"""The site on an object store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bellwether.places import place
from bellwether.settings import settings
from bellwether.site import build, read_site_state, writer
from tests.unit.site.world import Size, published


def test_the_site_is_uploaded_and_only_what_changed_again(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "chart_library", lambda: b"")
    small = Size(questions=3, prices=0, models=1, episodes=1, agents=1, samples=1, orders=1, cohorts=1, families=1, markets=3)
    warehouse, target = published(tmp_path, small), place(f"{bucket}/site")
    local, stored = build(warehouse, tmp_path / "site"), build(warehouse, target)
    assert (str(stored.folder), stored.files, read_site_state(target)) == (f"{bucket}/site", local.files, read_site_state(local.folder))
    for path in (path for path in local.folder.rglob("*") if path.is_file()):
        assert (target / path.relative_to(local.folder).as_posix()).read_bytes() == path.read_bytes()
    times = {path.name: path.stat().st_mtime for path in target.glob("*.html")}
    shutil.rmtree(settings().cache_path)
    assert build(warehouse, target).files == local.files
    assert {path.name: path.stat().st_mtime for path in target.glob("*.html")} == times
