-- One row per agent and episode, in the order in which the episodes ended: its P&L with the range over sampled queues, and the P&L
-- of all episodes up to it. In dollars.
SELECT
    agent,
    settled_at AS ended_at,
    episode,
    pnl,
    queue_pnl_low,
    queue_pnl_high,
    sum(pnl) OVER (PARTITION BY agent ORDER BY settled_at, episode) AS pnl_so_far
FROM replay.backtests
ORDER BY agent, settled_at, episode
