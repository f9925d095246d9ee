"""Partitions of the benchmark: releases, and their forecasters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import dagster as dg

from bellwether import forecasting
from bellwether.lake import Manifest
from bellwether.lake.partitions import Partition
from bellwether.questions import ReleaseName
from bellwether.settings import settings

RELEASE = dg.DynamicPartitionsDefinition(name="release")
FORECASTER = dg.DynamicPartitionsDefinition(name="forecaster")
RELEASE_FORECASTER = dg.MultiPartitionsDefinition({"release": RELEASE, "forecaster": FORECASTER})


#: Models that cost money follow new inputs only: naming one in the settings buys nothing for what is older.
NEW = timedelta(days=7)


def automatic(questions: Mapping[Partition, Manifest]) -> list[Partition]:
    """Releases and forecasters that are run without a request: those that cost nothing, and on new releases the models that the settings name.

    The first N questions of a release are answered on request only.
    """
    whole = {release: made for (release,), made in questions.items() if ReleaseName.parse(release).size is None}
    names = forecasting.competitors()
    return [(release, name) for release, made in whole.items() for name in names if is_new(made) or name not in settings().models]


def is_new(made: Manifest) -> bool:
    """True for a partition written in the last days."""
    return datetime.now(UTC) - made.written_at < NEW
