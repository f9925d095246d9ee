"""Partitions of the benchmark: releases, and their forecasters."""

from __future__ import annotations

import dagster as dg

RELEASE = dg.DynamicPartitionsDefinition(name="release")
FORECASTER = dg.DynamicPartitionsDefinition(name="forecaster")
RELEASE_FORECASTER = dg.MultiPartitionsDefinition({"release": RELEASE, "forecaster": FORECASTER})
