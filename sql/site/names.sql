-- One row per forecaster, agent and family, in the order in which charts choose their colours: in each area, the names known first come first.
SELECT name
FROM (
    SELECT 1 AS area, forecaster AS name, min(known_at) AS known_at FROM benchmark.leaderboard GROUP BY forecaster
    UNION ALL
    SELECT 2, agent, min(known_at) FROM replay.backtests GROUP BY agent
    UNION ALL
    SELECT DISTINCT 3, family, NULL FROM arena.leaderboard
)
ORDER BY area, known_at, name
