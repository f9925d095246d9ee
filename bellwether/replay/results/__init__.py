"""Results of backtests: metrics, markouts, frames of orders, fills and equity, and comparisons over episodes.

`curve`, `execution`, `markouts` and `exposure` are functions of plain arrays. `metrics` and its imports load neither Polars nor pandas,
which saves sweeps their import time. See docs/trading-metrics.md for the formulas.
"""
