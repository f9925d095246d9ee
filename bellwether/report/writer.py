"""Writer of the report of a release, and file names of reports.

Files are written to a temporary folder and then stored, the metadata last. The metadata list every file with its digest. A report is complete if
its metadata exist and all digests match. Only then are the files in the metadata of an older report removed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import polars as pl

from bellwether.calibration.answers import Answers
from bellwether.lake.storage import Storage, open_storage
from bellwether.questions.analysis import Analysis
from bellwether.report.inputs import ReportInputs
from bellwether.report.predictions import Predictions, predictions
from bellwether.report.release_page import release_page
from bellwether.report.results import BENCHMARK, build_model_file, metadata, summary

#: Reserved prefixes of file names; files of forecasters with such names are renamed.
_RESERVED = ("summary", "metadata", "dataset_analysis", "report", "run_config")
_UNSAFE = re.compile(r"[^a-z0-9.@-]+")
_METADATA = re.compile(r"metadata_\d{8}_\d{6}\.json")


class _Draft:
    """Report while it is written to a temporary folder. files: size and digest by file name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: dict[str, dict[str, Any]] = {}

    def json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file."""
        self.write(name, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE, default=str))

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        (self._folder / name).write_bytes(content)
        self.files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_report(inputs: ReportInputs, reports: Storage | Path | str) -> list[str]:
    """Write the report of a release to its folder below `reports` (a folder, an object-store URL or a storage), and return the locations of
    its files.

    The same inputs give the same bytes. An older report of the release is removed when the new one is complete. Raises `LakeError` when a
    file cannot be written, `ScoringError` when forecasts and questions do not match.
    """
    storage, folder = open_storage(str(reports)) if isinstance(reports, Path | str) else reports, safe_name(inputs.release)
    earlier = [entry.name for entry in storage.files(folder)]
    with TemporaryDirectory(prefix="bellwether-report-") as temporary:
        draft = _Draft(Path(temporary))
        _write_files(draft, inputs)
        names = list(draft.files)
        for name in names:
            storage.put(f"{folder}/{name}", (Path(temporary) / name).read_bytes())
    _remove_older(storage, folder, earlier, names)
    return [storage.location(f"{folder}/{name}") for name in names]


def safe_name(name: str) -> str:
    """Convert a name to one for files and folders, of only a-z, 0-9 and .-_@. If that changes the name, a digest of the original is
    appended.
    """
    safe = _UNSAFE.sub("_", name.lower()).strip("._")[:80]
    return safe if safe and safe == name else f"{safe or 'unnamed'}-{_digest(name)}"


def file_name(forecaster: str) -> str:
    """Return the beginning of the names of a forecaster's files. No other files of the report begin with it."""
    safe = safe_name(forecaster)
    is_reserved = any(safe == prefix or safe.startswith(f"{prefix}_") for prefix in _RESERVED)
    return f"model-{safe}-{_digest(forecaster)}" if is_reserved else safe


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _write_files(draft: _Draft, inputs: ReportInputs) -> None:
    stamp = inputs.stamp
    answers = Answers.of(inputs.forecasts, inputs.questions)
    by_forecaster: dict[str, Predictions] = {}
    diagrams: dict[str, str] = {}
    for name in inputs.forecasters:
        by_forecaster[name] = predictions(name, answers, inputs.forecasts, inputs.questions)
        diagrams[name] = f"reliability_{file_name(name)}_{stamp}.png"
        draft.json(f"{file_name(name)}_{stamp}.json", build_model_file(inputs, name, by_forecaster[name]))
        draft.write(diagrams[name], _draw_reliability(inputs, name))
    analysis = Analysis(inputs.dataset_analysis).to_dict()
    draft.json(f"summary_{stamp}.json", summary(inputs, by_forecaster))
    draft.json(f"dataset_analysis_{stamp}.json", {"release": inputs.release, "known_at": inputs.known_at, **analysis})
    draft.write(f"report_{stamp}.md", release_page(inputs, by_forecaster, diagrams).encode())
    draft.json(f"metadata_{stamp}.json", metadata(inputs, by_forecaster, draft.files))


def _draw_reliability(inputs: ReportInputs, forecaster: str) -> bytes:
    """Draw the reliability diagram of a forecaster as a PNG."""
    from bellwether.figures.reliability import consistency_bands, diagram_rows
    from bellwether.pages import charts

    bins, forecasts = (rows.filter(pl.col("forecaster") == forecaster) for rows in (inputs.reliability, inputs.forecasts))
    bands = consistency_bands(forecasts, inputs.questions)
    rows = diagram_rows(bins.join(bands, on=["forecaster", "bin"], how="left", maintain_order="left"))
    return charts.png(charts.reliability(f"{forecaster} on {inputs.release}", rows, {forecaster: charts.LINE}))


def _remove_older(storage: Storage, folder: str, earlier: list[str], names: list[str]) -> None:
    """Remove the files of older reports: metadata files, and what they list. Other files are kept. earlier: files before writing. names:
    files of the new report.
    """
    candidates = {name.removeprefix(f"{folder}/") for name in earlier} - set(names)
    older = [f"{folder}/{name}" for name in sorted(candidates) if _METADATA.fullmatch(name)]
    for name in older:
        content = storage.read(name)
        files = None if content is None else _listed_files(content)
        if files is None:
            continue
        for file in sorted(candidates & files):
            storage.delete(f"{folder}/{file}")
        storage.delete(name)


def _listed_files(content: bytes) -> set[str] | None:
    """Parse the metadata of a report and return the file names in it; None if `content` is not metadata of a report."""
    try:
        metadata = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    is_ours = isinstance(metadata, dict) and metadata.get("benchmark") == BENCHMARK and isinstance(metadata.get("files"), dict)
    return set(metadata["files"]) if is_ours else None
