"""Writer of the report of a release, and file names of reports."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from bellwether.calibration.answers import Answers
from bellwether.lake.storage import Storage, open_storage
from bellwether.questions.analysis import Analysis
from bellwether.report.draft import Draft, store_report
from bellwether.report.figures import forecaster_figures, release_figures
from bellwether.report.inputs import ReportInputs
from bellwether.report.predictions import Predictions, predictions
from bellwether.report.release_page import release_page
from bellwether.report.results import BENCHMARK, build_model_file, metadata, summary

#: Reserved prefixes of file names; files of forecasters with such names are renamed.
_RESERVED = ("summary", "metadata", "dataset_analysis", "report", "run_config")
_UNSAFE = re.compile(r"[^a-z0-9.@-]+")


def write_report(inputs: ReportInputs, reports: Storage | Path | str) -> list[str]:
    """Write the report of a release to its folder below `reports` (a folder, an object-store URL or a storage), and return the locations of
    its files.

    The same inputs give the same bytes. An older report of the release is removed when the new one is complete. Raises `LakeError` when a
    file cannot be written, `ScoringError` when forecasts and questions do not match.
    """
    storage = open_storage(str(reports)) if isinstance(reports, Path | str) else reports
    return store_report(storage, safe_name(inputs.release), inputs.stamp, lambda draft: _write_files(draft, inputs), benchmark=BENCHMARK)


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


def _write_files(draft: Draft, inputs: ReportInputs) -> None:
    stamp = inputs.stamp
    answers = Answers.of(inputs.forecasts, inputs.questions)
    by_forecaster: dict[str, Predictions] = {}
    for forecaster in inputs.forecasters:
        by_forecaster[forecaster] = predictions(forecaster, answers, inputs.forecasts, inputs.questions)
        draft.json(
            f"{file_name(forecaster)}_{stamp}.json",
            build_model_file(inputs, forecaster, by_forecaster[forecaster]),
            f"{forecaster}: all metrics and predictions",
        )
    analysis = Analysis(inputs.dataset_analysis).to_dict()
    draft.json(f"summary_{stamp}.json", summary(inputs, by_forecaster), "The forecasters compared: leaderboards, groups, pairs")
    draft.json(
        f"dataset_analysis_{stamp}.json",
        {"release": inputs.release, "known_at": inputs.known_at, **analysis},
        "Statistics of the questions",
    )
    pictures = draft.pictures(release_figures(inputs))
    own = {name: [*draft.pictures(forecaster_figures(inputs, name, file_name(name))).values()] for name in inputs.forecasters}
    last = f"metadata_{stamp}.json"
    files = {**draft.about, last: "Release, rules, versions, and every file with its digest"}
    draft.write(
        f"report_{stamp}.md",
        release_page(inputs, by_forecaster, pictures, forecaster_pictures=own, files=files).encode(),
        "This page",
    )
    draft.json(last, metadata(inputs, by_forecaster, draft.files), "")
