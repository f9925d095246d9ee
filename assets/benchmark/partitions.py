"""Partitions of the benchmark: releases, and their forecasters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import dagster as dg

from bellwether import forecasting
from bellwether.errors import ConfigError
from bellwether.lake import Lake, Manifest
from bellwether.lake.partitions import Partition
from bellwether.questions import ReleaseName, releases_here
from bellwether.settings import settings
from bellwether.tables import table

RELEASE = dg.DynamicPartitionsDefinition(name="release")
FORECASTER = dg.DynamicPartitionsDefinition(name="forecaster")
RELEASE_FORECASTER = dg.MultiPartitionsDefinition({"release": RELEASE, "forecaster": FORECASTER})


def release_names() -> list[str]:
    """List the registered releases of this world, and those in the lake, such as the first questions of a release."""
    stored = Lake.of(settings()).manifests(table("benchmark/questions"))
    return list(dict.fromkeys([*releases_here(), *(release for (release,) in stored)]))


def forecasters() -> list[str]:
    """List the forecasters of this world in the order that the UI offers: ready ones first, then by missing key."""
    return [name for _, names in _forecasters_by_key() for name in names]


def forecaster_list() -> str:
    """Render the forecasters of this world as a Markdown list, grouped by missing key. If the registry cannot be read, return the error's text."""
    try:
        return "\n".join(f"- {why or 'ready'}: {', '.join(f'`{name}`' for name in names)}" for why, names in _forecasters_by_key())
    except ConfigError as error:
        return str(error)


def _forecasters_by_key() -> list[tuple[str, list[str]]]:
    """Group the forecasters by the reason why they are not ready, such as a missing key. The reason of ready ones is empty."""
    missing = forecasting.without_key()
    groups: dict[str, list[str]] = {}
    for name in forecasting.available():
        groups.setdefault(missing.get(name, ""), []).append(name)
    return sorted(groups.items())


#: Age of a release up to which models of the settings run automatically.
NEW = timedelta(days=7)


def automatic(questions: Mapping[Partition, Manifest]) -> list[Partition]:
    """List the pairs of release and forecaster that run automatically: those of free forecasters, and on new releases also of the settings' paid
    models.

    Releases of the first N questions run on request only.
    """
    whole = {release: manifest for (release,), manifest in questions.items() if ReleaseName.parse(release).size is None}
    names = forecasting.competitors()
    return [(release, name) for release, manifest in whole.items() for name in names if is_new(manifest) or name not in settings().models]


def is_new(manifest: Manifest) -> bool:
    """Return True if a partition was written in the last week."""
    return datetime.now(UTC) - manifest.written_at < NEW
