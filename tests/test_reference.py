"""docs/api is what the source says."""

from __future__ import annotations

import importlib

import pytest

from tests import reference


def test_the_reference_is_current() -> None:
    written = {file.name: file.read_text(encoding="utf-8") for file in reference.FOLDER.glob("*.md")}
    assert written == reference.pages(), "run `make reference`"


@pytest.mark.parametrize("package", reference.PACKAGES)
def test_every_public_name_has_an_entry(package: str) -> None:
    page = (reference.FOLDER / f"{package}.md").read_text(encoding="utf-8")
    entries = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    assert entries == set(importlib.import_module(f"bellwether.{package}").__all__)
