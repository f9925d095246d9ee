"""Partitions of recordings. Days are those of the world (orchestration/partitions.py)."""

from __future__ import annotations

import dagster as dg

RECORDING = dg.DynamicPartitionsDefinition(name="recording")
