"""Dagster partitions of recordings. For the daily partitions see orchestration/partitions.py."""

from __future__ import annotations

import dagster as dg

RECORDING = dg.DynamicPartitionsDefinition(name="recording")
