"""Forecasters of the benchmark: baselines, submissions and language models."""

from __future__ import annotations

from bellwether.forecasting.forecaster import Forecaster
from bellwether.forecasting.registry import KINDS, available, competitors, forecaster, forecasters, without_key

__all__ = ["KINDS", "Forecaster", "available", "competitors", "forecaster", "forecasters", "without_key"]
