"""Results of backtests: metrics, markouts, frames of orders, fills and equity, and comparisons over episodes.

The functions of `curve`, `execution`, `markouts` and `exposure` take plain arrays. `metrics` imports neither Polars nor pandas, which would slow
down sweeps. See docs/trading-metrics.md for the formulas.
"""
