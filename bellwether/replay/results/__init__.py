"""Results of backtests: metrics, markouts, frames of orders, fills and equity, and comparisons over episodes.

`metrics` and `markouts` take plain arrays. They import neither Polars nor pandas, which would slow down sweeps. See docs/metrics.md for
the formulas.
"""
