"""What the page is written from: the inputs of the report, what was made of them, and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bellwether.report.inputs import Inputs
from bellwether.report.predictions import Predictions


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure beside the report."""

    file: str
    caption: str

    def lines(self) -> list[str]:
        """The figure and its caption."""
        return [f"![{self.caption}]({self.file})", "", f"*{self.caption}*", ""]


@dataclass(frozen=True, slots=True)
class Material:
    """What the report is written from.

    pictures: of the release, by name; forecaster_pictures: of each forecaster. files: name and what it is, of every file of the report.
    """

    inputs: Inputs
    made: Mapping[str, Predictions]
    analysis: Mapping[str, Any]
    pictures: Mapping[str, Picture]
    forecaster_pictures: Mapping[str, Sequence[Picture]]
    files: Mapping[str, str]
