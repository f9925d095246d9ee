"""Results of backtests: metrics, markouts, frames of orders, fills and equity, and comparisons over episodes.

`curve`, `execution`, `markouts` and `exposure` are functions of plain arrays. `metrics` and what it needs import neither Polars nor pandas, so that
a sweep does not pay for them. docs/trading-metrics.md has every formula.
"""
