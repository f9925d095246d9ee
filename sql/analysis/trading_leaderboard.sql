-- One row per agent and rule set, the largest P&L first, agents without an order last: P&L in dollars, its range of 5 to 95 % over sampled queue
-- histories (no bound), mean return and fill ratio of an episode, and largest drawdown.
SELECT
    agent,
    CAST(round(pnl, 2) AS DOUBLE) AS pnl,
    CAST(round(queue_pnl_low, 2) AS DOUBLE) AS queue_low,
    CAST(round(queue_pnl_high, 2) AS DOUBLE) AS queue_high,
    round(100 * return_mean, 2) AS return_pct,
    orders,
    round(100 * max_drawdown, 2) AS drawdown_pct,
    round(100 * fill_ratio_mean, 1) AS fill_pct,
    episodes,
    unsettled,
    default_fees,
    rules
FROM replay.summary
ORDER BY orders = 0, replay.summary.pnl DESC, agent, rules
