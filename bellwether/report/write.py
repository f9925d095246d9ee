"""Writes the report of a release: every file made first, in a folder of this process, then put in place one by one, whole.

Names carry the time of the data, so an older report stays readable until the new one is complete; then it goes. The metadata, written
last, names every file with its digest: a report whose metadata is there and whose digests agree is complete.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from bellwether.calibration.answers import Answers
from bellwether.lake.storage import Storage, open_storage
from bellwether.questions.analysis import Analysis
from bellwether.report.document import report
from bellwether.report.figures import Figure, forecaster_figures, release_figures
from bellwether.report.inputs import Inputs
from bellwether.report.material import Material, Picture
from bellwether.report.predictions import Predictions, predictions
from bellwether.report.results import BENCHMARK, metadata, model_file, summary

#: Beginnings of file names that have a meaning; a forecaster called so gets another name of file.
_RESERVED = ("summary", "metadata", "dataset_analysis", "report", "run_config")
_METADATA = re.compile(r"metadata_\d{8}_\d{6}\.json")
_UNSAFE = re.compile(r"[^a-z0-9.@-]+")


def write_report(inputs: Inputs, reports: Storage | Path | str) -> list[str]:
    """Write the report below `reports` (a folder, an object-store URL or a storage) into the folder of its release; returns the locations.

    The same inputs give the same bytes. An older report of the release is removed when the new one is complete. Raises `LakeError` when a
    file cannot be written, `ScoringError` when forecasts and questions do not belong together.
    """
    storage = open_storage(str(reports)) if isinstance(reports, Path | str) else reports
    folder = safe_name(inputs.release)
    before = [entry.name for entry in storage.files(folder)]
    with TemporaryDirectory(prefix="bellwether-report-") as draft:
        names = _Draft(Path(draft), inputs).make()
        for name in names:
            storage.put(f"{folder}/{name}", (Path(draft) / name).read_bytes())
    _remove_older(storage, folder, before, names)
    return [storage.location(f"{folder}/{name}") for name in names]


def safe_name(name: str) -> str:
    """A name for files and folders: lower-case letters, digits and .-_@; where it had to be changed, with its digest."""
    safe = _UNSAFE.sub("_", name.lower()).strip("._")[:80]
    return safe if safe and safe == name else f"{safe or 'unnamed'}-{_digest(name)}"


def file_name(forecaster: str) -> str:
    """Beginning of the name of a forecaster's files; one that begins like a file with a meaning of its own is changed."""
    safe = safe_name(forecaster)
    taken = any(safe == word or safe.startswith(f"{word}_") for word in _RESERVED)
    return f"model-{safe}-{_digest(forecaster)}" if taken else safe


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


class _Draft:
    """The files of one report, made in a folder of this process."""

    def __init__(self, folder: Path, inputs: Inputs) -> None:
        self._folder = folder
        self._inputs = inputs
        self._files: dict[str, dict[str, Any]] = {}
        self._about: dict[str, str] = {}

    def make(self) -> list[str]:
        """Make every file; their names, the metadata last."""
        inputs, stamp = self._inputs, self._inputs.stamp
        answers = Answers.of(inputs.forecasts, inputs.questions)
        made: dict[str, Predictions] = {}
        for forecaster in inputs.forecasters:
            made[forecaster] = predictions(forecaster, answers, inputs.forecasts, inputs.questions)
            self._json(
                f"{file_name(forecaster)}_{stamp}.json",
                model_file(inputs, forecaster, made[forecaster]),
                f"{forecaster}: all metrics and predictions",
            )
        analysis = Analysis(inputs.dataset_analysis).to_dict()
        self._json(f"summary_{stamp}.json", summary(inputs, made), "The forecasters compared: leaderboards, groups, pairs")
        self._json(
            f"dataset_analysis_{stamp}.json",
            {"release": inputs.release, "known_at": inputs.known_at, **analysis},
            "What the questions are like",
        )
        pictures = self._pictures(release_figures(inputs))
        own = {name: [*self._pictures(forecaster_figures(inputs, name, file_name(name))).values()] for name in inputs.forecasters}
        last = f"metadata_{stamp}.json"
        files = {**self._about, last: "Release, rules, versions, and every file with its digest"}
        self._write(f"report_{stamp}.md", report(Material(inputs, made, analysis, pictures, own, files)).encode(), "This page")
        self._json(last, metadata(inputs, made, self._files), "")
        return list(self._files)

    def _pictures(self, figures: Iterable[Figure]) -> dict[str, Picture]:
        found = {}
        for figure in figures:
            file = figure.file(self._inputs.stamp)
            self._write(file, figure.draw(), figure.about or figure.caption)
            found[figure.name] = Picture(file, figure.caption)
        return found

    def _json(self, name: str, content: Mapping[str, Any], about: str) -> None:
        self._write(
            name, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE, default=str), about
        )

    def _write(self, name: str, content: bytes, about: str) -> None:
        (self._folder / name).write_bytes(content)
        self._files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self._about[name] = about


def _remove_older(storage: Storage, folder: str, before: list[str], names: list[str]) -> None:
    """Remove the files that an older report's metadata name, and those metadata; whatever else lies there stays."""
    there = {name.removeprefix(f"{folder}/") for name in before} - set(names)
    older = [f"{folder}/{name}" for name in sorted(there) if _METADATA.fullmatch(name)]
    for name, content in storage.read(older).items():
        files = _named_in(content)
        if files is None:
            continue
        for file in sorted(there & files):
            storage.delete(f"{folder}/{file}")
        storage.delete(name)


def _named_in(content: bytes) -> set[str] | None:
    """The files that metadata of ours name; None for what is not ours."""
    try:
        known = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    ours = isinstance(known, dict) and known.get("benchmark") == BENCHMARK and isinstance(known.get("files"), dict)
    return set(known["files"]) if ours else None
