-- One row per week of the arena, newest first: offered markets, agents that started, decisions by state, trades, refused legs, and cost.
WITH markets AS (
    SELECT week, count(*) AS markets, any_value(reconstructed) AS reconstructed FROM arena.universe GROUP BY week
),
agents AS (
    SELECT week, any_value(lineup) AS lineup, any_value(methodology) AS methodology, count(*) AS agents FROM arena.agents GROUP BY week
),
decisions AS (
    SELECT
        week,
        count(*) FILTER (state IN ('finished', 'refused') AND action IS DISTINCT FROM 'INVALID') AS made,
        count(*) FILTER (action = 'INVALID') AS invalid,
        count(*) FILTER (state NOT IN ('finished', 'refused')) AS unfinished,
        sum(cost) AS cost
    FROM arena.decisions
    GROUP BY week
),
trades AS (SELECT week, count(*) AS trades FROM arena.trades GROUP BY week),
refusals AS (SELECT week, count(*) AS refused FROM arena.refusals WHERE superseded_at IS NULL GROUP BY week)
SELECT *
FROM markets
LEFT JOIN agents USING (week)
LEFT JOIN decisions USING (week)
LEFT JOIN trades USING (week)
LEFT JOIN refusals USING (week)
ORDER BY week DESC
